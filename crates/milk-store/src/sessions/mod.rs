//! Sessions on disk: one append-only log each, `MILK_HOME/sessions/<id>.jsonl`, and an index that is made from them.
//!
//! A log's first line says which session it is; every other line is a record with the time at which it was appended and,
//! for entries of the history, its number. Lines are only ever added. See `names` for the other files of a session.

mod background;
mod history;
mod index;
mod line;
mod lock;
mod log;
mod look;
mod names;
mod old;
mod old_turns;
mod open;
mod source;
mod spill;
pub mod synthetic;
mod tally;
mod tidy;
mod time;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use milk_core::BoxFuture;
use milk_core::id::SessionId;
use milk_core::ports::{Clock, NewSession, SessionLog, SessionStore, StoreError, StoredSession};
use milk_core::record::Logged;
use milk_core::session::{HistoryWindow, SessionPage, SessionQuery, SessionSummary};
use milk_files::{Folder, MilkHome};

use background::{blocking, in_background};
use index::{Hold, Index, Use};
use line::Header;
use log::{DiskLog, Live};
use look::{Looked, Origin, Row, catch_up, failed, look};
use names::{Names, is_prefix};
use source::Source;
pub use tidy::{Prune, Pruned};
use writer::Writer;

/// The sessions of one home. Several processes may use one home at the same time; cheap to clone.
#[derive(Debug, Clone)]
pub struct DiskSessions {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    // A temporary home lives as long as somebody uses it.
    _home: MilkHome,
    clock: Arc<dyn Clock>,
    index: Index,
    live: Mutex<HashMap<SessionId, Weak<Live>>>,
}

/// What [`DiskSessions::reindex`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reindexed {
    /// Sessions in the index now.
    pub sessions: u64,
    /// Sessions with lines that cannot be read, and how many lines.
    pub damaged: Vec<(SessionId, u64)>,
    /// Sessions that cannot be read at all, with the reason. Their files are left alone.
    pub bad: Vec<(SessionId, String)>,
}

impl DiskSessions {
    /// The sessions of this home. Nothing is touched before the first call.
    pub fn new(home: MilkHome, clock: Arc<dyn Clock>) -> Self {
        let folder = home.path(Folder::Sessions);
        let index = Index::new(folder.clone());
        Self { shared: Arc::new(Shared { folder, _home: home, clock, index, live: Mutex::default() }) }
    }

    /// Opens the index, checks it against the logs and removes sessions that were made for nothing (R23). Not needed: it
    /// makes the first list faster. Never fails; to be run in the background when a process starts.
    pub async fn warm_up(&self) {
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            let checked = shared.index.warm_up().and_then(|()| shared.index.audit());
            if let Err(error) = checked {
                tracing::debug!(%error, "the index of sessions could not be checked");
            }
            tidy::tidy_up(&shared);
        })
        .await;
    }

    /// Removes sessions that nobody will miss.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if the sessions cannot be listed.
    pub async fn prune(&self, which: Prune) -> Result<Pruned, StoreError> {
        let shared = Arc::clone(&self.shared);
        blocking(move || tidy::prune(&shared, which)).await
    }

    /// Makes the index anew from the logs.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if the index cannot be written.
    pub async fn reindex(&self) -> Result<Reindexed, StoreError> {
        let shared = Arc::clone(&self.shared);
        let rebuilt = blocking(move || shared.index.rebuild()).await?;
        Ok(Reindexed { sessions: rebuilt.sessions, damaged: rebuilt.damaged, bad: rebuilt.bad })
    }

    /// Does something with a session's files where waiting is allowed.
    fn with<T: Send + 'static>(
        &self,
        id: &SessionId,
        work: impl FnOnce(&Arc<Shared>, Names) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let Some(names) = Names::of(&self.shared.folder, id) else {
            return Box::pin(std::future::ready(Err(StoreError::Unknown(id.clone()))));
        };
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || work(&shared, names)))
    }
}

impl Shared {
    fn live(&self) -> MutexGuard<'_, HashMap<SessionId, Weak<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session, if this store has it open for writing.
    fn living(&self, id: &SessionId) -> Option<Arc<Live>> {
        self.live().get(id).and_then(Weak::upgrade)
    }

    fn remember(&self, names: &Names, live: &Arc<Live>) {
        self.live().insert(names.id().clone(), Arc::downgrade(live));
    }

