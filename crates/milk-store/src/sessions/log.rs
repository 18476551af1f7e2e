//! One open session: the port's [`SessionLog`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use milk_core::BoxFuture;
use milk_core::ports::{SessionLog, StoreError};
use milk_core::record::Record;

use super::Shared;
use super::background::{blocking, in_background, in_background_after};
use super::history::ends_turn;
use super::index::{Hold, Use};
use super::look::Row;
use super::source::Source;
use super::writer::Writer;

/// How long after a write in the middle of a turn the log is made safe from a loss of power.
const SYNC_DELAY: Duration = Duration::from_millis(20);

/// What is written on the caller's thread, in bytes; more is written on a thread that may wait.
const QUICK: usize = 256 * 1024;

/// A session that this store has open for writing.
#[derive(Debug)]
pub(super) struct Live {
    writer: Mutex<Writer>,
    /// Whether a sync, of the log and of the index, is on its way that has not begun.
    sync_queued: AtomicBool,
}

impl Live {
    pub(super) fn new(writer: Writer) -> Self {
        Self { writer: Mutex::new(writer), sync_queued: AtomicBool::new(false) }
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its history as it is now.
    pub(super) fn source(&self) -> Source {
        self.writer().source()
    }

    /// What a list says of it now.
    pub(super) fn row(&self) -> Row {
        self.writer().row()
    }

    /// Writes what is waiting.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let mut writer = self.writer();
        writer.flush().map_err(|error| StoreError::Failed(writer.complaint(&error)))
    }

    fn sync(&self) -> Result<(), StoreError> {
        let Some(unsynced) = self.writer().take_unsynced() else { return Ok(()) };
        unsynced.sync().map_err(|error| {
            let mut writer = self.writer();
            writer.give_back(unsynced);
            StoreError::Failed(writer.complaint(&error))
        })
    }
}

/// The handle to an open session. Dropping it closes the session.
#[derive(Debug)]
pub(super) struct DiskLog {
    live: Arc<Live>,
    shared: Arc<Shared>,
}

impl DiskLog {
    pub(super) fn new(live: Arc<Live>, shared: Arc<Shared>) -> Self {
        Self { live, shared }
    }

    async fn append_all(&self, records: &[Record]) -> Result<(), StoreError> {
        let (used, large) = {
            let mut writer = self.live.writer();
            if writer.is_deleted() {
                return Ok(());
            }
            let used = writer.stage(records, self.shared.clock.now_ms());
            (used, writer.waiting_bytes() > QUICK)
        };
        let written = if large {
            let live = Arc::clone(&self.live);
            blocking(move || live.flush()).await
        } else {
            self.live.flush()
        };
        if used {
            // Under the lock: a session that is being deleted leaves no note behind.
            let writer = self.live.writer();
            if !writer.is_deleted() {
                self.shared.index.note(writer.row(), Hold::Open, Use::Fresh);
            }
        }
        let (live, shared) = (Arc::clone(&self.live), Arc::clone(&self.shared));
        if records.iter().any(ends_turn) {
            // The index may be busy, and another process looks at the log itself.
            in_background(move || shared.index.flush());
            return written.and(blocking(move || live.sync()).await);
        }
        if !self.live.sync_queued.swap(true, Ordering::AcqRel) {
            // The model's request goes first: a page that is on its way to the disk holds up the next write to it.
            in_background_after(SYNC_DELAY, move || {
                live.sync_queued.store(false, Ordering::Release);
                if let Err(error) = live.sync() {
                    tracing::debug!(%error, "a session's log is not safe from a loss of power");
                }
                shared.index.flush();
            });
        }
        written
    }
}

impl SessionLog for DiskLog {
    fn append<'a>(&'a self, records: &'a [Record]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.append_all(records))
    }
}

impl Drop for DiskLog {
    fn drop(&mut self) {
        let mut writer = self.live.writer();
        self.shared.forget(writer.names().id(), &self.live);
        if writer.is_deleted() {
            return;
        }
        if let Err(error) = writer.flush() {
            tracing::warn!(error = writer.complaint(&error), "the end of a session could not be written");
        }
        self.shared.index.note(writer.row(), Hold::Closed, Use::None);
        if let Some(file) = writer.file() {
            // A sync that is on its way keeps the handle, and would keep the lock with it.
            let _ = file.unlock();
        }
        drop(writer);
        let shared = Arc::clone(&self.shared);
        in_background(move || shared.index.flush());
    }
}
