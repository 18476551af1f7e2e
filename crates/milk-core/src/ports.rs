//! The ports: what the engine needs from the world, as object-safe traits. Tests implement them by hand.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ask::{AskOutcome, Question};
use crate::event::Event;
use crate::failure::Failure;
use crate::id::SessionId;
use crate::model::{ModelError, ModelEvent, ModelInfo, ModelRequest};
use crate::record::Record;
use crate::session::SessionSummary;
use crate::settings::Provision;
use crate::tool::{PreparedCall, ToolError, ToolKind, ToolSpec, Workspace};
use crate::{BoxFuture, BoxStream, JsonObject};

/// Talks to one model.
pub trait Model: Debug + Send + Sync {
    /// Who it is.
    fn info(&self) -> &ModelInfo;

    /// Sends the request. Nothing happens before the stream is polled; dropping it ends the request at once and
    /// closes its connection. Retries happen inside, and only while nothing but [`ModelEvent::Retrying`] was yielded.
    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>>;
}

/// Finds the model that plays a role. Discovery may take a moment, so it is asked for when a turn needs it and never
/// when a session opens.
pub trait AgentSource: Debug + Send + Sync {
    /// The agent as it is now.
    fn resolve(&self) -> BoxFuture<'_, Result<ResolvedAgent, Failure>>;
}

/// An agent that is ready to answer.
#[derive(Debug, Clone)]
pub struct ResolvedAgent {
    /// Its model.
    pub model: Arc<dyn Model>,
    /// The agent's own addition to the system message.
    pub prompt: Option<Arc<str>>,
    /// One line about how it was found, told once in a conversation.
    pub announcement: Option<String>,
}

/// One tool.
pub trait Tool: Debug + Send + Sync {
    /// What the model is told.
    fn spec(&self) -> &ToolSpec;

    /// Its family.
    fn kind(&self) -> ToolKind;

    /// Checks the arguments and finds out what the call would do. Reads at most; changes nothing.
    fn prepare<'a>(
        &'a self,
        arguments: &'a JsonObject,
        workspace: &'a Workspace,
    ) -> BoxFuture<'a, Result<PreparedCall, ToolError>>;
}

/// Understands shell command lines (R29).
pub trait CommandPolicy: Debug + Send + Sync {
    /// Whether every simple command of this line is matched by one of the patterns. A line that is not understood is not.
    fn allows(&self, command: &str, patterns: &[String]) -> bool;
}

/// Renders a conversation. Emitting is synchronous, so that the order of events is the order of the calls; it never
/// blocks and never fails (a front end that is gone swallows events).
pub trait EventSink: Debug + Send + Sync {
    /// Shows one event.
    fn emit(&self, event: Event);

    /// `None` while the front end has room for more, else a future that resolves when it has. Whoever produces much (text,
    /// output) asks between events and waits, so that a slow reader slows its own turn and memory stays bounded.
    fn room(&self) -> Option<BoxFuture<'_, ()>>;
}

/// Another source of answers beside the front end (the remote side, a timer). Dropping the future withdraws the question.
pub trait AskSource: Debug + Send + Sync {
    /// Asks, and waits for the answer.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, AskOutcome>;
}

/// Makes what a conversation runs with, from the configuration as it is on disk now.
pub trait Provisioner: Debug + Send + Sync {
    /// For a session in this workspace. Quick: it never waits for a network.
    fn provision<'a>(&'a self, workspace: &'a Workspace) -> BoxFuture<'a, Result<Provision, Failure>>;
}

/// Every stored session.
pub trait SessionStore: Debug + Send + Sync {
    /// A new, empty session; on disk when this returns (R23).
    fn create<'a>(
        &'a self,
        id: &'a SessionId,
        cwd: &'a Path,
    ) -> BoxFuture<'a, Result<Arc<dyn SessionLog>, StoreError>>;

    /// Opens a stored session for writing, with what it holds.
    fn open<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>>;

    /// All sessions, or those of one directory (R21), last use first.
    fn list<'a>(&'a self, cwd: Option<&'a Path>) -> BoxFuture<'a, Result<Vec<SessionSummary>, StoreError>>;

    /// Removes a session for good.
    fn delete<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// A stored session that was opened.
#[derive(Debug)]
pub struct StoredSession {
    /// Where further records go.
    pub log: Arc<dyn SessionLog>,
    /// Its directory.
    pub cwd: PathBuf,
    /// What it holds, in order.
    pub records: Vec<Record>,
}

/// One session's log, open for writing.
pub trait SessionLog: Debug + Send + Sync {
    /// Appends records in order. When it returns they are kept. An error never stops a conversation in memory.
    fn append<'a>(&'a self, records: &'a [Record]) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// Why the store could not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No session has this id.
    #[error("no session has the id {0}")]
    Unknown(SessionId),
    /// Another process has it open for writing.
    #[error("session {id} is open in another process ({holder})")]
    Locked {
        /// Which.
        id: SessionId,
        /// Who holds it, for a person.
        holder: String,
    },
    /// The disk said no.
    #[error("{0}")]
    Failed(String),
}

/// What the user has allowed for good in a directory (R28).
pub trait GrantStore: Debug + Send + Sync {
    /// The grants of this directory.
    fn grants<'a>(&'a self, cwd: &'a Path) -> BoxFuture<'a, Result<Grants, StoreError>>;

    /// Remembers a grant.
    fn remember<'a>(&'a self, cwd: &'a Path, grant: &'a Grant) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Grant {
    /// Every use of this tool inside the workspace. Never the shell.
    Tool(String),
    /// Exactly this shell command.
    Command(String),
}

/// The grants of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// In the order that they were given.
    pub grants: Vec<Grant>,
}

/// Remembered facts.
pub trait MemoryStore: Debug + Send + Sync {
    /// The facts worth telling the model with this prompt, best first.
    fn recall<'a>(&'a self, session: &'a SessionId, prompt: &'a str) -> BoxFuture<'a, Vec<String>>;
}

/// The tasks of a session.
pub trait TaskStore: Debug + Send + Sync {
    /// What is still open, one line each.
    fn open_tasks<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Vec<String>>;
}

/// Tells the time.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}
