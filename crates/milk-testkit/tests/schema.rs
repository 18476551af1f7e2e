//! The schema oracle, on messages that are right, wrong, and right in the wrong version.
#![cfg(feature = "schema")]

use milk_testkit::client::{Direction, Transcript};
use milk_testkit::schema::SchemaOracle;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn agent(version: u16, message: &Value) -> Vec<String> {
    let found = SchemaOracle::of_version(version).check_message(Direction::FromAgent, message, None);
    found.iter().map(ToString::to_string).collect()
}

fn update(update: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
}

fn response(version: u16, method: &str, result: &Value) -> Vec<String> {
    let message = json!({"jsonrpc": "2.0", "id": 1, "result": result});
    let found = SchemaOracle::of_version(version).check_message(Direction::FromAgent, &message, Some(method));
    found.iter().map(ToString::to_string).collect()
}

/// Asserts that there is one complaint, that it is about this place, and that it says this.
#[track_caller]
fn complains(found: &[String], pointer: &str, word: &str) {
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with(&format!("{pointer}: ")) && found[0].contains(word), "{found:#?}");
}

#[test]
fn messages_of_both_versions_pass_in_their_own() {
    let text = json!({"type": "text", "text": "x", "extra": 1});
    let chunk =
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text, "more": {}});
    let v2 = [
        chunk.clone(),
        json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}),
        json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "_milk_own"}),
        json!({"sessionUpdate": "_milk_update", "anything": 1}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "kind": "edit", "status": "cancelled",
            "content": [{"type": "content", "content": text}]}),
        json!({"sessionUpdate": "user_message", "messageId": "u", "content": [text]}),
    ];
    for body in v2 {
        assert_eq!(agent(2, &update(&body)), Vec::<String>::new());
    }
    let v1 = [
        chunk,
        json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "t", "kind": "edit", "status": "pending",
            "content": [{"type": "diff", "path": "/a", "oldText": null, "newText": "x"}]}),
        json!({"sessionUpdate": "plan", "entries": [{"content": "c", "priority": "low", "status": "pending"}]}),
    ];
    for body in v1 {
        assert_eq!(agent(1, &update(&body)), Vec::<String>::new());
    }
}

#[test]
fn the_other_versions_words_do_not_pass() {
    for kind in
        ["state_update", "user_message", "tool_call_content_chunk", "agent_thought", "replay_complete"]
    {
        let body = json!({"sessionUpdate": kind, "state": "running", "messageId": "m", "toolCallId": "1"});
        complains(&agent(1, &update(&body)), "/params/update/sessionUpdate", kind);
    }
    for kind in ["tool_call", "plan", "current_mode_update"] {
        let found = agent(
            2,
            &update(&json!({"sessionUpdate": kind, "toolCallId": "1", "title": "t", "entries": []})),
        );
        complains(&found, "/params/update/sessionUpdate", kind);
    }
    let cancelled = json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "cancelled"});
    complains(&agent(1, &update(&cancelled)), "/params/update/status", "cancelled");
}

#[test]
fn unknown_words_are_found_wherever_they_stand() {
    let state = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "finished"});
    complains(&agent(2, &update(&state)), "/params/update/stopReason", "finished");
    let row = |field: &str, value: Value| {
        let mut row = json!({"sessionUpdate": "tool_call_update", "toolCallId": "1"});
        row[field] = value;
        agent(2, &update(&row))
    };
    complains(&row("kind", json!("shell")), "/params/update/kind", "shell");
    complains(&row("status", json!("done")), "/params/update/status", "done");
    complains(&row("content", json!([{"type": "txt"}])), "/params/update/content/0/type", "txt");
    let inner = json!([{"type": "content", "content": {"type": "picture"}}]);
    complains(&row("content", inner), "/params/update/content/0/content/type", "picture");
    let question = json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {
        "sessionId": "s", "title": "t", "options": [{"optionId": "a", "name": "A", "kind": "allow_twice"}]}});
    complains(&agent(2, &question), "/params/options/0/kind", "allow_twice");
}

#[test]
fn broken_shapes_are_explained_at_their_place() {
    let chunk = json!({"sessionUpdate": "agent_message_chunk", "messageId": 7, "content": {"type": "text", "text": "x"}});
    complains(&agent(2, &update(&chunk)), "/params/update/messageId", "string");
    let chunk =
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text"}});
    complains(&agent(2, &update(&chunk)), "/params/update/content", "text");
    complains(&agent(1, &update(&chunk)), "/params/update/content", "text");
    let row = json!({"sessionUpdate": "tool_call", "toolCallId": "1"});
    complains(&agent(1, &update(&row)), "/params/update", "title");
}