    fn forget(&self, id: &SessionId, live: &Arc<Live>) {
        let mut all = self.live();
        if all.get(id).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(live))) {
            all.remove(id);
        }
    }

    fn create(self: &Arc<Self>, session: NewSession<'_>) -> Result<Arc<dyn SessionLog>, StoreError> {
        let Some(names) = Names::of(&self.folder, session.id) else {
            return Err(StoreError::Failed(format!("{:?} is not an id of a session", session.id.as_str())));
        };
        let name = session.name.filter(|name| !name.is_empty());
        let header = Header::new(session.id, session.cwd, name, self.clock.now_ms());
        let row = Row::new(&header);
        let live = Arc::new(Live::new(Writer::create(names.clone(), header.to_line(), row)));
        if names.log().exists() || names.old().is_some_and(|old| old.exists()) {
            return Err(StoreError::Failed(format!("there is a session {} already", session.id)));
        }
        if let Err(error) = self.index.changing(|| live.flush()) {
            tracing::debug!(%error, "a new session is kept in memory for now");
        }
        self.remember(&names, &live);
        self.index.note(live.row(), Hold::Open, Use::Fresh);
        let shared = Arc::clone(self);
        in_background(move || shared.index.flush());
        Ok(Arc::new(DiskLog::new(live, Arc::clone(self))))
    }

    /// What is known about a session, from the index where that is not behind.
    fn find(&self, names: &Names) -> Result<SessionSummary, StoreError> {
        let id = names.id();
        if let Some(live) = self.living(id) {
            return Ok(live.row().summary);
        }
        let indexed = self.index.get(id).ok().flatten();
        if let Some(row) = &indexed
            && row.old_stamp.is_none()
            && std::fs::metadata(names.log()).is_ok_and(|found| found.is_file() && found.len() == row.size)
        {
            return Ok(row.summary.clone());
        }
        if let Some(row) = indexed.as_ref().filter(|row| look::is_unchanged_old(names, row)) {
            return Ok(row.summary.clone());
        }
        let looked = match look(names) {
            Err(StoreError::Unknown(id)) => {
                if indexed.is_some() {
                    not_vital(self.index.remove(&id));
                }
                return Err(StoreError::Unknown(id));
            }
            looked => looked?,
        };
        let is_log = matches!(looked.origin, Origin::Log(_));
        let Some(indexed) = indexed else {
            let (row, _) = look::row(names, &looked)?;
            not_vital(self.index.add(&row));
            return Ok(row.summary);
        };
        let before = indexed.size;
        let row = if is_log && indexed.old_stamp.is_none() && before <= looked.source.len() {
            let mut row = indexed;
            catch_up(&mut row, &looked.source).map_err(|error| failed(&names.log(), &error))?;
            row
        } else {
            look::row(names, &looked)?.0
        };
        not_vital(self.index.renew(&row, before));
        Ok(row.summary)
    }

    /// The history of a session as it is now.
    fn source(&self, names: &Names) -> Result<Source, StoreError> {
        if let Some(live) = self.living(names.id()) {
            return Ok(live.source());
        }
        look(names).map(|Looked { source, .. }| source)
    }
}

/// The index is mended when it is next looked at.
fn not_vital(written: Result<(), StoreError>) {
    if let Err(error) = written {
        tracing::debug!(%error, "the index of sessions is not up to date");
    }
}

impl SessionStore for DiskSessions {
    fn create<'a>(
        &'a self,
        session: NewSession<'a>,
    ) -> BoxFuture<'a, Result<Arc<dyn SessionLog>, StoreError>> {
        Box::pin(std::future::ready(self.shared.create(session)))
    }

    fn open<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        self.with(id, |shared, names| open::open(shared, &names))
    }

    fn find<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionSummary, StoreError>> {
        self.with(id, |shared, names| shared.find(&names))
    }

    fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<SessionSummary>, StoreError>> {
        if !is_prefix(prefix) {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let (shared, prefix) = (Arc::clone(&self.shared), prefix.to_owned());
        Box::pin(blocking(move || shared.index.with_prefix(&prefix, limit)))
    }

    fn with_name<'a>(
        &'a self,
        cwd: &'a Path,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SessionSummary>, StoreError>> {
        let (shared, cwd, name) = (Arc::clone(&self.shared), cwd.to_owned(), name.to_owned());
        Box::pin(blocking(move || shared.index.with_name(&cwd, &name)))
    }

    fn list<'a>(&'a self, query: &'a SessionQuery) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
        let (shared, query) = (Arc::clone(&self.shared), query.clone());
        Box::pin(blocking(move || shared.index.page(&query)))
    }

    fn window<'a>(
        &'a self,
        id: &'a SessionId,
        head: usize,
        tail: usize,
    ) -> BoxFuture<'a, Result<HistoryWindow, StoreError>> {
        self.with(id, move |shared, names| {
            let source = shared.source(&names)?;
            history::window(&source, &names.spills(), head, tail)
                .map_err(|error| failed(&names.log(), &error))
        })
    }

    fn read<'a>(
        &'a self,
        id: &'a SessionId,
        visit: Box<dyn FnMut(Logged) + Send>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.with(id, move |shared, names| {
            let source = shared.source(&names)?;
            let broken = history::read(&source, &names.spills(), visit)
                .map_err(|error| failed(&names.log(), &error))?;
            if broken > 0 {
                tracing::warn!(session = %names.id(), broken, "lines of a session's log cannot be read");
            }
            Ok(())
        })
    }

    fn delete<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.with(id, |shared, names| tidy::delete(shared, &names))
    }
}
