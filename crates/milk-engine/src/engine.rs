//! The engine: opens conversations on stored sessions.

use std::sync::Arc;

use milk_core::failure::Failure;
use milk_core::id::SessionId;
use milk_core::ports::{
    AskSource, Clock, CommandPolicy, EventSink, Exporter, Files, GrantStore, MemoryStore, NewSession,
    Provisioner, SessionStore, StoreError, StoredSession, TaskStore,
};
use milk_core::session::{SessionPage, SessionQuery, SessionSummary, Worth};
use milk_core::settings::{Provision, ResumeByDefault};
use milk_core::tool::Workspace;

use crate::bindings::{Bindings, Claim, Company};
use crate::conversation::{Binding, Conversation};
use crate::history::History;
use crate::ids::new_session_id;
use crate::reference::{self, ReferenceError};

/// How many sessions of a directory are tried for one to go on with: all before it are open in other processes.
const CANDIDATES: usize = 50;

/// Everything that the engine needs from the world.
#[derive(Debug, Clone)]
pub struct Ports {
    /// Makes what a conversation runs with.
    pub provisioner: Arc<dyn Provisioner>,
    /// Every stored session.
    pub sessions: Arc<dyn SessionStore>,
    /// Makes documents of sessions.
    pub exporter: Arc<dyn Exporter>,
    /// Where documents are saved.
    pub files: Arc<dyn Files>,
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
    world: Arc<World>,
}

/// The ports, and which conversation has which session.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) ports: Ports,
    pub(crate) bindings: Arc<Bindings>,
}

/// How a new conversation is to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// On the directory's newest session where the settings and the circumstances allow it (contract: Resume-by-default).
    Default,
    /// Empty, whatever the settings say.
    Fresh,
}

/// A conversation that has just opened.
#[derive(Debug)]
pub struct Opened {
    /// It.
    pub conversation: Conversation,
    /// Where its session comes from.
    pub origin: Origin,
}

/// Where a conversation's session comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is new.
    Fresh,
    /// It was stored, and the conversation goes on with it.
    Adopted(SessionSummary),
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
    /// A conversation of this process has it, or is about to.
    #[error("session {0} is open in another conversation — close it there first")]
    Taken(SessionId),
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
        Self { world: Arc::new(World { ports, bindings: Arc::default() }) }
    }

    /// Opens a conversation in this workspace, on a fresh session or on the one that it goes on with.
    pub async fn open(
        &self,
        workspace: Workspace,
        start: Start,
        front: Arc<dyn EventSink>,
    ) -> Result<Opened, OpenError> {
        // Before anything is awaited: of two that come at the same instant, the first is alone (R24).
        let (_opening, company) = self.world.bindings.opening(workspace.cwd());
        let provision = self.world.ports.provisioner.provision(&workspace).await?;
        let adopts = start == Start::Default
            && company == Company::Alone
            && provision.settings.resume == ResumeByDefault::Adopt;
        let adopted = if adopts { self.world.adopt(&workspace).await } else { None };
        let (binding, origin) = match adopted {
            Some((binding, summary)) => (binding, Origin::Adopted(summary)),
            None => (self.world.fresh(&workspace, None).await?, Origin::Fresh),
        };
        let conversation = self.start(workspace, provision, binding, front);
        Ok(Opened { conversation, origin })
    }

    /// Opens a conversation on a stored session.
    pub async fn open_stored(
        &self,
        id: &SessionId,
        workspace: Workspace,
        front: Arc<dyn EventSink>,
    ) -> Result<Conversation, OpenError> {
        let provision = self.world.ports.provisioner.provision(&workspace).await?;
        let (binding, _) = self.world.stored(id).await?;
        Ok(self.start(workspace, provision, binding, front))
    }

    fn start(
        &self,
        workspace: Workspace,
        provision: Provision,
        binding: Binding,
        front: Arc<dyn EventSink>,
    ) -> Conversation {
        Conversation::start(Arc::clone(&self.world), workspace, provision, binding, front)
    }

    /// A part of the list of stored sessions.
    pub async fn list(&self, query: &SessionQuery) -> Result<SessionPage, Failure> {
        self.world.ports.sessions.list(query).await.map_err(|error| store_failure(error.to_string()))
    }

    /// What is known about a stored session.
    pub async fn find(&self, id: &SessionId) -> Result<SessionSummary, OpenError> {
        Ok(self.world.ports.sessions.find(id).await?)
    }

    /// The session that an id or the beginning of one means.
    pub async fn by_id(&self, text: &str) -> Result<SessionSummary, ReferenceError> {
        reference::by_id(&*self.world.ports.sessions, text).await
    }

    /// Removes a stored session for good. A conversation that has it goes on with a fresh one and says so (contract:
    /// session/delete). It joins the closed ones.
    pub async fn delete(&self, id: &SessionId) -> Result<(), OpenError> {
        self.world.delete(id).await
    }

    /// Remembers an id as closed: adoption leaves it alone from here on (contract: close vs delete).
    pub fn note_closed(&self, id: &str) {
        self.world.bindings.note_closed(id);
    }
}

impl World {
    /// A binding to a new session.
    pub(crate) async fn fresh(
        &self,
        workspace: &Workspace,
        name: Option<&str>,
    ) -> Result<Binding, OpenError> {
        let id = new_session_id();
        let claim = self.claim(&id)?;
        let log = self.ports.sessions.create(NewSession { id: &id, cwd: workspace.cwd(), name }).await?;
        Ok(Binding::new(claim, id, log, History::default()))
    }

    /// A binding to a stored session, and what is known about it.
    pub(crate) async fn stored(&self, id: &SessionId) -> Result<(Binding, SessionSummary), OpenError> {
        let claim = self.claim(id)?;
        let StoredSession { log, summary, recent, earlier_turns, troubles } =
            self.ports.sessions.open(id).await?;
        let history = History::from_recent(recent, earlier_turns);
        let mut binding = Binding::new(claim, id.clone(), log, history);
        binding.troubles = troubles;
        Ok((binding, summary))
    }

    fn claim(&self, id: &SessionId) -> Result<Claim, OpenError> {
        self.bindings.claim(id).ok_or_else(|| OpenError::Taken(id.clone()))
    }

    /// The session to go on with: the directory's newest that has a turn or a name and is not open in another process,
    /// unless that one was closed here (R23).
    async fn adopt(&self, workspace: &Workspace) -> Option<(Binding, SessionSummary)> {
        let query = SessionQuery {
            cwd: Some(workspace.cwd().to_owned()),
            worth: Worth::Used { open: Vec::new() },
            offset: 0,
            limit: CANDIDATES,
        };
        let page = match self.ports.sessions.list(&query).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "the stored sessions cannot be listed; the conversation begins empty");
                return None;
            }
        };
        for candidate in page.sessions {
            if self.bindings.was_closed(&candidate.id) {
                return None;
            }
            match self.stored(&candidate.id).await {
                Ok(found) => return Some(found),
                Err(OpenError::Locked { .. } | OpenError::Taken(_)) => {}
                Err(error) => {
                    tracing::warn!(session = %candidate.id, %error, "a stored session cannot be opened");
                }
            }
        }
        None
    }

    /// Removes a stored session; the conversation that has it goes on with a fresh one first.
    pub(crate) async fn delete(&self, id: &SessionId) -> Result<(), OpenError> {
        if let Some(holder) = self.bindings.holder(id) {
            holder.abandon_session(id).await;
        }
        let _claim = self.claim(id)?;
        self.ports.sessions.delete(id).await?;
        self.bindings.note_closed(id.as_str());
        Ok(())
    }
}
