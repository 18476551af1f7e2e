use milk_core::content::ContentBlock;
use milk_core::event::{Route, RouteTarget, StopReason};
use milk_core::failure::Failure;
use milk_core::id::{ToolCallId, TurnId};
use milk_core::model::{AssistantMessage, ToolArguments, ToolCall};
use milk_core::ports::ExportFormat;
use milk_core::record::{EntryNumber, Logged, Record, Speaker, TurnOrigin, TurnWork};
use milk_core::tool::{FileAction, FileChange, Location, ToolKind, ToolStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::log::{BEGIN_MS, Log, usage};
use crate::{export, sample, text};

fn parsed(records: Vec<Logged>) -> Value {
    serde_json::from_str(&export(ExportFormat::Json, records)).unwrap()
}

fn at(after_ms: u64, entry: Option<u64>, record: Record) -> Logged {
    Logged { at_ms: BEGIN_MS + after_ms, entry: entry.map(EntryNumber), record }
}

#[test]
fn every_key_is_there_and_right() {
    let turn = TurnId(7);
    let call =
        ToolCall { id: "c1".into(), name: "move".into(), arguments: ToolArguments::Unparsable("{".into()) };
    let said = AssistantMessage {
        text: "text".into(),
        thinking: Some("thought".into()),
        tool_calls: vec![call],
        provider_notes: Some(json!({"sig": "x"})),
    };
    let change = FileChange {
        action: FileAction::Move { from: "/old".into() },
        path: "/new".into(),
        old_text: Some("a".into()),
        new_text: None,
    };
    let ended = |call: &str| Record::ToolEnded {
        turn,
        call: ToolCallId::new(call),
        title: "Move /old".into(),
        kind: ToolKind::Move,
        status: ToolStatus::Cancelled,
        output: "out".into(),
        locations: vec![Location { path: "/new".into(), line: Some(3) }],
        changes: vec![change.clone()],
    };
    let speaker = Speaker { agent: "deep".into(), provider: "openrouter".into(), model: "m".into() };
    let route = Route { agent: "deep".into(), target: RouteTarget::Escalation, reason: "hard".into() };
    let mut failure = Failure::new("model_timed_out", "too slow");
    failure.status = Some(504);
    let content = vec![
        ContentBlock::text("hi"),
        ContentBlock::Image { mime: "image/png".into(), data: "AAAA".into() },
        ContentBlock::Unknown { kind: "audio".into() },
    ];
    let (origin, work) = (TurnOrigin::Remote, TurnWork::Prompt);
    let records = vec![
        at(0, None, Record::Noted { turn: None, message: "n-0".into(), text: "before".into() }),
        at(1, Some(4), Record::TurnStarted { turn, origin, message: "u-1".into(), content, work }),
        at(2, None, Record::Routed { turn, route }),
        at(
            3,
            Some(5),
            Record::ModelSaid {
                turn,
                message: "a-1".into(),
                thought: Some("t-1".into()),
                said,
                usage: Some(usage(10, 4, 2)),
                by: speaker,
            },
        ),
        at(4, Some(6), ended("c1")),
        at(5, Some(7), ended("lost")),
        at(6, None, Record::Noted { turn: Some(turn), message: "n-1".into(), text: "within".into() }),
        at(7, None, Record::TurnEnded { turn, stop: StopReason::Error, failure: Some(failure) }),
        at(8, None, Record::Noted { turn: None, message: "n-2".into(), text: "after".into() }),
    ];
    let result = json!({
        "at": "2026-03-04T08:00:00.004Z", "entry": 6, "title": "Move /old", "kind": "move", "status": "cancelled",
        "output": "out", "locations": [{"path": "/new", "line": 3}],
        "changes": [{"action": "move", "path": "/new", "from": "/old", "old_text": "a", "new_text": null}],
    });
    let mut lost = result.clone();
    lost["id"] = json!("lost");
    lost["at"] = json!("2026-03-04T08:00:00.005Z");
    lost["entry"] = json!(7);
    assert_eq!(
        parsed(records),
        json!({
            "format": 1,
            "session": {
                "id": "0b9f", "name": "a name", "title": "a name", "cwd": "/home/ada/work",
                "created_at": "2026-03-04T08:00:00.000Z", "last_used_at": "2026-03-04T08:00:01.500Z",
            },
            "turns": [{
                "number": 7, "origin": "remote", "work": "prompt", "message_id": "u-1", "entry": 4,
                "started_at": "2026-03-04T08:00:00.001Z", "ended_at": "2026-03-04T08:00:00.007Z",
                "content": [
                    {"type": "text", "text": "hi"},
                    {"type": "image", "mime": "image/png", "data": "AAAA"},
                    {"type": "unknown", "kind": "audio"},
                ],
                "routes": [{"at": "2026-03-04T08:00:00.002Z", "agent": "deep", "target": "escalation", "reason": "hard"}],
                "steps": [{
                    "at": "2026-03-04T08:00:00.003Z", "entry": 5, "message_id": "a-1", "thought_id": "t-1",
                    "agent": "deep", "provider": "openrouter", "model": "m", "text": "text", "thinking": "thought",
                    "usage": {"input": 10, "cached": 4, "output": 2}, "provider_notes": {"sig": "x"},
                    "tool_calls": [
                        {"id": "c1", "name": "move", "arguments": null, "arguments_text": "{", "result": result},
                    ],
                }],
                "unmatched_results": [lost],
                "notes": [{"at": "2026-03-04T08:00:00.006Z", "message_id": "n-1", "text": "within"}],
                "usage": {"input": 10, "cached": 4, "output": 2},
                "stop": "error",
                "failure": {
                    "kind": "model_timed_out", "details": "too slow", "retryable": false, "provider": null, "status": 504,
                },
            }],
            "notes": [
                {"at": "2026-03-04T08:00:00.000Z", "message_id": "n-0", "text": "before", "after_turn": null},
                {"at": "2026-03-04T08:00:00.008Z", "message_id": "n-2", "text": "after", "after_turn": 7},
            ],
        })
    );
}

#[test]
fn slash_commands_are_kept() {
    let mut log = Log::default();
    text::command(&mut log);
    let document = parsed(log.records);
    assert_eq!(document["turns"][0]["work"], "command");
    assert_eq!(document["turns"][0]["notes"][0]["text"], "command output");
}

#[test]
fn usage_is_the_sum_of_the_steps() {
    let document = parsed(sample::records());
    assert_eq!(document["turns"][0]["usage"], json!({"input": 5160, "cached": 2100, "output": 500}));
    assert_eq!(document["turns"][3]["usage"], Value::Null);
    assert_eq!(document["turns"].as_array().unwrap().len(), 9);
    assert_eq!(document["turns"][8]["stop"], Value::Null);
}

#[test]
fn it_is_pretty_and_keeps_every_character_without_showing_dangerous_ones() {
    let odd = "a\0\x1b[2J\u{7f}\u{9b}\u{202e}\u{2028}\u{feff}😀\"\\\n\t]]></script>";
    let mut log = Log::default();
    log.begin(vec![ContentBlock::text(odd)]);
    let written = export(ExportFormat::Json, log.records.clone());
    assert_eq!(parsed(log.records)["turns"][0]["content"][0]["text"], odd);
    assert!(written.chars().all(|c| c == '\n' || !c.is_control() && !matches!(c, '\u{2028}' | '\u{202e}')));
    assert!(written.starts_with("{\n  \"format\": 1,\n  \"session\": {\n    \"id\": \"0b9f\","), "{written}");
    assert!(written.contains("\n  \"turns\": [\n    {\n      \"number\": 1,"), "{written}");
    assert!(written.ends_with("\n  ],\n  \"notes\": []\n}\n"), "{written}");
}

#[test]
fn an_empty_session_is_whole() {
    let document = parsed(vec![]);
    assert_eq!((&document["turns"], &document["notes"]), (&json!([]), &json!([])));
}
