//! Lines and JSON-RPC: contract, Launching it and Error handling; R1 to R5, R16 to R20; cases 001 to 019.

use milk_testkit::client::{Direction, RequestId};
use milk_testkit::fault::{peak_rss_bytes, rss_bytes};
use milk_testkit::{AgentProcess, Matcher, ModelServer, Policy, Reply, TestHome, ToolCall};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{
    MILK, Setup, answered, answers, assert_has, assert_lacks, ended, notification, prompt, refused, request,
    serve, story, updates_of,
};

const MIB: usize = 1 << 20;

/// The ids of all responses so far, as text, digit by digit.
fn response_ids(agent: &AgentProcess) -> Vec<String> {
    #[derive(Deserialize)]
    struct Line {
        id: Option<Box<RawValue>>,
        method: Option<String>,
    }
    agent.with_transcript(|transcript| {
        let lines = transcript.entries.iter().filter(|entry| entry.direction == Direction::FromAgent);
        let lines = lines.map(|entry| serde_json::from_slice::<Line>(&entry.raw).unwrap());
        let responses = lines.filter(|line| line.method.is_none());
        // An Option takes the id null for none.
        responses.map(|line| line.id.map_or_else(|| "null".to_owned(), |id| id.get().to_owned())).collect()
    })
}

/// A line with this text as its id.
fn with_raw_id(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#) + "\n"
}

// ---- ids

