//! A session as JSON, with everything that its log holds; [`Documents`](crate::Documents) has the shape.

use std::fmt::Write as _;

use milk_core::content::ContentBlock;
use milk_core::event::Route;
use milk_core::failure::Failure;
use milk_core::id::ToolCallId;
use milk_core::model::{ToolArguments, Usage};
use milk_core::ports::Transcript;
use milk_core::record::Logged;
use milk_core::session::SessionSummary;
use milk_core::tool::{FileAction, FileChange, Location};
use serde::Serialize;
use serde_json::{Value, json};

use crate::fold::{Call, CallResult, Fold, Note, Part, Step, Turn};
use crate::harmless;
use crate::moment;
use crate::redact::Redactor;

/// Changes when a key changes its meaning or goes away; new keys do not count.
const FORMAT: u32 = 1;

/// The document in the making: the turns so far, written out.
pub(crate) struct JsonDocument {
    redact: Redactor,
    session: Value,
    fold: Fold,
    turns: String,
    notes: String,
    newest_turn: Option<u64>,
}

impl JsonDocument {
    pub(crate) fn new(redact: Redactor, session: &SessionSummary) -> Self {
        let session = json!({
            "id": session.id,
            "name": session.name,
            "title": session.title(),
            "cwd": session.cwd.to_string_lossy(),
            "created_at": moment::rfc3339(session.created_ms),
            "last_used_at": moment::rfc3339(session.last_used_ms),
        });
        Self {
            session: redact.value(&session),
            redact,
            fold: Fold::default(),
            turns: String::new(),
            notes: String::new(),
            newest_turn: None,
        }
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Turn(turn) => {
                self.newest_turn = Some(turn.id.0);
                append(&mut self.turns, &self.redact.value(&turn_value(turn)));
            }
            Part::Note(note) => {
                let mut value = note_value(note);
                value["after_turn"] = json!(self.newest_turn);
                append(&mut self.notes, &self.redact.value(&value));
            }
        }
    }
}

impl Transcript for JsonDocument {
    fn push(&mut self, logged: Logged) {
        for part in self.fold.push(logged) {
            self.part(&part);
        }
    }

    fn finish(mut self: Box<Self>) -> String {
        for part in std::mem::take(&mut self.fold).finish() {
            self.part(&part);
        }
        let mut head = format!("{{\n  \"format\": {FORMAT},\n  \"session\": ");
        indented(&mut head, &self.session, 1);
        head.push_str(",\n  \"turns\": [");
        // In place, as a second copy of a long session would weigh as much again.
        let mut out = self.turns;
        out.push_str(closing(&out));
        out.insert_str(0, &head);
        out.push_str(",\n  \"notes\": [");
        out.push_str(&self.notes);
        out.push_str(closing(&self.notes));
        out.push_str("\n}\n");
        out
    }
}

/// One more element of a list that is written two levels deep.
fn append(list: &mut String, value: &Value) {
    list.push_str(if list.is_empty() { "\n    " } else { ",\n    " });
    indented(list, value, 2);
}

/// What ends a list of these elements.
fn closing(elements: &str) -> &'static str {
    if elements.is_empty() { "]" } else { "\n  ]" }
}

