//! How a connection ends.

use std::time::{Duration, Instant};

use milk_acp::ServeEnd;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::rig::{Rig, picked, settings};

#[test]
fn the_end_of_the_input_ends_everything_in_time() {
    for busy in ["idle", "streaming", "asking", "running"] {
        let mut rig = Rig::new();
        rig.v2();
        let session = rig.session();
        let mut open = Vec::new();
        match busy {
            "streaming" => {
                let reply = rig.model.open_reply();
                reply.text("x");
                open.push(reply);
                rig.prompt(&session, "hi");
                rig.until(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
            }
            "asking" | "running" => {
                rig.model.call("run", &json!({"command": "wait"}));
                rig.prompt(&session, "hi");
                let question = rig.question();
                if busy == "running" {
                    rig.reply(&question, &picked("allow"));
                    rig.until(|message| {
                        message["params"]["update"]["sessionUpdate"] == "tool_call_content_chunk"
                    });
                }
            }
            _ => {}
        }
        let began = Instant::now();
        assert_eq!(rig.hang_up(), ServeEnd::InputEnded, "{busy}");
        assert!(began.elapsed() < Duration::from_secs(2), "{busy}");
        let mut rest = Vec::new();
        while let Some(message) = rig.next() {
            rest.push(message);
        }
        if busy != "idle" {
            assert!(
                rest.iter().any(|message| message.get("result").is_some()),
                "the prompt has its answer: {rest:?}"
            );
        }
    }
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let mut rig = Rig::new();
    let hello = rig.request("initialize", &json!({"protocolVersion": 2}));
    let session = rig.request("session/new", &json!({"cwd": "/w"}));
    let list = rig.request("session/list", &json!({}));
    assert_eq!(rig.hang_up(), ServeEnd::InputEnded);
    for id in [hello, session, list] {
        assert!(rig.answer(&id)["result"].is_object());
    }
}

#[test]
fn a_shutdown_ends_it_although_the_input_stays_open() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    let _never = rig.model.open_reply();
    let prompt = rig.prompt(&session, "hi");
    rig.until(|message| message["params"]["update"]["state"] == "running");
    rig.shutdown.cancel();
    assert_eq!(rig.ended(), ServeEnd::ShutDown);
    assert!(rig.answer(&prompt)["result"].is_object());
}

#[test]
fn a_reader_that_is_gone_ends_it() {
    let (mut rig, output) = Rig::unread(settings());
    drop(output);
    rig.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}\n");
    assert_eq!(rig.ended(), ServeEnd::OutputGone);
}

#[test]
fn a_reader_that_stops_reading_does_not_hold_the_end_up() {
    let (mut rig, output) = Rig::unread(settings());
    for _ in 0..2000 {
        rig.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n");
    }
    let began = Instant::now();
    assert_eq!(rig.hang_up(), ServeEnd::InputEnded);
    assert!(began.elapsed() < Duration::from_secs(2));
    drop(output);
}