/// Case 001, R19
#[tokio::test]
async fn ids_come_back_as_they_were_sent() {
    let rig = Setup::echo().unvalidated().start_raw(TestHome::new()).await;
    let sent = [
        ("\"init-α\"", "initialize", r#"{"protocolVersion":2}"#),
        ("\"7\"", "session/list", "{}"),
        ("0", "session/list", "{}"),
        ("-1", "session/list", "{}"),
        ("9007199254740993", "session/list", "{}"),
        ("18446744073709551616", "session/list", "{}"),
        ("123456789012345678901234567890", "nope", "{}"),
        ("1.50", "session/list", "{}"),
        ("1e2", "session/list", "{}"),
        ("\"\"", "session/list", "{}"),
        ("\"zz\"", "nope", "{}"),
        ("null", "session/list", "{}"),
        ("\"quote \\\" and back\\\\slash\"", "nope", "{}"),
        ("\"cwd\"", "session/new", r#"{"cwd":""}"#),
    ];
    let lines: String = sent.iter().map(|(id, method, params)| with_raw_id(id, method, params)).collect();
    rig.agent.send_bytes(lines.as_bytes());
    rig.agent.response("cwd").await.unwrap_err();
    let mut ids = response_ids(&rig.agent);
    let mut expected: Vec<&str> = sent.iter().map(|(id, ..)| *id).collect();
    // Only the order of what one conversation does is promised.
    ids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ids, expected);
}

/// R18: also an id that no JSON-RPC peer should use.
#[tokio::test]
async fn an_odd_id_is_an_id_too() {
    let rig = Setup::echo().unvalidated().start().await;
    for id in ["true", "{\"a\":1}", "[1,2]"] {
        rig.agent.send_bytes(with_raw_id(id, "session/list", "{}").as_bytes());
        let id: Value = serde_json::from_str(id).unwrap();
        let _ = rig.agent.response(id).await;
    }
}

#[tokio::test]
async fn duplicate_ids_are_each_answered() {
    let rig = Setup::replies([Reply::text("one"), Reply::text("two")]).unvalidated().start().await;
    let session = rig.session().await;
    let lines = [
        prompt(5, &session, "first"),
        request(5, "session/list", json!({})),
        prompt(5, &session, "second"),
        request(5, "nope", json!({})),
    ];
    rig.agent.send_bytes(lines.concat().as_bytes());
    let mut left = 4;
    while left > 0 {
        rig.agent.expect(|message| RequestId::from(5).is_answered_by(message)).await;
        left -= 1;
    }
    rig.agent.sync().await;
    assert_eq!(answers(&rig.agent.transcript(), &5.into()).len(), 4);
    rig.server.assert_played();
}

/// R19: responses to milk's own requests match by value.
#[tokio::test]
async fn an_answer_may_carry_the_id_in_the_other_type() {
    let call = || Reply::tool("bash", json!({"command": "echo ran > proof"}));
    let rig = Setup::replies([call(), Reply::text("done")]).start().await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "go");
    let question = rig.agent.expect_request("session/request_permission").await;
    let other = match &question["id"] {
        Value::String(text) => text.parse::<u64>().map_or_else(|_| question["id"].clone(), Value::from),
        number => number.to_string().into(),
    };
    let answer = json!({"jsonrpc": "2.0", "id": other,
        "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}});
    rig.agent.send_json(&answer);
    rig.agent.response(&id).await.unwrap();
    assert_eq!(rig.home.read("proof"), "ran\n");
}

// ---- versions

/// Case 003, R1: exactly 1 is v1, everything else v2.
#[tokio::test]
async fn any_protocol_version_is_a_handshake() {
    let cases = [
        (json!({}), 2),
        (json!({"protocolVersion": "2"}), 2),
        (json!({"protocolVersion": "1"}), 2),
        (json!({"protocolVersion": 99}), 2),
        (json!({"protocolVersion": 0}), 2),
        (json!({"protocolVersion": -1}), 2),
        (json!({"protocolVersion": null}), 2),
        (json!({"protocolVersion": true}), 2),
        (json!({"protocolVersion": [1]}), 2),
        (json!({"protocolVersion": {"major": 1}}), 2),
        (json!({"protocolVersion": 65535}), 2),
        (json!({"protocolVersion": 2}), 2),
        (json!({"protocolVersion": 1}), 1),
    ];
    let rig = Setup::echo().unvalidated().start_raw(TestHome::new()).await;
    for (params, version) in cases {
        let result = rig.agent.request("initialize", params.clone()).await.unwrap();
        assert_eq!(result["protocolVersion"], version, "the version for {params}");
        let session = rig.session().await;
        let (turn, story) = rig.story_of_turn(&session, "hello").await;
        answered(&turn, "you said hello");
        let is_v2 = story.iter().any(|label| label.starts_with("state_update"));
        assert_eq!(is_v2, version == 2, "{params}: {story:?}");
        let has_reason = turn.response.unwrap().get("stopReason").is_some();
        assert_eq!(has_reason, version == 1, "{params}: a stop reason in the response");
    }
    // Without any params at all
    rig.agent.send_line(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#);
    assert_eq!(rig.agent.response(1).await.unwrap()["protocolVersion"], 2);
    rig.agent.send_line(r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":null}"#);
    assert_eq!(rig.agent.response(2).await.unwrap()["protocolVersion"], 2);
}

/// R1: a second `initialize` counts for sessions opened after it.
#[tokio::test]
async fn a_session_keeps_the_version_that_it_was_opened_in() {
    let rig = Setup::echo().unvalidated().start().await;
    let new = rig.session().await;
    rig.agent.initialize(1).await;
    let old = rig.session_in(rig.home.another_workspace("old")).await;
    for (session, is_v2) in [(&new, true), (&old, false), (&new, true)] {
        let (turn, story) = rig.story_of_turn(session, "hello").await;
        answered(&turn, "you said hello");
        assert_eq!(story.iter().any(|label| label.starts_with("state_update")), is_v2, "{story:?}");
        assert_eq!(turn.response.unwrap().get("stopReason").is_none(), is_v2);
    }
}

/// No boolean stands where both schemas have an object.
#[track_caller]
fn assert_no_boolean(capabilities: &Value, at: &str) {
    assert!(!capabilities.is_boolean(), "{at} is a boolean");
    for (name, value) in capabilities.as_object().into_iter().flatten() {
        if name != "_meta" {
            assert_no_boolean(value, &format!("{at}.{name}"));
        }
    }
}

#[track_caller]
fn assert_notifications(capabilities: &Value) {
    let names = capabilities["_meta"]["milk"]["notifications"].as_array();
    let names = names.unwrap_or_else(|| panic!("R5: no list of notifications in {capabilities}"));
    for name in names {
        assert!(name.as_str().is_some_and(|name| name.starts_with("_milk/")), "{name}");
    }
    assert!(names.contains(&json!("_milk/route")), "{names:?}");
}

/// Case 004; contract, Capability negotiation note; R5
#[tokio::test]
async fn v2_capabilities_have_the_shape_that_strict_clients_demand() {
    let rig = Setup::echo().start_raw(TestHome::new()).await;
    let result = rig.agent.initialize(2).await;
    assert_eq!(result["protocolVersion"], 2);
    assert_eq!(result["info"]["name"], "milk");
    assert!(result["info"]["version"].as_str().is_some_and(|version| !version.is_empty()), "{result}");
    let capabilities = &result["capabilities"];
    assert!(capabilities["session"].is_object(), "{result}");
    assert!(capabilities["session"]["delete"].is_object(), "{result}");
    assert!(result.get("agentCapabilities").is_none(), "a v1 field: {result}");
    assert_no_boolean(capabilities, "capabilities");
    assert_notifications(capabilities);
}

/// R2
#[tokio::test]
async fn v1_capabilities_are_those_of_true_v1() {
    let rig = Setup::echo().start_raw(TestHome::new()).await;
    let result = rig.agent.initialize(1).await;
    assert_eq!(result["protocolVersion"], 1);
    assert_eq!(result["agentInfo"]["name"], "milk");
    assert!(result["agentInfo"]["version"].as_str().is_some_and(|version| !version.is_empty()), "{result}");
    assert_eq!(result["authMethods"], json!([]));
    let capabilities = &result["agentCapabilities"];
    // R40
    assert_ne!(capabilities["loadSession"], true, "{result}");
    for name in ["list", "resume", "close", "delete"] {
        assert!(capabilities["sessionCapabilities"][name].is_object(), "{name} of {result}");
    }
    // R13: embedded text reaches the model.
    assert_eq!(capabilities["promptCapabilities"]["embeddedContext"], true, "{result}");
    assert_ne!(capabilities["promptCapabilities"]["audio"], true, "{result}");
    for name in ["info", "capabilities"] {
        assert!(result.get(name).is_none(), "a v2 field: {result}");
    }
    assert_notifications(capabilities);
}

/// R4: what a peer leaves out, sends as null or adds never makes a request fail.
#[tokio::test]
async fn initialize_takes_whatever_clients_send() {
    let rig = Setup::echo().start_raw(TestHome::new()).await;
    for params in [
        json!({"protocolVersion": 2, "info": null, "capabilities": null, "_meta": null}),
        json!({"protocolVersion": 2, "clientInfo": {"name": "x"}, "clientCapabilities": {"fs": {"readTextFile": true}}}),
        json!({"protocolVersion": 2, "info": {"name": null, "title": 5}, "capabilities": {"session": null}}),
        json!({"protocolVersion": 2, "info": "a name", "capabilities": [], "_meta": 7, "extra": {"deep": []}}),
        json!({"protocolVersion": 2, "_meta": {"milk": null}}),
        json!({"protocolVersion": 2, "_meta": {"milk": {"promptResponse": 5, "replayIds": []}}}),
    ] {
        let result = rig.agent.request("initialize", params.clone()).await;
        assert_eq!(result.unwrap_or_else(|error| panic!("{params}: {error}"))["protocolVersion"], 2);
    }
    let session = rig.session().await;
    rig.assert_usable(&session).await;
}

/// Case 019
#[tokio::test]
async fn calls_before_initialize_work_as_v2() {
    let rig = Setup::echo().start_raw(TestHome::new()).await;
    let early = rig.session().await;
    let (turn, story) = rig.story_of_turn(&early, "early").await;
    answered(&turn, "you said early");
    assert!(story.contains(&"state_update running".to_owned()), "{story:?}");
    rig.agent.initialize(2).await;
    let late = rig.session().await;
    assert_ne!(early, late);
    rig.assert_usable(&late).await;
    rig.assert_usable(&early).await;
}

/// Case 019, part b
#[tokio::test]
async fn a_pipelined_start_is_answered_in_order() {
    let rig = Setup::echo().start_raw(TestHome::new()).await;
    let cwd = rig.home.workspace();
    let lines = [
        request("init", "initialize", json!({"protocolVersion": 2})),
        request("new", "session/new", json!({"cwd": cwd, "mcpServers": []})),
    ];
    rig.agent.send_bytes(lines.concat().as_bytes());
    let new = rig.agent.response("new").await.unwrap();
    let order = [Matcher::response("init"), Matcher::response("new")];
    rig.agent.transcript().assert_order(&order);
    rig.assert_usable(new["sessionId"].as_str().unwrap()).await;
}

// ---- lines

/// Case 005
#[tokio::test]
async fn prompts_far_larger_than_a_pipe_arrive_whole() {
    let rig = Setup::respond(|_| Reply::text("read")).start().await;
    for size in [70_000, 1_100_000, 8_000_000] {
        let session = rig.agent.new_session(rig.home.workspace()).await;
        let text = "0123456789 \"quoted\" \\ äöü\n".repeat(size / 27);
        let turn = rig.agent.turn(&session, &text).await;
        answered(&turn, "read");
        let got = rig.server.request(rig.server.count() - 1).await.last_user();
        assert!(got.contains(text.trim()), "{size} bytes were sent, {} arrived", got.len());
        rig.agent.request("session/list", json!({})).await.unwrap();
        rig.agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    }
}

/// Case 007
#[tokio::test]
async fn junk_between_lines_is_dropped() {
    let rig = Setup::echo().unvalidated().start_raw(TestHome::new()).await;
    let mut bytes = b"\xEF\xBB\xBF".to_vec();
    let init = request("init", "initialize", json!({"protocolVersion": 2}));
    bytes.extend_from_slice(format!("{}\r\n", init.trim_end()).as_bytes());
    bytes.extend_from_slice(
        b"\n\n\r\n   \t\nhello there\n{\"jsonrpc\":\n\xFF\xFE\n[1,2\n\"text\"\n42\nnull\ntrue\n\0\0\n",
    );
    bytes.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\"}}\n{\"id\":2,\"method\":\"x\"} trailing\n");
    bytes.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"\xFF\xFE\"}\n");
    let list = request("list", "session/list", json!({}));
    bytes.extend_from_slice(format!("  {}\r\n", list.trim_end()).as_bytes());
    rig.agent.send_bytes(&bytes);
    rig.agent.response("init").await.unwrap();
    rig.agent.response("list").await.unwrap();
    assert_eq!(story(&rig.agent.transcript()), ["result", "result"]);
}

/// A request may come in pieces of any size, and a last line needs no end.
#[tokio::test]
async fn a_line_is_a_line_however_it_is_cut() {
    let rig = Setup::echo().start().await;
    let line = request("cut", "session/list", json!({"_meta": {"text": "ä€𝄞"}}));
    for byte in line.as_bytes() {
        rig.agent.send_bytes(&[*byte]);
    }
    rig.agent.response("cut").await.unwrap();
}

/// Case 010, R18: an array is dropped like any line that is no object.
#[tokio::test]
async fn batches_are_dropped() {
    let rig = Setup::echo().start().await;
    let mark = rig.mark();
    for line in [
        json!([
            {"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}},
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "x"}},
            {"jsonrpc": "2.0", "id": 2, "method": "nope"}, 5]),
        json!([]),
        json!([{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "x"}}]),
    ] {
        rig.agent.send_json(&line);
    }
    rig.agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(story(&rig.since(mark)), ["result"]);
}