/// Pretty-printed below some levels. A string in JSON holds no raw line feed, so lines can be moved as they are; and only
/// strings hold what would repaint a terminal, so that can be written as escapes.
fn indented(out: &mut String, value: &Value, levels: usize) {
    for c in format!("{value:#}").chars() {
        match c {
            '\n' => {
                out.push('\n');
                out.extend(std::iter::repeat_n("  ", levels));
            }
            c if harmless::stand_in(c).is_some() => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
}

fn turn_value(turn: &Turn) -> Value {
    let start = turn.start.as_ref();
    json!({
        "number": turn.id,
        "origin": start.map(|start| start.origin),
        "work": start.map(|start| start.work),
        "message_id": start.map(|start| &start.message),
        "entry": start.and_then(|start| start.entry),
        "started_at": start.and_then(|start| moment::rfc3339(start.at_ms)),
        "ended_at": turn.end.as_ref().and_then(|end| moment::rfc3339(end.at_ms)),
        "content": start.map_or_else(Vec::new, |start| start.content.iter().map(block_value).collect()),
        "routes": turn.routes.iter().map(route_value).collect::<Vec<_>>(),
        "steps": turn.steps.iter().map(step_value).collect::<Vec<_>>(),
        "unmatched_results": turn.unmatched.iter().map(unmatched_value).collect::<Vec<_>>(),
        "notes": turn.notes.iter().map(note_value).collect::<Vec<_>>(),
        "usage": usage_value(turn.usage()),
        "stop": turn.end.as_ref().map(|end| end.stop),
        "failure": turn.end.as_ref().and_then(|end| end.failure.as_ref()).map(failure_value),
    })
}

/// As the log writes it: `type` and what that type has.
fn block_value(block: &ContentBlock) -> Value {
    plain(block)
}

fn route_value((at_ms, route): &(u64, Route)) -> Value {
    json!({
        "at": moment::rfc3339(*at_ms),
        "agent": route.agent,
        "target": route.target,
        "reason": route.reason,
    })
}

fn step_value(step: &Step) -> Value {
    json!({
        "at": moment::rfc3339(step.at_ms),
        "entry": step.entry,
        "message_id": step.message,
        "thought_id": step.thought,
        "agent": step.by.agent,
        "provider": step.by.provider,
        "model": step.by.model,
        "text": step.said.text,
        "thinking": step.said.thinking,
        "usage": usage_value(step.usage),
        "provider_notes": step.said.provider_notes,
        "tool_calls": step.calls.iter().map(call_value).collect::<Vec<_>>(),
    })
}

fn call_value(call: &Call) -> Value {
    let (object, text) = match &call.made.arguments {
        ToolArguments::Object(fields) => (Some(fields), None),
        ToolArguments::Unparsable(text) => (None, Some(text)),
    };
    json!({
        "id": call.made.id,
        "name": call.made.name,
        "arguments": object,
        "arguments_text": text,
        "result": call.result.as_ref().map(result_value),
    })
}

fn result_value(result: &CallResult) -> Value {
    json!({
        "at": moment::rfc3339(result.at_ms),
        "entry": result.entry,
        "title": result.title,
        "kind": result.kind,
        "status": result.status,
        "output": result.output,
        "locations": result.locations.iter().map(location_value).collect::<Vec<_>>(),
        "changes": result.changes.iter().map(change_value).collect::<Vec<_>>(),
    })
}

fn unmatched_value((call, result): &(ToolCallId, CallResult)) -> Value {
    let mut value = json!({ "id": call });
    if let (Value::Object(fields), Value::Object(rest)) = (&mut value, result_value(result)) {
        fields.extend(rest);
    }
    value
}

fn location_value(location: &Location) -> Value {
    json!({ "path": location.path.to_string_lossy(), "line": location.line })
}

fn change_value(change: &FileChange) -> Value {
    let (action, from) = match &change.action {
        FileAction::Create => ("create", None),
        FileAction::Modify => ("modify", None),
        FileAction::Delete => ("delete", None),
        FileAction::Move { from } => ("move", Some(from.to_string_lossy())),
    };
    json!({
        "action": action,
        "path": change.path.to_string_lossy(),
        "from": from,
        "old_text": change.old_text,
        "new_text": change.new_text,
    })
}

fn note_value(note: &Note) -> Value {
    json!({ "at": moment::rfc3339(note.at_ms), "message_id": note.message, "text": note.text })
}

fn usage_value(usage: Option<Usage>) -> Value {
    plain(&usage)
}

fn failure_value(failure: &Failure) -> Value {
    json!({
        "kind": failure.kind,
        "details": failure.details,
        "retryable": failure.retryable,
        "provider": failure.provider,
        "status": failure.status,
    })
}

/// A value of the core's vocabulary in its own words. These cannot fail to be written; `null` is for the type's sake.
fn plain(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
