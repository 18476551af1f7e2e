//! Failures that a server tells of, in a stream or in place of one, and what the user is told.

use milk_testkit::Reply;
use milk_testkit::fault::{RefusedPort, peak_rss_bytes};
use serde_json::json;

use super::three;
use crate::support::{Plan, answered, assert_has, assert_lacks, failed};

// ---- 090: an error object inside a 200 stream

#[tokio::test]
async fn case_090_an_error_inside_the_stream() {
    let errors = [
        json!({"error": {"message": "overloaded", "code": 502}, "choices": []}),
        json!({"error": {"message": "overloaded", "type": "server_error", "code": "server_error"}}),
        json!({"error": "overloaded"}),
        json!({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
            "error": {"code": "server_error", "message": "overloaded"}}),
    ];
    for error in errors {
        let rig = Plan::replies([
            Reply::stream().say("one ").say("two").chunk(&error).done(),
            Reply::stream().chunk(&error).done(),
            Reply::text("fine"),
        ])
        .no_retries()
        .start()
        .await;
        let turn = rig.turn("go").await;
        assert_has(&failed(&turn).to_string(), "overloaded");
        assert_has(&turn.text, "one two");
        let turn = rig.turn("go").await;
        assert_has(&failed(&turn).to_string(), "overloaded");
        answered(&rig.turn("again").await, "fine");
    }
}

#[tokio::test]
async fn case_090_finish_reason_error() {
    let rig = Plan::replies([three().finish("error").done(), Reply::text("fine")]).no_retries().start().await;
    failed(&rig.turn("go").await);
    answered(&rig.turn("again").await, "fine");
}

/// 045: a failure is one line, and no dump of the body.
#[tokio::test]
async fn bodies_that_are_no_answer_fail_in_one_line() {
    let page = format!("<!DOCTYPE html><html><body>{}</body></html>", "<p>Bad gateway</p>".repeat(500));
    let replies = [
        Reply::body(200, "text/html", page.clone()),
        Reply::body(502, "text/html", page),
        Reply::body(200, "application/json", "{not json"),
        Reply::body(200, "text/event-stream", ""),
        Reply::body(404, "text/plain", ""),
    ];
    let count = replies.len();
    let rig = Plan::replies(replies.into_iter().chain([Reply::text("fine")])).no_retries().start().await;
    for _ in 0..count {
        let turn = rig.turn("go").await;
        let error = failed(&turn);
        let (message, details) =
            (error["message"].as_str().unwrap(), error["data"]["details"].as_str().unwrap());
        for line in [message, details] {
            assert!(line.lines().count() == 1 && line.len() < 1000, "one line: {line}");
            assert_lacks(line, "<p>");
        }
    }
    answered(&rig.turn("again").await, "fine");
}

/// Nothing that a server sends makes milk grow without bound.
#[tokio::test]
async fn floods_from_a_server_are_bounded_in_memory() {
    let flood = || "x".repeat(96 << 20);
    let replies = [
        Reply::stream().bytes("data: ").bytes(flood()).end(),
        Reply::stream().bytes(": ").bytes(flood()).end(),
        Reply::body(500, "application/json", flood()),
        Reply::body(200, "text/html", flood()),
        Reply::stream().bytes("data: x\n".repeat(12 << 20)).end(),
    ];
    for (number, reply) in replies.into_iter().enumerate() {
        let rig = Plan::replies([Reply::text("fine"), reply, Reply::text("fine")]).no_retries().start().await;
        answered(&rig.turn("go").await, "fine");
        let before = peak_rss_bytes(rig.agent.pid()).unwrap();
        let turn = rig.turn("go").await;
        // A comment is no content, however long it is; everything else is a fault.
        if number != 1 || turn.response.is_err() {
            failed(&turn);
        }
        let after = peak_rss_bytes(rig.agent.pid()).unwrap();
        assert!(after - before < 64 << 20, "reply {number}: memory grew by {} KiB", (after - before) >> 10);
        let shown = turn.response.map_or_else(|error| error.to_string().len(), |_| 0);
        assert!(shown < 64 << 10, "reply {number}: an error of {shown} bytes");
        answered(&rig.turn("again").await, "fine");
    }
}

// ---- R17: errors say what happened, to machines and to people

#[tokio::test]
async fn errors_carry_kind_details_provider_and_status() {
    for (status, retryable) in
        [(400, false), (401, false), (403, false), (404, false), (429, true), (500, true), (503, true)]
    {
        let rig = Plan::replies([Reply::status(status), Reply::text("fine")]).no_retries().start().await;
        let error = failed(&rig.turn("go").await);
        let data = error["data"].as_object().expect("data");
        assert!(data["kind"].as_str().is_some_and(|kind| !kind.is_empty()), "{error}");
        let details = data["details"].as_str().expect("a sentence for a person");
        assert_has(details, &status.to_string());
        assert!(data.values().any(|value| *value == json!(status)), "its HTTP status: {error}");
        assert!(data.values().any(|value| *value == json!("local")), "the provider's name: {error}");
        assert!(data.values().any(|value| *value == json!(retryable)), "whether a retry can help: {error}");
        answered(&rig.turn("again").await, "fine");
    }
}

#[tokio::test]
async fn errors_to_a_v1_client_use_its_code() {
    let rig = Plan::replies([Reply::status(401), Reply::text("fine")]).version(1).no_retries().start().await;
    let turn = rig.turn("go").await;
    let error = turn.response.unwrap_err();
    // R16: v1 clients read -32000 as "authentication required".
    assert_eq!(error["code"], -32603);
    assert_has(error["data"]["details"].as_str().unwrap(), "401");
    assert_eq!(rig.turn("again").await.text, "fine");
}

#[tokio::test]
async fn a_refused_connection_is_named() {
    let refused = RefusedPort::take().unwrap();
    let rig = Plan::replies([]).no_retries().agent("url", refused.url()).start().await;
    let error = failed(&rig.turn("go").await);
    assert_has(&error["data"]["details"].to_string(), &refused.address().to_string());
    failed(&rig.turn("again").await);
}
