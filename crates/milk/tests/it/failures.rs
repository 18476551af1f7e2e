//! Model servers that fail, limits, and a client that does not read: R9, R11, R16, R17; case 045.

use std::time::{Duration, Instant};

use milk_testkit::client::Turn;
use milk_testkit::fault::{RefusedPort, rss_bytes};
use milk_testkit::server::Cut;
use milk_testkit::{Matcher, ModelServer, Policy, RecordedRequest, Reply, Script};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{
    Rig, Setup, answered, asked, assert_has, assert_lacks, ended, refused, updates_of, words,
};

const KEY: &str = "sk-test-0123456789abcdef";

/// Any value in a tree that this holds for.
fn holds(value: &Value, is_it: &dyn Fn(&Value) -> bool) -> bool {
    is_it(value)
        || match value {
            Value::Object(members) => members.values().any(|member| holds(member, is_it)),
            Value::Array(items) => items.iter().any(|item| holds(item, is_it)),
            _ => false,
        }
}

/// Asserts that a turn failed as a provider's failure does, and gives the error.
#[track_caller]
fn failed(rig: &Rig, session: &str, turn: &Turn) -> Value {
    let is_v1 = rig.agent.with_transcript(milk_testkit::Transcript::version) == 1;
    // R16
    let error = refused(turn.response.clone(), if is_v1 { -32603 } else { -32000 });
    let text = error.to_string();
    assert_lacks(&text, KEY);
    for dump in ["<html", "<body", "stack backtrace", "reqwest", "hyper"] {
        assert_lacks(&text, dump);
    }
    // R17: the provider's name, and whether a retry can help.
    let data = &error["data"];
    assert!(holds(data, &|value| value == "local"), "no name of the provider in {data}");
    assert!(holds(data, &Value::is_boolean), "nothing on retries in {data}");
    if !is_v1 {
        let transcript = rig.agent.transcript();
        let idle = updates_of(&transcript, session, "state_update").pop().unwrap().clone();
        assert_eq!((&idle["state"], &idle["stopReason"]), (&json!("idle"), &json!("error")), "R11");
        assert_eq!(idle["error"]["message"], error["message"], "R11: {idle}");
        transcript.assert_order(&[Matcher::state("idle"), Matcher::response(&turn.id)]);
    }
    rig.assert_rows_ended(session);
    error
}

/// A failing reply and the status that the error must name.
fn failures() -> Vec<(Reply, u16)> {
    let html =
        "<html><head><title>502</title></head><body><h1>Bad Gateway</h1>".to_owned() + &"<p>".repeat(5000);
    let leaky =
        json!({"error": {"message": format!("Incorrect API key provided: {KEY}"), "code": "invalid"}});
    vec![
        (Reply::status(400), 400),
        (Reply::json(401, &leaky), 401),
        (Reply::status(403), 403),
        (Reply::json(404, &json!({"error": {"message": "model \"test-model\" not found"}})), 404),
        (Reply::status(429).header("retry-after", "1"), 429),
        (Reply::body(500, "text/html", html), 500),
        (Reply::status(503), 503),
        (Reply::body(418, "text/plain", ""), 418),
    ]
}

/// Case 045
#[tokio::test]
async fn a_failing_server_is_an_error_with_its_status() {
    for version in [1, 2] {
        let setup = Setup::replies([]).version(version).agent("api_key", KEY).root("retry_limit", 0);
        let rig = setup.start().await;
        let session = rig.session().await;
        for (reply, status) in failures() {
            rig.server.push(reply);
            let turn = rig.agent.turn(&session, "go").await;
            let error = failed(&rig, &session, &turn);
            assert_has(error["message"].as_str().unwrap(), &status.to_string());
            assert!(holds(&error["data"], &|value| *value == json!(status)), "R17: the status in {error}");
        }
        rig.server.push(Reply::text("ok"));
        answered(&rig.agent.turn(&session, "go on").await, "ok");
        let last = rig.server.request(failures().len()).await;
        assert_has(&json!(last.messages()).to_string(), "go on");
        assert_lacks(&rig.agent.stderr(), KEY);
    }
}

