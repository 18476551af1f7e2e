//! Sessions in memory, whose log can be slow and can fail.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use milk_core::BoxFuture;
use milk_core::content::plain_text;
use milk_core::id::SessionId;
use milk_core::ports::{NewSession, SessionLog, SessionStore, StoreError, StoredSession};
use milk_core::record::{EntryNumber, Logged, Record, TurnWork};
use milk_core::session::{HistoryWindow, SessionPage, SessionQuery, SessionSummary, Worth, title_from};

use super::journal::{Journal, Seen};

/// Everything that is stored, newest last.
#[derive(Debug)]
pub(crate) struct FakeStore {
    journal: Journal,
    failing: Arc<AtomicBool>,
    sessions: Arc<Mutex<Vec<Stored>>>,
    created: Mutex<Vec<SessionId>>,
    /// Open in another process.
    locked: Mutex<HashSet<SessionId>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) summary: SessionSummary,
    pub(crate) records: Vec<Record>,
}

impl Stored {
    fn new(id: &SessionId, cwd: &Path, name: Option<&str>, records: &[Record]) -> Self {
        let summary = SessionSummary {
            id: id.clone(),
            cwd: cwd.to_owned(),
            name: name.map(str::to_owned),
            first_prompt: None,
            turns: 0,
            entries: 0,
            created_ms: 0,
            last_used_ms: 0,
        };
        let mut stored = Self { summary, records: Vec::new() };
        stored.take(records);
        stored
    }

    fn take(&mut self, records: &[Record]) {
        for record in records {
            self.summary.entries += u64::from(record.is_entry());
            if let Record::TurnStarted { content, work: TurnWork::Prompt, .. } = record {
                self.summary.turns += 1;
                let title = title_from(&plain_text(content));
                self.summary.first_prompt = self.summary.first_prompt.take().or(title);
            }
        }
        self.records.extend_from_slice(records);
    }

    fn logged(&self) -> Vec<Logged> {
        let mut next = 0;
        let logged = self.records.iter().map(|record| {
            let entry = record.is_entry().then(|| {
                next += 1;
                EntryNumber(next - 1)
            });
            Logged { at_ms: 0, entry, record: record.clone() }
        });
        logged.collect()
    }
}

impl FakeStore {
    /// A store whose session `stored` holds these records.
    pub(crate) fn new(journal: Journal, records: Option<Vec<Record>>) -> Self {
        let stored = records
            .map(|records| Stored::new(&SessionId::from("stored"), Path::new("/work"), None, &records));
        Self {
            journal,
            failing: Arc::default(),
            sessions: Arc::new(Mutex::new(stored.into_iter().collect())),
            created: Mutex::default(),
            locked: Mutex::default(),
        }
    }

    /// Stores a further session, as the newest.
    pub(crate) fn put(&self, id: &str, cwd: &str, name: Option<&str>, records: &[Record]) {
        self.sessions().push(Stored::new(&SessionId::from(id), Path::new(cwd), name, records));
    }

    /// Another process opens the session.
    pub(crate) fn lock(&self, id: &str) {
        self.locked.lock().unwrap().insert(SessionId::from(id));
    }

    pub(crate) fn created(&self) -> Vec<SessionId> {
        self.created.lock().unwrap().clone()
    }

    pub(crate) fn get(&self, id: &str) -> Option<Stored> {
        self.sessions().iter().find(|stored| stored.summary.id.as_str() == id).cloned()
    }

    /// Whether the logs fail from here on.
    pub(crate) fn fails(&self, failing: bool) {
        self.failing.store(failing, Ordering::Relaxed);
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Stored>> {
        self.sessions.lock().unwrap()
    }

    fn log(&self, id: &SessionId) -> Arc<dyn SessionLog> {
        Arc::new(FakeLog {
            id: id.clone(),
            journal: self.journal.clone(),
            failing: Arc::clone(&self.failing),
            sessions: Arc::clone(&self.sessions),
        })
    }

    fn found(&self, id: &SessionId) -> Result<Stored, StoreError> {
        self.get(id.as_str()).ok_or_else(|| StoreError::Unknown(id.clone()))
    }

    fn fitting(&self, fits: impl Fn(&SessionSummary) -> bool) -> Vec<SessionSummary> {
        let sessions = self.sessions();
        sessions.iter().rev().map(|stored| stored.summary.clone()).filter(|summary| fits(summary)).collect()
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl SessionStore for FakeStore {
    fn create<'a>(&'a self, new: NewSession<'a>) -> BoxFuture<'a, Result<Arc<dyn SessionLog>, StoreError>> {
        self.created.lock().unwrap().push(new.id.clone());
        self.sessions().push(Stored::new(new.id, new.cwd, new.name, &[]));
        ready(Ok(self.log(new.id)))
    }

    fn open<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        if self.locked.lock().unwrap().contains(id) {
            return ready(Err(StoreError::Locked { id: id.clone(), holder: "process 7".to_owned() }));
        }
        ready(self.found(id).map(|stored| StoredSession {
            log: self.log(id),
            recent: stored.logged(),
            summary: stored.summary,
            earlier_turns: 0,
            troubles: Vec::new(),
        }))
    }

    fn find<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionSummary, StoreError>> {
        ready(self.found(id).map(|stored| stored.summary))
    }

    fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<SessionSummary>, StoreError>> {
        let mut fitting = self.fitting(|summary| summary.id.as_str().starts_with(prefix));
        fitting.truncate(limit);
        ready(Ok(fitting))
    }

    fn with_name<'a>(
        &'a self,
        cwd: &'a Path,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SessionSummary>, StoreError>> {
        ready(Ok(self.fitting(|summary| summary.cwd == cwd && summary.name.as_deref() == Some(name))))
    }

    fn list<'a>(&'a self, query: &'a SessionQuery) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
        let all = self.fitting(|summary| {
            let here = query.cwd.as_ref().is_none_or(|cwd: &PathBuf| *cwd == summary.cwd);
            let worth = match &query.worth {
                Worth::Any => true,
                Worth::Used { open } => {
                    summary.turns > 0 || summary.name.is_some() || open.contains(&summary.id)
                }
            };
            here && worth
        });
        let more = all.len() > query.offset + query.limit;
        let sessions = all.into_iter().skip(query.offset).take(query.limit).collect();
        ready(Ok(SessionPage { sessions, more }))
    }

