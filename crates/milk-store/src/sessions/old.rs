//! Sessions of older versions of milk: one JSON document each, `<id>.json`. They are read as if they were logs; the first
//! time that one is opened for writing it becomes one.

use std::fs::File;
use std::io;

use milk_core::JsonObject;
use milk_core::ports::StoreError;
use milk_core::record::Logged;
use milk_files::{FileError, read_bounded, replace_private};
use serde::Deserialize;

use super::line::{Header, encode};
use super::lock::{self, Lock};
use super::look::{Looked, Origin, stamp};
use super::names::Names;
use super::old_turns::{OldTurn, to_records};
use super::source::Source;
use super::spill::{SPILL_AT, shrink};
use super::time;

/// Largest document that is read, in bytes.
const LIMIT: u64 = 64 * 1024 * 1024;
/// What is kept in the new header of the other fields, in bytes. All of them stay in the backup.
const IMPORTED_LIMIT: usize = 1024 * 1024;

#[derive(Deserialize)]
struct OldSession {
    id: String,
    cwd: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    last_used: Option<String>,
    #[serde(default)]
    history: Option<Vec<OldTurn>>,
    #[serde(flatten)]
    rest: JsonObject,
}

/// A document, taken apart.
struct Opened {
    header: Header,
    records: Vec<Logged>,
    stamp: i64,
    size: u64,
    last_used_ms: u64,
}

/// Looks at a session of an older version of milk.
pub(super) fn look(names: &Names) -> Result<Looked, StoreError> {
    let opened = open(names)?;
    let mut lines = opened.header.to_line();
    for logged in &opened.records {
        lines.append(&mut encode(logged.at_ms, logged.entry, &logged.record));
    }
    Ok(Looked {
        source: Source::of_lines(lines),
        header: opened.header,
        origin: Origin::Old { stamp: opened.stamp, size: opened.size, last_used_ms: opened.last_used_ms },
    })
}

fn open(names: &Names) -> Result<Opened, StoreError> {
    let unknown = || StoreError::Unknown(names.id().clone());
    let path = names.old().ok_or_else(unknown)?;
    let failed = |reason: String| StoreError::Failed(format!("{}: {reason}", path.display()));
    let metadata = std::fs::metadata(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => unknown(),
        _ => failed(error.to_string()),
    })?;
    let bytes = read_bounded(&path, LIMIT).map_err(|error| match error {
        error if error.is_not_found() => unknown(),
        FileError::Io { source, .. } => failed(source.to_string()),
        error => StoreError::Failed(error.to_string()),
    })?;
    let mut session: OldSession =
        serde_json::from_slice(&bytes).map_err(|error| failed(format!("it is not a session: {error}")))?;
    if session.id != names.id().as_str() {
        return Err(failed(format!("it is session {}", session.id)));
    }
    let created_ms = session.created_at.as_deref().and_then(time::from_text).unwrap_or_default();
    let last_used_ms = session.last_used.as_deref().and_then(time::from_text).unwrap_or(created_ms);
    let name = session.name.as_deref().filter(|name| !name.is_empty());
    let mut header = Header::new(names.id(), session.cwd.as_ref(), name, created_ms);
    session.rest.retain(|_, value| !value.is_null());
    let size = serde_json::to_vec(&session.rest).map_or(usize::MAX, |bytes| bytes.len());
    header.imported = (size <= IMPORTED_LIMIT && !session.rest.is_empty()).then_some(session.rest);
    Ok(Opened {
        header,
        records: to_records(session.history.unwrap_or_default(), created_ms),
        stamp: stamp(&metadata),
        size: metadata.len(),
        last_used_ms,
    })
}

/// What became of a conversion.
pub(super) enum Converted {
    /// There is a log now.
    Done,
    /// Somebody else is doing it.
    Busy,
}

/// Makes a log of a session of an older version of milk. A kill at any instant leaves the document or the log, whole.
pub(super) fn convert(names: &Names) -> Result<Converted, StoreError> {
    let unknown = || StoreError::Unknown(names.id().clone());
    let (path, backup) = (names.old().ok_or_else(unknown)?, names.old_backup().ok_or_else(unknown)?);
    let failed = |error: io::Error| super::look::failed(&path, &error);
    let opened = open(names)?;
    let guard = File::open(&path).map_err(failed)?;
    if lock::take(&guard).map_err(failed)? == Lock::Theirs {
        return Ok(Converted::Busy);
    }
    // Another process may have done it between the reading and the lock.
    if names.log().exists() {
        return Ok(Converted::Done);
    }
    let mut log = opened.header.to_line();
    for logged in &opened.records {
        let mut line = encode(logged.at_ms, logged.entry, &logged.record);
        if line.len() > SPILL_AT {
            let stem = logged.entry.map_or_else(|| "x".to_owned(), |entry| entry.0.to_string());
            line = shrink(&line, &names.spills(), &stem).map_err(failed)?.line;
        }
        log.append(&mut line);
    }
    replace_private(&names.log(), &log).map_err(|error| StoreError::Failed(error.to_string()))?;
    set_aside(names, &path, &backup);
    Ok(Converted::Done)
}

/// Renames a document that has become a log. Where that fails it stays, and the log counts.
fn set_aside(names: &Names, path: &std::path::Path, backup: &std::path::Path) {
    if let Err(error) = std::fs::rename(path, backup) {
        tracing::debug!(%error, session = %names.id(), "an old session file could not be renamed");
    }
}
