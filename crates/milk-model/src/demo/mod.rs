//! The demo agent: what answers when there is no model at all. Deterministic and offline, it understands a few plain
//! forms (see [`intent`]) and really carries them out with milk's tools, permission questions included.

mod intent;
mod report;

use futures_util::StreamExt as _;
use milk_core::BoxStream;
use milk_core::id::AgentName;
use milk_core::model::{
    ChatMessage, Finish, FinishReason, ModelError, ModelEvent, ModelInfo, ModelRequest, StreamedCall,
    ToolArguments, UserPart, Vision,
};
use milk_core::ports::Model;

use intent::Intent;

/// The demo agent. Agent, provider and model are all named `demo`.
#[derive(Debug)]
pub struct DemoModel {
    info: ModelInfo,
}

impl DemoModel {
    /// The demo agent; it needs nothing.
    pub fn new() -> Self {
        Self {
            info: ModelInfo {
                agent: AgentName::new("demo"),
                provider: "demo".to_owned(),
                model: "demo".to_owned(),
                context_window: None,
                vision: Vision::Blind,
            },
        }
    }
}

impl Default for DemoModel {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for DemoModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        futures_util::stream::iter(answer(&request).into_iter().map(Ok)).boxed()
    }
}

/// What the demo agent says, and the whole answer of one response.
const INTRODUCTION: &str = "\
I am milk's built-in demo agent, not a language model: no model is configured, and none was found running on this \
machine. I understand only a few plain forms, but I carry them out with milk's real tools and real questions:

- `read README.md`
- `list src`
- `find *.rs`
- `search for TODO in src`
- `run git status`
- `write hello to hello.txt`
- `move hello.txt to greeting.txt`
- `delete greeting.txt`

To talk to a real model, any one of these is enough: start a local server (Ollama, llama.cpp or LM Studio), set \
the API key of a provider in the environment, or name a server in `~/.milk/config.json`. `milk doctor` shows what milk \
finds and what is missing.";

fn answer(request: &ModelRequest) -> Vec<ModelEvent> {
    let results = report::newest_results(&request.messages);
    if !results.is_empty() {
        return in_text(&report::report(&results));
    }
    match newest_prompt(&request.messages) {
        Some(intent) if request.tools.iter().any(|tool| tool.name == intent.tool) => calling(intent),
        Some(intent) => in_text(&format!(
            "That needs the tool `{}`, which I am not offered here, so I can only tell you: I am milk's built-in demo \
             agent, not a language model.",
            intent.tool
        )),
        None => in_text(INTRODUCTION),
    }
}

/// The wish in the newest user message. Each text part is looked at by itself: context that rides along is not a wish.
fn newest_prompt(messages: &[ChatMessage]) -> Option<Intent> {
    let parts = messages.iter().rev().find_map(|message| match message {
        ChatMessage::User(parts) => Some(parts),
        ChatMessage::Assistant(_) | ChatMessage::ToolResult { .. } => None,
    })?;
    parts.iter().find_map(|part| match part {
        UserPart::Text(text) => intent::parse(text),
        UserPart::Image { .. } => None,
    })
}

fn calling(intent: Intent) -> Vec<ModelEvent> {
    let mut events = deltas(intent.announcement);
    events.push(ModelEvent::ToolCall(StreamedCall {
        id: None,
        name: intent.tool.to_owned(),
        arguments: ToolArguments::Object(intent.arguments),
    }));
    events.push(finished());
    events
}

fn in_text(text: &str) -> Vec<ModelEvent> {
    let mut events = deltas(text);
    events.push(finished());
    events
}

fn finished() -> ModelEvent {
    ModelEvent::Finished(Finish { reason: FinishReason::Complete, provider_notes: None })
}

/// Cuts a text the way that models stream: a few words at a time.
fn deltas(text: &str) -> Vec<ModelEvent> {
    /// Bytes after which the next word starts a new delta.
    const PIECE: usize = 24;
    let mut pieces: Vec<String> = Vec::new();
    for word in text.split_inclusive([' ', '\n']) {
        match pieces.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push_str(word),
            _ => pieces.push(word.to_owned()),
        }
    }
    pieces.into_iter().map(ModelEvent::Text).collect()
}

#[cfg(test)]
mod tests;