/// Case 045: nobody listens, or the answer is no HTTP, or the connection breaks.
#[tokio::test]
async fn a_server_that_cannot_be_reached_is_an_error() {
    let port = RefusedPort::take().unwrap();
    for version in [1, 2] {
        let setup = Setup::replies([]).version(version).root("retry_limit", 0);
        let rig = setup.agent("url", port.url()).start().await;
        let session = rig.session().await;
        let turn = rig.agent.turn(&session, "go").await;
        failed(&rig, &session, &turn);
        rig.agent.request("session/list", json!({})).await.unwrap();

        // TLS spoken to a server that does not.
        let plain = ModelServer::start(Script::replies([]).unchecked()).await;
        let setup = Setup::replies([]).version(version).root("retry_limit", 0);
        let rig = setup.agent("url", plain.url().replace("http:", "https:")).start().await;
        let session = rig.session().await;
        let turn = rig.agent.turn(&session, "go").await;
        failed(&rig, &session, &turn);

        let replies =
            [Reply::broken(), Reply::raw().bytes("SSH-2.0-OpenSSH_9\r\n").close(), Reply::text("ok")];
        let rig = Setup::replies(replies).version(version).root("retry_limit", 0).start().await;
        let session = rig.session().await;
        for _ in 0..2 {
            let turn = rig.agent.turn(&session, "go").await;
            failed(&rig, &session, &turn);
        }
        answered(&rig.agent.turn(&session, "go on").await, "ok");
    }
}

/// Case 045: what was shown stays, and the turn is still a failed one.
#[tokio::test]
async fn a_stream_that_breaks_is_an_error_and_its_text_is_kept() {
    for version in [1, 2] {
        let replies = [Reply::stream().role().say("Half an ans").reset(), Reply::text("ok")];
        let rig = Setup::replies(replies).version(version).start().await;
        let session = rig.session().await;
        let turn = rig.agent.turn(&session, "the question").await;
        failed(&rig, &session, &turn);
        assert_has(&turn.text, "Half an ans");
        answered(&rig.agent.turn(&session, "go on").await, "ok");
        let next = json!(rig.server.request(1).await.messages()).to_string();
        assert_has(&next, "the question");
        assert_has(&next, "go on");
    }
}

/// Case 045: 429 after one successful tool call; case 044: its row is closed.
#[tokio::test]
async fn a_failure_after_a_tool_call_keeps_what_was_done() {
    for version in [1, 2] {
        let call = Reply::tool("write_file", json!({"path": "done.txt", "content": "done"}));
        let replies = [call, Reply::status(429), Reply::text("ok")];
        let setup = Setup::replies(replies).policy(Policy::Allow).root("retry_limit", 0);
        let rig = setup.version(version).start().await;
        let session = rig.session().await;
        let turn = rig.agent.turn(&session, "go").await;
        let error = failed(&rig, &session, &turn);
        assert_has(&error.to_string(), "429");
        assert_eq!(rig.home.read("done.txt"), "done");
        answered(&rig.agent.turn(&session, "go on").await, "ok");
        let next = rig.server.request(2).await;
        assert_eq!(next.tool_results().len(), 1, "the work is remembered: {:#?}", next.messages());
    }
}

/// Case 045: a model that says nothing at all is no success.
#[tokio::test]
async fn an_empty_answer_is_no_silent_success() {
    let rig = Setup::respond(|_| Reply::stream().role().end()).root("retry_limit", 0).start().await;
    let session = rig.session().await;
    let turn = rig.agent.turn(&session, "go").await;
    let told = !turn.text.trim().is_empty() || turn.response.is_err();
    assert!(told, "an empty turn: {turn:#?}");
}

/// A denied call is told to the model, and its row ends `failed`; the turn goes on.
#[tokio::test]
async fn a_denied_call_ends_its_row() {
    for version in [1, 2] {
        let replies = [Reply::tool("bash", json!({"command": "echo out > proof"})), Reply::text("ok")];
        let rig = Setup::replies(replies).policy(Policy::Deny).version(version).start().await;
        let session = rig.session().await;
        answered(&rig.agent.turn(&session, "go").await, "ok");
        assert_eq!(rig.agent.transcript().tool_rows(&session)[0].status(), "failed");
        assert_has(&rig.results(1).await[0], "denied");
        assert!(!rig.home.exists("proof"));
    }
}

// ---- limits

/// R11 and the limit on model calls: at the limit the model is asked once for a summary, without tools.
#[tokio::test]
async fn at_the_limit_of_model_calls_the_model_sums_up() {
    for version in [1, 2] {
        let rig = Setup::respond(|request: &RecordedRequest| {
            if request.tool_names().is_empty() || asked(request) != "go" {
                Reply::text("what I did so far")
            } else {
                Reply::tool("list_dir", json!({"path": "."}))
            }
        })
        .root("local_max_tool_iterations", 3)
        .version(version)
        .start()
        .await;
        let session = rig.session().await;
        let turn = rig.agent.turn(&session, "go").await;
        ended(&turn, "max_turn_requests");
        assert_has(&turn.text, "what I did so far");
        let requests = rig.server.requests();
        let without: Vec<bool> = requests.iter().map(|request| request.tool_names().is_empty()).collect();
        assert!(without.len() == 3 || without.len() == 4, "{without:?}");
        assert!(!without[..without.len() - 1].contains(&true), "tools until the limit: {without:?}");
        assert!(without[without.len() - 1], "the summary is asked for without tools: {without:?}");
        rig.assert_rows_ended(&session);
        rig.assert_usable(&session).await;
        let usual = rig.server.request(requests.len()).await;
        assert!(!usual.tool_names().is_empty(), "the next turn has tools again");
    }
}

