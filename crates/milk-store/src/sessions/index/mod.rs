//! The index: what lists show, in one database file beside the logs. Everything in it comes from the logs and can be made
//! from them again, so whatever is wrong with it is mended and never told as an error. Where it cannot be kept on disk, it
//! is kept in memory.

mod heal;
mod rows;

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use milk_core::id::SessionId;
use milk_core::ports::StoreError;
use milk_core::session::{SessionPage, SessionQuery, SessionSummary};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::lock::{self, Lock};
use super::look::{Row, is_missing};
use rows::Used;

/// The index's file.
const FILE: &str = "index.db";
/// What the database engine puts beside it.
const COMPANIONS: [&str; 2] = ["index.db-wal", "index.db-shm"];
/// Locked while the index's file is made, opened or removed.
const GUARD: &str = "index.lock";
/// How long another process may keep the index to itself.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an index stays in memory before the disk is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// The pause between two looks at whether the guard is free.
const GUARD_PAUSE: Duration = Duration::from_millis(2);
/// Changes of the folder that are remembered until the next list.
const OWN_CHANGES: usize = 10_000;
/// How often one question is asked while the index is mended in between.
const ATTEMPTS: usize = 4;

/// Who has a session open for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    /// Its process, where that is known.
    pub(super) pid: Option<u32>,
    /// Which store in that process: process ids come again.
    pub(super) token: String,
}

/// The index of one folder.
#[derive(Debug)]
pub(super) struct Index {
    folder: PathBuf,
    me: Holder,
    state: Mutex<Option<Open>>,
    notes: Mutex<Notes>,
}

/// An index that is in use.
#[derive(Debug)]
struct Open {
    connection: Connection,
    place: Place,
    /// The folder's time at which every name in it was known.
    seen: Option<SystemTime>,
    checked: Checked,
}

/// Whether every row was checked against its log since the index was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    /// Sessions were used meanwhile whose rows are only known to another index.
    Needed,
    /// It can wait for [`Index::audit`].
    Enough,
}

#[derive(Debug)]
enum Place {
    /// The file of this device and inode: whoever puts it away makes another.
    Disk(u64, u64),
    /// Since then.
    Memory(Instant),
}

/// What this store knows better than the file.
#[derive(Debug, Default)]
struct Notes {
    rows: HashMap<SessionId, Note>,
    /// Counts what is noted, so that uses of one moment keep their order.
    count: u64,
    /// Logs that cannot be read, as they were when that was told.
    bad: HashMap<SessionId, heal::Shape>,
    /// The folder's times before and after changes of this store's own, which bring nothing unknown.
    own_changes: Vec<(SystemTime, SystemTime)>,
}

#[derive(Debug, Clone)]
struct Note {
    row: Row,
    /// Its place among the uses that are not written yet.
    used: Option<u64>,
    hold: Hold,
    version: u64,
    written: bool,
}

/// Whether this store has a session open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// It has.
    Open,
    /// It had.
    Closed,
}

/// What is to be known of a row's use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The session was just used.
    Fresh,
    /// Only its numbers change.
    None,
}

impl Index {
    /// The index of this folder. Nothing is touched before the first question.
    pub(super) fn new(folder: PathBuf) -> Self {
        let me = Holder { pid: Some(std::process::id()), token: uuid::Uuid::new_v4().simple().to_string() };
        Self { folder, me, state: Mutex::default(), notes: Mutex::default() }
    }

    /// Remembers what a session is now. Quick: it is written by the next [`flush`](Self::flush) or question.
    pub(super) fn note(&self, row: Row, hold: Hold, fresh: Use) {
        let mut notes = self.notes();
        notes.count += 1;
        let version = notes.count;
        let id = row.summary.id.clone();
        let used = match fresh {
            Use::Fresh => Some(version),
            Use::None => notes.rows.get(&id).and_then(|note| note.used),
        };
        notes.rows.insert(id, Note { row, used, hold, version, written: false });
    }