/// Case 011
#[tokio::test]
async fn requests_are_always_answered_and_notifications_never() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    let mark = rig.mark();
    let notifications = [
        notification("$/cancel_request", json!({"requestId": 77})),
        notification("$/cancel_request", json!({})),
        notification("foo/bar", json!({})),
        notification("session/cancel", json!({"sessionId": "no-such-session"})),
        notification("session/cancel", json!({})),
        notification("session/cancel", json!({"sessionId": 5})),
        notification("session/cancel", Value::Null),
        notification(
            "session/prompt",
            json!({"sessionId": session, "prompt": [{"type": "text", "text": "no id"}]}),
        ),
        notification("session/new", json!({"cwd": "/"})),
        notification("initialized", json!({})),
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\"}\n".to_owned(),
    ];
    rig.agent.send_bytes(notifications.concat().as_bytes());
    rig.agent.sync().await;
    let responses = |mark: usize| {
        let lines = rig.since(mark);
        story(&lines).into_iter().filter(|label| label == "result" || label.starts_with("error")).count()
    };
    assert_eq!(responses(mark), 1, "the answer to the sync alone");
    for method in [
        "auth/login",
        "auth/logout",
        "authenticate",
        "session/load",
        "session/set_mode",
        "session/fork",
        "_x/y",
        "_milk/route",
        "$/cancel_request",
        "session/update",
        "",
    ] {
        let error = refused(rig.agent.request(method, json!({"sessionId": session})).await, -32601);
        assert_has(&error["message"].as_str().unwrap().to_lowercase(), "method not found");
        assert_has(&error["message"].to_string(), method);
    }
}

