//! What a command comes to, and how that is recorded and shown.

use milk_core::event::EventKind;
use milk_core::id::{MessageId, SessionId, TurnId};
use milk_core::record::Record;

use crate::conversation::{ConversationState, Destination};
use crate::emit::Emitter;
use crate::ids::MessageKind;
use crate::text::short_id;
use crate::turn::{self, TurnEnd};

/// What a command comes to. What it says is plain Markdown, never empty.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It says something.
    Said {
        text: String,
        /// What the log keeps of it, where that is not the text itself.
        kept: Option<String>,
    },
    /// The conversation goes to another session.
    Switch { to: Box<Destination>, report: String, then: AfterSwitch },
    /// The conversation's session is deleted, and the conversation goes to a fresh one.
    Drop { to: Box<Destination> },
}

/// What follows the report of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterSwitch {
    Nothing,
    /// The history of the session is shown.
    Replay,
}

impl Outcome {
    pub(super) fn said(text: impl Into<String>) -> Self {
        Self::Said { text: text.into(), kept: None }
    }
}

/// Shows what a command came to and ends its turn. The record of it stays with the session in which it was typed.
pub(crate) async fn conclude(
    state: &mut ConversationState,
    emitter: &Emitter,
    turn: TurnId,
    message: MessageId,
    outcome: Outcome,
) {
    let id = emitter.ids().message(MessageKind::Agent);
    let noted = |text: String| Record::Noted { turn: Some(turn), message: id.clone(), text };
    let end = TurnEnd::command();
    match outcome {
        Outcome::Said { text, kept } => {
            let kept = kept.unwrap_or_else(|| text.clone());
            state.record(emitter, vec![noted(kept)]).await;
            emitter.emit(EventKind::AgentText { id, text });
            turn::end(state, emitter, turn, message, end).await;
        }
        Outcome::Switch { to, report, then } => {
            state.record(emitter, vec![noted(report.clone()), end.record(turn)]).await;
            state.go(*to);
            emitter.emit(EventKind::AgentText { id, text: report });
            if then == AfterSwitch::Replay
                && let Err(error) = state.replay(emitter).await
            {
                emitter.notice(format!("[milk] {error}"));
            }
            turn::tell_end(state, emitter, message, end);
        }
        Outcome::Drop { to } => {
            let dropped = state.binding.session.clone();
            state.go(*to);
            let text = delete(state, &dropped).await;
            emitter.emit(EventKind::AgentText { id, text });
            turn::tell_end(state, emitter, message, end);
        }
    }
}

async fn delete(state: &ConversationState, dropped: &SessionId) -> String {
    let (was, now) = (short_id(dropped), short_id(&state.binding.session));
    match state.world().delete(dropped).await {
        Ok(()) => format!("deleted session {was} — this conversation goes on with the fresh session {now}"),
        Err(error) => {
            format!(
                "session {was} could not be deleted: {error}. This conversation goes on with the fresh session {now}."
            )
        }
    }
}
