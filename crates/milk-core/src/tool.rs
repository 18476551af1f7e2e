//! Tools: what a model may call, what a call would do, and what it did.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::BoxFuture;

/// What a model is told about a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name that the model calls it by.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments object.
    pub input_schema: Value,
}

/// The family of a tool; a client picks its icon by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Reads files or data.
    Read,
    /// Changes a file.
    Edit,
    /// Removes a file.
    Delete,
    /// Moves or renames a file.
    Move,
    /// Looks for something.
    Search,
    /// Runs a command.
    Execute,
    /// Thinks aloud.
    Think,
    /// Fetches something over the network.
    Fetch,
    /// Anything else.
    Other,
}

/// The folders that a session works in. All are absolute, with links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The session's `cwd`: what relative paths are relative to, never the process's own directory.
    pub root: PathBuf,
    /// Further folders that count as inside.
    pub extra: Vec<PathBuf>,
}

impl Workspace {
    /// A workspace of one folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), extra: Vec::new() }
    }

    /// The session's directory.
    pub fn cwd(&self) -> &Path {
        &self.root
    }
}

/// What a call would do to the world: decides whether a person is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Only looks. No question.
    ReadOnly,
    /// Looks at something private of the user's (milk's own home with its keys). Always asks, whatever was granted.
    ReadsPrivate {
        /// The real path.
        path: PathBuf,
    },
    /// Changes files inside the workspace.
    Writes,
    /// Changes files outside the workspace (links resolved). A grant for the tool does not cover it.
    WritesOutside {
        /// The real paths outside, to be shown.
        paths: Vec<PathBuf>,
    },
    /// Runs a shell command. Grants are per command.
    Executes {
        /// The exact command line.
        command: String,
    },
    /// Talks to another machine.
    Network {
        /// Where to.
        url: String,
    },
    /// Does something that milk cannot see into (a tool of an MCP server).
    External,
}

/// A place in a file that a call touches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Absolute path.
    pub path: PathBuf,
    /// Line, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// One file as it is before and after a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// What happens to the file.
    pub action: FileAction,
    /// Absolute path; for a move, where the file ends up.
    pub path: PathBuf,
    /// The whole text before; `None` where there was no file or it is not text.
    pub old_text: Option<Arc<str>>,
    /// The whole text after; `None` where the file is gone or is not text.
    pub new_text: Option<Arc<str>>,
}

/// What happens to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// It is new.
    Create,
    /// Its text changes.
    Modify,
    /// It goes away.
    Delete,
    /// It gets another path.
    Move {
        /// Where it was.
        from: PathBuf,
    },
}

/// A call whose arguments are checked and whose effect is known, but which has done nothing yet. What is shown to the
/// person and what [`PreparedCall::run`] does come from the same values.
pub struct PreparedCall {
    /// What a person reads on the row and in the question: the whole command, the path. One line where possible.
    pub title: String,
    /// Places that the call touches.
    pub locations: Vec<Location>,
    /// What the call will change, for the question and the row.
    pub changes: Vec<FileChange>,
    /// What the call would do.
    pub effect: Effect,
    /// Does it. Dropping the future stops it, and everything that it started.
    pub run: Box<dyn FnOnce(ToolContext) -> BoxFuture<'static, ToolOutcome> + Send>,
}

impl fmt::Debug for PreparedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedCall")
            .field("title", &self.title)
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}

/// The whole world of a running tool.
#[derive(Clone)]
pub struct ToolContext {
    /// Where live output goes; call it with each new piece. Cheap, never blocks; what is shown of it is bounded.
    pub output: Arc<dyn Fn(&str) + Send + Sync>,
    /// Tripped when the call must stop. A tool then ends what it started and returns what it has, with
    /// [`ToolStatus::Cancelled`] unless it was done already; a second later its future is dropped, which must stop it too.
    pub cancel: CancellationToken,
    /// The longest time that the call may take; `None` is no limit.
    pub time_limit: Option<Duration>,
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext").field("time_limit", &self.time_limit).finish_non_exhaustive()
    }
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    /// Whether it did what it was asked.
    pub status: ToolStatus,
    /// What the model and the person read. Bounded, valid text.
    pub output: String,
    /// What changed on disk, where that differs from the prepared changes.
    pub changes: Option<Vec<FileChange>>,
    /// A command's exit code.
    pub exit_code: Option<i32>,
}

impl ToolOutcome {
    /// A call that did what it was asked.
    pub fn completed(output: impl Into<String>) -> Self {
        Self { status: ToolStatus::Completed, output: output.into(), changes: None, exit_code: None }
    }

    /// A call that did not.
    pub fn failed(output: impl Into<String>) -> Self {
        Self { status: ToolStatus::Failed, output: output.into(), changes: None, exit_code: None }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did what it was asked.
    Completed,
    /// It did not; the output says why. A denied call is one of these.
    Failed,
    /// It was stopped by a cancel.
    Cancelled,
}

/// Why a call cannot be prepared: the model reads it and can do better. Nothing was asked, nothing ran.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// One readable sentence or two.
    pub message: String,
}

impl ToolError {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
