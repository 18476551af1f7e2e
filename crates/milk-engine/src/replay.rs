//! What a front end is shown of a stored history (contract: History replay): its beginning and its end, texts cut to a
//! bearable length, tool calls paired with their results.

use std::collections::HashMap;

use milk_core::content::ContentBlock;
use milk_core::event::{ReplayItem, Replayed, RowStatus, ToolCallRow};
use milk_core::id::{SessionId, ToolCallId, TurnId};
use milk_core::model::{AssistantMessage, ToolArguments, ToolCall};
use milk_core::record::{EntryNumber, Logged, Record};
use milk_core::session::HistoryWindow;
use milk_core::settings::Thoughts;
use milk_core::tool::{FileChange, ToolKind, ToolStatus};
use serde_json::Value;

/// Entries from the beginning that are shown.
pub(crate) const HEAD: usize = 10;
/// Entries from the end that are shown.
pub(crate) const TAIL: usize = 200;

/// Longest text of one message, thought, argument or result, in bytes.
const TEXT: usize = 8 * 1024;
/// Pictures up to this size are shown again, in bytes of Base64.
const PICTURE: usize = 256 * 1024;

/// How a history is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Showing {
    pub(crate) thoughts: Thoughts,
    /// The turn that runs now: the client sees it live.
    pub(crate) running: Option<TurnId>,
}

/// The pieces to show, in order.
pub(crate) fn items(session: &SessionId, window: HistoryWindow, showing: Showing) -> Vec<ReplayItem> {
    let HistoryWindow { head, omitted, tail } = window;
    let gap_at = head.iter().filter_map(|logged| logged.entry).max().map_or(0, |last| last.0 + 1);
    let mut items = Vec::new();
    part(session, head, showing, &mut items);
    if omitted > 0 {
        let entry = EntryNumber(gap_at);
        items.push(ReplayItem { session: session.clone(), entry, what: Replayed::Gap { omitted } });
    }
    part(session, tail, showing, &mut items);
    items
}

/// A call's result.
struct Ended {
    title: String,
    kind: ToolKind,
    status: ToolStatus,
    output: String,
    locations: Vec<milk_core::tool::Location>,
    changes: Vec<FileChange>,
}

fn part(session: &SessionId, logged: Vec<Logged>, showing: Showing, items: &mut Vec<ReplayItem>) {
    let mut results: HashMap<ToolCallId, Ended> = HashMap::new();
    let mut shown = Vec::new();
    for Logged { entry, record, .. } in logged {
        if record.turn() == showing.running && showing.running.is_some() {
            continue;
        }
        match record {
            Record::ToolEnded { call, title, kind, status, output, locations, changes, .. } => {
                results.insert(call, Ended { title, kind, status, output, locations, changes });
            }
            record => shown.extend(entry.map(|entry| (entry, record))),
        }
    }
    for (entry, record) in shown {
        let mut push = |what: Replayed| items.push(ReplayItem { session: session.clone(), entry, what });
        match record {
            Record::TurnStarted { message, content, .. } => {
                push(Replayed::User {
                    id: message,
                    content: content.into_iter().map(bounded_block).collect(),
                });
            }
            Record::ModelSaid { message, thought, said, .. } => {
                let AssistantMessage { text, thinking, tool_calls, .. } = said;
                if let (Thoughts::Shown, Some(thinking), Some(id)) = (showing.thoughts, thinking, thought)
                    && !thinking.is_empty()
                {
                    push(Replayed::Thought { id, text: bounded(&thinking) });
                }
                if !text.is_empty() {
                    push(Replayed::AgentText { id: message, text: bounded(&text) });
                }
                for (ordinal, call) in tool_calls.into_iter().enumerate() {
                    let result = results.remove(&call.id);
                    push(tool_call(ordinal, call, result));
                }
            }
            _ => {}
        }
    }
}

fn tool_call(ordinal: usize, call: ToolCall, result: Option<Ended>) -> Replayed {
    let ToolCall { id, name, arguments } = call;
    let input = match arguments {
        ToolArguments::Object(arguments) => Value::Object(arguments),
        ToolArguments::Unparsable(raw) => Value::String(raw),
    };
    let input = bounded_value(input);
    let Some(Ended { title, kind, status, output, locations, changes }) = result else {
        let row = ToolCallRow {
            id,
            title: name.clone(),
            name,
            kind: ToolKind::Other,
            status: RowStatus::Ended(ToolStatus::Failed), // milk was stopped while it ran
            input,
            locations: Vec::new(),
            changes: Vec::new(),
        };
        return Replayed::ToolCall { ordinal, row, output: None };
    };
    let status = RowStatus::Ended(status);
    let changes = if changes_bytes(&changes) <= TEXT * 2 { changes } else { Vec::new() };
    let row = ToolCallRow { id, name, title, kind, status, input, locations, changes };
    Replayed::ToolCall { ordinal, row, output: Some(bounded(&output)) }
}

fn changes_bytes(changes: &[FileChange]) -> usize {
    let text = |text: &Option<std::sync::Arc<str>>| text.as_ref().map_or(0, |text| text.len());
    changes.iter().map(|change| text(&change.old_text) + text(&change.new_text)).sum()
}

fn bounded_block(block: ContentBlock) -> ContentBlock {
    match block {
        ContentBlock::Text { text } => ContentBlock::text(bounded(&text)),
        ContentBlock::EmbeddedText { uri, mime, text } => {
            ContentBlock::EmbeddedText { uri, mime, text: bounded(&text).into() }
        }
        ContentBlock::EmbeddedBlob { uri, data, mime } if data.len() > TEXT => {
            ContentBlock::Link { name: uri.clone(), uri, mime }
        }
        ContentBlock::Image { mime, data } if data.len() > PICTURE => {
            ContentBlock::text(format!("[{mime}, {} KiB, is not shown again]", data.len() / 4 * 3 / 1024))
        }
        other => other,
    }
}

fn bounded_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(bounded(&text)),
        Value::Array(values) => Value::Array(values.into_iter().map(bounded_value).collect()),
        Value::Object(object) => {
            Value::Object(object.into_iter().map(|(key, value)| (key, bounded_value(value))).collect())
        }
        plain => plain,
    }
}

/// Head and tail of a long text: two thirds from its beginning, one from its end.
fn bounded(text: &str) -> String {
    if text.len() <= TEXT {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(TEXT / 3 * 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - TEXT / 3)..];
    let omitted = text[head.len()..text.len() - tail.len()].chars().count();
    format!("{head}\n\n[... {omitted} chars omitted ...]\n\n{tail}")
}
