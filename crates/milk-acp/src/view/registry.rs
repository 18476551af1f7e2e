//! Which handle leads to which view, and which sessions are being opened or ended.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use milk_core::id::SessionId;
use tokio_util::sync::CancellationToken;

use super::View;
use crate::wire::Handle;

/// The views of one connection.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    by_handle: HashMap<Handle, Arc<View>>,
    /// Sessions that somebody is opening, closing or deleting; the token trips when that is done.
    busy: HashMap<SessionId, CancellationToken>,
    phase: Phase,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// The connection ends: no view is taken in any more.
    Over,
}

/// Who may touch a stored session.
#[derive(Debug)]
pub(crate) enum Claim {
    /// A view has it open.
    Live(Arc<View>),
    /// The claimer, alone.
    Mine(Reservation),
    /// Somebody else at the moment; try again when the token trips.
    Busy(CancellationToken),
}

/// The right to open, close or delete one stored session. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    state: Arc<Mutex<State>>,
    /// Taken when the right has passed to a view.
    session: Option<SessionId>,
}

/// A view that nobody finds any more.
#[derive(Debug)]
pub(crate) struct TakenOut {
    /// Every id that led to it, and that of its session.
    pub(crate) ids: Vec<String>,
    /// Its session.
    pub(crate) reserved: Reservation,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            lock(&self.state).release(&session);
        }
    }
}

impl State {
    fn release(&mut self, session: &SessionId) {
        if let Some(done) = self.busy.remove(session) {
            done.cancel();
        }
    }
}

impl Registry {
    /// The view that a handle leads to.
    pub(crate) fn get(&self, handle: &str) -> Option<Arc<View>> {
        lock(&self.state).by_handle.get(handle).map(Arc::clone)
    }

    /// Takes a bound view in under a handle; the right to its session, if it was reserved, passes to it. Gives the view back
    /// when the connection is over.
    pub(crate) fn insert(
        &self,
        handle: Handle,
        view: Arc<View>,
        reserved: Option<Reservation>,
    ) -> Result<(), Arc<View>> {
        let mut state = lock(&self.state);
        let taken = match state.phase {
            Phase::Open => {
                state.by_handle.insert(handle, view);
                Ok(())
            }
            Phase::Over => Err(view),
        };
        // In the same step: nobody may find the session both held and free.
        if let Some(session) = reserved.and_then(|mut reserved| reserved.session.take()) {
            state.release(&session);
        }
        taken
    }

    /// Another handle for a view (contract: session/resume(X) resolution).
    pub(crate) fn alias(&self, handle: Handle, view: &Arc<View>) {
        let mut state = lock(&self.state);
        if state.by_handle.values().any(|known| Arc::ptr_eq(known, view)) {
            state.by_handle.insert(handle, Arc::clone(view));
        }
    }

    /// The view that has this session open, else the right to it. A session that is some view's binding belongs to that view,
    /// whatever its handle is (contract: session/resume(X) resolution).
    pub(crate) fn claim(&self, session: &SessionId) -> Claim {
        let mut state = lock(&self.state);
        if let Some(done) = state.busy.get(session) {
            return Claim::Busy(done.clone());
        }
        let bound = state.by_handle.values().find(|view| view.binding().as_ref() == Some(session));
        if let Some(view) = bound.or_else(|| state.by_handle.get(session.as_str())) {
            return Claim::Live(Arc::clone(view));
        }
        Claim::Mine(self.reserve(&mut state, session))
    }

    /// Takes a view out, with all its handles. The reservation keeps others from its session until the view has been closed.
    /// `None` if somebody else has taken it out.
    pub(crate) fn take_out(&self, view: &Arc<View>) -> Option<TakenOut> {
        let session = view.binding()?;
        let mut state = lock(&self.state);
        let mut ids = Vec::new();
        state.by_handle.retain(|handle, other| {
            let stays = !Arc::ptr_eq(other, view);
            if !stays {
                ids.push(handle.as_str().to_owned());
            }
            stays
        });
        if ids.is_empty() {
            return None;
        }
        ids.push(session.as_str().to_owned());
        let reserved = self.reserve(&mut state, &session);
        Some(TakenOut { ids, reserved })
    }

    /// Every view, once each.
    pub(crate) fn views(&self) -> Vec<Arc<View>> {
        let state = lock(&self.state);
        let mut seen = HashSet::new();
        state.by_handle.values().filter(|view| seen.insert(Arc::as_ptr(view))).map(Arc::clone).collect()
    }

    /// Takes no view in any more, and gives those that there are.
    pub(crate) fn shut(&self) -> Vec<Arc<View>> {
        lock(&self.state).phase = Phase::Over;
        self.views()
    }

    fn reserve(&self, state: &mut State, session: &SessionId) -> Reservation {
        state.busy.insert(session.clone(), CancellationToken::new());
        Reservation { state: Arc::clone(&self.state), session: Some(session.clone()) }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