/// R18: an object with a method and an id is answered, whatever else is wrong with it.
#[tokio::test]
async fn an_object_with_a_method_and_an_id_is_answered() {
    let rig = Setup::echo().unvalidated().start().await;
    for (id, line) in [
        ("a", r#"{"id":"a","method":"session/list"}"#),
        ("b", r#"{"jsonrpc":"1.0","id":"b","method":"session/list"}"#),
        ("c", r#"{"jsonrpc":"2.0","id":"c","method":"session/list","params":null}"#),
        ("d", r#"{"jsonrpc":"2.0","id":"d","method":"session/list","params":{},"extra":1,"result":{}}"#),
    ] {
        rig.agent.send_line(line);
        rig.agent.response(id).await.unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    for (id, line) in [
        ("e", r#"{"jsonrpc":"2.0","id":"e","method":5}"#),
        ("f", r#"{"jsonrpc":"2.0","id":"f","method":null}"#),
        ("g", r#"{"jsonrpc":"2.0","id":"g","method":{}}"#),
        ("h", r#"{"jsonrpc":"2.0","id":"h","method":"session/new","params":[1]}"#),
        ("i", r#"{"jsonrpc":"2.0","id":"i","method":"session/new","params":"text"}"#),
        ("j", r#"{"jsonrpc":"2.0","id":"j","method":"session/prompt"}"#),
    ] {
        rig.agent.send_line(line);
        let error = rig.agent.response(id).await.expect_err(line);
        assert!(error["data"]["kind"].is_string(), "R17: {error}");
    }
    let session = rig.session().await;
    rig.assert_usable(&session).await;
}

/// R18
#[tokio::test]
async fn responses_that_nobody_waits_for_are_ignored() {
    let rig = Setup::echo().start().await;
    let mark = rig.mark();
    for line in [
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"99","error":{"code":-1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"_milk/route"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no id"}}"#,
        r#"{"jsonrpc":"2.0","id":0,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":"text"}"#,
        r#"{"jsonrpc":"2.0","id":5}"#,
        "{}",
        r#"{"id":{},"result":[]}"#,
    ] {
        rig.agent.send_line(line);
    }
    rig.agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(story(&rig.since(mark)), ["result"]);
}

/// R18: a line may have 64 MiB, so that much is held; what is longer is not, and nothing is kept.
#[tokio::test]
async fn a_line_over_the_limit_is_dropped_without_being_held() {
    let rig = Setup::echo().start().await;
    let mark = rig.mark();
    let before = rss_bytes(rig.agent.pid()).unwrap_or_default();
    let mut line = br#"{"jsonrpc":"2.0","id":"long","method":"session/list","params":{"pad":""#.to_vec();
    line.resize(130 * MIB, b'a');
    line.extend_from_slice(b"\"}}\n");
    rig.agent.send_bytes(&line);
    rig.agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(story(&rig.since(mark)), ["result"], "the long line is not answered");
    let peak = peak_rss_bytes(rig.agent.pid()).unwrap_or_default().saturating_sub(before);
    assert!(peak < 80 * MIB as u64, "memory grew by {peak} bytes on the way");
    let kept = rss_bytes(rig.agent.pid()).unwrap_or_default().saturating_sub(before);
    assert!(kept < 16 * MIB as u64, "{kept} bytes were kept");
    let session = rig.session().await;
    rig.assert_usable(&session).await;
}

// ---- params

/// Case 012; R32's transports are another matter: here none of this may refuse a session.
#[tokio::test]
async fn session_new_takes_the_extras_of_editors() {
    let rig = Setup::echo().start().await;
    let cwd = rig.home.workspace();
    let secret = "Bearer 0123456789-from-the-editor";
    for extras in [
        json!({}),
        json!({"mcpServers": null}),
        json!({"mcpServers": []}),
        json!({"mcpServers": [{"name": "s", "command": "/no/such/program", "args": [], "env": []}]}),
        json!({"mcpServers": [{"type": "http", "name": "h", "url": "http://127.0.0.1:9/",
            "headers": [{"name": "Authorization", "value": secret}]}]}),
        json!({"mcpServers": [{"type": "_new", "name": "n"}, 5, null]}),
        json!({"unknown": {"deep": [1]}, "_meta": null, "additionalDirectories": null}),
        json!({"additionalDirectories": ["/tmp"], "_meta": {"milk": null}}),
        json!({"additionalDirectories": [], "_meta": {"milk": {"fresh": null}, "other": 1}}),
    ] {
        let mut params = extras.clone();
        params["cwd"] = cwd.display().to_string().into();
        let result = rig.agent.request("session/new", params).await;
        let session = result.unwrap_or_else(|error| panic!("{extras}: {error}"));
        rig.assert_usable(session["sessionId"].as_str().unwrap()).await;
    }
    assert_lacks(&rig.agent.stderr(), secret);
}

/// R4, R16, R17
#[tokio::test]
async fn params_that_cannot_be_used_are_32602() {
    let rig = Setup::echo().unvalidated().start().await;
    let session = rig.session().await;
    let text = json!([{"type": "text", "text": "x"}]);
    for (method, params) in [
        ("session/new", json!({})),
        ("session/new", json!({"cwd": ""})),
        ("session/new", json!({"cwd": null})),
        ("session/new", json!({"cwd": 5})),
        ("session/new", json!([])),
        ("session/new", Value::Null),
        ("session/prompt", json!({})),
        ("session/prompt", json!({"sessionId": session})),
        ("session/prompt", json!({"sessionId": session, "prompt": "text"})),
        ("session/prompt", json!({"sessionId": 5, "prompt": text})),
        ("session/prompt", json!({"sessionId": null, "prompt": text})),
        ("session/resume", json!({"cwd": rig.home.workspace()})),
        ("session/resume", json!({"sessionId": session})),
        ("session/resume", json!({"sessionId": session, "cwd": ""})),
        ("session/resume", json!({"sessionId": [], "cwd": rig.home.workspace()})),
        ("session/delete", json!({})),
        ("session/close", json!({"sessionId": {}})),
        ("session/list", json!({"cursor": "x"})),
        ("session/list", json!({"cwd": 5})),
    ] {
        let answer = rig.agent.request(method, params.clone()).await;
        assert!(answer.is_err(), "{method} {params} was answered with {answer:?}");
        refused(answer, -32602);
    }
    rig.assert_usable(&session).await;
}

/// R16
#[tokio::test]
async fn an_unknown_session_is_32002_with_its_id() {
    for version in [1, 2] {
        let rig = Setup::echo().version(version).start().await;
        let cwd = rig.home.workspace();
        for (method, params) in [
            ("session/prompt", json!({"prompt": [{"type": "text", "text": "x"}]})),
            ("session/resume", json!({"cwd": cwd, "mcpServers": []})),
            ("session/delete", json!({})),
        ] {
            let mut params = params;
            params["sessionId"] = "no-such-session".into();
            let error = refused(rig.agent.request(method, params).await, -32002);
            assert_eq!(error["data"]["sessionId"], "no-such-session", "{method}: {error}");
        }
        let closed = rig.agent.request("session/close", json!({"sessionId": "no-such-session"})).await;
        assert_eq!(closed.unwrap(), json!({}));
    }
}

/// R16: a relative cwd is resolved against the process's directory.
#[tokio::test]
async fn a_relative_cwd_is_one_of_the_process() {
    let rig = Setup::echo().start().await;
    std::fs::create_dir(rig.home.home().join("sub")).unwrap();
    for (cwd, place) in [(".", rig.home.home()), ("sub", rig.home.home().join("sub"))] {
        let session = rig.session_in(cwd).await;
        let sessions = rig.list(json!({})).await;
        let listed = sessions.iter().find(|entry| entry["sessionId"] == session.as_str()).unwrap();
        assert_eq!(listed["cwd"], place.display().to_string());
    }
}

/// Case 013, R20
#[tokio::test]
async fn cancel_may_be_a_request() {
    let rig = Setup::replies([Reply::stream().say("one").hang()]).unvalidated().start().await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "go");
    rig.agent.expect_update(&session, "agent_message_chunk").await;
    let cancelled = rig.agent.request("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(cancelled.unwrap(), json!({}));
    assert!(rig.agent.response(&id).await.is_ok());
    assert_eq!(rig.agent.until_idle(&session).await, "cancelled");
    for params in [json!({"sessionId": session}), json!({"sessionId": "no-such-session"})] {
        // Nothing runs: nothing to do, and no error either where the session is known.
        let again = rig.agent.request("session/cancel", params.clone()).await;
        if params["sessionId"] == session.as_str() {
            assert_eq!(again.unwrap(), json!({}));
        }
    }
}

// ---- v1 shapes

fn thoughts_text_and_tool() -> Reply {
    let call = ToolCall::new("write_file", json!({"path": "new.txt", "content": "hello\n"}));
    Reply::stream().role().think("hm").say("Writing. ").call(call).finish("tool_calls").usage(10, 5).done()
}

/// Cases 017 and 018, R2: what the schema does not know would be found when the process ends.
#[tokio::test]
async fn a_v1_client_gets_only_v1_shapes() {
    let rig = Setup::replies([thoughts_text_and_tool(), Reply::text("Done.")]).v1().start().await;
    rig.agent.set_policy(Policy::Allow);
    let session = rig.session().await;
    let turn = rig.agent.turn(&session, "write").await;
    let result = turn.response.clone().unwrap();
    assert_eq!(result["stopReason"], "end_turn");
    assert!(result["messageId"].is_string(), "R2: {result}");
    assert_eq!(rig.home.read("new.txt"), "hello\n");
    let list = rig.agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(list["sessions"][0]["sessionId"], session.as_str());
    let params = json!({"sessionId": session, "cwd": rig.home.workspace(), "mcpServers": []});
    rig.agent.request("session/resume", params).await.unwrap();
    rig.agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    rig.agent.sync().await;

    let transcript = rig.agent.transcript();
    let allowed = [
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "available_commands_update",
        "plan",
    ];
    for kind in transcript.kinds(&session) {
        assert!(allowed.contains(&kind), "{kind} for a v1 client");
    }
    let rows = updates_of(&transcript, &session, "tool_call");
    assert_eq!(rows.len(), 1, "the first row alone is a tool_call: {rows:#?}");
    let row = &transcript.tool_rows(&session)[0];
    assert_eq!(row.first_update, "tool_call");
    assert!(row.fields["rawOutput"].is_object(), "R2: {row:#?}");
    assert_has(row.title(), "new.txt");
    let diff = row.fields["content"].as_array().into_iter().flatten().find(|part| part["type"] == "diff");
    let diff = diff.unwrap_or_else(|| panic!("R2: a diff in {row:#?}"));
    let path = rig.home.workspace().join("new.txt");
    assert_eq!(diff["path"], path.display().to_string());
    assert_eq!(diff["newText"], "hello\n");
    let question = transcript.from_agent().find(|message| message["method"] == "session/request_permission");
    let params = &question.unwrap()["params"];
    assert_eq!(params["toolCall"]["toolCallId"], row.id.as_str());
    assert!(params.get("subject").is_none(), "a v2 field: {params}");
    // R2: the question is in the title, and the thing to judge with it.
    assert_has(params["toolCall"]["title"].as_str().unwrap_or_default(), "write_file");
}

/// Case 018
#[tokio::test]
async fn a_cancelled_v1_turn_says_so_in_its_result() {
    let rig = Setup::replies([Reply::stream().say("one").hang()]).v1().start().await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "go");
    rig.agent.expect_update(&session, "agent_message_chunk").await;
    rig.agent.cancel(&session);
    let result = rig.agent.response(&id).await.unwrap();
    assert_eq!(result["stopReason"], "cancelled");
}

// ---- stdout

/// How milk is started in one row of case 008.
struct Start {
    name: &'static str,
    home: TestHome,
    agent: AgentProcess,
    /// Whether the config names the scripted server; else the demo agent answers.
    has_model: bool,
}

const NOISE: &str = "echo noise; echo noise >&2";

async fn starts(server_config: &Value) -> Vec<Start> {
    let demo = json!({"discovery": false});
    let usual = |home: &TestHome| home.config(server_config);
    let start = |name, home: TestHome, env: Vec<(&str, String)>, dropped: &[&str], has_model| {
        home.project_config(&demo);
        let kept = home.agent_env().into_iter().filter(|(key, _)| !dropped.iter().any(|name| key == name));
        let launch = milk_testkit::Launch::new(MILK).args(["serve", "--acp"]).envs(kept).cwd(home.home());
        let agent = AgentProcess::start(launch.envs(env).policy(Policy::Allow));
        Start { name, home, agent, has_model }
    };
    let config_at = |home: &TestHome, bytes: &[u8]| {
        std::fs::write(home.milk_home().join("config.json"), bytes).unwrap();
    };
    let mut starts = Vec::new();

    let home = TestHome::new();
    usual(&home);
    starts.push(start("no HOME", home, vec![], &["HOME"], true));

    let home = TestHome::new();
    let config = home.root().join("elsewhere.json");
    std::fs::write(&config, server_config.to_string()).unwrap();
    let nowhere = home.root().join("no/such/home").display().to_string();
    let env = vec![("HOME", nowhere), ("MILK_CONFIG", config.display().to_string())];
    starts.push(start("a HOME that is not there", home, env, &["MILK_HOME"], true));

    for (name, bytes) in [
        ("empty", &b""[..]),
        ("truncated", &br#"{"agent": "test", "agents": [{"name": "#[..]),
        ("no object", &b"[1, 2]"[..]),
        ("no JSON", &b"agent: test\n"[..]),
        ("no UTF-8", &b"\xFF\xFE{}"[..]),
    ] {
        let home = TestHome::new();
        config_at(&home, bytes);
        starts.push(start(name, home, vec![], &[], false));
    }

    let home = TestHome::new();
    config_at(&home, format!("\u{feff}{server_config}").as_bytes());
    starts.push(start("byte-order mark", home, vec![], &[], true));

    let home = TestHome::new();
    let mut wrong = server_config.clone();
    for (key, value) in [("retry_limit", json!("many")), ("acp_streaming", json!(1)), ("rules", json!([]))] {
        wrong[key] = value;
    }
    home.config(&wrong);
    starts.push(start("wrong types", home, vec![], &[], true));

    let home = TestHome::new();
    home.config(&json!({"agent": 5, "agents": "none", "mcp_servers": {}, "otel": 7}));
    starts.push(start("nothing but wrong types", home, vec![], &[], false));

    let home = TestHome::new();
    usual(&home);
    set_mode(&home.milk_home(), 0o555);
    starts.push(start("read-only state", home, vec![], &[], true));

    let home = TestHome::new();
    let config = home.root().join("elsewhere.json");
    std::fs::write(&config, server_config.to_string()).unwrap();
    let file = home.root().join("a-file");
    std::fs::write(&file, "").unwrap();
    let env = vec![("MILK_HOME", file.display().to_string()), ("MILK_CONFIG", config.display().to_string())];
    starts.push(start("a file for a state folder", home, env, &[], true));

    let home = TestHome::new();
    usual(&home);
    let loud = [("MILK_LOG", "trace"), ("RUST_LOG", "trace"), ("RUST_BACKTRACE", "1"), ("TERM", "xterm")];
    let loud = loud.map(|(name, value)| (name, value.to_owned()));
    starts.push(start("trace", home, loud.to_vec(), &[], true));

    let home = TestHome::new();
    usual(&home);
    let odd =
        [("MILK_LOG", "no=such=filter,,"), ("RUST_LOG", "]["), ("LANG", "xx_XX"), ("LC_ALL", "nonsense")];
    let odd = odd.map(|(name, value)| (name, value.to_owned()));
    starts.push(start("odd log filter", home, odd.to_vec(), &[], true));

    let home = TestHome::new();
    std::fs::remove_dir(home.milk_home()).unwrap();
    starts.push(start("first run ever", home, vec![], &[], false));
    starts
}

fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Case 008: whatever the start, only protocol is on stdout, the handshake works and a command runs.
#[tokio::test]
async fn only_protocol_is_ever_on_stdout() {
    let server = ModelServer::respond(|request| match request.tool_results().last() {
        None => Reply::tool("bash", json!({"command": NOISE})),
        Some((_, result)) => Reply::text(format!("it said {result}")),
    })
    .await;
    let mut config = server.config();
    config["discovery"] = false.into();
    for Start { name, home, agent, has_model } in starts(&config).await {
        agent.initialize(2).await;
        let session = agent.new_session(home.workspace()).await;
        let prompt = if has_model { "make noise".to_owned() } else { format!("run {NOISE}") };
        let turn = agent.turn(&session, &prompt).await;
        assert!(turn.response.is_ok(), "{name}: {turn:#?}\n{}", agent.stderr());
        assert_eq!(turn.stop_reason.as_deref(), Some("end_turn"), "{name}: {turn:#?}");
        let rows = agent.transcript().tool_rows(&session);
        let row = rows.first().unwrap_or_else(|| panic!("{name}: no command was run: {turn:#?}"));
        assert_has(&row.fields.to_string(), "noise");
        assert_eq!(row.status(), "completed", "{name}: {row:#?}");
        // Checks every line on stdout.
        assert!(agent.shutdown().await.success(), "{name}: {}", agent.stderr());
    }
}

/// Case 009
#[tokio::test]
async fn a_command_does_not_read_the_protocol() {
    let bash = |command: &str| Reply::tool("bash", json!({ "command": command }));
    let replies = [bash("cat; echo end"), bash("read x; echo got:$x:"), Reply::text("done")];
    let rig = Setup::replies(replies).policy(Policy::Allow).start().await;
    let session = rig.session().await;
    let mut lines = vec![prompt("p", &session, "go")];
    lines.extend((0..50).map(|id| request(id, "session/list", json!({}))));
    rig.agent.send_bytes(lines.concat().as_bytes());
    for id in 0..50 {
        rig.agent.response(id).await.unwrap();
    }
    rig.agent.response("p").await.unwrap();
    let results = rig.results(2).await;
    assert_has(&results[0], "end");
    assert_lacks(&results[0], "session/list");
    assert_has(&results[1], "got::");
}

/// stdin may end without a line end, and the last request is answered all the same.
#[tokio::test]
async fn the_last_line_needs_no_end() {
    let home = TestHome::new();
    home.config(&json!({"discovery": false}));
    let agent = AgentProcess::start(serve(&home));
    agent
        .send_bytes(br#"{"jsonrpc":"2.0","id":"last","method":"initialize","params":{"protocolVersion":2}}"#);
    agent.close_stdin();
    assert!(agent.wait_exit(crate::support::SOON).await.success());
    // What was sent holds no line end, so the recorded request is missing; the response is not.
    assert_eq!(response_ids(&agent), ["\"last\""]);
}

/// Content blocks, names and texts are any text.
#[tokio::test]
async fn any_text_goes_through_unharmed() {
    let text = "tab\t nul\u{0} esc\u{1b}[31m crlf\r\n ls\u{2028}ps\u{2029} bom\u{feff} 👩‍👩‍👧‍👦 e\u{301} \u{202e}rtl \u{10ffff} </script> \\u0041";
    let answer = text.to_owned();
    let rig = Setup::respond(move |_| Reply::text(answer.clone())).start().await;
    let session = rig.session().await;
    let turn = rig.agent.turn(&session, text).await;
    ended(&turn, "end_turn");
    assert_eq!(turn.text, text);
    assert_has(&rig.server.request(0).await.last_user(), text);
}
