//! The handshake, and what each protocol version is given: R1 to R5; cases 003, 004, 017, 018, 019.

use milk_testkit::{Matcher, Policy, Reply, TestHome, ToolCall};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Setup, answered, assert_has, request, updates_of};

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
