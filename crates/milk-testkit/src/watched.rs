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

#[cfg(test)]
mod tests {
    use super::{PATIENCE, Watched};
    use std::sync::Arc;
    use std::time::Duration;

    #[tokio::test]
    async fn a_wait_sees_changes_of_other_threads_and_ends_at_its_limit() {
        let watched = Arc::new(Watched::new(0));
        let other = Arc::clone(&watched);
        let thread = std::thread::spawn(move || (0..100).for_each(|_| other.update(|value| *value += 1)));
        assert_eq!(watched.until(PATIENCE, |value| (*value == 100).then_some(*value)).await, Some(100));
        thread.join().unwrap();
        assert_eq!(watched.until(Duration::ZERO, |value| (*value == 1).then_some(())).await, None);
        assert_eq!(watched.until(Duration::from_millis(5), |value| (*value == 1).then_some(())).await, None);
    }
}
