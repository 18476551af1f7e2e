//! The writing end of one log. What the disk does not take is kept, in order, and tried again with whatever comes next.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use milk_core::record::{EntryNumber, Record};
use serde_json::json;

use super::history::is_use;
use super::line::{encode, to_line};
use super::lock::{self, Lock};
use super::look::Row;
use super::names::Names;
use super::old::{Converted, convert};
use super::source::{Source, open_checked};
use super::spill::{SPILL_AT, discard, shrink};
use super::tally::Tally;
use super::time;

/// How much is kept in memory of what the disk does not take, in bytes.
const PENDING_LIMIT: usize = 64 * 1024 * 1024;
/// How much is written with one call, in bytes. What one turn appends at a time is less.
const BATCH: usize = 1024 * 1024;
/// The length of a log in its row while the disk is behind: longer than any, so that whoever looks counts anew.
const UNTRUE_SIZE: u64 = u64::MAX >> 1;

/// The writing end of one log.
#[derive(Debug)]
pub(super) struct Writer {
    names: Names,
    place: Place,
    /// Bytes of whole records on disk. Nothing before this is ever changed.
    len: u64,
    /// Whether there may be a part of a record after `len`.
    torn: bool,
    pending: Pending,
    row: Row,
    tally: Tally,
    /// Files of large texts that are not known to outlive a loss of power.
    new_files: Vec<PathBuf>,
    /// Whether the log's name is not known to outlive a loss of power.
    new_name: bool,
}

/// Where a log is.
#[derive(Debug)]
pub(super) enum Place {
    /// Nowhere yet.
    Nowhere,
    /// Still in a file of an older version of milk, as these lines.
    Old(Vec<u8>),
    /// In this file, which may be written.
    Writable(Arc<File>),
    /// In this file, which could not be opened for writing.
    ReadOnly(Arc<File>),
    /// Its session was deleted: nothing is written any more.
    Deleted,
}

#[derive(Debug, Default)]
struct Pending {
    lines: VecDeque<Waiting>,
    bytes: usize,
    /// Records that were too much.
    lost: u64,
}

#[derive(Debug)]
struct Waiting {
    line: Vec<u8>,
    /// How files of its large texts are named.
    stem: String,
}

impl Pending {
    fn push(&mut self, waiting: Waiting) {
        if self.bytes + waiting.line.len() > PENDING_LIMIT && !self.lines.is_empty() {
            self.lost += 1;
            return;
        }
        self.bytes += waiting.line.len();
        self.lines.push_back(waiting);
    }

    fn pop(&mut self, count: usize) {
        for waiting in self.lines.drain(..count.min(self.lines.len())) {
            self.bytes -= waiting.line.len();
        }
    }
}

/// Lines to be written at once.
struct Batch {
    bytes: Vec<u8>,
    lines: usize,
    files: Vec<PathBuf>,
}

impl Writer {
    /// The log of a new session, of which nothing is on disk yet.
    pub(super) fn create(names: Names, header: Vec<u8>, row: Row) -> Self {
        let mut writer = Self::over(names, Place::Nowhere, 0, row);
        writer.pending.push(Waiting { line: header, stem: String::new() });
        writer
    }

    /// A log of which `len` bytes are good.
    pub(super) fn over(names: Names, place: Place, len: u64, row: Row) -> Self {
        Self {
            names,
            place,
            len,
            torn: false,
            pending: Pending::default(),
            tally: row.tally(),
            row,
            new_files: Vec::new(),
            new_name: false,
        }
    }

    /// There is a part of a record at the end of the file, which is cut off before anything is written. `whole` is its
    /// line, where only the line end is missing.
    pub(super) fn set_torn(&mut self, whole: Option<Vec<u8>>) {
        self.torn = true;
        if let Some(line) = whole {
            self.pending.push(Waiting { line, stem: "x".to_owned() });
        }
    }

