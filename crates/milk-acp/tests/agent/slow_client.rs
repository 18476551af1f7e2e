//! A client that reads late.

use std::io::BufRead;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::rig::{Rig, settings, text_prompt, words};

const PIECES: usize = 90_000;
const PIECE: &str = "0123456789ABCDEF0123456789abcdef0123456789ABCDEF0123456789abcdef";

#[test]
fn a_reader_that_does_not_read_holds_its_turn_up_and_loses_nothing() {
    let (mut rig, mut output) = Rig::unread(settings());
    rig.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 2}}));
    rig.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/w"}}));
    let mut line = String::new();
    for _ in 0..2 {
        line.clear();
        output.read_line(&mut line).unwrap();
    }
    let answer: Value = serde_json::from_str(&line).unwrap();
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();

    let reply = rig.model.open_reply();
    for _ in 0..PIECES {
        reply.text(PIECE);
    }
    reply.finish();
    rig.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": text_prompt(&session, "go")}));
    // However long one waits: what fits into pipe and queue is a fraction of it.
    std::thread::sleep(Duration::from_millis(200));
    assert!(
        reply.left() > PIECES / 2,
        "{} pieces wait in the model, so they do not wait in memory",
        reply.left()
    );

    rig.read_from(output);
    let (updates, _) = rig.until(|message| message["id"] == 3);
    let chunks: Vec<&str> = updates
        .iter()
        .filter(|update| update["params"]["update"]["sessionUpdate"] == "agent_message_chunk")
        .map(|update| update["params"]["update"]["content"]["text"].as_str().unwrap())
        .collect();
    assert!(chunks.concat() == PIECE.repeat(PIECES), "whole and in order");
    assert!(
        chunks.iter().all(|chunk| chunk.len() <= 16 << 10),
        "no line is too long for a client's line reader"
    );
    assert!(chunks.len() < PIECES / 10, "{} chunks: what waited has merged", chunks.len());
    assert_eq!(words(&updates).last().unwrap(), "idle end_turn");
}