    fn window<'a>(
        &'a self,
        id: &'a SessionId,
        head: usize,
        tail: usize,
    ) -> BoxFuture<'a, Result<HistoryWindow, StoreError>> {
        ready(self.found(id).map(|stored| {
            let mut entries = stored.logged();
            entries.retain(|logged| logged.entry.is_some());
            if entries.len() <= head + tail {
                return HistoryWindow { head: entries, ..HistoryWindow::default() };
            }
            let omitted = (entries.len() - head - tail) as u64;
            let last = entries.split_off(entries.len() - tail);
            entries.truncate(head);
            HistoryWindow { head: entries, omitted, tail: last }
        }))
    }

    fn read<'a>(
        &'a self,
        id: &'a SessionId,
        mut visit: Box<dyn FnMut(Logged) + Send>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(self.found(id).map(|stored| stored.logged().into_iter().for_each(&mut visit)))
    }

    fn delete<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        let found = self.found(id).map(drop);
        self.sessions().retain(|stored| stored.summary.id != *id);
        self.journal.note(Seen::Deleted(id.clone()));
        ready(found)
    }
}

/// A log that notes its records in the journal.
#[derive(Debug)]
pub(crate) struct FakeLog {
    id: SessionId,
    journal: Journal,
    failing: Arc<AtomicBool>,
    sessions: Arc<Mutex<Vec<Stored>>>,
}

impl SessionLog for FakeLog {
    fn append<'a>(&'a self, records: &'a [Record]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            tokio::task::yield_now().await; // a real log waits for its disk
            if self.failing.load(Ordering::Relaxed) {
                self.journal.note(Seen::LogFailed);
                return Err(StoreError::Failed("the disk is full".to_owned()));
            }
            let mut sessions = self.sessions.lock().unwrap();
            if let Some(stored) = sessions.iter_mut().find(|stored| stored.summary.id == self.id) {
                stored.take(records);
            }
            drop(sessions);
            for record in records {
                self.journal.note(Seen::Record(self.id.clone(), record.clone()));
            }
            Ok(())
        })
    }
}

/// Documents that hold the names of what went in, and files that remember what was saved.
#[derive(Debug, Default)]
pub(crate) struct FakeDocuments {
    saved: Mutex<HashMap<PathBuf, String>>,
}

impl FakeDocuments {
    pub(crate) fn saved(&self, path: &str) -> Option<String> {
        self.saved.lock().unwrap().get(Path::new(path)).cloned()
    }
}

impl milk_core::ports::Exporter for FakeDocuments {
    fn begin(
        &self,
        format: milk_core::ports::ExportFormat,
        session: &SessionSummary,
    ) -> Box<dyn milk_core::ports::Transcript> {
        Box::new(FakeTranscript(format!("{format:?} of {}", session.id)))
    }
}

struct FakeTranscript(String);

impl milk_core::ports::Transcript for FakeTranscript {
    fn push(&mut self, logged: Logged) {
        if let Record::TurnStarted { content, .. } = logged.record {
            self.0.push_str(" | ");
            self.0.push_str(&plain_text(&content));
        }
    }

    fn finish(self: Box<Self>) -> String {
        self.0
    }
}

impl milk_core::ports::Files for FakeDocuments {
    fn save<'a>(
        &'a self,
        cwd: &'a Path,
        path: &'a str,
        content: &'a str,
    ) -> BoxFuture<'a, Result<PathBuf, milk_core::failure::Failure>> {
        let path = cwd.join(path);
        self.saved.lock().unwrap().insert(path.clone(), content.to_owned());
        ready(Ok(path))
    }
}
