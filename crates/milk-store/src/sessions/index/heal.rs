//! How the index comes to say what the logs say.

use std::collections::HashSet;
use std::fs::Metadata;
use std::io;
use std::time::{Duration, SystemTime};

use milk_core::id::SessionId;
use milk_core::ports::StoreError;
use rusqlite::{Connection, TransactionBehavior};

use super::{Checked, Hold, Holder, Index, Open, Place, rows};
use crate::sessions::lock;
use crate::sessions::look::{self, Origin, Row, catch_up, is_missing, is_unchanged_old, look, stamp};
use crate::sessions::names::{Found, Names};
use crate::sessions::source::{Source, open_regular};

/// How many sessions are taken in at once.
const CHUNK: usize = 256;
/// How long after a change of the folder another one may still bear the same time.
const TICK: Duration = Duration::from_millis(50);
/// Bad logs that are remembered as told.
const BAD_LIMIT: usize = 10_000;

/// A file as far as it tells whether it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sessions) struct Shape {
    len: u64,
    stamp: i64,
}

impl Shape {
    fn of(metadata: &Metadata) -> Self {
        Self { len: metadata.len(), stamp: stamp(metadata) }
    }
}

/// What a rebuilding found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::sessions) struct Rebuilt {
    /// Sessions in the index now.
    pub(in crate::sessions) sessions: u64,
    /// Sessions with lines that cannot be read, and how many.
    pub(in crate::sessions) damaged: Vec<(SessionId, u64)>,
    /// Sessions that cannot be read at all, with the reason. Their files are left alone.
    pub(in crate::sessions) bad: Vec<(SessionId, String)>,
}

impl Index {
    /// Brings an index up to date with the folder.
    pub(super) fn heal(&self, open: &mut Open) -> rusqlite::Result<()> {
        self.take_in_new(open)?;
        match open.place {
            // Nobody else writes to it: every row may be old.
            Place::Memory(_) => self.check_after(open, "", usize::MAX).map(drop),
            Place::Disk(..) if open.checked == Checked::Needed => {
                self.check_after(open, "", usize::MAX)?;
                open.checked = Checked::Enough;
                self.refresh_held(open)
            }
            Place::Disk(..) => self.refresh_held(open),
        }
    }

    /// Checks every row against its file, some at a time, so that questions are answered in between.
    pub(in crate::sessions) fn audit(&self) -> Result<(), StoreError> {
        let mut after = String::new();
        while let Some(last) = self.with_open(|open| self.check_after(open, &after, CHUNK))? {
            after = last;
        }
        Ok(())
    }

    /// Makes every row anew.
    pub(in crate::sessions) fn rebuild(&self) -> Result<Rebuilt, StoreError> {
        let found = self.names_on_disk().map_err(|error| look::failed(&self.folder, &error))?;
        let mut rebuilt = Rebuilt::default();
        let mut taken: Vec<(Row, Option<Holder>)> = Vec::new();
        for id in found {
            match self.inspect(&id) {
                Ok((row, holder, broken)) => {
                    taken.push((row, holder));
                    if broken > 0 {
                        rebuilt.damaged.push((id, broken));
                    }
                }
                Err(StoreError::Unknown(_)) => {}
                Err(error) => rebuilt.bad.push((id, error.to_string())),
            }
        }
        rebuilt.sessions = u64::try_from(taken.len()).unwrap_or(u64::MAX);
        rebuilt.damaged.sort();
        rebuilt.bad.sort();
        sort(&mut taken);
        let bad: HashSet<&SessionId> = rebuilt.bad.iter().map(|(id, _)| id).collect();
        let on_disk = self.with_open(|open| {
            self.replace_all(open, &taken, &bad)?;
            Ok(matches!(open.place, Place::Disk(..)))
        })?;
        if !on_disk {
            return Err(StoreError::Failed(format!("{}: it cannot be written", self.file().display())));
        }
        Ok(rebuilt)
    }

