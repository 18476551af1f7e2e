//! A view: one conversation as one client sees it, in the shapes that the client needs, under the handles by which the
//! client may name it.

pub(crate) mod answer;
mod gate;
mod question;
mod registry;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use milk_core::BoxFuture;
use milk_core::content::ContentBlock;
use milk_core::event::{Event, EventKind, PromptOutcome, ReplayItem, State};
use milk_core::id::{MessageId, PromptId, QuestionId, SessionId};
use milk_core::ports::EventSink;
use milk_engine::{Conversation, OpenError, next_prompt_id};

use self::gate::Gate;
pub(crate) use self::registry::{Claim, Registry, Reservation, TakenOut};
use crate::link::Link;
use crate::map::{Map, Out, ReplayIds, replay_complete, show_replayed};
use crate::peer::{CallId, RawId, RequestKey};
use crate::profile::{OutsideTurn, Profile};
use crate::serve::PromptResponse;
use crate::wire::{Handle, Version};
use crate::writer::Outgoing;

/// How long a client may take to register the id of a session that it was just told of (R22).
pub(crate) const SETTLING: Duration = Duration::from_millis(100);

/// Notices that wait for a turn, at most; beyond it the oldest goes.
const HELD_NOTICES: usize = 64;

/// What was negotiated with a client: the shapes that it needs. A view keeps those of its own beginning (R1).
#[derive(Debug, Clone)]
pub(crate) struct Shapes {
    pub(crate) version: Version,
    pub(crate) profile: Profile,
    pub(crate) prompt_response: PromptResponse,
    pub(crate) replay_ids: ReplayIds,
}

/// A conversation's front end on the wire.
#[derive(Debug)]
pub(crate) struct View {
    me: Weak<View>,
    link: Arc<Link>,
    shapes: Shapes,
    /// Set once, before the view is registered.
    conversation: OnceLock<Conversation>,
    /// The session that the view began with; set with the conversation.
    first: OnceLock<SessionId>,
    state: Mutex<ViewState>,
}

#[derive(Debug)]
struct ViewState {
    map: Map,
    gate: Gate,
    /// The handle that the client last named; `None` before the view is bound.
    last_named: Option<Handle>,
    prompts: HashMap<PromptId, OpenPrompt>,
    /// The handle of the running turn, while one runs.
    turn: Option<Handle>,
    questions: HashMap<QuestionId, CallId>,
    /// Notices that a v1 client is told in its next turn (R39).
    held_notices: VecDeque<(MessageId, String)>,
    flush: Flush,
    replays: Replays,
}

/// When stored history may leave (R22).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replays {
    /// With everything else that the view says.
    WithTheRest,
    /// At once: the client asked for it by the session's id and waits for it.
    AtOnce,
}

/// A prompt whose request has no answer yet, or had it early.
#[derive(Debug)]
struct OpenPrompt {
    request: RawId,
    key: RequestKey,
    /// The handle that the prompt named; its turn's updates carry it (R25).
    handle: Handle,
    answer: Owed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Yes,
    Given,
}

/// Whether a timer runs that will show held-back output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    Unplanned,
    Planned,
}

impl View {
    /// A view that is not bound yet. Its gate is shut: it says nothing of its own before [`View::open_gate`] or
    /// [`View::named`].
    pub(crate) fn new(link: Arc<Link>, shapes: Shapes) -> Arc<Self> {
        Arc::new_cyclic(|me| {
            let state = ViewState {
                map: Map::new(shapes.version, shapes.profile.echo),
                gate: Gate::shut(),
                last_named: None,
                prompts: HashMap::new(),
                turn: None,
                questions: HashMap::new(),
                held_notices: VecDeque::new(),
                flush: Flush::Unplanned,
                replays: Replays::WithTheRest,
            };
            let (me, state) = (me.clone(), Mutex::new(state));
            Self { me, link, shapes, conversation: OnceLock::new(), first: OnceLock::new(), state }
        })
    }

    /// Binds the view to its conversation, named `handle`.
    pub(crate) fn bind(&self, conversation: Conversation, handle: Handle) {
        self.lock().last_named = Some(handle);
        let first = self.first.set(conversation.session());
        if first.is_err() || self.conversation.set(conversation).is_err() {
            tracing::error!("a view was bound twice");
        }
    }

    /// The conversation. `None` only before the view is bound, when nobody can name it.
    pub(crate) fn conversation(&self) -> Option<&Conversation> {
        self.conversation.get()
    }

    /// The stored session that the view talks to.
    pub(crate) fn binding(&self) -> Option<SessionId> {
        self.conversation().map(Conversation::session)
    }

