//! The way to the server: proxies, forms of the URL, credentials.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use milk_testkit::fault::{RefusedPort, wait_alive, wait_gone};
use milk_testkit::{ModelServer, Reply, Script, TestHome};
use serde_json::json;

use crate::support::{Plan, answered, assert_has, everything_said, failed, within};

// ---- 097: proxies, and forms of the base URL

const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"];

fn behind_proxy(plan: Plan, proxy: &str) -> Plan {
    PROXIES.iter().fold(plan, |plan, name| plan.env(name, proxy))
}

#[tokio::test]
async fn case_097_loopback_is_never_proxied() {
    let refused = RefusedPort::take().unwrap();
    let v6: SocketAddr = (Ipv6Addr::LOCALHOST, 0).into();
    for suffix in ["", "/", "/v1", "/v1/"] {
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            let bind = if host == "[::1]" { v6 } else { ([127, 0, 0, 1], 0).into() };
            let Ok(server) = ModelServer::try_start(Script::replies([Reply::text("fine")]).bind(bind)).await
            else {
                // A machine without IPv6.
                continue;
            };
            let url = format!("http://{host}:{}{suffix}", server.address().port());
            let rig = behind_proxy(Plan::replies([]), &refused.url())
                .no_retries()
                .agent("url", url.clone())
                .start()
                .await;
            let turn = rig.turn("go").await;
            answered(&turn, "fine");
            assert_eq!(server.request(0).await.path, "/v1/chat/completions", "{url}");
        }
    }
}

#[tokio::test]
async fn case_097_a_remote_name_goes_through_the_proxy_and_not_where_no_proxy_says() {
    // What stands as a proxy gets the whole URL in the request line.
    let proxy = ModelServer::script([Reply::text("by the proxy")]).await;
    let rig = Plan::replies([])
        .no_retries()
        .env("HTTP_PROXY", &proxy.url())
        .env("http_proxy", &proxy.url())
        .agent("url", "http://model.invalid:8000/v1")
        .start()
        .await;
    answered(&rig.turn("go").await, "by the proxy");
    assert_eq!(proxy.request(0).await.path, "http://model.invalid:8000/v1/chat/completions");

    let rig = Plan::replies([])
        .no_retries()
        .env("HTTP_PROXY", &proxy.url())
        .env("http_proxy", &proxy.url())
        .env("NO_PROXY", "example.invalid,model.invalid")
        .env("no_proxy", "example.invalid,model.invalid")
        .agent("url", "http://model.invalid:8000/v1")
        .start()
        .await;
    failed(&rig.turn("go").await);
    assert_eq!(proxy.count(), 1, "NO_PROXY was not honoured");
}

// ---- credentials reach the server, in every form of the config

#[tokio::test]
async fn keys_and_headers_reach_the_server() {
    let rig = Plan::replies([Reply::text("fine")])
        .env("CASE_KEY", "key-from-env")
        .env("CASE_HEADER", "header-from-env")
        .agent("api_key", "${CASE_KEY}")
        .agent("headers", json!({"X-Case": "${CASE_HEADER}", "X-Plain": "plain"}))
        .start()
        .await;
    answered(&rig.turn("go").await, "fine");
    let request = rig.server.request(0).await;
    assert_eq!(request.header("authorization"), Some("Bearer key-from-env"));
    assert_eq!(request.header("x-case"), Some("header-from-env"));
    assert_eq!(request.header("x-plain"), Some("plain"));
}

/// A refused token is fetched anew, once.
#[tokio::test]
async fn a_refused_token_is_fetched_again() {
    let rig = Plan::replies([Reply::status(401), Reply::text("fine")])
        .agent(
            "token_cmd",
            "n=$(cat ~/count 2>/dev/null || echo 0); n=$((n+1)); echo $n > ~/count; echo token-$n",
        )
        .start()
        .await;
    answered(&rig.turn("go").await, "fine");
    let tokens: Vec<_> = rig
        .server
        .requests()
        .iter()
        .map(|request| request.header("authorization").unwrap().to_owned())
        .collect();
    assert_eq!(tokens, ["Bearer token-1", "Bearer token-2"]);
}

/// A variable that is not set is no key: neither its name nor an empty key is sent.
#[tokio::test]
async fn a_key_whose_variable_is_not_set_is_told_and_not_sent() {
    let rig =
        Plan::respond(|_| Reply::text("fine")).agent("api_key", "${CASE_NO_SUCH_VARIABLE}").start().await;
    let turn = rig.turn("go").await;
    if turn.response.is_err() {
        failed(&turn);
    }
    for request in rig.server.requests() {
        assert_eq!(request.header("authorization"), None);
    }
    let told = everything_said(&rig.agent);
    assert_has(&told, "CASE_NO_SUCH_VARIABLE");
}

#[tokio::test]
async fn a_token_command_that_fails_is_named() {
    let rig = Plan::replies([]).no_retries().agent("token_cmd", "echo no login >&2; exit 3").start().await;
    let error = failed(&rig.turn("go").await);
    assert_has(&error["data"]["details"].to_string(), "token_cmd");
    assert_eq!(rig.server.count(), 0, "nothing is sent without the token");
}

#[tokio::test]
async fn a_token_command_that_hangs_ends_with_a_cancel() {
    let home = TestHome::new();
    let tag = format!("CASE_TOKEN_TAG={}", home.root().file_name().unwrap().to_string_lossy());
    let command = format!("export {tag}; sleep 600");
    let rig = Plan::respond(|_| Reply::text("fine")).agent("token_cmd", command).start_in(home).await;
    let prompt = rig.agent.prompt(&rig.session, "go");
    assert!(wait_alive(&tag, Duration::from_secs(10)).await.is_some(), "the command is run");
    rig.agent.cancel(&rig.session);
    let began = Instant::now();
    rig.agent.response(prompt).await.unwrap();
    within(began.elapsed(), Duration::from_secs(2), "the cancel");
    assert_eq!(rig.agent.until_idle(&rig.session).await, "cancelled");
    assert!(wait_gone(&tag, Duration::from_secs(2)).await.is_ok(), "the command is still there");
}

#[tokio::test]
async fn overrides_and_paths_of_the_config_reach_the_server() {
    let rig = Plan::replies([Reply::text("fine")])
        .agent("request_overrides", json!({"temperature": 0.25, "stream_options": null, "extra": {"a": 1}}))
        .agent("chat_path", "/custom/chat/completions")
        .start()
        .await;
    answered(&rig.turn("go").await, "fine");
    let request = rig.server.request(0).await;
    assert_eq!(request.path, "/custom/chat/completions");
    assert_eq!((&request.body["temperature"], &request.body["extra"]), (&json!(0.25), &json!({"a": 1})));
    assert!(request.body.get("stream_options").is_none());
}
