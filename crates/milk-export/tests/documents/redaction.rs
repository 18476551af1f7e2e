//! A secret in any field of a log is in no document.

use std::sync::Arc;

use milk_core::content::ContentBlock;
use milk_core::event::{Route, RouteTarget, StopReason};
use milk_core::failure::Failure;
use milk_core::id::{SessionId, TurnId};
use milk_core::model::{AssistantMessage, ToolArguments, ToolCall};
use milk_core::ports::ExportFormat;
use milk_core::record::{Logged, Record, Speaker, TurnOrigin, TurnWork};
use milk_core::session::SessionSummary;
use milk_core::tool::{FileAction, FileChange, Location, ToolKind, ToolStatus};
use milk_export::Documents;
use serde_json::json;

use crate::export_with;

/// Known to milk, and split by Markdown where it is not masked before.
const KNOWN: &str = "s3cr*t_with_m*rks_in_it";
/// Known by its shape.
const SHAPED: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

/// A log with these words in every field that is a text.
fn everywhere(words: &str) -> (SessionSummary, Vec<Logged>) {
    let text = || words.to_owned();
    let session = SessionSummary {
        id: SessionId::new(words),
        cwd: text().into(),
        name: Some(text()),
        first_prompt: Some(text()),
        turns: 0,
        entries: 0,
        created_ms: 0,
        last_used_ms: 0,
    };
    let turn = TurnId(1);
    let by = Speaker { agent: words.into(), provider: text(), model: text() };
    let call = |id: &str, arguments| ToolCall { id: id.into(), name: text(), arguments };
    let fields = json!({ words: words, "list": [words], "deep": {"key": words} });
    let calls = vec![
        call("c", ToolArguments::Object(fields.as_object().unwrap().clone())),
        call("d", ToolArguments::Unparsable(text())),
        call(words, ToolArguments::Object(fields.as_object().unwrap().clone())),
    ];
    let said = AssistantMessage {
        text: format!(
            "{words}\n\n```{words}\n{words}\n```\n\n[{words}](https://example.org/?q={words} \"{words}\")"
        ),
        thinking: Some(text()),
        tool_calls: calls,
        provider_notes: Some(fields),
    };
    let blob = ContentBlock::EmbeddedBlob { uri: text(), mime: Some(text()), data: words.into() };
    let content = vec![
        ContentBlock::text(words),
        ContentBlock::Link { uri: text(), name: text(), mime: Some(text()) },
        ContentBlock::EmbeddedText { uri: text(), mime: Some(text()), text: words.into() },
        blob,
        ContentBlock::Image { mime: text(), data: words.into() },
        ContentBlock::Image { mime: "image/png".into(), data: words.into() },
        ContentBlock::Unknown { kind: text() },
    ];
    let change = FileChange {
        action: FileAction::Move { from: text().into() },
        path: text().into(),
        old_text: Some(format!("{words}\nsame\n").into()),
        new_text: Some(format!("other\nsame\n{words}").into()),
    };
    let route = Route { agent: words.into(), target: RouteTarget::Primary, reason: text() };
    let ended = Record::ToolEnded {
        turn,
        call: "c".into(),
        title: text(),
        kind: ToolKind::Other,
        status: ToolStatus::Completed,
        output: text(),
        locations: vec![Location { path: text().into(), line: None }],
        changes: vec![change],
    };
    let mut failure = Failure::new(words, words);
    failure.provider = Some(text());
    let (origin, work) = (TurnOrigin::Client, TurnWork::Prompt);
    let records = vec![
        Record::TurnStarted { turn, origin, message: words.into(), content, work },
        Record::Routed { turn, route },
        Record::ModelSaid { turn, message: words.into(), thought: Some(words.into()), said, usage: None, by },
        ended,
        Record::Noted { turn: Some(turn), message: words.into(), text: text() },
        Record::TurnEnded { turn, stop: StopReason::Error, failure: Some(failure) },
        Record::Noted { turn: None, message: words.into(), text: text() },
    ];
    (session, records.into_iter().map(|record| Logged { at_ms: 0, entry: None, record }).collect())
}

#[test]
fn no_field_lets_a_secret_through() {
    let documents = Documents::new(Arc::new(|text| text.replace(KNOWN, "***")));
    for format in [ExportFormat::Text, ExportFormat::Json, ExportFormat::Html] {
        for secret in [KNOWN, SHAPED] {
            let (session, records) = everywhere(secret);
            let document = export_with(&documents, format, &session, records);
            assert!(document.contains("***"), "{format:?}");
            for piece in [secret, &secret[..12], "rks_in_it", "ABCDEFGHIJ012345"] {
                assert!(!document.contains(piece), "{format:?} has {piece}:\n{document}");
            }
        }
    }
}

/// A model writes `_` as `\_`: the page shows what was meant, so that is what is searched.
#[test]
fn an_escaped_secret_is_masked_where_it_is_shown() {
    let documents = Documents::new(Arc::new(|text| text.replace("abc_def_ghi", "***")));
    let (session, mut records) = everywhere("x");
    records.truncate(1);
    if let Record::TurnStarted { content, .. } = &mut records[0].record {
        *content = vec![ContentBlock::text("the key abc\\_def\\_ghi and abc&#95;def_ghi")];
    }
    let page = export_with(&documents, ExportFormat::Html, &session, records);
    assert!(page.contains("the key *** and ***"), "{page}");
    assert!(!page.contains("abc_def_ghi"));
}

#[test]
fn a_picture_that_holds_a_secret_is_left_out() {
    let png = include_str!("../../examples/page/picture.txt");
    let secret = &png[100..140];
    let documents = Documents::new(Arc::new({
        let secret = secret.to_owned();
        move |text| text.replace(&secret, "***")
    }));
    let (session, mut records) = everywhere("x");
    if let Record::TurnStarted { content, .. } = &mut records[0].record {
        *content = vec![ContentBlock::Image { mime: "image/png".into(), data: png.into() }];
    }
    let page = export_with(&documents, ExportFormat::Html, &session, records);
    assert!(!page.contains("<img") && page.contains("is left out"), "{page}");
}
