//! What a conversation runs with: made by the composition from the configuration each time that a session opens.

use std::sync::Arc;
use std::time::Duration;

use crate::ports::{AgentSource, Tool};

/// Everything that a conversation is given when it opens.
#[derive(Debug, Clone)]
pub struct Provision {
    /// Who answers.
    pub agents: Agents,
    /// The tools on offer, in the order that the model sees them.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The policy of this conversation.
    pub settings: Settings,
    /// The project's own instructions for agents, if there are any.
    pub instructions: Option<String>,
    /// One-line notices to tell the user once, in the first turn.
    pub announcements: Vec<String>,
}

/// The agents of a conversation, by role.
#[derive(Debug, Clone)]
pub struct Agents {
    /// Answers most turns.
    pub primary: Arc<dyn AgentSource>,
    /// Answers when needed, where one is configured.
    pub escalation: Option<Arc<dyn AgentSource>>,
}

/// The policy of a conversation.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Model calls in one turn; `None` is no limit.
    pub max_model_calls: Option<u32>,
    /// Longest run of one tool; `None` is no limit.
    pub tool_time_limit: Option<Duration>,
    /// Longest run of one turn; `None` is no limit.
    pub turn_time_limit: Option<Duration>,
    /// Longest tool result that a model is sent, in bytes.
    pub tool_result_limit: usize,
    /// Whether the user has switched all questions off.
    pub permissions: PermissionMode,
    /// Shell commands that run unasked (R29).
    pub allowed_commands: Vec<String>,
    /// Whether reasoning is shown.
    pub thoughts: Thoughts,
    /// Whether a new conversation goes on with the directory's newest session (contract: Resume-by-default).
    pub resume: ResumeByDefault,
    /// Whether text leaves as it comes or a segment at a time (R9).
    pub delivery: TextDelivery,
}

/// Whether side effects need a yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionMode {
    /// They do.
    Ask,
    /// The user has switched the questions off.
    SkipAll,
}

/// Whether a new conversation goes on with the directory's newest session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeByDefault {
    /// It does, where nothing speaks against it.
    Adopt,
    /// It begins empty.
    Fresh,
}

/// Whether reasoning reaches the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thoughts {
    /// It does.
    Shown,
    /// It does not.
    Hidden,
}

/// How an agent's text leaves (R9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextDelivery {
    /// As the model produces it.
    Streamed,
    /// One piece for each response of the model.
    Whole,
}