    /// Replaces every row. Those of sessions that came meanwhile stay.
    fn replace_all(
        &self,
        open: &mut Open,
        new: &[(Row, Option<Holder>)],
        bad: &HashSet<&SessionId>,
    ) -> rusqlite::Result<()> {
        let kept: HashSet<&SessionId> = new.iter().map(|(row, _)| &row.summary.id).collect();
        let transaction = open.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for id in rows::ids(&transaction)? {
            if !kept.contains(&id) && (bad.contains(&id) || !self.is_on_disk(&id)) {
                rows::remove(&transaction, &id)?;
            }
        }
        for (row, holder) in new {
            let known = rows::holder(&transaction, &row.summary.id)?;
            let holder = holder.as_ref().map(|unknown| known.as_ref().unwrap_or(unknown));
            rows::add(&transaction, row, holder)?;
            rows::put(&transaction, row, holder, rows::Used::Before)?;
        }
        transaction.commit()?;
        for note in self.notes().rows.values_mut() {
            note.written = false;
        }
        self.write_notes(open)
    }

    /// Takes in sessions that have no row, and drops rows that have no session.
    fn take_in_new(&self, open: &mut Open) -> rusqlite::Result<()> {
        let now = std::fs::metadata(&self.folder).and_then(|metadata| metadata.modified()).ok();
        for (before, after) in std::mem::take(&mut self.notes().own_changes) {
            if open.seen == Some(before) {
                open.seen = Some(after);
            }
        }
        if now.is_some() && now == open.seen {
            return Ok(());
        }
        // A folder that cannot be read tells nothing about what is gone.
        let Ok(on_disk) = self.names_on_disk() else { return Ok(()) };
        let rows: HashSet<SessionId> = rows::ids(&open.connection)?.into_iter().collect();
        for id in rows.difference(&on_disk).filter(|id| !self.is_mine(id)) {
            // Made since the folder was read, perhaps.
            if !self.is_on_disk(id) {
                rows::remove(&open.connection, id)?;
            }
        }
        let new: Vec<&SessionId> = on_disk.difference(&rows).filter(|id| !self.is_mine(id)).collect();
        for chunk in new.chunks(CHUNK) {
            let mut found: Vec<(Row, Option<Holder>)> =
                chunk.iter().filter_map(|id| self.inspect_once(id)).collect();
            sort(&mut found);
            if found.is_empty() {
                continue;
            }
            let transaction = open.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for (row, holder) in &found {
                rows::add(&transaction, row, holder.as_ref())?;
            }
            transaction.commit()?;
        }
        let settled = now.filter(|now| SystemTime::now().duration_since(*now).is_ok_and(|age| age > TICK));
        open.seen = settled;
        Ok(())
    }

    /// Brings the rows up to date whose sessions other processes have open, or had when they died.
    fn refresh_held(&self, open: &mut Open) -> rusqlite::Result<()> {
        for (row, holder) in rows::held(&open.connection)? {
            if self.is_mine(&row.summary.id) {
                continue;
            }
            let Some(names) = Names::of(&self.folder, &row.summary.id) else { continue };
            let Ok(file) = open_regular(&names.log()) else { continue };
            // Asked first: what is appended after an end is not missed.
            let locked = lock::is_taken(&file);
            let file = std::sync::Arc::new(file);
            match Source::of_file(file) {
                // What became shorter is not what it was.
                Ok(source) if source.len() < row.size => self.look_again(&open.connection, names.id())?,
                Ok(source) => renew(&open.connection, row, &source)?,
                Err(_) => {}
            }
            if !locked {
                rows::release(&open.connection, names.id(), &holder)?;
            }
        }
        Ok(())
    }

    /// Checks rows after `after` against their files. Returns the last one's id, or `None` where there are no more.
    fn check_after(&self, open: &mut Open, after: &str, limit: usize) -> rusqlite::Result<Option<String>> {
        let rows = rows::some_after(&open.connection, after, limit)?;
        let last = rows.last().map(|row| row.summary.id.as_str().to_owned());
        for row in rows {
            let id = &row.summary.id;
            if self.is_mine(id) {
                continue;
            }
            let Some(names) = Names::of(&self.folder, id) else {
                rows::remove(&open.connection, id)?;
                continue;
            };
            match row.old_stamp {
                Some(_) if is_unchanged_old(&names, &row) => {}
                Some(_) => self.look_again(&open.connection, id)?,
                None => match std::fs::metadata(names.log()) {
                    Ok(found) if found.len() == row.size => {}
                    Ok(found) if found.len() > row.size => {
                        let Ok(file) = open_regular(&names.log()) else { continue };
                        if let Ok(source) = Source::of_file(std::sync::Arc::new(file)) {
                            renew(&open.connection, row, &source)?;
                        }
                    }
                    _ => self.look_again(&open.connection, id)?,
                },
            }
        }
        Ok(last)
    }

