//! What an agent does, as this client tells it.

use super::permission::{Permission, PermissionId};
use crate::CallError;

/// One event of one session.
#[derive(Debug)]
pub struct Event {
    /// The session; empty if the agent named none.
    pub session: String,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug)]
pub enum EventKind {
    /// The next piece of what the agent says.
    Text {
        /// Which message it belongs to, if the agent says so.
        message: Option<String>,
        /// The piece.
        text: String,
    },
    /// The next piece of what it thinks.
    Thought {
        /// Which thought it belongs to, if the agent says so.
        message: Option<String>,
        /// The piece.
        text: String,
    },
    /// A message of the user's: the echo of a prompt, or one of a history that is shown again.
    User {
        /// Its text.
        text: String,
    },
    /// A tool call appears or changes.
    Tool(ToolUpdate),
    /// The agent asks. A question that is dropped is dismissed.
    Permission(Permission),
    /// The agent no longer wants an answer.
    PermissionWithdrawn(PermissionId),
    /// What the agent is doing (v2).
    State(AgentState),
    /// The prompt is answered: the last thing about it.
    TurnEnded(Result<StopReason, TurnFailure>),
}

/// What changed about a tool call. What is `None` stays as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolUpdate {
    /// Which call.
    pub id: String,
    /// The tool's name.
    pub name: Option<String>,
    /// What a person reads.
    pub title: Option<String>,
    /// The tool's family: `read`, `edit`, `execute`, …
    pub kind: Option<String>,
    /// Where it stands.
    pub status: Option<ToolStatus>,
    /// Everything that it has printed or given so far.
    pub output: Option<String>,
    /// What it has printed since the last update.
    pub appended: Option<String>,
    /// What it changes, as a patch.
    pub patch: Option<String>,
}

/// Where a tool call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolStatus {
    /// It waits.
    Pending,
    /// It runs.
    Running,
    /// It did what it was asked.
    Completed,
    /// It did not.
    Failed,
    /// It was stopped.
    Cancelled,
}

/// What an agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentState {
    /// It works.
    Running,
    /// It waits for a person.
    RequiresAction,
    /// It is done.
    Idle,
}

/// Why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The agent was done.
    EndTurn,
    /// It was cancelled.
    Cancelled,
    /// Another reason, in the agent's word; empty if it gave none.
    Other(String),
}

/// Why a turn came to nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TurnFailure {
    /// The agent said so.
    #[error("{}", crate::visible::line(.0.details()))]
    Failed(CallError),
    /// The agent is gone.
    #[error("the agent is gone")]
    Gone,
}
