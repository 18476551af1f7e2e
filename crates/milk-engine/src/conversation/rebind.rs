//! Going to another session: the conversation stays, what it talks to changes (contract: Rebind, don't respawn).

use std::path::Path;

use milk_core::failure::Failure;
use milk_core::id::SessionId;
use milk_core::ports::StoreError;
use milk_core::session::SessionSummary;
use milk_core::tool::Workspace;

use super::Binding;
use super::actor::ConversationState;
use super::control::Control;
use crate::emit::Emitter;
use crate::engine::{OpenError, World};
use crate::replay::{self, HEAD, Showing, TAIL};
use crate::text::{plural, short_id};

/// A session that a conversation is about to go to: taken, and open.
#[derive(Debug)]
pub(crate) struct Destination {
    binding: Binding,
    /// Its workspace and what it runs with there, where that is another directory.
    elsewhere: Option<Elsewhere>,
}

#[derive(Debug)]
struct Elsewhere {
    workspace: Workspace,
    provision: milk_core::settings::Provision,
}

impl Destination {
    /// A new session in the conversation's directory.
    pub(crate) async fn fresh(state: &ConversationState, name: Option<&str>) -> Result<Self, OpenError> {
        let binding = state.world().fresh(&state.workspace, name).await?;
        Ok(Self { binding, elsewhere: None })
    }

    /// A stored session. One of another directory is worked on in that directory, with its settings.
    pub(crate) async fn stored(
        state: &ConversationState,
        session: &SessionId,
    ) -> Result<(Self, SessionSummary), OpenError> {
        let (binding, summary) = state.world().stored(session).await?;
        let elsewhere = if summary.cwd == state.workspace.root {
            None
        } else {
            let workspace = Workspace::new(&summary.cwd);
            let provision = state.world().ports.provisioner.provision(&workspace).await?;
            Some(Elsewhere { workspace, provision })
        };
        Ok((Self { binding, elsewhere }, summary))
    }

    pub(crate) fn session(&self) -> &SessionId {
        &self.binding.session
    }
}

impl ConversationState {
    /// Goes there. The session before is closed when this returns.
    pub(crate) fn go(&mut self, to: Destination) {
        let Destination { mut binding, elsewhere } = to;
        self.announcements.append(&mut binding.troubles);
        binding.claim.bind(self.conversation().downgrade());
        if let Some(Elsewhere { workspace, provision }) = elsewhere {
            self.move_to(workspace, provision);
        }
        {
            let mut now = self.conversation().shared.now();
            now.session = binding.session.clone();
            now.workspace = self.workspace.clone();
            now.thoughts = self.provision.settings.thoughts;
        }
        self.forget_measures();
        self.binding = binding; // the old one's log is closed and its claim ends here
    }

    /// Shows the history of the session that the conversation is on.
    pub(crate) async fn replay(&self, emitter: &Emitter) -> Result<(), OpenError> {
        let showing = Showing { thoughts: self.provision.settings.thoughts, running: None };
        replay(self.world(), emitter, &self.binding.session, showing).await
    }
}

/// Does what was asked of the conversation between its turns.
pub(super) async fn meet(state: &mut ConversationState, control: Control) {
    match control {
        Control::Rebind { to, done } => {
            let went = rebind(state, &to).await;
            let _ = done.send(went); // nobody waits any more
        }
        Control::Abandon { session, done } => {
            if state.binding.session == session {
                abandon(state, &session).await;
            }
            let _ = done.send(());
        }
    }
}

async fn rebind(state: &mut ConversationState, to: &SessionId) -> Result<(), OpenError> {
    if state.binding.session == *to {
        return Ok(());
    }
    let (destination, summary) = Destination::stored(state, to).await?;
    let line = announcement(&summary, &state.workspace.root);
    state.go(destination);
    let emitter = state.emitter.clone();
    emitter.announce(to, line);
    state.replay(&emitter).await
}

async fn abandon(state: &mut ConversationState, session: &SessionId) {
    match Destination::fresh(state, None).await {
        Ok(destination) => {
            state.go(destination);
            let line = format!(
                "session {} was deleted — this conversation is now a fresh session",
                short_id(session)
            );
            let emitter = state.emitter.clone();
            emitter.announce(&state.binding.session, line);
        }
        Err(error) => {
            tracing::warn!(%session, %error, "no fresh session for a conversation whose session is deleted");
        }
    }
}

/// Says which session a conversation has gone to, and where that is if it is not where the conversation was.
pub(crate) fn announcement(to: &SessionSummary, was: &Path) -> String {
    let place = if to.cwd == was { String::new() } else { format!(" in {}", to.cwd.display()) };
    format!("switched this conversation to session {}{place}", earlier(to, "replaying "))
}

/// `<id8> — N earlier turns; /export prints the full transcript` (contract: Resume-by-default). What the contract counts as
/// turns are the entries of the history.
pub(super) fn earlier(summary: &SessionSummary, verb: &str) -> String {
    let name = summary.name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
    format!(
        "{}{name} — {verb}{}; /export prints the full transcript",
        short_id(&summary.id),
        plural(summary.entries, "earlier turn")
    )
}

/// Shows the beginning and the end of a stored history.
pub(super) async fn replay(
    world: &World,
    emitter: &Emitter,
    session: &SessionId,
    showing: Showing,
) -> Result<(), OpenError> {
    let window = match world.ports.sessions.window(session, HEAD, TAIL).await {
        Ok(window) => window,
        Err(StoreError::Unknown(id)) => return Err(OpenError::Unknown(id)),
        Err(error) => {
            let details = format!("The history of session {} cannot be read: {error}", short_id(session));
            return Err(OpenError::Failed(Failure {
                retryable: true,
                ..Failure::new("store_failed", details)
            }));
        }
    };
    for item in replay::items(session, window, showing) {
        emitter.room().await;
        emitter.emit(milk_core::event::EventKind::Replayed(item));
    }
    Ok(())
}
