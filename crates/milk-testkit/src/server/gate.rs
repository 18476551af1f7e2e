//! A gate that a reply waits at until the test opens it.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use crate::watched::{PATIENCE, Watched};

/// A point in a reply that the test controls: the server waits at it, the test sees it arrive and lets it pass.
///
/// Clones are the same gate. An open gate stays open.
///
/// ```
/// use milk_testkit::{Gate, Reply};
///
/// let gate = Gate::new();
/// let reply = Reply::stream().say("before").wait(&gate).say("after").end();
/// # let _ = reply;
/// // … gate.reached().await; look at what "before" did; gate.open();
/// ```
#[derive(Clone)]
pub struct Gate {
    state: Arc<Watched<State>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    reached: usize,
    open: bool,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.read(|state| *state);
        f.debug_struct("Gate").field("reached", &state.reached).field("open", &state.open).finish()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self { state: Arc::new(Watched::new(State::default())) }
    }

    /// Lets everything that waits here, and everything that comes later, pass.
    pub fn open(&self) {
        self.state.update(|state| state.open = true);
    }

    /// Waits until a reply has come to this gate: everything before it has been written.
    ///
    /// # Panics
    /// When nothing came within [`PATIENCE`].
    #[track_caller]
    pub fn reached(&self) -> impl Future<Output = ()> + '_ {
        let caller = Location::caller();
        async move {
            if self.state.until(PATIENCE, |state| (state.reached > 0).then_some(())).await.is_none() {
                super::give_up(caller, "no reply reached the gate", "");
            }
        }
    }

    /// How many replies have come to this gate so far.
    pub fn arrivals(&self) -> usize {
        self.state.read(|state| state.reached)
    }

    /// The server's side: arrive, then wait for as long as it takes.
    pub(crate) async fn pass(&self) {
        self.state.update(|state| state.reached += 1);
        while self.state.until(PATIENCE, |state| state.open.then_some(())).await.is_none() {}
    }
}
