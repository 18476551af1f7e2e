//! The calls that milk has open with the other side.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;

use super::CallError;

/// One call of milk's own, unique on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallId(pub(crate) u64);

/// How a call ended.
#[derive(Debug)]
pub(crate) enum CallOutcome<'a> {
    /// The other side answered.
    Answered(&'a RawValue),
    /// The other side refused, or does not know the method.
    Refused(CallError),
    /// The other side is gone.
    Gone,
}

/// What to do when a call ends: once, quickly, on the thread that learns of it. Dropped when the call is withdrawn.
pub(crate) type OnDone = Box<dyn for<'a> FnOnce(CallOutcome<'a>) + Send>;

/// The open calls. A call is registered before its bytes leave, so that no answer can be too early.
pub(crate) struct Calls {
    state: Mutex<State>,
}

struct State {
    next: u64,
    /// `None` once the other side is gone.
    open: Option<HashMap<CallId, OnDone>>,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { next: 1, open: Some(HashMap::new()) }) }
    }

    /// Opens a call. `None` when the other side is gone; `on_done` has then been dropped.
    pub(crate) fn register(&self, on_done: OnDone) -> Option<CallId> {
        let mut state = self.lock();
        let id = CallId(state.next);
        state.open.as_mut()?.insert(id, on_done);
        state.next += 1;
        Some(id)
    }

    /// Ends the call that this number names. A number that nobody waits for is ignored.
    pub(crate) fn settle(&self, number: u64, outcome: CallOutcome<'_>) {
        let on_done = self.lock().open.as_mut().and_then(|open| open.remove(&CallId(number)));
        if let Some(on_done) = on_done {
            on_done(outcome);
        }
    }

    /// Forgets a call. Whether it was still open.
    pub(crate) fn withdraw(&self, id: CallId) -> bool {
        let on_done = self.lock().open.as_mut().and_then(|open| open.remove(&id));
        // Dropped here, outside the lock: it may own an answer slot, whose drop runs code.
        on_done.is_some()
    }

    /// The other side is gone: every open call ends so, and none opens any more.
    pub(crate) fn close(&self) {
        let open = self.lock().open.take();
        for (_, on_done) in open.into_iter().flatten() {
            on_done(CallOutcome::Gone);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("open", &self.lock().open.as_ref().map(HashMap::len)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    type Heard = Arc<Mutex<Vec<String>>>;

    fn listen(heard: &Heard, name: &'static str) -> OnDone {
        let heard = Arc::clone(heard);
        Box::new(move |outcome| {
            let how = match outcome {
                CallOutcome::Answered(result) => result.get().to_owned(),
                CallOutcome::Refused(error) => error.message,
                CallOutcome::Gone => "gone".to_owned(),
            };
            heard.lock().unwrap().push(format!("{name}: {how}"));
        })
    }

    #[test]
    fn each_call_ends_once() {
        let heard = Heard::default();
        let calls = Calls::new();
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| calls.register(listen(&heard, name)).unwrap());

        calls.settle(b.0, CallOutcome::Answered(RawValue::TRUE));
        calls.settle(b.0, CallOutcome::Answered(RawValue::FALSE));
        calls.settle(999, CallOutcome::Answered(RawValue::TRUE));
        calls.settle(
            a.0,
            CallOutcome::Refused(CallError { code: -32601, message: "what?".into(), data: None }),
        );
        assert!(calls.withdraw(c));
        assert!(!calls.withdraw(c) && !calls.withdraw(a));
        calls.close();
        calls.settle(d.0, CallOutcome::Answered(RawValue::TRUE));
        assert!(calls.register(listen(&heard, "late")).is_none());

        assert_eq!(*heard.lock().unwrap(), ["b: true", "a: what?", "d: gone"]);
    }
}
