//! From the events of a stream to [`ModelEvent`]s: a state machine without any I/O.

use std::collections::VecDeque;
use std::sync::Arc;

use milk_core::model::{Finish, FinishReason, ModelEvent, StreamedCall, Usage};
use milk_core::tool::ToolSpec;
use serde_json::Value;

use super::calls::{Calls, TooManyCalls, are_alike};
use super::chunk::{self, Chunk, Delta};
use super::prose::{self, Piece, Prose};
use super::reasoning::Reasoning;
use crate::failure::ServerError;
use crate::sse;

/// The most that one reply may hold, in bytes of JSON.
const REPLY_LIMIT: usize = 64 << 20;

/// The data of the event that ends a stream.
const DONE: &str = "[DONE]";

/// Why servers stop, as they say it. What is not here is judged by what the reply holds (bug case 098).
const REASONS: &[(&str, FinishReason)] = &[
    ("length", FinishReason::Length),
    ("max_tokens", FinishReason::Length),
    ("model_length", FinishReason::Length),
    ("content_filter", FinishReason::Refusal),
    ("refusal", FinishReason::Refusal),
    ("safety", FinishReason::Refusal),
    ("sensitive", FinishReason::Refusal),
];

/// How far a reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing of the answer has come yet.
    Silent,
    /// More must come.
    Open,
    /// The server has said why it stopped: token counts may follow, but the reply is complete.
    Complete,
    /// The stream is over.
    Over,
}

/// What was wrong with a stream that began well.
#[derive(Debug, PartialEq)]
pub(crate) enum StreamFault {
    /// The server said so itself.
    Reported(Box<ServerError>),
    /// It cannot be understood, or it broke off.
    Broken(String),
}

impl StreamFault {
    fn reported(error: ServerError) -> Self {
        Self::Reported(Box::new(error))
    }
}

/// Decodes one reply.
#[derive(Debug)]
pub(crate) struct Decoder {
    tools: Arc<[ToolSpec]>,
    prose: Prose,
    calls: Calls,
    reasoning: Reasoning,
    /// All reasoning, however it came.
    thought: String,
    answer: Answer,
    finish: Option<String>,
    refused: Option<FinishReason>,
    usage: Option<Usage>,
    progress: Progress,
    size: usize,
    ready: VecDeque<ModelEvent>,
}

/// Whether any of the answer has been seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Empty,
    Begun,
}

impl Decoder {
    /// A decoder for the reply to a request that offered these tools.
    pub(crate) fn new(tools: Arc<[ToolSpec]>) -> Self {
        Self {
            prose: Prose::new(Arc::clone(&tools)),
            tools,
            calls: Calls::default(),
            reasoning: Reasoning::default(),
            thought: String::new(),
            answer: Answer::Empty,
            finish: None,
            refused: None,
            usage: None,
            progress: Progress::Silent,
            size: 0,
            ready: VecDeque::new(),
        }
    }

    /// How far the reply has come.
    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    /// The next event that is ready.
    pub(crate) fn next_event(&mut self) -> Option<ModelEvent> {
        self.ready.pop_front()
    }

    /// Takes an event of the stream.
    pub(crate) fn event(&mut self, event: &sse::Event) -> Result<(), StreamFault> {
        if self.progress == Progress::Over {
            return Ok(());
        }
        let data = event.data.trim();
        if event.name == "error" {
            let error = serde_json::from_str(data).map(|value: Value| ServerError::from_value(&value));
            return Err(StreamFault::reported(error.unwrap_or_else(|_| ServerError::from_text(data))));
        }
        match self.piece(data) {
            // Servers that leave the blank line out make one event of several chunks.
            Err(StreamFault::Broken(_)) if data.contains('\n') => {
                data.lines().map(str::trim).try_for_each(|line| self.piece(line))
            }
            result => result,
        }
    }

    /// Takes the body of a server that did not stream.
    pub(crate) fn whole(&mut self, body: &[u8]) -> Result<(), StreamFault> {
        let not_a_reply = || StreamFault::Broken("it is no chat completion".to_owned());
        let chunk = Chunk::read(&String::from_utf8_lossy(body)).map_err(|_| not_a_reply())?;
        let has_answer = chunk.choices.as_ref().is_some_and(|choices| !choices.is_empty());
        self.chunk(chunk)?;
        if !has_answer {
            return Err(not_a_reply());
        }
        self.progress = Progress::Over;
        Ok(())
    }

    fn piece(&mut self, data: &str) -> Result<(), StreamFault> {
        if data == DONE {
            self.progress = Progress::Over;
            return Ok(());
        }
        self.size += data.len();
        if self.size > REPLY_LIMIT {
            return Err(StreamFault::Broken(format!("it is longer than {REPLY_LIMIT} bytes")));
        }
        match Chunk::read(data) {
            Ok(chunk) => self.chunk(chunk),
            // Once the model has said that it is done, a cut piece (`[DON`, half a count of tokens) takes nothing away.
            Err(error) if data.starts_with(['{', '[']) && self.finish.is_none() => {
                Err(StreamFault::Broken(format!("a piece of it is not valid JSON ({error})")))
            }
            // Words in place of data: some servers keep the connection awake with them.
            Err(_) => {
                tracing::debug!(bytes = data.len(), "data that is no JSON is ignored");
                Ok(())
            }
        }
    }

