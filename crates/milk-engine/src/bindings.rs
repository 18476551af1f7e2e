//! Which conversation has which stored session, in this process. A session belongs to one conversation at most (contract:
//! Handle invariant).

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use milk_core::id::SessionId;

use crate::conversation::{Conversation, WeakConversation};

/// Closed ids that are remembered, at most, and the longest of them in bytes: a client may make up any number.
const CLOSED: usize = 1 << 16;
const CLOSED_ID: usize = 64;

/// The bindings of a process.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    holders: HashMap<SessionId, Holder>,
    /// Directories in which a conversation is opening, with how many.
    opening: HashMap<PathBuf, usize>,
    /// Ids that were closed or deleted here: adoption leaves them alone (contract: Resume-by-default).
    closed: HashSet<String>,
}

#[derive(Debug)]
enum Holder {
    /// Somebody is opening or deleting it.
    Busy,
    Bound(WeakConversation),
}

/// The right to one stored session. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    session: SessionId,
    bindings: Arc<Bindings>,
}

/// A conversation is opening in a directory. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Opening {
    directory: PathBuf,
    bindings: Arc<Bindings>,
}

/// Whether another conversation is in the directory already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    Alone,
    Others,
}

impl Bindings {
    /// Takes a session, unless somebody has it.
    pub(crate) fn claim(self: &Arc<Self>, session: &SessionId) -> Option<Claim> {
        let mut state = self.lock();
        if state.holders.contains_key(session) {
            return None;
        }
        state.holders.insert(session.clone(), Holder::Busy);
        Some(Claim { session: session.clone(), bindings: Arc::clone(self) })
    }

    /// The conversation that has this session.
    pub(crate) fn holder(&self, session: &SessionId) -> Option<Conversation> {
        match self.lock().holders.get(session) {
            Some(Holder::Bound(conversation)) => conversation.upgrade(),
            Some(Holder::Busy) | None => None,
        }
    }

    /// Says that a conversation opens in this directory, and whether it is alone there: of several that open at the same
    /// instant, one is (R24).
    pub(crate) fn opening(self: &Arc<Self>, directory: &Path) -> (Opening, Company) {
        // Asked outside the lock: a conversation tells its directory under one of its own.
        let live = self.live().iter().any(|conversation| conversation.workspace().cwd() == directory);
        let mut state = self.lock();
        let opening = state.opening.entry(directory.to_owned()).or_default();
        let company = if live || *opening > 0 { Company::Others } else { Company::Alone };
        *opening += 1;
        (Opening { directory: directory.to_owned(), bindings: Arc::clone(self) }, company)
    }

    fn live(&self) -> Vec<Conversation> {
        let state = self.lock();
        let bound = state.holders.values().filter_map(|holder| match holder {
            Holder::Bound(conversation) => conversation.upgrade(),
            Holder::Busy => None,
        });
        bound.collect()
    }

    /// Remembers an id as closed.
    pub(crate) fn note_closed(&self, id: &str) {
        let mut state = self.lock();
        if id.len() <= CLOSED_ID && state.closed.len() < CLOSED {
            state.closed.insert(id.to_owned());
        }
    }

    pub(crate) fn was_closed(&self, id: &SessionId) -> bool {
        self.lock().closed.contains(id.as_str())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// The session belongs to this conversation now.
    pub(crate) fn bind(&self, conversation: WeakConversation) {
        self.bindings.lock().holders.insert(self.session.clone(), Holder::Bound(conversation));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.bindings.lock().holders.remove(&self.session);
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut state = self.bindings.lock();
        if let Some(opening) = state.opening.get_mut(&self.directory) {
            *opening -= 1;
            if *opening == 0 {
                state.opening.remove(&self.directory);
            }
        }
    }
}
