//! What the engine tells a front end. The order in which events are emitted is the order in which they are shown.

use serde_json::Value;

use crate::ask::{AskOutcome, Question};
use crate::content::ContentBlock;
use crate::failure::Failure;
use crate::id::{AgentName, MessageId, PromptId, QuestionId, SessionId, ToolCallId};
use crate::model::Usage;
use crate::record::EntryNumber;
use crate::tool::{FileChange, Location, ToolKind, ToolStatus};

/// One event of one conversation.
#[derive(Debug)]
pub struct Event {
    /// The prompt whose turn it belongs to; `None` for what happens outside prompts.
    pub prompt: Option<PromptId>,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug)]
pub enum EventKind {
    /// A turn starts with this user message (the accept-echo, R8).
    UserMessage {
        /// Its id; the response to the prompt carries the same.
        id: MessageId,
        /// The blocks.
        content: Vec<ContentBlock>,
    },
    /// The foreground's state changed (R10).
    State(State),
    /// The next piece of an agent message. Pieces of one id are contiguous among that conversation's texts.
    AgentText {
        /// One id for each model response.
        id: MessageId,
        /// Never empty.
        text: String,
    },
    /// The next piece of a thought.
    AgentThought {
        /// One id for each model response.
        id: MessageId,
        /// Never empty.
        text: String,
    },
    /// A one-line notice (R14).
    Notice {
        /// Its own id.
        id: MessageId,
        /// The line.
        text: String,
    },
    /// A piece of the stored history (contract: History replay).
    Replayed(ReplayItem),
    /// A tool call appears.
    ToolCallStarted(ToolCallRow),
    /// A tool call changes.
    ToolCallChanged {
        /// Which.
        id: ToolCallId,
        /// What changed.
        change: RowChange,
    },
    /// A running tool printed something.
    ToolOutput {
        /// Which call.
        id: ToolCallId,
        /// The new piece.
        text: String,
    },
    /// A question to the person. The front end answers through the slot, once; a slot dropped unanswered counts as
    /// [`AskOutcome::Unanswered`].
    Asked {
        /// The question.
        question: Question,
        /// Where the answer goes.
        answer: AnswerSlot,
    },
    /// The question is answered elsewhere or its asker is gone: take it from the screen.
    AskWithdrawn(QuestionId),
    /// The router has decided who answers this turn (contract: Routing and warnings).
    Routed(Route),
    /// Token counts of the latest response, and how full the context is.
    UsageChanged(ContextUsage),
    /// A prompt is answered: the last thing about it (R6).
    PromptEnded(PromptOutcome),
}

/// A piece of the stored history, as it is shown again.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayItem {
    /// Whose history it is.
    pub session: SessionId,
    /// Which entry it comes from; [`Replayed::Gap`] has that of the first entry that is left out.
    pub entry: EntryNumber,
    /// What it shows. Texts are cut to a bearable length.
    pub what: Replayed,
}

/// What a piece of history shows. Ids are those under which it was live (R27).
#[derive(Debug, Clone, PartialEq)]
pub enum Replayed {
    /// The user's message.
    User {
        /// Its live id.
        id: MessageId,
        /// Its blocks.
        content: Vec<ContentBlock>,
    },
    /// The agent's reasoning.
    Thought {
        /// Its live id.
        id: MessageId,
        /// Its text.
        text: String,
    },
    /// The agent's text.
    AgentText {
        /// Its live id.
        id: MessageId,
        /// Its text.
        text: String,
    },
    /// A tool call with its result.
    ToolCall {
        /// Its place among the calls of its entry, from 0.
        ordinal: usize,
        /// The row in its final state.
        row: ToolCallRow,
        /// What it gave; `None` where no result is stored.
        output: Option<String>,
    },
    /// Entries that are left out.
    Gap {
        /// How many.
        omitted: u64,
    },
    /// The line that says which history follows (contract: Resume-by-default; Switching never hides state). Never held back.
    Announced {
        /// Its own id.
        id: MessageId,
        /// The line.
        text: String,
    },
}

/// The foreground's state.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// A turn begins or goes on.
    Running,
    /// The foreground as a whole waits for a person.
    RequiresAction,
    /// The turn is over.
    Idle {
        /// Why it ended.
        stop: StopReason,
        /// What failed, with [`StopReason::Error`].
        failure: Option<Failure>,
        /// Who handled it; `None` for turns without a model.
        route: Option<Route>,
    },
}

/// Why a turn ended (R11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The agent was done.
    EndTurn,
    /// Somebody cancelled it.
    Cancelled,
    /// The model ran into its output limit.
    MaxTokens,
    /// The turn's limit on model calls was reached.
    MaxTurnRequests,
    /// The model refused.
    Refusal,
    /// Something failed.
    Error,
}

/// Who handles a turn, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Route {
    /// The agent's name.
    pub agent: AgentName,
    /// Which role it plays.
    pub target: RouteTarget,
    /// Why, in a few words.
    pub reason: String,
}

/// The two roles of milk's agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteTarget {
    /// Cheap, answers most turns.
    Primary,
    /// Deep, called when needed.
    Escalation,
}

/// How full a model's context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextUsage {
    /// Counts of the latest response.
    pub usage: Usage,
    /// Size of the window in tokens, where known.
    pub window: Option<u64>,
}

/// A tool call as it first appears.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallRow {
    /// Unique in the session.
    pub id: ToolCallId,
    /// The tool's name.
    pub name: String,
    /// What a person reads.
    pub title: String,
    /// Its family.
    pub kind: ToolKind,
    /// Where it stands.
    pub status: RowStatus,
    /// The arguments as the model sent them.
    pub input: Value,
    /// Places that it touches.
    pub locations: Vec<Location>,
    /// What it will change.
    pub changes: Vec<FileChange>,
}

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowStatus {
    /// Announced, or waiting for a yes (R30).
    Pending,
    /// Running.
    InProgress,
    /// Over.
    Ended(ToolStatus),
}

/// What changed on a row.
#[derive(Debug, Clone, PartialEq)]
pub enum RowChange {
    /// It runs now.
    Running,
    /// It is over. Final.
    Ended {
        /// How.
        status: ToolStatus,
        /// What it gave.
        output: String,
        /// A command's exit code.
        exit_code: Option<i32>,
        /// What changed on disk.
        changes: Vec<FileChange>,
    },
}

/// How a prompt ended.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptOutcome {
    /// Its turn ran and ended.
    Ended {
        /// The user message's id (R8).
        message: MessageId,
        /// Why the turn ended.
        stop: StopReason,
        /// What failed, with [`StopReason::Error`].
        failure: Option<Failure>,
    },
    /// It was cancelled while it waited; its turn never began (R12).
    NeverRan,
    /// Its conversation was closed, or could not take it.
    Rejected(Failure),
}

/// Where a front end puts the answer to a question. Used once.
pub struct AnswerSlot(Option<Box<dyn FnOnce(AskOutcome) + Send>>);

impl AnswerSlot {
    /// A slot that hands its answer to `deliver`.
    pub fn new(deliver: impl FnOnce(AskOutcome) + Send + 'static) -> Self {
        Self(Some(Box::new(deliver)))
    }

    /// Delivers the answer.
    pub fn answer(mut self, outcome: AskOutcome) {
        if let Some(deliver) = self.0.take() {
            deliver(outcome);
        }
    }
}

impl Drop for AnswerSlot {
    fn drop(&mut self) {
        if let Some(deliver) = self.0.take() {
            deliver(AskOutcome::Unanswered { cause: "the front end did not ask".into() });
        }
    }
}

impl std::fmt::Debug for AnswerSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnswerSlot")
    }
}
