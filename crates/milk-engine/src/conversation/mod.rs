//! A conversation: what a front end talks to. It is bound to one stored session; one task owns its state.

mod actor;
mod control;
mod queue;
mod rebind;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use milk_core::content::ContentBlock;
use milk_core::event::{Event, EventKind, PromptOutcome};
use milk_core::failure::Failure;
use milk_core::id::{PromptId, SessionId, TurnId};
use milk_core::ports::{EventSink, SessionLog};
use milk_core::session::SessionSummary;
use milk_core::settings::{Provision, Thoughts};
use milk_core::tool::Workspace;
use tokio_util::sync::CancellationToken;

use crate::bindings::Claim;
use crate::emit::Emitter;
use crate::engine::{OpenError, World};
use crate::history::History;
use crate::ids::IdMint;
use crate::permission::Remembered;
use crate::replay;
use control::Control;
use queue::{PromptQueue, Submitted};

pub(crate) use actor::{Begun, ConversationState, begin};
pub(crate) use queue::QueuedPrompt;
pub(crate) use rebind::{Destination, announcement};

/// How long a conversation may take to leave a session that is to be deleted.
const ABANDONING: Duration = Duration::from_secs(5);

/// A handle to an open conversation. Cheap to clone; every clone means the same conversation.
#[derive(Clone)]
pub struct Conversation {
    shared: Arc<Shared>,
}

struct Shared {
    world: Arc<World>,
    now: Mutex<Now>,
    queue: Arc<PromptQueue>,
    sink: Arc<dyn EventSink>,
    ids: Arc<IdMint>,
    /// Tripped by the conversation's task when it is over.
    ended: CancellationToken,
}

/// What others may know of a conversation's state.
#[derive(Debug, Clone)]
struct Now {
    session: SessionId,
    workspace: Workspace,
    running: Option<TurnId>,
    thoughts: Thoughts,
}

/// A handle that does not keep what it needs alive.
#[derive(Clone)]
pub(crate) struct WeakConversation(Weak<Shared>);

impl fmt::Debug for WeakConversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakConversation")
    }
}

impl WeakConversation {
    pub(crate) fn upgrade(&self) -> Option<Conversation> {
        self.0.upgrade().map(|shared| Conversation { shared })
    }
}

/// The stored session that a conversation talks to.
#[derive(Debug)]
pub(crate) struct Binding {
    claim: Claim,
    pub(crate) session: SessionId,
    pub(crate) log: Arc<dyn SessionLog>,
    pub(crate) history: History,
    /// What was allowed for this session, until it is closed in this process (R28).
    pub(crate) remembered: HashSet<Remembered>,
    /// What was lost or is wrong, to be told in the next turn.
    pub(crate) troubles: Vec<String>,
}

impl Binding {
    pub(crate) fn new(claim: Claim, session: SessionId, log: Arc<dyn SessionLog>, history: History) -> Self {
        Self { claim, session, log, history, remembered: HashSet::new(), troubles: Vec::new() }
    }
}

impl Conversation {
    pub(crate) fn start(
        world: Arc<World>,
        workspace: Workspace,
        provision: Provision,
        binding: Binding,
        sink: Arc<dyn EventSink>,
    ) -> Self {
        let queue = Arc::new(PromptQueue::default());
        let ids = Arc::new(IdMint::new());
        let now = Now {
            session: binding.session.clone(),
            workspace: workspace.clone(),
            running: None,
            thoughts: provision.settings.thoughts,
        };
        let shared = Arc::new(Shared {
            world,
            now: Mutex::new(now),
            queue,
            sink: Arc::clone(&sink),
            ids: Arc::clone(&ids),
            ended: CancellationToken::new(),
        });
        let conversation = Self { shared };
        binding.claim.bind(conversation.downgrade());
        let emitter = Emitter::new(sink, ids);
        let state = ConversationState::new(conversation.clone(), workspace, provision, binding, emitter);
        // The task ends by itself when the conversation is closed; `close` waits for it through `ended`.
        tokio::spawn(actor::run(Arc::clone(&conversation.shared), state));
        conversation
    }

    pub(crate) fn downgrade(&self) -> WeakConversation {
        WeakConversation(Arc::downgrade(&self.shared))
    }