    pub(crate) fn version(&self) -> Version {
        self.shapes.version
    }

    /// The client has named the view by this handle: it knows it, and what is said outside turns carries it (R22, R25).
    pub(crate) fn named(&self, handle: Handle) {
        let mut state = self.lock();
        state.last_named = Some(handle);
        state.gate.open(&self.link.writer);
    }

    /// The client has had its time to register the handle.
    pub(crate) fn open_gate(&self) {
        self.lock().gate.open(&self.link.writer);
    }

    /// Says what the commands are, as soon as the gate is open.
    pub(crate) fn announce_commands(&self) {
        let mut state = self.lock();
        let Some(handle) = state.last_named.clone() else { return };
        let update = answer::commands_update(self.version());
        state.gate.pass(update.address(&handle), &self.link.writer);
    }

    /// Shows the stored history to a client that asked for it, before its request is answered (R22). The client knows the view
    /// by this handle.
    pub(crate) async fn replay(&self, handle: Handle) -> Result<(), OpenError> {
        let Some(conversation) = self.conversation() else { return Ok(()) };
        {
            let mut state = self.lock();
            state.last_named = Some(handle);
            state.replays = Replays::AtOnce;
        }
        conversation.replay().await
    }

    /// Says that a replay is over; v1 has no word for it.
    pub(crate) fn replay_is_complete(&self, handle: &Handle) {
        if self.version() == Version::V2 {
            self.link.writer.push(replay_complete().address(handle));
        }
    }

    /// Hands a prompt to the conversation. It is registered before this returns: a cancel in the next line finds it.
    pub(crate) fn prompt(&self, handle: Handle, request: RawId, content: Vec<ContentBlock>) {
        let Some(conversation) = self.conversation() else { return };
        let id = next_prompt_id();
        let key = request.key();
        self.lock().prompts.insert(id, OpenPrompt { request, key, handle, answer: Owed::Yes });
        // Not under the lock: a refusal comes back through `emit` at once.
        conversation.submit(id, content);
    }

    /// Cancels the prompt that this request sent, if it is one of this view's and still owed an answer (R20).
    pub(crate) fn cancel_request(&self, key: &RequestKey) -> bool {
        let found = {
            let state = self.lock();
            let mut open = state.prompts.iter();
            open.find(|(_, open)| open.answer == Owed::Yes && open.key == *key).map(|(id, _)| *id)
        };
        if let (Some(id), Some(conversation)) = (found, self.conversation()) {
            conversation.cancel_prompt(id);
        }
        found.is_some()
    }

    /// Ends the conversation; every prompt has its answer when this returns.
    pub(crate) async fn close(&self) {
        if let Some(conversation) = self.conversation() {
            conversation.close().await;
        }
        self.lock().gate.seal();
    }

    fn lock(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, state: &mut ViewState, prompt: Option<PromptId>, kind: EventKind) {
        let now = now();
        let Some(handle) = state.handle_for(prompt) else {
            tracing::error!("an event of a view that has no name yet");
            return;
        };
        let is_output = matches!(kind, EventKind::ToolOutput { .. });
        let then = state.note(prompt, &handle, &kind);
        state.with_map(&handle, &self.link, |map, out| map.show(kind, now, out));
        match then {
            Then::Nothing => {}
            Then::AnswerEarly(message) => self.answer_early(state, prompt, &message),
            Then::TellHeldNotices => {
                for (id, text) in std::mem::take(&mut state.held_notices) {
                    let notice = EventKind::Notice { id, text };
                    state.with_map(&handle, &self.link, |map, out| map.show(notice, now, out));
                }
            }
        }
        if is_output {
            self.plan_flush(state, now);
        }
    }

    /// Stored history is never held: the client asked for it, or must see it (R22).
    fn show_replayed(&self, state: &mut ViewState, prompt: Option<PromptId>, item: ReplayItem) {
        let (Some(handle), Some(first)) = (state.handle_for(prompt), self.first.get()) else {
            tracing::error!("stored history of a view that has no name yet");
            return;
        };
        let (version, ids, replays) = (self.version(), self.shapes.replay_ids, state.replays);
        show_replayed(version, ids, first, item, &mut |update| {
            let message = update.address(&handle);
            match replays {
                Replays::WithTheRest => state.gate.pass(message, &self.link.writer),
                Replays::AtOnce => state.gate.pass_by(message, &self.link.writer),
            }
        });
    }

