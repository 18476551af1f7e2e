//! A client that reads slowly, or late.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::rig::{Rig, settings, text_prompt, words};

#[test]
fn a_flood_behind_a_slow_reader_merges_and_loses_nothing() {
    let (mut rig, output) = Rig::unread(settings());
    let mut lines = String::new();
    for (id, method, params) in
        [(1, "initialize", json!({"protocolVersion": 2})), (2, "session/new", json!({"cwd": "/w"}))]
    {
        lines.push_str(&format!(
            "{}\n",
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        ));
    }
    rig.send_bytes(lines.as_bytes());
    rig.read_from(output);
    let (_, answer) = rig.until(|message| message["id"] == 2);
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();

    let reply = rig.model.open_reply();
    let expected: String = (0..60_000).map(|number| format!("{number},")).collect();
    for number in 0..60_000 {
        reply.text(&format!("{number},"));
    }
    reply.finish();
    rig.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": text_prompt(&session, "go")}));
    // The reader's thread keeps up with the pipe, not with the writer: chunks merge whenever it does not.
    let (updates, _) = rig.until(|message| message["id"] == 3);
    let chunks: Vec<&str> = updates
        .iter()
        .filter(|update| update["params"]["update"]["sessionUpdate"] == "agent_message_chunk")
        .map(|update| update["params"]["update"]["content"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(chunks.concat(), expected);
    assert!(chunks.iter().all(|chunk| chunk.len() <= 17 << 10));
    assert_eq!(words(&updates).last().unwrap(), "idle end_turn");
}

#[test]
fn a_reader_that_does_not_read_holds_its_turn_up_and_not_the_process() {
    let (mut rig, output) = Rig::unread(settings());
    // Nobody reads: the pipe fills, then the queue, then the turn waits.
    rig.send_bytes(
        format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/w"}}))
            .as_bytes(),
    );
    rig.read_from(output.try_clone().unwrap());
    let session =
        rig.until(|message| message["id"] == 1).1["result"]["sessionId"].as_str().unwrap().to_owned();
    let reply = rig.model.open_reply();
    for _ in 0..90_000 {
        reply.text("0123456789");
    }
    reply.finish();
    rig.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": text_prompt(&session, "go")}));
    let (updates, _) = rig.until(|message| message["id"] == 2);
    let length: usize = updates
        .iter()
        .filter_map(|update| update["params"]["update"]["content"]["text"].as_str())
        .filter(|text| text.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::len)
        .sum();
    assert_eq!(length, 900_000);
    drop(output);
    assert!(rig.silent_for(Duration::from_millis(10)));
}