    /// The stored session that the conversation is bound to now.
    pub fn session(&self) -> SessionId {
        self.shared.now().session.clone()
    }

    /// The folders that it works in now.
    pub fn workspace(&self) -> Workspace {
        self.shared.now().workspace.clone()
    }

    /// Hands a prompt over, from any thread, without waiting. Prompts run one after another in the order of these calls (R7).
    /// The answer is always an [`EventKind::PromptEnded`] for this id.
    pub fn submit(&self, id: PromptId, content: Vec<ContentBlock>) {
        let outcome = match self.shared.queue.submit(id, content) {
            Submitted::Queued => return,
            Submitted::Closed => closed(),
            Submitted::Full => Failure {
                retryable: true,
                ..Failure::new(
                    "too_many_prompts",
                    "Too many prompts wait in this session; let some of them end first.",
                )
            },
        };
        self.shared.ended(id, PromptOutcome::Rejected(outcome));
    }

    /// Cancels the running turn and every prompt submitted so far; never one submitted later (R12).
    pub fn cancel(&self) {
        for id in self.shared.queue.cancel_all() {
            self.shared.ended(id, PromptOutcome::NeverRan);
        }
    }

    /// Cancels one prompt, running or waiting (R20). No effect on one that has ended.
    pub fn cancel_prompt(&self, id: PromptId) {
        if self.shared.queue.cancel_one(id) {
            self.shared.ended(id, PromptOutcome::NeverRan);
        }
    }

    /// Shows the beginning and the end of the stored history as [`EventKind::Replayed`] (contract: History replay). Without what
    /// the running turn has done so far: that is seen live.
    pub async fn replay(&self) -> Result<(), OpenError> {
        let (session, showing) = {
            let now = self.shared.now();
            (now.session.clone(), replay::Showing { thoughts: now.thoughts, running: now.running })
        };
        let emitter = Emitter::new(Arc::clone(&self.shared.sink), Arc::clone(&self.shared.ids));
        rebind::replay(&self.shared.world, &emitter, &session, showing).await
    }

    /// Says which stored session the conversation goes on with, before its history is shown (contract: Resume-by-default).
    pub fn announce_adoption(&self, adopted: &SessionSummary) {
        let emitter = Emitter::new(Arc::clone(&self.shared.sink), Arc::clone(&self.shared.ids));
        let line = format!("resumed session {}", rebind::earlier(adopted, ""));
        emitter.announce(&adopted.id, line);
    }

    /// Goes to another stored session and shows its history, once the running turn is over (contract: session/resume(X)
    /// resolution, 2). No effect where the conversation is on it already.
    pub async fn go_to(&self, session: &SessionId) -> Result<(), OpenError> {
        let (done, met) = tokio::sync::oneshot::channel();
        self.shared.queue.control(Control::Rebind { to: session.clone(), done });
        met.await.unwrap_or_else(|_| Err(OpenError::Failed(closed())))
    }

    /// Leaves a session that is to be deleted: ends the running turn, goes on with a fresh session and says so.
    pub(crate) async fn abandon_session(&self, session: &SessionId) {
        let (done, met) = tokio::sync::oneshot::channel();
        self.shared.queue.control(Control::Abandon { session: session.clone(), done });
        self.shared.queue.cancel_current();
        // Bounded: two conversations may be told of each other's session at the same time.
        if tokio::time::timeout(ABANDONING, met).await.is_err() {
            tracing::warn!(%session, "a conversation does not let go of its session");
        }
    }

    /// Ends the conversation: cancels what runs, answers what waits, and returns when everything of it has ended. The
    /// session stays stored. Calling it again waits for the same end.
    pub async fn close(&self) {
        for id in self.shared.queue.close() {
            self.shared.ended(id, PromptOutcome::NeverRan);
        }
        self.shared.ended.cancelled().await;
    }
}

fn closed() -> Failure {
    Failure::new("session_closed", "This session is closed.")
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("session", &self.session()).finish_non_exhaustive()
    }
}

impl Shared {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, id: PromptId, outcome: PromptOutcome) {
        self.sink.emit(Event { prompt: Some(id), kind: EventKind::PromptEnded(outcome) });
    }
}
