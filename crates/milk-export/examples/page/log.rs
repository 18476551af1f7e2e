//! Writing a log by hand, briefly.

use std::path::PathBuf;

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::failure::Failure;
use milk_core::id::{MessageId, ToolCallId, TurnId};
use milk_core::model::{AssistantMessage, ToolArguments, ToolCall, Usage};
use milk_core::record::{Logged, Record, Speaker, TurnOrigin, TurnWork};
use milk_core::tool::{FileAction, FileChange, ToolKind, ToolStatus};
use serde_json::Value;

/// When the made-up sessions begin.
pub(crate) const BEGIN_MS: u64 = 1_772_611_200_000;

/// A log that grows.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) records: Vec<Logged>,
    turn: u64,
    now_ms: u64,
    calls: u64,
}

/// A call and what came of it.
pub(crate) struct Did {
    pub(crate) name: &'static str,
    pub(crate) arguments: Value,
    pub(crate) title: String,
    pub(crate) kind: ToolKind,
    pub(crate) status: ToolStatus,
    pub(crate) output: String,
    pub(crate) changes: Vec<FileChange>,
}

impl Log {
    fn add(&mut self, after_ms: u64, record: Record) {
        self.now_ms += after_ms;
        self.records.push(Logged { at_ms: BEGIN_MS + self.now_ms, entry: None, record });
    }

    fn message(&self) -> MessageId {
        MessageId::new(format!("m-{}", self.records.len()))
    }

    pub(crate) fn begin(&mut self, content: Vec<ContentBlock>) {
        self.turn += 1;
        let (turn, message) = (TurnId(self.turn), self.message());
        let work = TurnWork::Prompt;
        self.add(60_000, Record::TurnStarted { turn, origin: TurnOrigin::Client, message, content, work });
    }

    pub(crate) fn say(
        &mut self,
        thinking: Option<&str>,
        text: &str,
        usage: impl Into<Option<Usage>>,
        did: Vec<Did>,
    ) {
        let turn = TurnId(self.turn);
        let first = self.calls;
        self.calls += did.len() as u64;
        let id = |place: usize| ToolCallId::new(format!("call-{}", first + place as u64));
        let tool_calls = did.iter().enumerate().map(|(place, did)| ToolCall {
            id: id(place),
            name: did.name.to_owned(),
            arguments: match &did.arguments {
                Value::Object(fields) => ToolArguments::Object(fields.clone()),
                other => ToolArguments::Unparsable(other.as_str().unwrap_or_default().to_owned()),
            },
        });
        let said = AssistantMessage {
            text: text.to_owned(),
            thinking: thinking.map(str::to_owned),
            tool_calls: tool_calls.collect(),
            provider_notes: None,
        };
        let by =
            Speaker { agent: "primary".into(), provider: "ollama".into(), model: "qwen3-coder:30b".into() };
        let message = self.message();
        self.add(4_300, Record::ModelSaid { turn, message, thought: None, said, usage: usage.into(), by });
        for (place, did) in did.into_iter().enumerate() {
            let Did { title, kind, status, output, changes, .. } = did;
            let (call, locations) = (id(place), Vec::new());
            self.add(900, Record::ToolEnded { turn, call, title, kind, status, output, locations, changes });
        }
    }

    pub(crate) fn end(&mut self, stop: StopReason, failure: Option<Failure>) {
        self.add(100, Record::TurnEnded { turn: TurnId(self.turn), stop, failure });
    }
}

pub(crate) fn usage(input: u64, cached: u64, output: u64) -> Usage {
    Usage { input, cached, output }
}

pub(crate) fn modified(path: &str, old: &str, new: &str) -> FileChange {
    FileChange {
        action: FileAction::Modify,
        path: PathBuf::from(path),
        old_text: Some(old.into()),
        new_text: Some(new.into()),
    }
}
