//! A conversation: what a front end talks to. It is bound to one stored session; one task owns its state.

mod actor;
mod queue;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use milk_core::content::ContentBlock;
use milk_core::event::{Event, EventKind, PromptOutcome};
use milk_core::failure::Failure;
use milk_core::id::{PromptId, SessionId};
use milk_core::ports::{EventSink, SessionLog};
use milk_core::settings::Provision;
use milk_core::tool::Workspace;
use tokio_util::sync::CancellationToken;

use crate::engine::Ports;
use crate::history::History;
use crate::permission::Remembered;
use queue::{PromptQueue, Submitted};

pub(crate) use actor::{Begun, ConversationState, begin};
pub(crate) use queue::QueuedPrompt;

/// A handle to an open conversation. Cheap to clone; every clone means the same conversation.
#[derive(Clone)]
pub struct Conversation {
    shared: Arc<Shared>,
}

struct Shared {
    session: SessionId,
    workspace: Workspace,
    queue: Arc<PromptQueue>,
    sink: Arc<dyn EventSink>,
    /// Tripped by the conversation's task when it is over.
    ended: CancellationToken,
}

/// The stored session that a conversation talks to.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) session: SessionId,
    pub(crate) log: Arc<dyn SessionLog>,
    pub(crate) history: History,
    /// What was allowed for this session, until it is closed in this process (R28).
    pub(crate) remembered: HashSet<Remembered>,
}

impl Binding {
    pub(crate) fn new(session: SessionId, log: Arc<dyn SessionLog>, history: History) -> Self {
        Self { session, log, history, remembered: HashSet::new() }
    }
}

impl Conversation {
    pub(crate) fn start(
        ports: Arc<Ports>,
        workspace: Workspace,
        provision: Provision,
        binding: Binding,
        sink: Arc<dyn EventSink>,
    ) -> Self {
        let queue = Arc::new(PromptQueue::default());
        let shared = Arc::new(Shared {
            session: binding.session.clone(),
            workspace: workspace.clone(),
            queue: Arc::clone(&queue),
            sink: Arc::clone(&sink),
            ended: CancellationToken::new(),
        });
        let state = ConversationState::new(ports, workspace, provision, binding, queue, sink);
        // The task ends by itself when the conversation is closed; `close` waits for it through `ended`.
        tokio::spawn(actor::run(Arc::clone(&shared), state));
        Self { shared }
    }

    /// The stored session that the conversation is bound to.
    pub fn session(&self) -> SessionId {
        self.shared.session.clone()
    }

    /// The folders that it works in.
    pub fn workspace(&self) -> &Workspace {
        &self.shared.workspace
    }

    /// Hands a prompt over, from any thread, without waiting. Prompts run one after another in the order of these calls (R7).
    /// The answer is always an [`EventKind::PromptEnded`] for this id.
    pub fn submit(&self, id: PromptId, content: Vec<ContentBlock>) {
        let outcome = match self.shared.queue.submit(id, content) {
            Submitted::Queued => return,
            Submitted::Closed => Failure::new("session_closed", "This session is closed."),
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

    /// Ends the conversation: cancels what runs, answers what waits, and returns when everything of it has ended. The
    /// session stays stored. Calling it again waits for the same end.
    pub async fn close(&self) {
        for id in self.shared.queue.close() {
            self.shared.ended(id, PromptOutcome::NeverRan);
        }
        self.shared.ended.cancelled().await;
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("session", &self.shared.session).finish_non_exhaustive()
    }
}

impl Shared {
    fn ended(&self, id: PromptId, outcome: PromptOutcome) {
        self.sink.emit(Event { prompt: Some(id), kind: EventKind::PromptEnded(outcome) });
    }
}