    fn chunk(&mut self, chunk: Chunk) -> Result<(), StreamFault> {
        if let Some(usage) = chunk.usage.as_ref().and_then(chunk::usage) {
            self.usage = Some(usage);
        }
        let choice = chunk.choices.into_iter().flatten().next().unwrap_or_default();
        if let Some(delta) = choice.delta {
            self.delta(delta)?;
        }
        if let Some(error) = chunk.error.or(choice.error) {
            return Err(StreamFault::reported(ServerError::from_value(&error)));
        }
        match choice.finish_reason.as_deref() {
            None | Some("") => Ok(()),
            Some("error") => Err(StreamFault::reported(ServerError::from_text(
                "the server ended its answer with an error",
            ))),
            Some(reason) => {
                self.finish = Some(reason.to_owned());
                self.progress = Progress::Complete;
                Ok(())
            }
        }
    }

    fn delta(&mut self, delta: Delta) -> Result<(), StreamFault> {
        // A chunk that only names the role may come long before the first token.
        if self.progress == Progress::Silent && delta.says_something() {
            self.progress = Progress::Open;
        }
        if let Some(text) =
            self.reasoning.take(delta.reasoning_content, delta.reasoning, delta.reasoning_details)
        {
            self.show(Piece::Thought(text));
        }
        if let Some(text) = delta.content.filter(|text| !text.is_empty()) {
            let pieces = self.prose.push(&text);
            for piece in pieces {
                self.show(piece);
            }
        }
        if let Some(text) = delta.refusal.filter(|text| !text.is_empty()) {
            self.refused = Some(FinishReason::Refusal);
            self.show(Piece::Text(text));
        }
        let legacy = delta
            .function_call
            .map(|function| chunk::CallDelta { function: Some(function), ..Default::default() });
        for call in delta.tool_calls.into_iter().flatten().chain(legacy) {
            self.calls
                .take(call)
                .map_err(|TooManyCalls| StreamFault::Broken("it has too many tool calls".to_owned()))?;
        }
        Ok(())
    }

    fn show(&mut self, piece: Piece) {
        match piece {
            Piece::Text(text) => {
                self.answer = Answer::Begun;
                self.ready.push_back(ModelEvent::Text(text));
            }
            Piece::Thought(text) => {
                self.thought.push_str(&text);
                self.ready.push_back(ModelEvent::Thought(text));
            }
        }
    }

    /// The stream has ended: makes what is left ready, [`ModelEvent::Finished`] last. Tool calls come only now, when
    /// nothing can be missing from them any more.
    pub(crate) fn end(&mut self) -> Result<(), StreamFault> {
        if matches!(self.progress, Progress::Silent | Progress::Open) {
            return Err(StreamFault::Broken("it ended before it was complete".to_owned()));
        }
        self.progress = Progress::Over;
        let prose = std::mem::replace(&mut self.prose, Prose::new(Arc::from([])));
        let (pieces, written) = prose.finish();
        for piece in pieces {
            self.show(piece);
        }
        let calls = self.all_calls(written);
        let provider_notes = std::mem::take(&mut self.reasoning).into_notes().filter(|_| !calls.is_empty());
        self.ready.extend(calls.into_iter().map(ModelEvent::ToolCall));
        self.ready.extend(self.usage.map(ModelEvent::Usage));
        self.ready.push_back(ModelEvent::Finished(Finish { reason: self.reason(), provider_notes }));
        Ok(())
    }

    /// The calls that the server made, and those that the model wrote as text; a call that came both ways counts once.
    fn all_calls(&mut self, written: Vec<StreamedCall>) -> Vec<StreamedCall> {
        let mut calls: Vec<StreamedCall> = std::mem::take(&mut self.calls)
            .finish()
            .into_iter()
            .map(|call| self.without_namespace(call))
            .collect();
        let native = calls.len();
        calls.extend(written);
        let mut at = native;
        while at < calls.len() {
            if calls[..native].iter().any(|call| are_alike(call, &calls[at])) {
                calls.remove(at);
            } else {
                at += 1;
            }
        }
        let says_calls = matches!(self.finish.as_deref(), Some("tool_calls" | "function_call" | "tool_use"));
        if calls.is_empty() && (says_calls || self.answer == Answer::Empty) {
            calls = prose::calls_at_the_end(&self.thought, &self.tools);
        }
        calls
    }

    /// Takes `functions.` off a name that is on offer without it.
    fn without_namespace(&self, call: StreamedCall) -> StreamedCall {
        let is_known = |name: &str| self.tools.iter().any(|tool| tool.name == name);
        match call.name.strip_prefix("functions.") {
            Some(name) if is_known(name) && !is_known(&call.name) => {
                StreamedCall { name: name.to_owned(), ..call }
            }
            _ => call,
        }
    }

    fn reason(&self) -> FinishReason {
        let said = self.finish.as_deref().and_then(|said| REASONS.iter().find(|(known, _)| *known == said));
        self.refused.or(said.map(|(_, reason)| *reason)).unwrap_or(FinishReason::Complete)
    }
}

#[cfg(test)]
mod tests;
