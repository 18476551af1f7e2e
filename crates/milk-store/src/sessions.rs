//! The sessions of this process, in memory. A closed session stays here and can be opened again until the process ends.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use milk_core::BoxFuture;
use milk_core::content::plain_text;
use milk_core::id::SessionId;
use milk_core::ports::{Clock, SessionLog, SessionStore, StoreError, StoredSession};
use milk_core::record::Record;
use milk_core::session::{SessionSummary, title_from};
use milk_files::DirId;

/// Every session that this process has made.
#[derive(Debug)]
pub struct ProcessSessions {
    clock: Arc<dyn Clock>,
    sessions: Arc<Mutex<HashMap<SessionId, Stored>>>,
}

#[derive(Debug)]
struct Stored {
    summary: SessionSummary,
    directory: DirId,
    records: Vec<Record>,
    /// Counts up with every record, so that sessions used in the same millisecond keep their order.
    last_used: (u64, u64),
}

impl ProcessSessions {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, sessions: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Stored>> {
        lock(&self.sessions)
    }

    fn log(&self, id: &SessionId) -> Arc<dyn SessionLog> {
        Arc::new(ProcessLog {
            id: id.clone(),
            clock: Arc::clone(&self.clock),
            sessions: Arc::clone(&self.sessions),
        })
    }

    fn insert(&self, id: &SessionId, cwd: &Path) -> Arc<dyn SessionLog> {
        let now = self.clock.now_ms();
        let mut sessions = self.lock();
        let order = next_order(&sessions);
        let summary = SessionSummary {
            id: id.clone(),
            cwd: PathBuf::from(cwd),
            name: None,
            first_prompt: None,
            turns: 0,
            last_used_ms: now,
        };
        let stored =
            Stored { summary, directory: DirId::of(cwd), records: Vec::new(), last_used: (now, order) };
        sessions.insert(id.clone(), stored);
        drop(sessions);
        self.log(id)
    }
}

fn lock(sessions: &Mutex<HashMap<SessionId, Stored>>) -> MutexGuard<'_, HashMap<SessionId, Stored>> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}

fn next_order(sessions: &HashMap<SessionId, Stored>) -> u64 {
    sessions.values().map(|stored| stored.last_used.1).max().unwrap_or(0) + 1
}

impl SessionStore for ProcessSessions {
    fn create<'a>(
        &'a self,
        id: &'a SessionId,
        cwd: &'a Path,
    ) -> BoxFuture<'a, Result<Arc<dyn SessionLog>, StoreError>> {
        let log = self.insert(id, cwd);
        Box::pin(std::future::ready(Ok(log)))
    }

    fn open<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        let opened = match self.lock().get(id) {
            Some(stored) => {
                let cwd = stored.summary.cwd.clone();
                Ok(StoredSession { log: self.log(id), cwd, records: stored.records.clone() })
            }
            None => Err(StoreError::Unknown(id.clone())),
        };
        Box::pin(std::future::ready(opened))
    }

    fn list<'a>(&'a self, cwd: Option<&'a Path>) -> BoxFuture<'a, Result<Vec<SessionSummary>, StoreError>> {
        let wanted = cwd.map(DirId::of);
        let sessions = self.lock();
        let mut found: Vec<&Stored> = sessions
            .values()
            .filter(|stored| wanted.as_ref().is_none_or(|wanted| stored.directory == *wanted))
            .collect();
        found.sort_by_key(|stored| std::cmp::Reverse(stored.last_used));
        let summaries = found.into_iter().map(|stored| stored.summary.clone()).collect();
        drop(sessions);
        Box::pin(std::future::ready(Ok(summaries)))
    }

    fn delete<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        let removed = self.lock().remove(id).map(drop).ok_or_else(|| StoreError::Unknown(id.clone()));
        Box::pin(std::future::ready(removed))
    }
}

/// One session's log. Records of a session that was deleted meanwhile are dropped: it must not come back.
#[derive(Debug)]
struct ProcessLog {
    id: SessionId,
    clock: Arc<dyn Clock>,
    sessions: Arc<Mutex<HashMap<SessionId, Stored>>>,
}

impl SessionLog for ProcessLog {
    fn append<'a>(&'a self, records: &'a [Record]) -> BoxFuture<'a, Result<(), StoreError>> {
        let now = self.clock.now_ms();
        let mut sessions = lock(&self.sessions);
        let order = next_order(&sessions);
        if let Some(stored) = sessions.get_mut(&self.id) {
            stored.last_used = (now, order);
            stored.summary.last_used_ms = now;
            for record in records {
                note(&mut stored.summary, record);
            }
            stored.records.extend_from_slice(records);
        }
        drop(sessions);
        Box::pin(std::future::ready(Ok(())))
    }
}

fn note(summary: &mut SessionSummary, record: &Record) {
    if let Record::TurnStarted { content, .. } = record {
        summary.turns += 1;
        if summary.first_prompt.is_none() {
            summary.first_prompt = title_from(&plain_text(content));
        }
    }
}
