//! Memory, tasks and the time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use milk_core::BoxFuture;
use milk_core::id::SessionId;
use milk_core::ports::{Clock, MemoryStore, TaskStore};

/// Facts and tasks as the test sets them, and what was asked for.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    pub(crate) facts: Vec<String>,
    pub(crate) tasks: Vec<String>,
    pub(crate) recall: Recall,
    pub(crate) asked: Mutex<Vec<String>>,
}

/// How a recall goes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Recall {
    #[default]
    AtOnce,
    Never,
}

impl MemoryStore for Knowledge {
    fn recall<'a>(&'a self, _: &'a SessionId, prompt: &'a str) -> BoxFuture<'a, Vec<String>> {
        self.asked.lock().unwrap().push(prompt.to_owned());
        Box::pin(async {
            match self.recall {
                Recall::AtOnce => self.facts.clone(),
                Recall::Never => std::future::pending().await,
            }
        })
    }
}

impl TaskStore for Knowledge {
    fn open_tasks<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async { self.tasks.clone() })
    }
}

/// A clock that moves by one each time that somebody looks.
#[derive(Debug, Default)]
pub(crate) struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now_ms(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}
