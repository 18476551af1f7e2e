//! A value that tests wait on: changed by one thread, watched by another, never polled.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How long any wait of the kit lasts before it fails the test. Generous: it is reached only by a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A value behind a lock whose every change wakes the waiting tests.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    version: watch::Sender<u64>,
}

impl<T> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), version: watch::Sender::new(0) }
    }

    /// Looks at the value.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the value and wakes whoever waits.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.value.lock().unwrap_or_else(PoisonError::into_inner));
        self.version.send_modify(|version| *version += 1);
        result
    }

    /// Waits until `find` gives something; `None` when `limit` has passed.
    ///
    /// The limit is real time, also on a runtime whose clock is paused.
    pub(crate) async fn until<R>(&self, limit: Duration, mut find: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let mut version = self.version.subscribe();
        let deadline = Instant::now() + limit;
        loop {
            version.borrow_and_update();
            if let Some(found) = self.read(&mut find) {
                return Some(found);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            // Elapsed and changed both lead back to the look; the sender lives as long as `self`.
            let _ = tokio::time::timeout(left, version.changed()).await;
        }
    }
}
