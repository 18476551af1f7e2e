//! The engine: opens conversations on stored sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use milk_core::failure::Failure;
use milk_core::id::SessionId;
use milk_core::ports::{
    AskSource, Clock, CommandPolicy, EventSink, GrantStore, MemoryStore, Provisioner, SessionStore,
    StoreError, StoredSession, TaskStore,
};
use milk_core::session::SessionSummary;
use milk_core::tool::Workspace;

use crate::conversation::{Binding, Conversation};
use crate::history::History;
use crate::ids::new_session_id;

/// Everything that the engine needs from the world.
#[derive(Debug, Clone)]
pub struct Ports {
    /// Makes what a conversation runs with.
    pub provisioner: Arc<dyn Provisioner>,
    /// Every stored session.
    pub sessions: Arc<dyn SessionStore>,
    /// What the user has allowed for good.
    pub grants: Arc<dyn GrantStore>,
    /// Understands shell command lines.
    pub commands: Arc<dyn CommandPolicy>,
    /// Sources of answers beside the front end.
    pub ask_sources: Vec<Arc<dyn AskSource>>,
    /// Remembered facts, where there is a memory.
    pub memory: Option<Arc<dyn MemoryStore>>,
    /// The tasks of sessions, where there is a task store.
    pub tasks: Option<Arc<dyn TaskStore>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Opens conversations. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    ports: Arc<Ports>,
}

/// Why a conversation did not open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No session has this id.
    #[error("unknown session \"{0}\"")]
    Unknown(SessionId),
    /// Another process has it open.
    #[error("session {id} is open in another process ({holder})")]
    Locked {
        /// Which.
        id: SessionId,
        /// Who holds it.
        holder: String,
    },
    /// Something else went wrong.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unknown(id) => Self::Unknown(id),
            StoreError::Locked { id, holder } => Self::Locked { id, holder },
            StoreError::Failed(details) => Self::Failed(store_failure(details)),
        }
    }
}

fn store_failure(details: String) -> Failure {
    Failure { retryable: true, ..Failure::new("store_failed", details) }
}

impl Engine {
    /// An engine on these ports.
    pub fn new(ports: Ports) -> Self {
        Self { ports: Arc::new(ports) }
    }

    /// Opens a conversation on a fresh session in this workspace.
    pub async fn open_new(
        &self,
        workspace: Workspace,
        front: Arc<dyn EventSink>,
    ) -> Result<Conversation, OpenError> {
        let provision = self.ports.provisioner.provision(&workspace).await?;
        let id = new_session_id();
        let log = self.ports.sessions.create(&id, &workspace.root).await?;
        let binding = Binding::new(id, log, History::default());
        Ok(Conversation::start(Arc::clone(&self.ports), workspace, provision, binding, front))
    }

    /// Opens a conversation on a stored session.
    pub async fn open_stored(
        &self,
        id: &SessionId,
        workspace: Workspace,
        front: Arc<dyn EventSink>,
    ) -> Result<Conversation, OpenError> {
        let StoredSession { log, records, .. } = self.ports.sessions.open(id).await?;
        let provision = self.ports.provisioner.provision(&workspace).await?;
        let binding = Binding::new(id.clone(), log, History::from_records(records));
        Ok(Conversation::start(Arc::clone(&self.ports), workspace, provision, binding, front))
    }

    /// The stored sessions, all or of one directory, last use first.
    pub async fn sessions(&self, cwd: Option<&Path>) -> Result<Vec<SessionSummary>, Failure> {
        self.ports.sessions.list(cwd).await.map_err(|error| store_failure(error.to_string()))
    }

    /// The directory of a stored session.
    pub async fn stored_cwd(&self, id: &SessionId) -> Result<PathBuf, OpenError> {
        let all = self.ports.sessions.list(None).await?;
        let found = all.into_iter().find(|summary| summary.id == *id);
        found.map(|summary| summary.cwd).ok_or_else(|| OpenError::Unknown(id.clone()))
    }

    /// Removes a stored session for good. Its conversation, if one is open, must have been closed.
    pub async fn delete_session(&self, id: &SessionId) -> Result<(), OpenError> {
        Ok(self.ports.sessions.delete(id).await?)
    }
}