    /// Upstream's early answer, for clients that asked for it (R6). v1 has none: its answer carries the stop reason.
    fn answer_early(&self, state: &mut ViewState, prompt: Option<PromptId>, message: &MessageId) {
        if self.version() == Version::V1 || self.shapes.prompt_response == PromptResponse::Held {
            return;
        }
        let Some(open) = prompt.and_then(|id| state.prompts.get_mut(&id)) else { return };
        open.answer = Owed::Given;
        self.link.answer(&open.request, Version::V2, answer::accepted(message).as_deref());
    }

    fn ended(&self, state: &mut ViewState, prompt: Option<PromptId>, outcome: PromptOutcome) {
        let Some(open) = prompt.and_then(|id| state.prompts.remove(&id)) else { return };
        if open.answer == Owed::Yes {
            let version = self.version();
            self.link.answer(&open.request, version, answer::prompt(version, outcome).as_deref());
        }
    }

    /// Has held-back output shown when it is due.
    fn plan_flush(&self, state: &mut ViewState, now: Instant) {
        if state.flush == Flush::Planned {
            return;
        }
        let Some(due) = state.map.due(now) else { return };
        state.flush = Flush::Planned;
        let view = self.me.clone();
        self.link.after(due.saturating_duration_since(now), move || {
            if let Some(view) = view.upgrade() {
                view.flush();
            }
        });
    }

    fn flush(&self) {
        let now = now();
        let mut state = self.lock();
        state.flush = Flush::Unplanned;
        if let Some(handle) = state.turn.clone().or_else(|| state.last_named.clone()) {
            state.with_map(&handle, &self.link, |map, out| map.flush(now, out));
        }
        self.plan_flush(&mut state, now);
    }

    /// Whether this event is a notice that waits for the next turn.
    fn holds(&self, state: &ViewState, event: &Event) -> bool {
        self.shapes.profile.notices == OutsideTurn::Held
            && event.prompt.is_none()
            && state.turn.is_none()
            && matches!(event.kind, EventKind::Notice { .. })
    }
}

/// What follows an event's own updates.
enum Then {
    Nothing,
    AnswerEarly(MessageId),
    TellHeldNotices,
}

impl ViewState {
    /// A turn's updates carry the handle that its prompt named, everything else the one that was last named (R25).
    fn handle_for(&self, prompt: Option<PromptId>) -> Option<Handle> {
        let of_prompt = prompt.and_then(|id| self.prompts.get(&id)).map(|open| &open.handle);
        of_prompt.or(self.last_named.as_ref()).cloned()
    }

    /// Takes note of where the conversation stands.
    fn note(&mut self, prompt: Option<PromptId>, handle: &Handle, kind: &EventKind) -> Then {
        match kind {
            EventKind::UserMessage { id, .. } => {
                self.turn = Some(handle.clone());
                if prompt.is_some() { Then::AnswerEarly(id.clone()) } else { Then::Nothing }
            }
            EventKind::State(State::Running) => {
                self.turn = Some(handle.clone());
                Then::TellHeldNotices
            }
            EventKind::State(State::Idle { .. }) => {
                self.turn = None;
                Then::Nothing
            }
            _ => Then::Nothing,
        }
    }

    fn with_map(&mut self, handle: &Handle, link: &Link, show: impl FnOnce(&mut Map, Out<'_>)) {
        let Self { map, gate, .. } = self;
        show(map, &mut |update| gate.pass(update.address(handle), &link.writer));
    }

    fn hold_notice(&mut self, id: MessageId, text: String) {
        if self.held_notices.len() == HELD_NOTICES {
            self.held_notices.pop_front();
        }
        self.held_notices.push_back((id, text));
    }
}

impl EventSink for View {
    fn emit(&self, event: Event) {
        let mut state = self.lock();
        let holds = self.holds(&state, &event);
        let Event { prompt, kind } = event;
        match kind {
            EventKind::Asked { question, answer } => self.ask(&mut state, prompt, &question, answer),
            EventKind::AskWithdrawn(id) => self.withdraw(&mut state, id),
            EventKind::PromptEnded(outcome) => self.ended(&mut state, prompt, outcome),
            EventKind::Notice { id, text } if holds => state.hold_notice(id, text),
            EventKind::Replayed(item) => self.show_replayed(&mut state, prompt, item),
            shown => self.show(&mut state, prompt, shown),
        }
    }

    fn room(&self) -> Option<BoxFuture<'_, ()>> {
        self.link.writer.room()
    }
}

/// The time, on the runtime's clock where there is one.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Outgoing {
    /// A message about a session, in order with its updates.
    pub(crate) fn about(of: &Handle, line: Vec<u8>) -> Self {
        Self::Line { of: Some(of.clone()), line }
    }
}
