//! Turns on the wire (R6 to R11, R14).

use std::collections::BTreeMap;

use milk_acp::profile::ProfileOverride;
use milk_acp::{AcpSettings, PromptResponse};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::rig::{Rig, settings, words};

#[test]
fn a_v2_turn_from_echo_to_answer() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    let reply = rig.model.open_reply();
    reply.thought("hm");
    reply.text("hello");
    reply.finish();
    let (updates, answer) = rig.turn(&session, "hi");
    assert_eq!(
        words(&updates),
        ["user hi", "running", "_milk/route", "thought hm", "agent hello", "idle end_turn"]
    );
    assert!(updates.iter().all(|update| update["params"]["sessionId"] == session.as_str()));
    let id = |at: usize| updates[at]["params"]["update"]["messageId"].clone();
    assert_eq!(answer["result"], json!({"messageId": id(0)}));
    assert!(id(0) != id(3) && id(3) != id(4) && id(0) != id(4), "each message has an id of its own");
    assert_eq!(updates[5]["params"]["update"]["_meta"]["milk/route"]["agent"], "main");
}

#[test]
fn a_v1_turn_has_v1_shapes_only() {
    let mut rig = Rig::new();
    rig.v1();
    let session = rig.session();
    rig.model.text("hello");
    let (updates, answer) = rig.turn(&session, "hi");
    assert_eq!(words(&updates), ["user hi", "_milk/route", "agent hello"]);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(answer["result"]["messageId"], updates[0]["params"]["update"]["messageId"]);
}

#[test]
fn deltas_of_one_message_concatenate_to_it() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    let reply = rig.model.open_reply();
    let pieces: Vec<String> = (0..2000).map(|number| format!("{number} ")).collect();
    for piece in &pieces {
        reply.text(piece);
    }
    reply.finish();
    let (updates, _) = rig.turn(&session, "count");
    let chunks = updates.iter().filter(|update| word_is(update, "agent_message_chunk"));
    let text: String =
        chunks.map(|update| update["params"]["update"]["content"]["text"].as_str().unwrap()).collect();
    assert_eq!(text, pieces.concat());
}

fn word_is(update: &Value, kind: &str) -> bool {
    update["params"]["update"]["sessionUpdate"] == kind
}

#[test]
fn prompts_of_one_session_run_in_order_and_those_of_others_beside_them() {
    let mut rig = Rig::new();
    rig.v2();
    let (a, b) = (rig.session(), rig.session());
    let slow = rig.model.open_reply();
    slow.text("working");
    let first = rig.prompt(&a, "first");
    rig.until(|message| word_is(message, "agent_message_chunk"));
    let second = rig.prompt(&a, "second");
    let (_, other) = rig.turn(&b, "other");
    assert!(other["result"].is_object(), "the other session is not held up");
    slow.text("done");
    slow.finish();
    let (_, answer) = rig.until(|message| message.get("result").is_some());
    assert_eq!(answer["id"], first);
    let (updates, answer) = rig.until(|message| message.get("result").is_some());
    assert_eq!(answer["id"], second);
    assert_eq!(words(&updates)[0], "user second");
}

#[test]
fn a_failed_turn_is_an_error_with_what_the_provider_said() {
    for (version, code) in [(1, -32603), (2, -32000)] {
        let mut rig = Rig::new();
        rig.initialize(&json!({"protocolVersion": version}));
        let session = rig.session();
        rig.model.failure();
        let (updates, answer) = rig.turn(&session, "hi");
        let data = json!({"kind": "rate_limited", "details": "fake: too many requests", "retryable": true,
            "provider": "fake", "status": 429});
        let error = json!({"code": code, "message": "fake: too many requests", "data": data});
        assert_eq!(answer["error"], error);
        if version == 2 {
            let idle = &updates.last().unwrap()["params"]["update"];
            assert_eq!(idle["stopReason"], "error");
            assert_eq!(idle["error"], error);
        }
        let (_, answer) = rig.turn(&session, "again");
        assert!(answer["result"].is_object(), "the session goes on");
    }
}

#[test]
fn an_early_answer_comes_when_the_message_is_in() {
    let by_client = Rig::new();
    let by_settings = Rig::with(AcpSettings { prompt_response: PromptResponse::Accepted, ..settings() });
    for (mut rig, meta) in
        [(by_client, json!({"milk": {"promptResponse": "accepted"}})), (by_settings, Value::Null)]
    {
        rig.initialize(&json!({"protocolVersion": 2, "_meta": meta}));
        let session = rig.session();
        let reply = rig.model.open_reply();
        let (updates, answer) = rig.turn(&session, "hi");
        assert_eq!(words(&updates), ["user hi"]);
        assert_eq!(answer["result"]["messageId"], updates[0]["params"]["update"]["messageId"]);
        reply.text("hello");
        reply.finish();
        let (updates, _) = rig.until(|message| message["params"]["update"]["state"] == "idle");
        assert_eq!(words(&updates), ["running", "_milk/route", "agent hello"]);

        rig.model.failure();
        let (_, answer) = rig.turn(&session, "fails");
        assert!(answer["result"].is_object());
        let (_, idle) = rig.until(|message| message["params"]["update"]["state"] == "idle");
        assert_eq!(idle["params"]["update"]["stopReason"], "error");
        let (updates, _) = rig.turn(&session, "goes on");
        assert_eq!(words(&updates), ["user goes on"], "no second answer to the failed one");
    }
}

#[test]
fn v1_has_no_early_answer() {
    let mut rig = Rig::with(AcpSettings { prompt_response: PromptResponse::Accepted, ..settings() });
    rig.v1();
    let session = rig.session();
    let (_, answer) = rig.turn(&session, "hi");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}

#[test]
fn a_profile_leaves_the_echo_out() {
    let mut rig = Rig::new();
    rig.initialize(&json!({"protocolVersion": 1, "clientInfo": {"name": "Toad", "version": "1"}}));
    let session = rig.session();
    assert_eq!(words(&rig.turn(&session, "hi").0), ["_milk/route", "agent ok"]);

    let clients =
        BTreeMap::from([("toad".to_owned(), ProfileOverride { echo: Some(true), ..Default::default() })]);
    let mut rig = Rig::with(AcpSettings { clients, ..settings() });
    rig.initialize(&json!({"protocolVersion": 1, "clientInfo": {"name": "toad"}}));
    let session = rig.session();
    assert_eq!(words(&rig.turn(&session, "hi").0), ["user hi", "_milk/route", "agent ok"]);
}

#[test]
fn a_command_is_run_by_milk() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    let (updates, answer) = rig.turn(&session, "/help");
    let told = words(&updates);
    assert_eq!(
        (told[0].as_str(), told[1].as_str(), told[3].as_str()),
        ("user /help", "running", "idle end_turn")
    );
    assert!(told[2].contains("/help"), "{told:?}");
    assert!(answer["result"]["messageId"].is_string());
}