    /// Does something that adds a name of this store's to the folder, or removes one.
    pub(super) fn changing<T>(&self, change: impl FnOnce() -> T) -> T {
        let time = || std::fs::metadata(&self.folder).and_then(|folder| folder.modified());
        let before = time();
        let done = change();
        if let (Ok(before), Ok(after)) = (before, time()) {
            let mut notes = self.notes();
            // With a gap in them the folder is looked through again, which is never wrong.
            if notes.own_changes.len() < OWN_CHANGES {
                notes.own_changes.push((before, after));
            }
        }
        done
    }

    /// Writes what was noted. What cannot be written now stays noted.
    pub(super) fn flush(&self) {
        if let Err(error) = self.ask(|_| Ok(())) {
            tracing::debug!(%error, "the index of sessions is not up to date");
        }
    }

    /// A page of the list.
    pub(super) fn page(&self, query: &SessionQuery) -> Result<SessionPage, StoreError> {
        self.ask_all(|connection| rows::page(connection, query))
    }

    pub(super) fn with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        self.ask_all(|connection| rows::with_prefix(connection, prefix, limit))
    }

    pub(super) fn with_name(&self, cwd: &Path, name: &str) -> Result<Vec<SessionSummary>, StoreError> {
        self.ask_all(|connection| rows::with_name(connection, cwd, name))
    }

    /// The row of a session as it stands, which may be older than its log.
    pub(super) fn get(&self, id: &SessionId) -> Result<Option<Row>, StoreError> {
        self.ask(|connection| rows::get(connection, id))
    }

    /// Who is noted as having a session open.
    pub(super) fn holder(&self, id: &SessionId) -> Option<Holder> {
        self.ask(|connection| rows::holder(connection, id)).ok().flatten()
    }

    /// Takes a row in that was made from a log, if there is none.
    pub(super) fn add(&self, row: &Row) -> Result<(), StoreError> {
        self.ask(|connection| rows::add(connection, row, None))
    }

    /// Writes newer counts of a row that had `before` bytes.
    pub(super) fn renew(&self, row: &Row, before: u64) -> Result<(), StoreError> {
        self.ask(|connection| rows::renew(connection, row, before))
    }

    /// The session is gone.
    pub(super) fn remove(&self, id: &SessionId) -> Result<(), StoreError> {
        self.notes().rows.remove(id);
        self.ask(|connection| rows::remove(connection, id))
    }

    /// Sessions without turn and name that were last used before `before_ms`.
    pub(super) fn empty(&self, before_ms: u64) -> Result<Vec<SessionSummary>, StoreError> {
        self.ask_all(|connection| rows::empty(connection, before_ms))
    }

    /// Sessions that were last used before `before_ms`.
    pub(super) fn unused(&self, before_ms: u64) -> Result<Vec<SessionSummary>, StoreError> {
        self.ask_all(|connection| rows::unused(connection, before_ms))
    }

    /// Opens the index and takes in what is new in the folder.
    pub(super) fn warm_up(&self) -> Result<(), StoreError> {
        self.ask_all(|_| Ok(()))
    }

    /// Puts a question to the index, in which every session has a row.
    fn ask_all<T>(&self, question: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.with_open(|open| {
            self.heal(open)?;
            question(&open.connection)
        })
    }

    /// Puts a question to the index as it is.
    fn ask<T>(&self, question: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.with_open(|open| question(&open.connection))
    }

    /// Does something with an index that holds what was noted, and mends or replaces an index with which it fails.
    fn with_open<T>(&self, mut work: impl FnMut(&mut Open) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let open = match self.opened(&mut state) {
                Ok(open) => open,
                Err(error) => return Err(self.failed(&error)),
            };
            let done = self.write_notes(open).and_then(|()| work(open));
            let error = match done {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let on_disk = matches!(open.place, Place::Disk(..));
            match remedy(&error) {
                Remedy::MakeAnew if on_disk => {
                    tracing::warn!(%error, "the index of sessions is made anew from their logs");
                    *state = None;
                    if !self.put_away() {
                        *state = self.in_memory().ok();
                    }
                }
                Remedy::UseMemory if on_disk => {
                    tracing::warn!(%error, "the index of sessions cannot be written and is kept in memory");
                    *state = self.in_memory().ok();
                }
                Remedy::MakeAnew | Remedy::UseMemory | Remedy::None => return Err(self.failed(&error)),
            }
            failure = Some(error);
        }
        Err(failure
            .map_or_else(|| StoreError::Failed("the index is not usable".to_owned()), |e| self.failed(&e)))
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::Failed(format!("{}: {error}", self.file().display()))
    }

    fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index in use: the one on disk wherever that can be.
    fn opened<'a>(&self, state: &'a mut Option<Open>) -> rusqlite::Result<&'a mut Open> {
        let stale = match state.as_ref().map(|open| &open.place) {
            None => true,
            Some(Place::Disk(dev, ino)) => self.identity() != Some((*dev, *ino)),
            Some(Place::Memory(since)) => since.elapsed() > RETRY,
        };
        if stale {
            *state = Some(self.reopened(state.take())?);
        }
        state.as_mut().ok_or(rusqlite::Error::InvalidQuery)
    }

    /// Another index instead of the last one.
    fn reopened(&self, last: Option<Open>) -> rusqlite::Result<Open> {
        let was_elsewhere = last.is_some();
        // Two indexes of one name must not be open at the same time: the files beside them are shared by name.
        let in_memory = last.filter(|open| matches!(open.place, Place::Memory(_)));
        let new = match self.on_disk() {
            Err(error) if remedy(&error) == Remedy::MakeAnew && self.put_away() => {
                tracing::warn!(%error, "the index of sessions is made anew from their logs");
                self.on_disk()
            }
            new => new,
        };
        match new {
            Ok(mut new) => {
                if was_elsewhere {
                    new.checked = Checked::Needed;
                }
                // Another index knows nothing of what was written to the last one.
                for note in self.notes().rows.values_mut() {
                    note.written = false;
                }
                Ok(new)
            }
            Err(error) => {
                tracing::debug!(%error, "the index of sessions is kept in memory");
                match in_memory {
                    Some(open) => Ok(Open { place: Place::Memory(Instant::now()), ..open }),
                    None => self.in_memory(),
                }
            }
        }
    }

    fn identity(&self) -> Option<(u64, u64)> {
        let metadata = std::fs::metadata(self.file()).ok()?;
        Some((metadata.dev(), metadata.ino()))
    }

    fn on_disk(&self) -> rusqlite::Result<Open> {
        let guard = self.ensure_file().map_err(|error| refused(error.to_string()))?;
        let open = self.connect();
        drop(guard);
        open
    }

    /// Makes an empty file where there is none. Until what it gives is dropped, nobody makes or removes one.
    fn ensure_file(&self) -> io::Result<File> {
        match DirBuilder::new().recursive(true).mode(0o700).create(&self.folder) {
            Err(error) if !self.folder.is_dir() => return Err(error),
            _ => {}
        }
        let guard = self.guard()?;
        match std::fs::metadata(self.file()) {
            Err(error) if is_missing(&error) => self.make_file()?,
            found => {
                found?;
            }
        }
        Ok(guard)
    }

    /// Makes an empty file. What another one of this name has left beside it would be taken for its own.
    fn make_file(&self) -> io::Result<()> {
        for name in COMPANIONS {
            match std::fs::remove_file(self.folder.join(name)) {
                Err(error) if !is_missing(&error) => return Err(error),
                _ => {}
            }
        }
        // The engine gives its other files the mode of this one.
        let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.file());
        made.map(drop)
    }

    /// What is held while the file is made, opened or removed: the files beside it are found by their name when it is
    /// opened, and must not be those of another one.
    fn guard(&self) -> io::Result<File> {
        let path = self.folder.join(GUARD);
        let guard = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let begun = Instant::now();
        while lock::take(&guard)? == Lock::Theirs {
            // Whoever has it may have been stopped.
            if begun.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(GUARD_PAUSE);
        }
        Ok(guard)
    }

    fn connect(&self) -> rusqlite::Result<Open> {
        let path = self.file();
        match std::fs::metadata(&path) {
            Ok(metadata) if !metadata.is_file() => return Err(refused("not a regular file".to_owned())),
            found => found.map(drop).map_err(|error| refused(error.to_string()))?,
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        let shape: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        // Readers and one writer work at the same time.
        connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "normal")?;
        if shape != rows::SHAPE {
            let tables: i64 =
                connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if tables > 0 && shape != 0 {
                return Err(rusqlite::Error::InvalidQuery);
            }
            connection.execute_batch("BEGIN IMMEDIATE")?;
            rows::make(&connection)?;
            connection.execute_batch("COMMIT")?;
        }
        // One that cannot be written is of no use, and that shows only when it is written.
        rows::try_writing(&connection)?;
        let (dev, ino) = self.identity().ok_or_else(|| refused("it was removed".to_owned()))?;
        Ok(Open { connection, place: Place::Disk(dev, ino), seen: None, checked: Checked::Enough })
    }

    fn in_memory(&self) -> rusqlite::Result<Open> {
        let connection = Connection::open_in_memory()?;
        rows::make(&connection)?;
        for note in self.notes().rows.values_mut() {
            note.written = false;
        }
        let place = Place::Memory(Instant::now());
        Ok(Open { connection, place, seen: None, checked: Checked::Enough })
    }

    /// Removes an index that cannot be used. `false` where that cannot be done.
    fn put_away(&self) -> bool {
        let Ok(_guard) = self.guard() else { return false };
        // Another process may have done it while this one waited.
        if self.is_sound() {
            return true;
        }
        match std::fs::remove_file(self.file()) {
            Err(error) if !is_missing(&error) => false,
            _ => self.make_file().is_ok(),
        }
    }

    fn is_sound(&self) -> bool {
        let Ok(open) = self.connect() else { return false };
        let check = open.connection.pragma_query_value(None, "quick_check", |row| row.get::<_, String>(0));
        check.is_ok_and(|answer| answer == "ok") && rows::is_usable(&open.connection)
    }

    /// Writes what was noted since the last time. Whoever notes something meanwhile does not wait.
    fn write_notes(&self, open: &mut Open) -> rusqlite::Result<()> {
        let mut new: Vec<(SessionId, Note)> = {
            let notes = self.notes();
            let unwritten = notes.rows.iter().filter(|(_, note)| !note.written);
            unwritten.map(|(id, note)| (id.clone(), note.clone())).collect()
        };
        if new.is_empty() {
            return Ok(());
        }
        new.sort_by_key(|(_, note)| note.used);
        let written = open.connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(
            |transaction| {
                for (_, note) in &new {
                    let used = if note.used.is_some() { Used::Now } else { Used::Before };
                    match note.hold {
                        Hold::Open => rows::put(&transaction, &note.row, Some(&self.me), used)?,
                        Hold::Closed => rows::close(&transaction, &note.row, &self.me, used)?,
                    }
                }
                transaction.commit()
            },
        );
        match written {
            Ok(()) => {
                let mut notes = self.notes();
                for (id, written) in &new {
                    if let Some(note) = notes.rows.get_mut(id).filter(|note| note.version == written.version)
                    {
                        note.written = true;
                        note.used = None;
                    }
                }
                notes.rows.retain(|_, note| note.hold == Hold::Open || !note.written);
                Ok(())
            }
            // Somebody keeps it very busy: an older answer is better than none, and these are written with the next.
            Err(error) if is_busy(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The index cannot be opened.
fn refused(reason: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN), Some(reason))
}

/// What helps against an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    MakeAnew,
    UseMemory,
    None,
}

fn remedy(error: &rusqlite::Error) -> Remedy {
    match error {
        rusqlite::Error::SqliteFailure(code, _) => match code.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown => Remedy::MakeAnew,
            ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::PermissionDenied
            | ErrorCode::AuthorizationForStatementDenied => Remedy::UseMemory,
            _ => Remedy::None,
        },
        // A table that has not the shape that it should have.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::InvalidQuery
        | rusqlite::Error::QueryReturnedNoRows
        | rusqlite::Error::SqlInputError { .. } => Remedy::MakeAnew,
        _ => Remedy::None,
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