    /// Takes off what is after the last whole record, and writes what is waiting.
    pub(super) fn mend(&mut self) -> io::Result<()> {
        if let Place::Writable(file) = &self.place {
            let file = Arc::clone(file);
            self.cut(&file)?;
        }
        self.flush()
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// What a list says now.
    pub(super) fn row(&self) -> Row {
        let mut row = self.row.clone();
        row.count(&self.tally, if self.pending.lines.is_empty() { self.len } else { UNTRUE_SIZE });
        row
    }

    /// The history as it is now, with what the disk has not taken.
    pub(super) fn source(&self) -> Source {
        let (file, mut rest) = match &self.place {
            Place::Writable(file) | Place::ReadOnly(file) => (Some(Arc::clone(file)), Vec::new()),
            Place::Old(lines) => (None, lines.clone()),
            Place::Nowhere | Place::Deleted => (None, Vec::new()),
        };
        for waiting in &self.pending.lines {
            rest.extend_from_slice(&waiting.line);
        }
        let len = if file.is_some() { self.len } else { 0 };
        Source::new(file, len, rest)
    }

    /// The file, if there is one.
    pub(super) fn file(&self) -> Option<&Arc<File>> {
        match &self.place {
            Place::Writable(file) | Place::ReadOnly(file) => Some(file),
            Place::Nowhere | Place::Old(_) | Place::Deleted => None,
        }
    }

    pub(super) fn is_deleted(&self) -> bool {
        matches!(self.place, Place::Deleted)
    }

    /// Drops everything: the session is gone.
    pub(super) fn set_deleted(&mut self) {
        self.place = Place::Deleted;
        self.pending = Pending::default();
        self.new_files.clear();
    }

    /// Takes records in, numbered and timed. Returns whether a list says something else now.
    pub(super) fn stage(&mut self, records: &[Record], at_ms: u64) -> bool {
        for record in records {
            let entry = record.is_entry().then_some(EntryNumber(self.tally.entries));
            self.tally.note(at_ms, entry, record);
            let stem = entry.map_or_else(|| format!("t{at_ms}"), |entry| entry.0.to_string());
            self.pending.push(Waiting { line: encode(at_ms, entry, record), stem });
        }
        records.iter().any(is_use)
    }

    /// Bytes that are not written yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.pending.bytes
    }

    /// Writes what is waiting.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.pending.lines.is_empty() || self.is_deleted() {
            return Ok(());
        }
        let file = self.writable()?;
        self.cut(&file)?;
        while !self.pending.lines.is_empty() {
            let batch = self.batch()?;
            if let Err(error) = write_whole(&file, &batch.bytes) {
                discard(&batch.files);
                self.torn = true;
                // Tried again before the next write.
                let _ = self.cut(&file);
                return Err(error);
            }
            self.len += u64::try_from(batch.bytes.len()).unwrap_or_default();
            self.pending.pop(batch.lines);
            self.new_files.extend(batch.files);
            if self.pending.lines.is_empty() && self.pending.lost > 0 {
                self.tell_lost();
            }
        }
        Ok(())
    }

    /// Why the last flush failed, for a person.
    pub(super) fn complaint(&self, error: &io::Error) -> String {
        let path = self.names.log();
        match self.pending.lost {
            0 => format!("{}: {error}", path.display()),
            lost => format!("{}: {error}; {lost} records were too much to be kept in memory", path.display()),
        }
    }

    /// Leaves a line in the log about records that were too much.
    fn tell_lost(&mut self) {
        let at = self.row.summary.last_used_ms.max(self.tally.last_turn_ms);
        let line =
            to_line(&json!({ "at": time::to_text(at), "record": "lost", "records": self.pending.lost }));
        self.pending.lost = 0;
        self.pending.push(Waiting { line, stem: "x".to_owned() });
    }

    /// The next lines, with their large texts on disk.
    fn batch(&self) -> io::Result<Batch> {
        let mut batch = Batch { bytes: Vec::new(), lines: 0, files: Vec::new() };
        for waiting in &self.pending.lines {
            let shrunk = if waiting.line.len() > SPILL_AT {
                match shrink(&waiting.line, &self.names.spills(), &waiting.stem) {
                    Ok(shrunk) => Some(shrunk),
                    // Those before it can go.
                    Err(_) if batch.lines > 0 => break,
                    Err(error) => return Err(error),
                }
            } else {
                None
            };
            batch.lines += 1;
            match shrunk {
                Some(shrunk) => {
                    batch.bytes.extend_from_slice(&shrunk.line);
                    batch.files.extend(shrunk.files);
                }
                None => batch.bytes.extend_from_slice(&waiting.line),
            }
            if batch.bytes.len() >= BATCH {
                break;
            }
        }
        Ok(batch)
    }

    /// Takes off what is after the last whole record.
    fn cut(&mut self, file: &File) -> io::Result<()> {
        if self.torn {
            file.set_len(self.len)?;
            self.torn = false;
        }
        Ok(())
    }

    /// The file, made or opened for writing where that was not possible before.
    fn writable(&mut self) -> io::Result<Arc<File>> {
        match &self.place {
            Place::Writable(file) => {
                let file = Arc::clone(file);
                // Somebody removed it or its folder under a living session. What it held is still in this handle.
                if file.metadata()?.nlink() == 0 { self.restore(&file) } else { Ok(file) }
            }
            Place::Nowhere => {
                let file = make(&self.names)?;
                self.new_name = true;
                Ok(self.settle(file))
            }
            Place::Old(lines) => {
                let expected = entries(&Source::of_lines(lines.clone()))?;
                match convert(&self.names).map_err(io::Error::other)? {
                    Converted::Done => {}
                    Converted::Busy => return Err(io::ErrorKind::WouldBlock.into()),
                }
                let file = reopen(&self.names.log())?;
                take_lock(&file)?;
                let source = Source::of_file(Arc::new(file.try_clone()?))?;
                if entries(&source)? != expected {
                    return Err(io::Error::other("another process went on with it"));
                }
                self.len = source.len();
                self.row.old_stamp = None;
                Ok(self.settle(file))
            }
            Place::ReadOnly(old) => {
                let file = reopen(&self.names.log())?;
                let (old_is, new_is) = (old.metadata()?, file.metadata()?);
                if (old_is.dev(), old_is.ino()) != (new_is.dev(), new_is.ino()) {
                    return Err(io::Error::other("another file took its place"));
                }
                // Two handles of one process exclude each other too.
                old.unlock()?;
                take_lock(&file)?;
                Ok(self.settle(file))
            }
            Place::Deleted => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn settle(&mut self, file: File) -> Arc<File> {
        let file = Arc::new(file);
        self.place = Place::Writable(Arc::clone(&file));
        file
    }

    /// Puts a removed log back in its place, with everything that it held.
    fn restore(&mut self, old: &File) -> io::Result<Arc<File>> {
        let new = make(&self.names)?;
        if let Err(error) = copy(old, &new, self.len) {
            discard(&[self.names.log()]);
            return Err(error);
        }
        self.torn = false;
        self.new_name = true;
        Ok(self.settle(new))
    }

    /// What must reach the disk for the log to outlive a loss of power. Forgets about it.
    pub(super) fn take_unsynced(&mut self) -> Option<Unsynced> {
        let file = Arc::clone(self.file()?);
        let files = std::mem::take(&mut self.new_files);
        let mut folders = Vec::new();
        if !files.is_empty() {
            folders.push(self.names.spills());
        }
        let new_name = std::mem::take(&mut self.new_name);
        if new_name || !files.is_empty() {
            folders.push(self.names.folder().to_owned());
        }
        Some(Unsynced { file, files, folders, new_name })
    }

    /// The disk did not do it: it is asked again the next time.
    pub(super) fn give_back(&mut self, unsynced: Unsynced) {
        self.new_files.extend(unsynced.files);
        self.new_name |= unsynced.new_name;
    }
}

/// Makes the file of a log, locked.
fn make(names: &Names) -> io::Result<File> {
    let open = || OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(names.log());
    let file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(names.folder())?;
            open()?
        }
        opened => opened?,
    };
    take_lock(&file)?;
    Ok(file)
}

