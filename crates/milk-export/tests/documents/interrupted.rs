//! Logs that were cut short: a call without a result, a turn without an end, a turn without a beginning.

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::id::TurnId;
use milk_core::ports::ExportFormat;
use milk_core::record::{Logged, Record};
use serde_json::{Value, json};

use crate::log::{Did, Log};
use crate::{checker, export};
use milk_core::tool::{ToolKind, ToolStatus};

fn call() -> Did {
    Did {
        name: "bash",
        arguments: json!({"command": "make"}),
        title: "make all".into(),
        kind: ToolKind::Execute,
        status: ToolStatus::Completed,
        output: "built".into(),
        changes: vec![],
    }
}

/// Two turns that lost their ends, the first in the middle of a call.
fn cut_short() -> Vec<Logged> {
    let mut log = Log::default();
    log.begin(vec![ContentBlock::text("first")]);
    log.say(None, "working", None, vec![call()]);
    log.records.pop();
    log.begin(vec![ContentBlock::text("second")]);
    log.records
}

#[test]
fn text_says_what_is_missing() {
    let text = export(ExportFormat::Text, cut_short());
    let missing = "  ⚙ bash: {\"command\":\"make\"}\n    (no result)\n  ✗ interrupted: milk was stopped before the turn ended\n";
    assert!(text.contains(missing), "{text}");
    assert!(
        text.ends_with("second\n  ✗ unfinished: the turn had not ended when this was exported\n"),
        "{text}"
    );
}

#[test]
fn json_says_null() {
    let document: Value = serde_json::from_str(&export(ExportFormat::Json, cut_short())).unwrap();
    let first = &document["turns"][0];
    assert_eq!(first["steps"][0]["tool_calls"][0]["result"], Value::Null);
    assert_eq!((&first["stop"], &first["ended_at"]), (&Value::Null, &Value::Null));
}

#[test]
fn html_marks_it() {
    let seen = checker::read(&export(ExportFormat::Html, cut_short())).unwrap();
    assert!(
        seen.text.contains("This turn was interrupted: milk was stopped before the turn ended"),
        "{}",
        seen.text
    );
    assert!(seen.text.contains("This turn is unfinished:"), "{}", seen.text);
    assert!(seen.text.contains("bash {\"command\":\"make\"} no result"), "{}", seen.text);
}

/// Any piece of a log makes a document in every format: what is there is there, whatever is missing before and behind it.
#[test]
fn every_piece_of_a_log_makes_a_document() {
    let mut log = Log::default();
    for turn in 0..3 {
        log.begin(vec![ContentBlock::text(format!("prompt-{turn}"))]);
        log.say(None, &format!("answer-{turn}"), None, vec![call()]);
        log.end(StopReason::EndTurn, None);
    }
    let records = log.records;
    for from in 0..records.len() {
        for to in from..=records.len() {
            let piece = records[from..to].to_vec();
            let text = export(ExportFormat::Text, piece.clone());
            let page = checker::read(&export(ExportFormat::Html, piece.clone())).unwrap();
            let document: Value = serde_json::from_str(&export(ExportFormat::Json, piece.clone())).unwrap();
            let document = document.to_string();
            for record in &piece {
                let words = match &record.record {
                    Record::TurnStarted { turn, .. } => format!("prompt-{}", turn.0 - 1),
                    Record::ModelSaid { turn, .. } => format!("answer-{}", turn.0 - 1),
                    Record::ToolEnded { .. } => "built".to_owned(),
                    _ => continue,
                };
                for whole in [&text, &page.text, &document] {
                    assert!(whole.contains(&words), "{from}..{to} has no {words}: {whole}");
                }
            }
        }
    }
}

#[test]
fn a_late_record_and_a_second_beginning_are_turns_of_their_own() {
    let mut log = Log::default();
    log.begin(vec![ContentBlock::text("one")]);
    log.end(StopReason::EndTurn, None);
    log.begin(vec![ContentBlock::text("two")]);
    let late = Record::Noted { turn: Some(TurnId(1)), message: "m".into(), text: "late".into() };
    log.records.push(Logged { at_ms: 0, entry: None, record: late });
    let again = log.records[0].clone();
    log.records.extend([again.clone(), again]);
    let document: Value = serde_json::from_str(&export(ExportFormat::Json, log.records.clone())).unwrap();
    let numbers: Vec<u64> =
        document["turns"].as_array().unwrap().iter().map(|turn| turn["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 1, 1]);
    assert_eq!(document["turns"][2]["notes"][0]["text"], "late");
    checker::read(&export(ExportFormat::Html, log.records)).unwrap();
}
