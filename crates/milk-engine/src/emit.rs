//! Emitting events of one prompt, with ids minted on the way.

use std::sync::Arc;

use milk_core::event::{Event, EventKind, ReplayItem, Replayed, State};
use milk_core::id::{MessageId, PromptId, SessionId};
use milk_core::ports::EventSink;
use milk_core::record::EntryNumber;

use crate::ids::{IdMint, MessageKind};

/// Emits into one conversation's front end, on behalf of one prompt or of none.
#[derive(Debug, Clone)]
pub(crate) struct Emitter {
    sink: Arc<dyn EventSink>,
    ids: Arc<IdMint>,
    prompt: Option<PromptId>,
}

impl Emitter {
    pub(crate) fn new(sink: Arc<dyn EventSink>, ids: Arc<IdMint>) -> Self {
        Self { sink, ids, prompt: None }
    }

    pub(crate) fn for_prompt(&self, prompt: PromptId) -> Self {
        Self { prompt: Some(prompt), ..self.clone() }
    }

    /// The prompt that this speaks for.
    pub(crate) fn prompt(&self) -> Option<PromptId> {
        self.prompt
    }

    pub(crate) fn emit(&self, kind: EventKind) {
        self.sink.emit(Event { prompt: self.prompt, kind });
    }

    pub(crate) fn state(&self, state: State) {
        self.emit(EventKind::State(state));
    }

    /// Says one line to the user, and tells which id it went out under.
    pub(crate) fn notice(&self, text: impl Into<String>) -> MessageId {
        let id = self.ids.message(MessageKind::Notice);
        self.emit(EventKind::Notice { id: id.clone(), text: text.into() });
        id
    }

    /// Says which stored history follows.
    pub(crate) fn announce(&self, session: &SessionId, text: String) {
        let id = self.ids.message(MessageKind::Notice);
        let what = Replayed::Announced { id, text };
        self.emit(EventKind::Replayed(ReplayItem { session: session.clone(), entry: EntryNumber(0), what }));
    }

    /// Waits until the front end has room.
    pub(crate) async fn room(&self) {
        if let Some(room) = self.sink.room() {
            room.await;
        }
    }

    pub(crate) fn ids(&self) -> &IdMint {
        &self.ids
    }
}
