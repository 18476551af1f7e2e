//! Fetching: bounded in time and memory.

use std::time::{Duration, Instant};

use milk_testkit::{ModelServer, Reply, Script, fault};
use serde_json::json;

use super::{MEMORY, permissive};
use crate::support::{Plan, answered, assert_has, assert_lacks, within};

// ---- fetching: bounded in time and memory

#[tokio::test]
async fn http_tools_are_bounded_in_memory() {
    let big = "0123456789abcde\n".repeat(5 << 20);
    let server = ModelServer::start(
        Script::replies([]).route("/big", Reply::body(200, "text/plain", big)).unchecked(),
    )
    .await;
    let rig = permissive().await;
    rig.assert_usable().await;
    let before = fault::peak_rss_bytes(rig.agent.pid()).unwrap();
    let called = rig.call("http_get", json!({"url": format!("{}/big", server.url())})).await;
    let after = fault::peak_rss_bytes(rig.agent.pid()).unwrap();
    assert!(after - before < MEMORY / 2, "memory grew by {} KiB", (after - before) >> 10);
    assert_has(called.result(), "0123456789abcde");
    assert!(called.result().len() < 32 << 10, "{} bytes", called.result().len());
    answered(&called.turn, "done");
}

#[tokio::test]
async fn http_tools_are_bounded_in_time() {
    let script = [
        ("/silent", Reply::silence()),
        ("/headers", Reply::headers_only()),
        ("/half", Reply::stream().say("x").hang()),
    ]
    .into_iter()
    .fold(Script::replies([]).unchecked(), |script, (path, reply)| script.route(path, reply));
    let server = ModelServer::start(script).await;
    let rig = Plan::obedient()
        .root("dangerously_skip_permissions", true)
        .agent("limits", json!({"tool_timeout_secs": 1}))
        .start()
        .await;
    for path in ["silent", "headers", "half"] {
        let called = rig.call("http_get", json!({"url": format!("{}/{path}", server.url())})).await;
        within(called.took, Duration::from_secs(4), path);
        assert_eq!(called.row().status(), "failed", "{called:#?}");
        answered(&called.turn, "done");
    }
}

#[tokio::test]
async fn a_cancel_ends_a_fetch() {
    let server = ModelServer::start(Script::replies([]).unchecked().route("/silent", Reply::silence())).await;
    let rig = permissive().await;
    let prompt = rig.begin("http_get", json!({"url": format!("{}/silent", server.url())}));
    rig.agent.expect(|message| message["params"]["update"]["status"] == "in_progress").await;
    rig.agent.cancel(&rig.session);
    let began = Instant::now();
    rig.agent.response(prompt).await.unwrap();
    within(began.elapsed(), Duration::from_secs(2), "the cancel");
    rig.assert_rows_ended();
    rig.assert_usable().await;
}

#[tokio::test]
async fn urls_that_are_no_http_are_refused() {
    let rig = permissive().await;
    let passwd = format!("file://{}", rig.home.write("x", "the words of a file").display());
    for url in [
        passwd.as_str(),
        "ftp://127.0.0.1/x",
        "javascript:alert(1)",
        "//127.0.0.1/x",
        "",
        "http://",
        "http://[::/x",
    ] {
        let called = rig.call("http_get", json!({ "url": url })).await;
        assert_eq!(called.row().status(), "failed", "{url}: {called:#?}");
        assert_lacks(called.result(), "the words of a file");
        answered(&called.turn, "done");
    }
}
