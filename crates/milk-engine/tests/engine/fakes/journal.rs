//! One journal of everything that can be seen of the engine from outside, in the order in which it happened.

use std::sync::{Arc, Mutex, MutexGuard};

use milk_core::event::Event;
use milk_core::id::{QuestionId, SessionId};
use milk_core::record::Record;
use tokio::sync::Notify;

/// One thing that happened.
#[derive(Debug)]
pub(crate) enum Seen {
    /// The front end was shown this. The slot of a question is taken out.
    Event(Event),
    /// The front end took this question from the screen by itself, to answer it or not.
    QuestionTaken(QuestionId),
    /// This session's log kept this.
    Record(SessionId, Record),
    /// This session was deleted.
    Deleted(SessionId),
    /// The session's log could not keep something.
    LogFailed,
    /// A tool did this.
    Tool { label: String, nature: Nature, what: ToolNote },
}

/// Whether a call only looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    Looks,
    Acts,
}

/// What a tool notes of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolNote {
    Prepared,
    Starts,
    Ends,
    /// It was dropped before it had ended.
    Dropped,
}

/// The journal; every clone is the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    entries: Mutex<Vec<Seen>>,
    grown: Notify,
}

impl Journal {
    pub(crate) fn note(&self, seen: Seen) {
        self.entries().push(seen);
        self.0.grown.notify_waiters();
    }

    /// Reads what happened so far.
    pub(crate) fn entries(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.0.entries.lock().expect("no test panics while it holds the journal")
    }

    /// Waits until something that happened gives a value.
    pub(crate) async fn until<T>(&self, mut wanted: impl FnMut(&[Seen]) -> Option<T>) -> T {
        loop {
            let grown = self.0.grown.notified();
            tokio::pin!(grown);
            grown.as_mut().enable();
            let found = wanted(&self.entries());
            match found {
                Some(found) => return found,
                None => grown.await,
            }
        }
    }
}
