//! Looking at a session's files without opening it: nothing is written, and nothing is waited for.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use milk_core::id::SessionId;
use milk_core::ports::StoreError;
use milk_core::session::SessionSummary;
use milk_files::DirId;

use super::line::Header;
use super::names::Names;
use super::old;
use super::source::{Source, open_regular};
use super::tally::Tally;

/// What the index keeps about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// What a list shows.
    pub(super) summary: SessionSummary,
    /// The real path of its directory: what it is, however it is spelled (R21).
    pub(super) directory: PathBuf,
    /// How much of its log these numbers cover, in bytes.
    pub(super) size: u64,
    /// When the file of an older version of milk was last written, in nanoseconds since the Unix epoch; `None` for a log.
    pub(super) old_stamp: Option<i64>,
}

impl Row {
    /// What a header says, before any record.
    pub(super) fn new(header: &Header) -> Self {
        let cwd = header.cwd();
        let created_ms = header.created_ms();
        let summary = SessionSummary {
            id: header.id.clone(),
            name: header.name.clone(),
            first_prompt: None,
            turns: 0,
            entries: 0,
            created_ms,
            last_used_ms: created_ms,
            cwd,
        };
        let directory = DirId::of(&summary.cwd).as_path().to_owned();
        Self { directory, summary, size: 0, old_stamp: None }
    }

    /// The counts so far.
    pub(super) fn tally(&self) -> Tally {
        Tally {
            turns: self.summary.turns,
            entries: self.summary.entries,
            first_prompt: self.summary.first_prompt.clone(),
            last_turn_ms: self.summary.last_used_ms,
            broken: 0,
        }
    }

    /// Takes newer counts over.
    pub(super) fn count(&mut self, tally: &Tally, size: u64) {
        self.summary.turns = tally.turns;
        self.summary.entries = tally.entries;
        self.summary.first_prompt.clone_from(&tally.first_prompt);
        self.summary.last_used_ms = self.summary.last_used_ms.max(tally.last_turn_ms);
        self.size = size;
    }
}

/// A session's files, looked at.
#[derive(Debug)]
pub(super) struct Looked {
    /// Its history.
    pub(super) source: Source,
    /// Its first line.
    pub(super) header: Header,
    /// Where its records come from.
    pub(super) origin: Origin,
}

/// Where a history comes from.
#[derive(Debug)]
pub(super) enum Origin {
    /// A log.
    Log(Arc<File>),
    /// A file of an older version of milk, written at that time (see [`Row::old_stamp`]), of that many bytes.
    Old {
        /// See [`Row::old_stamp`].
        stamp: i64,
        /// Its length in bytes.
        size: u64,
        /// When it was last used, in milliseconds since the Unix epoch.
        last_used_ms: u64,
    },
}

/// Looks at a session.
pub(super) fn look(names: &Names) -> Result<Looked, StoreError> {
    let path = names.log();
    match open_regular(&path) {
        Ok(file) => log(names, Arc::new(file)),
        Err(error) if is_missing(&error) => old::look(names),
        Err(error) => Err(failed(&path, &error)),
    }
}

/// Looks at a log that is open already.
pub(super) fn log(names: &Names, file: Arc<File>) -> Result<Looked, StoreError> {
    let path = names.log();
    let source = Source::of_file(Arc::clone(&file)).map_err(|error| failed(&path, &error))?;
    let header = header(&source, names.id())
        .map_err(|reason| StoreError::Failed(format!("{}: {reason}", path.display())))?;
    Ok(Looked { source, header, origin: Origin::Log(file) })
}

fn header(source: &Source, id: &SessionId) -> Result<Header, String> {
    let first = source.lines(0).next().map_err(|error| error.to_string())?;
    let text = first.and_then(|line| line.text).ok_or("it has no first line")?;
    let header = Header::read(&text).ok_or("its first line is not that of a session")?;
    // On a file system that thinks `A` and `a` one name, they still are two ids.
    if header.id == *id { Ok(header) } else { Err(format!("it is the log of session {}", header.id)) }
}

/// The whole row of a session, and how many lines of its log cannot be read.
pub(super) fn row(names: &Names, looked: &Looked) -> Result<(Row, u64), StoreError> {
    let mut row = Row::new(&looked.header);
    let mut tally = Tally::default();
    let scanned = tally.scan(&looked.source, 0);
    let end = scanned.map_err(|error| failed(&names.log(), &error))?;
    row.count(&tally, end);
    if let Origin::Old { stamp, size, last_used_ms } = looked.origin {
        row.size = size;
        row.old_stamp = Some(stamp);
        row.summary.last_used_ms = last_used_ms;
    }
    Ok((row, tally.broken))
}

/// Brings a row of a log up to date. Reads only what was appended since.
pub(super) fn catch_up(row: &mut Row, source: &Source) -> io::Result<()> {
    let mut tally = row.tally();
    let from = row.size.min(source.len());
    let end = tally.scan(source, from)?;
    row.count(&tally, end);
    Ok(())
}

/// Whether a row is that of a file of an older version of milk which is as it was.
pub(super) fn is_unchanged_old(names: &Names, row: &Row) -> bool {
    let found = names.old().and_then(|path| std::fs::metadata(path).ok()).map(|found| stamp(&found));
    row.old_stamp.is_some() && found == row.old_stamp && !names.log().exists()
}

/// When a file was last written, in nanoseconds since the Unix epoch.
pub(super) fn stamp(metadata: &Metadata) -> i64 {
    use std::os::unix::fs::MetadataExt;
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

/// Nothing is at that path.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The disk's reason, with the path.
pub(super) fn failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Failed(format!("{}: {error}", path.display()))
}
