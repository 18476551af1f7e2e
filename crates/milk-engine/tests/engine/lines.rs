//! One short line for everything that happened, so that a test's expectation reads like the screen.

use milk_core::content::plain_text;
use milk_core::event::{
    Event, EventKind, PromptOutcome, ReplayItem, Replayed, RowChange, RowStatus, State, StopReason,
};
use milk_core::failure::Failure;
use milk_core::model::{ChatMessage, ModelRequest, ToolArguments, UserPart};
use milk_core::record::Record;
use milk_core::tool::ToolStatus;

use crate::fakes::journal::{Seen, ToolNote};

/// The line of one event.
pub(crate) fn event(event: &Event) -> String {
    match &event.kind {
        EventKind::UserMessage { content, .. } => format!("user: {}", plain_text(content)),
        EventKind::State(State::Running) => "running".to_owned(),
        EventKind::State(State::RequiresAction) => "requires_action".to_owned(),
        EventKind::State(State::Idle { stop, failure, .. }) => {
            format!("idle: {}", ending(*stop, failure.as_ref()))
        }
        EventKind::AgentText { text, .. } => format!("text: {text}"),
        EventKind::AgentThought { text, .. } => format!("thought: {text}"),
        EventKind::Notice { text, .. } => format!("notice: {text}"),
        EventKind::Replayed(item) => replayed(item),
        EventKind::ToolCallStarted(row) => format!("row {}: {} {}", row.id, row.title, status(row.status)),
        EventKind::ToolCallChanged { id, change: RowChange::Running } => format!("row {id}: runs"),
        EventKind::ToolCallChanged { id, change: RowChange::Ended { status, output, .. } } => {
            format!("row {id}: {}: {output}", ended(*status))
        }
        EventKind::ToolOutput { id, text } => format!("output {id}: {text}"),
        EventKind::Asked { question, .. } => {
            let options: Vec<&str> = question.options.iter().map(|option| option.id.as_str()).collect();
            format!("asked: {} {} [{}]", question.title, question.summary, options.join(" "))
        }
        EventKind::AskWithdrawn(_) => "withdrawn".to_owned(),
        EventKind::Routed(route) => format!("routed: {}", route.agent),
        EventKind::UsageChanged(usage) => format!("usage: {}+{}", usage.usage.input, usage.usage.output),
        EventKind::PromptEnded(PromptOutcome::Ended { stop, failure, .. }) => {
            format!("ended: {}", ending(*stop, failure.as_ref()))
        }
        EventKind::PromptEnded(PromptOutcome::NeverRan) => "never ran".to_owned(),
        EventKind::PromptEnded(PromptOutcome::Rejected(failure)) => format!("rejected: {}", failure.kind),
    }
}

fn replayed(item: &ReplayItem) -> String {
    let what = match &item.what {
        Replayed::Announced { text, .. } => return format!("announced: {text}"),
        Replayed::User { content, .. } => format!("user: {}", plain_text(content)),
        Replayed::Thought { text, .. } => format!("thought: {text}"),
        Replayed::AgentText { text, .. } => format!("text: {text}"),
        Replayed::ToolCall { ordinal, row, output } => {
            let output = output.as_deref().unwrap_or("(none)");
            format!("call {ordinal}: {} {}: {output}", row.title, status(row.status))
        }
        Replayed::Gap { omitted } => format!("gap: {omitted}"),
    };
    format!("was {}: {what}", item.entry.0)
}

/// The line of anything that happened.
pub(crate) fn seen(seen: &Seen) -> String {
    match seen {
        Seen::Event(shown) => event(shown),
        Seen::Record(_, kept) => format!("  log {}", record(kept)),
        Seen::Deleted(session) => format!("  session {session} is deleted"),
        Seen::QuestionTaken(_) => "  the question is taken".to_owned(),
        Seen::LogFailed => "  log fails".to_owned(),
        Seen::Tool { label, what, .. } => {
            let what = match what {
                ToolNote::Prepared => "is prepared",
                ToolNote::Starts => "starts",
                ToolNote::Ends => "ends",
                ToolNote::Dropped => "is dropped",
            };
            format!("  tool {label} {what}")
        }
    }
}

fn record(record: &Record) -> String {
    match record {
        Record::TurnStarted { turn, content, .. } => {
            format!("turn {} starts: {}", turn.0, plain_text(content))
        }
        Record::Routed { route, .. } => format!("routed: {}", route.agent),
        Record::ModelSaid { said, .. } => {
            let calls: Vec<&str> = said.tool_calls.iter().map(|call| call.id.as_str()).collect();
            format!("said: {:?} [{}]", said.text, calls.join(" "))
        }
        Record::ToolEnded { call, status, .. } => format!("{call} {}", ended(*status)),
        Record::Noted { text, .. } => format!("noted: {text}"),
        Record::TurnEnded { turn, stop, failure, .. } => {
            format!("turn {} ends: {}", turn.0, ending(*stop, failure.as_ref()))
        }
    }
}

/// The lines of a request's messages.
pub(crate) fn chat(request: &ModelRequest) -> Vec<String> {
    request.messages.iter().map(message).collect()
}

fn message(message: &ChatMessage) -> String {
    match message {
        ChatMessage::User(parts) => {
            let parts: Vec<&str> = parts
                .iter()
                .map(|part| match part {
                    UserPart::Text(text) => text.as_str(),
                    UserPart::Image { mime, .. } => mime.as_str(),
                })
                .collect();
            format!("user: {}", parts.join(" | "))
        }
        ChatMessage::Assistant(said) => {
            let calls = said.tool_calls.iter().map(|call| match &call.arguments {
                ToolArguments::Object(object) => {
                    format!(" [{} {} {}]", call.id, call.name, serde_json::to_string(object).unwrap())
                }
                ToolArguments::Unparsable(raw) => format!(" [{} {} unparsable {raw}]", call.id, call.name),
            });
            format!("assistant: {}{}", said.text, calls.collect::<String>())
        }
        ChatMessage::ToolResult { call, output } => format!("result {call}: {output}"),
    }
}

fn status(status: RowStatus) -> &'static str {
    match status {
        RowStatus::Pending => "pending",
        RowStatus::InProgress => "in_progress",
        RowStatus::Ended(status) => ended(status),
    }
}

fn ended(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Completed => "completed",
        ToolStatus::Failed => "failed",
        ToolStatus::Cancelled => "cancelled",
    }
}

fn ending(stop: StopReason, failure: Option<&Failure>) -> String {
    let stop = match stop {
        StopReason::EndTurn => "end_turn",
        StopReason::Cancelled => "cancelled",
        StopReason::MaxTokens => "max_tokens",
        StopReason::MaxTurnRequests => "max_turn_requests",
        StopReason::Refusal => "refusal",
        StopReason::Error => "error",
    };
    failure.map_or_else(|| stop.to_owned(), |failure| format!("{stop} {}", failure.kind))
}

/// Compares lines; an expected line that ends with `…` stands for every line that begins like it.
#[track_caller]
pub(crate) fn assert_lines(actual: &[String], expected: &[&str]) {
    let expected: Vec<String> = expected
        .iter()
        .enumerate()
        .map(|(index, line)| match (line.strip_suffix('…'), actual.get(index)) {
            (Some(beginning), Some(actual)) if actual.starts_with(beginning) => actual.clone(),
            _ => (*line).to_owned(),
        })
        .collect();
    pretty_assertions::assert_eq!(actual, &expected[..]);
}