/// How many entries a history has.
fn entries(source: &Source) -> io::Result<u64> {
    let mut tally = Tally::default();
    tally.scan(source, 0)?;
    Ok(tally.entries)
}

fn reopen(path: &Path) -> io::Result<File> {
    open_checked(path, OpenOptions::new().read(true).append(true))
}

fn take_lock(file: &File) -> io::Result<()> {
    match lock::take(file)? {
        Lock::Ours => Ok(()),
        Lock::Theirs => Err(io::Error::other("another process has it open")),
    }
}

fn write_whole(mut file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn copy(from: &File, to: &File, len: u64) -> io::Result<()> {
    let mut block = vec![0; BATCH];
    let mut done = 0;
    while done < len {
        let size = usize::try_from(len - done).unwrap_or(usize::MAX).min(block.len());
        from.read_exact_at(&mut block[..size], done)?;
        write_whole(to, &block[..size])?;
        done += u64::try_from(size).unwrap_or_default();
    }
    Ok(())
}

/// What is written and may still be lost with the power.
#[derive(Debug)]
pub(super) struct Unsynced {
    file: Arc<File>,
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    new_name: bool,
}

impl Unsynced {
    /// Waits until the disk has it.
    pub(super) fn sync(&self) -> io::Result<()> {
        for path in &self.files {
            // One that is gone was removed with its session.
            match File::open(path) {
                Ok(file) => file.sync_data()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        for folder in &self.folders {
            // Not every file system can sync a folder, and nothing better can be done.
            if let Ok(folder) = File::open(folder) {
                let _ = folder.sync_all();
            }
        }
        self.file.sync_data()
    }
}
