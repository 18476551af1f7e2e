//! Cancels (R12, R20).

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::rig::{Rig, picked, text_prompt, words};

#[test]
fn a_cancel_in_the_very_next_line_finds_the_prompt() {
    for round in 0..50 {
        let mut rig = Rig::new();
        let version = 1 + round % 2;
        rig.initialize(&json!({"protocolVersion": version}));
        let session = rig.session();
        let never = rig.model.open_reply();
        let params = text_prompt(&session, "hi");
        let prompt = json!({"jsonrpc": "2.0", "id": 77, "method": "session/prompt", "params": params});
        let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
        rig.send_bytes(format!("{prompt}\n{cancel}\n").as_bytes());
        let (updates, answer) = rig.until(|message| message["id"] == 77);
        if version == 1 {
            assert_eq!(answer["result"]["stopReason"], "cancelled");
        } else {
            assert_eq!(words(&updates).last().unwrap(), "idle cancelled");
            assert!(answer["result"]["messageId"].is_string());
        }
        drop(never);
        rig.model.forget();
        let (_, answer) = rig.turn(&session, "again");
        assert!(answer["result"].is_object());
    }
}

#[test]
fn a_cancel_covers_what_waits_and_nothing_that_comes_later() {
    for version in [1, 2] {
        let mut rig = Rig::new();
        rig.initialize(&json!({"protocolVersion": version}));
        let session = rig.session();
        let running_reply = rig.model.open_reply();
        running_reply.text("working");
        let running = rig.prompt(&session, "one");
        rig.until(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
        let waiting = rig.prompt(&session, "two");
        rig.notify("session/cancel", &json!({"sessionId": session}));
        rig.model.text("three");
        let later = rig.prompt(&session, "three");
        let (running, waiting, later) = (rig.answer(&running), rig.answer(&waiting), rig.answer(&later));
        if version == 1 {
            assert_eq!(running["result"]["stopReason"], "cancelled");
            assert_eq!(waiting["result"], json!({"stopReason": "cancelled"}));
            assert_eq!(later["result"]["stopReason"], "end_turn");
        } else {
            assert!(running["result"]["messageId"].is_string());
            assert_eq!(waiting["error"]["code"], -32800);
            assert_eq!(waiting["error"]["data"]["kind"], "cancelled");
            assert!(later["result"]["messageId"].is_string());
        }
    }
}

#[test]
fn a_cancel_sent_as_a_request_cancels_and_is_answered() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    let _never = rig.model.open_reply();
    let prompt = rig.prompt(&session, "hi");
    rig.until(|message| message["params"]["update"]["state"] == "running");
    assert_eq!(rig.ask("session/cancel", &json!({"sessionId": session}))["result"], json!({}));
    let (updates, answer) = rig.until(|message| message["id"] == prompt);
    assert_eq!(words(&updates).last().unwrap(), "idle cancelled");
    assert!(answer["result"]["messageId"].is_string());
}

#[test]
fn one_request_can_be_cancelled_by_its_id() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    let reply = rig.model.open_reply();
    let running = rig.prompt(&session, "one");
    rig.until(|message| message["params"]["update"]["state"] == "running");
    let waiting = rig.prompt(&session, "two");
    rig.notify("$/cancel_request", &json!({"requestId": "no such"}));
    rig.notify("$/cancel_request", &json!({"requestId": waiting}));
    assert_eq!(rig.answer(&waiting)["error"]["code"], -32800);
    reply.text("fine");
    reply.finish();
    assert!(rig.answer(&running)["result"].is_object(), "the running one was not touched");

    let _never = rig.model.open_reply();
    let running = rig.prompt(&session, "three");
    rig.until(|message| message["params"]["update"]["content"][0]["text"] == "three");
    rig.notify("$/cancel_request", &json!({"requestId": running}));
    let (updates, _) = rig.until(|message| message["id"] == running);
    assert_eq!(words(&updates).last().unwrap(), "idle cancelled");
}

#[test]
fn a_cancel_withdraws_the_question_and_closes_the_row() {
    for late in [None, Some(picked("allow")), Some(json!({"outcome": {"outcome": "cancelled"}}))] {
        let mut rig = Rig::new();
        rig.v2();
        let session = rig.session();
        rig.model.call("write", &json!({"path": "a.txt"}));
        let prompt = rig.prompt(&session, "write");
        let question = rig.question();
        rig.notify("session/cancel", &json!({"sessionId": session}));
        let (updates, answer) = rig.until(|message| message["id"] == prompt);
        let told = words(&updates);
        assert!(told.contains(&"$/cancel_request".to_owned()), "{told:?}");
        assert!(told.contains(&"tool_call_update cancelled".to_owned()), "{told:?}");
        assert_eq!(told.last().unwrap(), "idle cancelled");
        assert!(answer["result"].is_object());
        let withdrawn: Vec<&Value> =
            updates.iter().filter(|message| message["method"] == "$/cancel_request").collect();
        assert_eq!(withdrawn[0]["params"], json!({"requestId": question["id"]}));

        if let Some(late) = late {
            rig.reply(&question, &late);
        }
        let (_, answer) = rig.turn(&session, "again");
        assert!(answer["result"].is_object());
    }
}

#[test]
fn a_cancel_ends_a_running_tool() {
    for (version, word) in [(1, "tool_call_update failed"), (2, "tool_call_update cancelled")] {
        let mut rig = Rig::new();
        rig.initialize(&json!({"protocolVersion": version}));
        let session = rig.session();
        rig.model.call("run", &json!({"command": "wait"}));
        let prompt = rig.prompt(&session, "run");
        let question = rig.question();
        rig.reply(&question, &picked("allow"));
        // The tool has printed: it runs.
        rig.until(|message| message["params"]["update"].to_string().contains("wait\\n"));
        rig.notify("session/cancel", &json!({"sessionId": session}));
        let (updates, _) = rig.until(|message| message["id"] == prompt && message.get("method").is_none());
        assert!(words(&updates).contains(&word.to_owned()), "{:?}", words(&updates));
    }
}