    /// Makes one row anew.
    fn look_again(&self, connection: &Connection, id: &SessionId) -> rusqlite::Result<()> {
        match self.inspect_once(id) {
            Some((row, holder)) => rows::put(connection, &row, holder.as_ref(), rows::Used::Before),
            None => rows::remove(connection, id),
        }
    }

    /// A session from its files, and whether somebody has it open. One that cannot be read is told once.
    fn inspect_once(&self, id: &SessionId) -> Option<(Row, Option<Holder>)> {
        let names = Names::of(&self.folder, id)?;
        let path = if names.log().exists() { names.log() } else { names.old()? };
        let shape = std::fs::metadata(path).ok().map(|metadata| Shape::of(&metadata));
        if shape.is_some() && self.notes().bad.get(id) == shape.as_ref() {
            return None;
        }
        match self.inspect(id) {
            Ok((row, holder, _)) => Some((row, holder)),
            Err(StoreError::Unknown(_)) => None,
            Err(error) => {
                tracing::warn!(%error, "a session cannot be read and is left out of lists");
                let mut notes = self.notes();
                if let Some(shape) = shape
                    && notes.bad.len() < BAD_LIMIT
                {
                    notes.bad.insert(id.clone(), shape);
                }
                None
            }
        }
    }

    fn inspect(&self, id: &SessionId) -> Result<(Row, Option<Holder>, u64), StoreError> {
        let names = Names::of(&self.folder, id).ok_or_else(|| StoreError::Unknown(id.clone()))?;
        let looked = look(&names)?;
        let (row, broken) = look::row(&names, &looked)?;
        let locked = match &looked.origin {
            Origin::Log(file) => !self.is_mine(id) && lock::is_taken(file),
            Origin::Old { .. } => false,
        };
        // Who it is, is not known; that the row may soon be old, is.
        let holder = locked.then(|| Holder { pid: None, token: String::new() });
        Ok((row, holder, broken))
    }

    /// Whether this store has the session open, so that its notes are newer than anything on disk.
    fn is_mine(&self, id: &SessionId) -> bool {
        self.notes().rows.get(id).is_some_and(|note| note.hold == Hold::Open)
    }

    fn is_on_disk(&self, id: &SessionId) -> bool {
        Names::of(&self.folder, id)
            .is_some_and(|names| names.log().exists() || names.old().is_some_and(|old| old.exists()))
    }

    fn names_on_disk(&self) -> io::Result<HashSet<SessionId>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if is_missing(&error) => return Ok(HashSet::new()),
            entries => entries?,
        };
        let names = entries.flatten().filter_map(|entry| Found::from_name(entry.file_name().to_str()?));
        let ids = names.filter_map(|found| match found {
            Found::Log(id) | Found::Old(id) => Some(id),
            Found::Spills(_) => None,
        });
        Ok(ids.collect())
    }
}

/// Reads what was appended to a log since its row was made.
fn renew(connection: &Connection, mut row: Row, source: &Source) -> rusqlite::Result<()> {
    let before = row.size;
    if source.len() != before && catch_up(&mut row, source).is_ok() && row.size != before {
        rows::renew(connection, &row, before)?;
    }
    Ok(())
}

/// In the order of their last use, so that rows which are taken in together keep it.
fn sort(rows: &mut [(Row, Option<Holder>)]) {
    rows.sort_by(|(a, _), (b, _)| {
        (a.summary.last_used_ms, a.summary.created_ms, &a.summary.id).cmp(&(
            b.summary.last_used_ms,
            b.summary.created_ms,
            &b.summary.id,
        ))
    });
}
