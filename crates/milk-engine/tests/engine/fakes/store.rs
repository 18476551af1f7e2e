//! Sessions in memory, whose log can be slow and can fail.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use milk_core::BoxFuture;
use milk_core::id::SessionId;
use milk_core::ports::{SessionLog, SessionStore, StoreError, StoredSession};
use milk_core::record::Record;
use milk_core::session::SessionSummary;

use super::journal::{Journal, Seen};

/// One stored session at most.
#[derive(Debug)]
pub(crate) struct FakeStore {
    pub(crate) log: Arc<FakeLog>,
    stored: Mutex<Option<Vec<Record>>>,
    created: Mutex<Vec<SessionId>>,
}

impl FakeStore {
    /// A store whose session `stored` holds these records.
    pub(crate) fn new(journal: Journal, records: Option<Vec<Record>>) -> Self {
        Self {
            log: Arc::new(FakeLog { journal, failing: AtomicBool::new(false) }),
            stored: Mutex::new(records),
            created: Mutex::default(),
        }
    }

    pub(crate) fn created(&self) -> Vec<SessionId> {
        self.created.lock().unwrap().clone()
    }
}

impl SessionStore for FakeStore {
    fn create<'a>(
        &'a self,
        id: &'a SessionId,
        _: &'a Path,
    ) -> BoxFuture<'a, Result<Arc<dyn SessionLog>, StoreError>> {
        self.created.lock().unwrap().push(id.clone());
        let log: Arc<dyn SessionLog> = self.log.clone();
        Box::pin(async { Ok(log) })
    }

    fn open<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        let records = self.stored.lock().unwrap().take();
        let log: Arc<dyn SessionLog> = self.log.clone();
        Box::pin(async {
            let records = records.ok_or_else(|| StoreError::Unknown(id.clone()))?;
            Ok(StoredSession { log, cwd: PathBuf::from("/work"), records })
        })
    }

    fn list<'a>(&'a self, _: Option<&'a Path>) -> BoxFuture<'a, Result<Vec<SessionSummary>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn delete<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A log that notes its records in the journal.
#[derive(Debug)]
pub(crate) struct FakeLog {
    journal: Journal,
    failing: AtomicBool,
}

impl FakeLog {
    pub(crate) fn fails(&self, failing: bool) {
        self.failing.store(failing, Ordering::Relaxed);
    }
}

impl SessionLog for FakeLog {
    fn append<'a>(&'a self, records: &'a [Record]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            tokio::task::yield_now().await; // a real log waits for its disk
            if self.failing.load(Ordering::Relaxed) {
                self.journal.note(Seen::LogFailed);
                return Err(StoreError::Failed("the disk is full".to_owned()));
            }
            for record in records {
                self.journal.note(Seen::Record(record.clone()));
            }
            Ok(())
        })
    }
}
