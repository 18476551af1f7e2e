//! What goes to a model and what comes back, in no provider's dialect.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;
use crate::id::{AgentName, ToolCallId};
use crate::tool::ToolSpec;

/// Who a model is, for routing, titles and errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The configured agent that this model answers for.
    pub agent: AgentName,
    /// The provider's name, as the user knows it (`ollama`, `openrouter`, `demo`).
    pub provider: String,
    /// The model's own name.
    pub model: String,
    /// Size of the context window in tokens, where known.
    pub context_window: Option<u64>,
    /// Whether pictures may be sent.
    pub vision: Vision,
}

/// Whether a model can see pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vision {
    /// Pictures reach the model.
    Sees,
    /// Pictures are left out and the user is told.
    Blind,
}

/// One request to a model: the whole conversation as that model should see it.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The one system message.
    pub system: Arc<str>,
    /// The conversation: roles alternate, and each tool call is followed by its result.
    pub messages: Vec<ChatMessage>,
    /// The tools on offer; empty when the model must answer in text.
    pub tools: Arc<[ToolSpec]>,
}

/// One message of a [`ModelRequest`].
#[derive(Debug, Clone, PartialEq)]
pub enum ChatMessage {
    /// From the user (or milk speaking for the user).
    User(Vec<UserPart>),
    /// From the model.
    Assistant(AssistantMessage),
    /// What a tool gave back.
    ToolResult {
        /// The call that it answers.
        call: ToolCallId,
        /// What the model reads.
        output: String,
    },
}

/// A piece of a user message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserPart {
    /// Text.
    Text(String),
    /// A picture, only for models that see.
    Image {
        /// Media type.
        mime: String,
        /// Base64 text.
        data: Arc<str>,
    },
}

/// What a model said in one response.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The visible text; empty when it only called tools.
    pub text: String,
    /// Its reasoning, if it gave any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The calls that it made, with ids unique in the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Whatever the provider's dialect needs back on the next request (reasoning fields, signatures, item ids).
    /// Only the module that wrote it reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_notes: Option<Value>,
}

/// A tool call as it stands in history and in requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique in the session; the provider's id where that was usable.
    pub id: ToolCallId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments.
    pub arguments: ToolArguments,
}

/// Arguments of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolArguments {
    /// A JSON object.
    Object(JsonObject),
    /// Text that did not parse as an object: never run, reported back to the model.
    Unparsable(String),
}

/// A tool call as the model's stream delivered it; ids may be missing or repeated.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamedCall {
    /// The provider's id, if it gave one.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The whole arguments.
    pub arguments: ToolArguments,
}

/// What a model's stream yields. A stream ends after [`ModelEvent::Finished`] or after an error.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// The next piece of visible text. Never empty.
    Text(String),
    /// The next piece of reasoning. Never empty.
    Thought(String),
    /// A whole tool call.
    ToolCall(StreamedCall),
    /// A failed attempt will be repeated; nothing has been shown so far.
    Retrying(Retry),
    /// Token counts, as the server gave them.
    Usage(Usage),
    /// The response is complete.
    Finished(Finish),
}

/// An attempt that failed and will be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Which attempt comes next, counted from 2.
    pub attempt: u32,
    /// How many attempts there will be at most.
    pub limit: u32,
    /// The wait before it.
    pub wait: Duration,
    /// What failed, in one line without secrets.
    pub cause: String,
}

/// How a response ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// Why the model stopped.
    pub reason: FinishReason,
    /// See [`AssistantMessage::provider_notes`].
    pub provider_notes: Option<Value>,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// It was done, or it wants its tools run.
    Complete,
    /// It ran into its output limit.
    Length,
    /// It, or a filter, refused.
    Refusal,
}

/// Token counts of one response, as the server reported them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub input: u64,
    /// Of these, read from the provider's cache.
    pub cached: u64,
    /// Tokens of the response.
    pub output: u64,
}

/// Why a model could not answer. The kind is what the caller decides on; the rest is for the person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{provider}: {details}")]
pub struct ModelError {
    /// What went wrong.
    pub kind: ModelErrorKind,
    /// The provider's name.
    pub provider: String,
    /// HTTP status, if the server answered.
    pub status: Option<u16>,
    /// One line: what happened and what to do. Holds no secret and no HTML.
    pub details: String,
}

/// Kinds of model failure. The doc of each says what a caller should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// Nothing answers at the address. A retry helps once the server runs.
    Unreachable,
    /// The server was silent for longer than its limit. A retry may help.
    TimedOut,
    /// Too many requests; milk's own retries are used up. A retry later helps.
    RateLimited,
    /// The server failed (5xx, an error in the stream). A retry may help.
    ServerFailed,
    /// The stream broke off before the response was complete. A retry may help.
    BrokenStream,
    /// The credential is missing or refused. A retry does not help.
    Unauthorized,
    /// The address or the model does not exist. A retry does not help.
    NotFound,
    /// The request does not fit into the model's context. It must be made smaller.
    ContextTooLong,
    /// The server refused the request for another reason. A retry does not help.
    BadRequest,
    /// The agent's configuration cannot work. A retry does not help.
    Misconfigured,
}

impl ModelErrorKind {
    /// Whether sending the same prompt again may succeed (R17).
    pub fn retry_can_help(self) -> bool {
        matches!(
            self,
            Self::Unreachable | Self::TimedOut | Self::RateLimited | Self::ServerFailed | Self::BrokenStream
        )
    }

    /// The machine-readable name that clients see in an error's `data.kind` (R17).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "model_unreachable",
            Self::TimedOut => "model_timed_out",
            Self::RateLimited => "rate_limited",
            Self::ServerFailed => "model_server_failed",
            Self::BrokenStream => "model_stream_broken",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "model_not_found",
            Self::ContextTooLong => "context_too_long",
            Self::BadRequest => "model_refused_request",
            Self::Misconfigured => "misconfigured",
        }
    }
}