#[test]
fn results_are_checked_by_the_method_of_their_request() {
    let v2 = json!({"protocolVersion": 2, "info": {"name": "milk", "version": "1"}, "capabilities": {"session": {}}});
    assert_eq!(response(2, "initialize", &v2), Vec::<String>::new());
    let boolean = json!({"protocolVersion": 2, "info": {"name": "m", "version": "1"}, "capabilities": {"session": true}});
    complains(&response(2, "initialize", &boolean), "/result/capabilities/session", "object");
    complains(&response(1, "session/prompt", &json!({"messageId": "u"})), "/result", "stopReason");
    complains(&response(2, "session/prompt", &json!({"stopReason": "end_turn"})), "/result", "messageId");
    assert_eq!(response(2, "_own/method", &json!(7)), Vec::<String>::new());
    complains(&response(2, "session/load", &json!({})), "/result", "session/load");
}

#[test]
fn envelopes_are_checked() {
    let cases = [
        (json!([]), "/", "object"),
        (json!({"jsonrpc": "1.0", "method": "_x"}), "/jsonrpc", "2.0"),
        (json!({"jsonrpc": "2.0", "method": "_x", "note": 1}), "/note", "member"),
        (json!({"jsonrpc": "2.0", "method": "foo/bar"}), "/method", "no such method"),
        (json!({"jsonrpc": "2.0", "method": "session/prompt", "id": 1}), "/method", "of the client"),
        (json!({"jsonrpc": "2.0", "method": "session/update", "id": 1}), "/", "Notification"),
        (json!({"jsonrpc": "2.0", "method": "_x", "id": null}), "/id", "string or an integer"),
        (json!({"jsonrpc": "2.0", "method": "_x", "result": 1}), "/", "a call with"),
        (json!({"jsonrpc": "2.0", "id": 1}), "/", "either"),
        (json!({"jsonrpc": "2.0", "id": 1, "result": 1, "error": {"code": 1, "message": ""}}), "/", "either"),
        (json!({"jsonrpc": "2.0", "result": 1}), "/id", "missing"),
        (json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}), "/error", "message"),
        (json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {}}), "/params", "requestId"),
    ];
    for (message, pointer, word) in cases {
        complains(&agent(2, &message), pointer, word);
    }
    let fine = [
        json!({"jsonrpc": "2.0", "method": "_milk/route", "params": {"agent": "a"}}),
        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "x", "data": {"kind": "k"}}}),
    ];
    for message in fine {
        assert_eq!(agent(2, &message), Vec::<String>::new());
    }
}

#[test]
fn the_clients_messages_can_be_checked_too() {
    let prompt = |blocks: Value| {
        let params = json!({"sessionId": "s", "prompt": blocks});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params});
        SchemaOracle::v2().check_message(Direction::ToAgent, &message, None).len()
    };
    assert_eq!((prompt(json!([{"type": "text", "text": "x"}])), prompt(json!("x"))), (0, 1));
}

fn transcript(version: u16, capabilities: &Value, of_agent: &[Value]) -> Transcript {
    let mut transcript = Transcript::default();
    let mut line =
        |direction, message: &Value| transcript.record(direction, message.to_string().into_bytes());
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": version, "clientCapabilities": capabilities}});
    line(Direction::ToAgent, &initialize);
    let info = json!({"name": "m", "version": "1"});
    let result =
        json!({"protocolVersion": version, "agentCapabilities": {}, "authMethods": [], "info": info});
    line(Direction::FromAgent, &json!({"jsonrpc": "2.0", "id": 1, "result": result}));
    line(Direction::ToAgent, &json!({"jsonrpc": "2.0", "id": "n", "method": "session/new"}));
    for message in of_agent {
        line(Direction::FromAgent, message);
    }
    transcript
}

#[test]
fn a_transcript_is_checked_in_the_version_that_it_agreed_on() {
    let state = [update(&json!({"sessionUpdate": "state_update", "state": "running"}))];
    transcript(2, &json!({}), &state).assert_valid();
    let v1 = transcript(1, &json!({}), &state);
    assert_eq!(v1.version(), 1);
    assert_eq!(v1.validate(1).len(), 1);
    assert!(std::panic::catch_unwind(|| v1.assert_valid()).is_err());
    let opened = [json!({"jsonrpc": "2.0", "id": "n", "result": {"sessionId": 7}})];
    let found = transcript(2, &json!({}), &opened).validate(2);
    assert!(found.len() == 1 && found[0].starts_with("line 3 (response to session/new)"), "{found:?}");
}

#[test]
fn v1_updates_that_need_a_capability_need_its_announcement() {
    let option = json!({"id": "think", "name": "T", "type": "boolean", "currentValue": true});
    let messages = [
        update(&json!({"sessionUpdate": "plan_removed", "planId": "p"})),
        update(&json!({"sessionUpdate": "config_option_update", "configOptions": [option]})),
        json!({"jsonrpc": "2.0", "id": "n", "result": {"sessionId": "s", "configOptions": [option]}}),
    ];
    let found = transcript(1, &json!({}), &messages).validate(1);
    assert_eq!(found.len(), 3, "{found:#?}");
    let announced = json!({"plan": {}, "session": {"configOptions": {"boolean": {}}}});
    assert_eq!(transcript(1, &announced, &messages).validate(1), Vec::<String>::new());
}