/// A summary that fails is no endless loop, and the turn still says why it ended.
#[tokio::test]
async fn a_model_that_calls_tools_at_the_limit_is_stopped() {
    let rig = Setup::respond(|_| Reply::tool("list_dir", json!({"path": "."})));
    let rig = rig.root("local_max_tool_iterations", 2).start().await;
    let session = rig.session().await;
    let turn = rig.agent.turn(&session, "go").await;
    ended(&turn, "max_turn_requests");
    assert!(rig.server.count() <= 3, "{} requests", rig.server.count());
    rig.assert_rows_ended(&session);
}

// ---- a client that is slow

/// R9: deltas of one message merge while the client does not keep up, and the message stays whole.
#[tokio::test]
async fn deltas_merge_for_a_slow_client_and_stay_whole() {
    const DELTAS: usize = 20_000;
    for version in [1, 2] {
        let reply = Reply::deltas(words(DELTAS)).cut(Cut::Burst);
        let rig = Setup::replies([reply]).version(version).start().await;
        let session = rig.session().await;
        rig.agent.pause_reading();
        let id = rig.agent.prompt(&session, "go");
        // The server has given everything away, or milk has stopped taking it: either way the pipe is full.
        let sent = rig.server.replied(0);
        let _ = tokio::time::timeout(Duration::from_secs(3), sent).await;
        rig.agent.resume_reading();
        rig.agent.response(&id).await.unwrap();
        let transcript = rig.agent.transcript();
        let expected = words(DELTAS).concat();
        assert!(transcript.agent_text(&session) == expected, "the text is not whole");
        let chunks = updates_of(&transcript, &session, "agent_message_chunk").len();
        assert!(chunks < DELTAS / 2, "{chunks} chunks for {DELTAS} deltas");
    }
}

/// A client that does not read costs bounded memory, and other sessions go on as far as they can.
#[tokio::test]
async fn a_client_that_does_not_read_costs_bounded_memory() {
    const PIECE: usize = 64 << 10;
    const PIECES: usize = 512;
    let rig = Setup::respond(|request| {
        if asked(request) == "flood" {
            return Reply::deltas((0..PIECES).map(|_| "x".repeat(PIECE)));
        }
        Reply::text("ok")
    })
    .start()
    .await;
    let (flooded, other) = (rig.session().await, rig.session().await);
    let before = rss_bytes(rig.agent.pid()).unwrap_or_default();
    rig.agent.pause_reading();
    let id = rig.agent.prompt(&flooded, "flood");
    rig.server.request(0).await;
    let other_id = rig.agent.prompt(&other, "hello");
    rig.server.request(1).await;
    // What must not happen has this long to happen.
    let end = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < end {
        let grown = rss_bytes(rig.agent.pid()).unwrap_or_default().saturating_sub(before);
        assert!(grown < 16 << 20, "memory grew by {grown} bytes for a client that does not read");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rig.agent.resume_reading();
    rig.agent.response(&other_id).await.unwrap();
    rig.agent.response(&id).await.unwrap();
    let length = rig.agent.with_transcript(|transcript| transcript.agent_text(&flooded).len());
    assert_eq!(length, PIECE * PIECES);
}

/// R12: a cancel works while the client does not read, and so does the turn after it.
#[tokio::test]
async fn a_cancel_works_while_the_client_does_not_read() {
    let rig = Setup::respond(|request| {
        if asked(request) == "flood" {
            return Reply::deltas((0..2000).map(|_| "x".repeat(64 << 10)));
        }
        Reply::text("ok")
    })
    .start()
    .await;
    let session = rig.session().await;
    rig.agent.pause_reading();
    let id = rig.agent.prompt(&session, "flood");
    rig.server.request(0).await;
    rig.agent.cancel(&session);
    // milk lets go of the model although nobody reads.
    rig.server.closed(0).await;
    rig.agent.resume_reading();
    rig.agent.response(&id).await.unwrap();
    assert_eq!(rig.agent.until_idle(&session).await, "cancelled");
    answered(&rig.agent.turn(&session, "go on").await, "ok");
}
