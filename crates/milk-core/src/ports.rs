//! The ports: what the engine needs from the world, as object-safe traits. Tests implement them by hand.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ask::{AskOutcome, Question};
use crate::event::Event;
use crate::failure::Failure;
use crate::id::SessionId;
use crate::model::{ModelError, ModelEvent, ModelInfo, ModelRequest};
use crate::record::{Logged, Record};
use crate::session::{HistoryWindow, SessionPage, SessionQuery, SessionSummary};
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

/// Every stored session. Ids and references may come from anywhere: what is not an id of a session is unknown.
pub trait SessionStore: Debug + Send + Sync {
    /// A new, empty session, open for writing; on disk when this returns (R23). Where the disk refuses, it is held in memory
    /// and written when the disk takes it again; until then its appends fail.
    fn create<'a>(
        &'a self,
        session: NewSession<'a>,
    ) -> BoxFuture<'a, Result<Arc<dyn SessionLog>, StoreError>>;

    /// Opens a stored session for writing. One process at a time has it open.
    fn open<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>>;

    /// What is known about a session.
    fn find<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionSummary, StoreError>>;

    /// Sessions whose id begins like this, at most `limit`; last use first.
    fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<SessionSummary>, StoreError>>;

    /// Sessions of a directory with exactly this name, last use first.
    fn with_name<'a>(
        &'a self,
        cwd: &'a Path,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SessionSummary>, StoreError>>;

    /// A part of the list, last use first.
    fn list<'a>(&'a self, query: &'a SessionQuery) -> BoxFuture<'a, Result<SessionPage, StoreError>>;

    /// The first `head` and the last `tail` entries of a history. Costs what these cost, however long the history is.
    fn window<'a>(
        &'a self,
        id: &'a SessionId,
        head: usize,
        tail: usize,
    ) -> BoxFuture<'a, Result<HistoryWindow, StoreError>>;

    /// Every record of a session, in order, one at a time.
    fn read<'a>(
        &'a self,
        id: &'a SessionId,
        visit: Box<dyn FnMut(Logged) + Send>,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes a session for good, with all that belongs to it. It must not be open elsewhere.
    fn delete<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// A session to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// A fresh id.
    pub id: &'a SessionId,
    /// Its directory, absolute.
    pub cwd: &'a Path,
    /// Its name, if the user gave one.
    pub name: Option<&'a str>,
}

/// A stored session that was opened.
#[derive(Debug)]
pub struct StoredSession {
    /// Where further records go.
    pub log: Arc<dyn SessionLog>,
    /// What is known about it.
    pub summary: SessionSummary,
    /// Its newest records in order, from the beginning of a turn on: what a model may be told, never the whole of a long
    /// history.
    pub recent: Vec<Logged>,
    /// Turns before `recent`, slash commands among them.
    pub earlier_turns: u64,
    /// What was lost or is wrong, one line each, for the user.
    pub troubles: Vec<String>,
}

/// One session's log, open for writing. Dropping it closes the session.
pub trait SessionLog: Debug + Send + Sync {
    /// Appends records in order. When it returns they outlive this process, and after the end of a turn they outlive a loss
    /// of power. Records that could not be written are kept and written with the next ones.
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

/// Saves documents that the user asked for where the user said.
pub trait Files: Debug + Send + Sync {
    /// Writes a whole file. A relative path starts at `cwd`, a `~` at the user's home. Gives the path that it wrote.
    fn save<'a>(
        &'a self,
        cwd: &'a Path,
        path: &'a str,
        content: &'a str,
    ) -> BoxFuture<'a, Result<PathBuf, Failure>>;
}

/// Turns stored sessions into documents for people and programs.
pub trait Exporter: Debug + Send + Sync {
    /// Begins a document about this session.
    fn begin(&self, format: ExportFormat, session: &SessionSummary) -> Box<dyn Transcript>;
}

/// A document in the making.
pub trait Transcript: Send {
    /// Takes the next record in. Records come in order.
    fn push(&mut self, logged: Logged);

    /// The whole document.
    fn finish(self: Box<Self>) -> String;
}

/// The kinds of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExportFormat {
    /// Plain text for reading in a chat or a terminal.
    Text,
    /// JSON, for programs.
    Json,
    /// One page that needs nothing else.
    Html,
}
