//! What a session's log keeps: one record a line, appended, never rewritten. The engine's history is a fold of these.

use serde::{Deserialize, Serialize};

use crate::content::ContentBlock;
use crate::event::{Route, StopReason};
use crate::failure::Failure;
use crate::id::{AgentName, MessageId, ToolCallId, TurnId};
use crate::model::{AssistantMessage, Usage};
use crate::tool::{FileChange, Location, ToolKind, ToolStatus};

/// A record with what the log adds to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// When it was appended, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Its place in the history, where it is a part of it.
    pub entry: Option<EntryNumber>,
    /// The record.
    pub record: Record,
}

/// A place in a session's history, counted from 0 over its whole life: each prompt, each response of the model and each
/// tool result has one (contract: Message identity). Slash commands and notices have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryNumber(pub u64);

/// One record of a session's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// A turn begins.
    TurnStarted {
        /// Which.
        turn: TurnId,
        /// What began it.
        origin: TurnOrigin,
        /// The user message's id on the wire.
        message: MessageId,
        /// What the user sent.
        content: Vec<ContentBlock>,
        /// What the turn does.
        work: TurnWork,
    },
    /// Who answers from here on. A turn may be routed again on the way.
    Routed {
        /// Which turn.
        turn: TurnId,
        /// Who, and why.
        route: Route,
    },
    /// The model's response, whole or as far as it came.
    ModelSaid {
        /// In which turn.
        turn: TurnId,
        /// The agent message's id on the wire.
        message: MessageId,
        /// The thought's id on the wire, if there was one.
        thought: Option<MessageId>,
        /// What it said.
        said: AssistantMessage,
        /// Token counts, if the server gave them.
        usage: Option<Usage>,
        /// Who said it.
        by: Speaker,
    },
    /// A tool call ended (or was stopped).
    ToolEnded {
        /// In which turn.
        turn: TurnId,
        /// Which call.
        call: ToolCallId,
        /// What the person saw as its title.
        title: String,
        /// Its family.
        kind: ToolKind,
        /// How it ended.
        status: ToolStatus,
        /// What it gave, as the model reads it.
        output: String,
        /// Places it touched.
        locations: Vec<Location>,
        /// What it changed.
        changes: Vec<FileChange>,
    },
    /// milk said something to the user itself: a notice, the output of a slash command.
    Noted {
        /// In which turn; `None` outside turns.
        turn: Option<TurnId>,
        /// Its id on the wire.
        message: MessageId,
        /// The text.
        text: String,
    },
    /// A turn ended.
    TurnEnded {
        /// Which.
        turn: TurnId,
        /// Why.
        stop: StopReason,
        /// What failed.
        failure: Option<Failure>,
    },
}

impl Record {
    /// The turn that it belongs to.
    pub fn turn(&self) -> Option<TurnId> {
        match self {
            Self::TurnStarted { turn, .. }
            | Self::Routed { turn, .. }
            | Self::ModelSaid { turn, .. }
            | Self::ToolEnded { turn, .. }
            | Self::TurnEnded { turn, .. } => Some(*turn),
            Self::Noted { turn, .. } => *turn,
        }
    }

    /// Whether it has a place in the history.
    pub fn is_entry(&self) -> bool {
        match self {
            Self::TurnStarted { work, .. } => *work == TurnWork::Prompt,
            Self::ModelSaid { .. } | Self::ToolEnded { .. } => true,
            Self::Routed { .. } | Self::Noted { .. } | Self::TurnEnded { .. } => false,
        }
    }
}

/// Who gave a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaker {
    /// The agent's name.
    pub agent: AgentName,
    /// Its provider.
    pub provider: String,
    /// Its model.
    pub model: String,
}

/// What a turn does with its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnWork {
    /// A model answers it.
    Prompt,
    /// milk runs it as a slash command; no model sees it.
    Command,
}

/// What began a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOrigin {
    /// A prompt from a client.
    Client,
    /// milk itself, following up on background work.
    FollowUp,
    /// A message from the remote side.
    Remote,
}
