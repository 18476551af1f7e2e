//! Opening a stored session for writing: the lock, and a look at the log's end, where a crash leaves its marks.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use milk_core::ports::{StoreError, StoredSession};

use super::Shared;
use super::history::{Recent, recent};
use super::index::{Hold, Use};
use super::line::{FORMAT, Peek};
use super::lock::{self, Lock};
use super::log::{DiskLog, Live};
use super::look::{self, Looked, Row, catch_up, failed, is_missing};
use super::names::Names;
use super::old::{self, Converted, convert};
use super::source::{LINE_LIMIT, Source, open_checked};
use super::writer::{Place, Writer};

/// How often a lock is asked for. Who only looks whether somebody has a session open holds the lock for a moment.
const LOCK_ATTEMPTS: u32 = 5;
/// The pause between two of them.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// A log that is locked for this process.
pub(super) struct Locked {
    pub(super) file: Arc<File>,
    pub(super) access: Access,
}

/// What may be done with a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It may be appended to.
    Write,
    /// The disk, or its mode, allows reading only.
    Read,
}

/// Opens a session for writing.
pub(super) fn open(shared: &Arc<Shared>, names: &Names) -> Result<StoredSession, StoreError> {
    let opened = match lock_log(shared, names) {
        Err(StoreError::Unknown(_)) => open_old(shared, names)?,
        locked => open_log(shared, names, locked?)?,
    };
    let Opened { writer, row, recent, mut troubles } = opened;
    if recent.broken > 0 {
        troubles.push(format!(
            "{} lines of the log of session {} cannot be read and are passed over",
            recent.broken,
            names.id()
        ));
    }
    if recent.too_long {
        troubles.push(format!("the last turn of session {} is too long to be loaded", names.id()));
    }
    for trouble in &troubles {
        tracing::warn!("{trouble}");
    }
    let live = Arc::new(Live::new(writer));
    shared.remember(names, &live);
    shared.index.note(live.row(), Hold::Open, Use::None);
    // Others see at once who has it.
    shared.index.flush();
    Ok(StoredSession {
        log: Arc::new(DiskLog::new(live, Arc::clone(shared))),
        summary: row.summary,
        recent: recent.records,
        earlier_turns: recent.earlier_turns,
        troubles,
    })
}

struct Opened {
    writer: Writer,
    row: Row,
    recent: Recent,
    troubles: Vec<String>,
}

fn open_log(shared: &Shared, names: &Names, locked: Locked) -> Result<Opened, StoreError> {
    let path = names.log();
    let looked = look::log(names, Arc::clone(&locked.file))?;
    if looked.header.format > FORMAT {
        return Err(StoreError::Failed(format!("{} was written by a newer milk", path.display())));
    }
    let sound = sound_end(&looked.source).map_err(|error| failed(&path, &error))?;
    // A record of which only the line end is missing is read with the others, and its line written anew.
    let whole = match &sound.after {
        After::Whole(line) => [line.as_slice(), b"\n"].concat(),
        After::Nothing | After::Broken(_) => Vec::new(),
    };
    let source = Source::new(Some(Arc::clone(&locked.file)), sound.end, whole.clone());
    let newest = recent(&source, &names.spills()).map_err(|error| failed(&path, &error))?;
    let row = row(shared, names, &Looked { source, ..looked }, newest.entries)?;

    let place = match locked.access {
        Access::Write => Place::Writable(locked.file),
        Access::Read => Place::ReadOnly(locked.file),
    };
    let mut writer = Writer::over(names.clone(), place, sound.end, row.clone());
    let mut troubles = Vec::new();
    match sound.after {
        After::Nothing => {}
        After::Whole(_) => writer.set_torn(Some(whole)),
        After::Broken(bytes) => {
            writer.set_torn(None);
            troubles.push(format!(
                "the log of session {} ended in the middle of a record: its last {bytes} bytes are lost",
                names.id()
            ));
        }
    }
    if let Err(error) = writer.mend() {
        tracing::debug!(%error, "the end of a log cannot be mended yet");
    }
    Ok(Opened { writer, row, recent: newest, troubles })
}

/// The row of a session that is being opened. `entries` is what the log's end says of its number of entries: an index that
/// says otherwise is wrong, and a wrong number would give two entries one place.
fn row(shared: &Shared, names: &Names, looked: &Looked, entries: Option<u64>) -> Result<Row, StoreError> {
    let mut fresh = Row::new(&looked.header);
    let indexed = shared.index.get(names.id()).ok().flatten();
    if let Some(indexed) = indexed.filter(|row| row.old_stamp.is_none() && row.size <= looked.source.len()) {
        fresh.count(&indexed.tally(), indexed.size);
        catch_up(&mut fresh, &looked.source).map_err(|error| failed(&names.log(), &error))?;
        if entries.is_none_or(|entries| entries == fresh.summary.entries) {
            return Ok(fresh);
        }
    }
    look::row(names, looked).map(|(row, _)| row)
}

/// Opens a session of an older version of milk. Where it cannot become a log now, it becomes one later.
fn open_old(shared: &Arc<Shared>, names: &Names) -> Result<Opened, StoreError> {
    let refused = match convert(names) {
        Ok(Converted::Done) => return open_log(shared, names, lock_log(shared, names)?),
        Ok(Converted::Busy) => return Err(locked(shared, names)),
        Err(StoreError::Unknown(id)) => return Err(StoreError::Unknown(id)),
        Err(refused) => refused,
    };
    let looked = old::look(names)?;
    tracing::debug!(error = %refused, "an old session is not converted yet");
    let (row, _) = look::row(names, &looked)?;
    let newest = recent(&looked.source, &names.spills()).map_err(|error| failed(&names.log(), &error))?;
    let place = Place::Old(looked.source.into_lines());
    let writer = Writer::over(names.clone(), place, 0, row.clone());
    Ok(Opened { writer, row, recent: newest, troubles: Vec::new() })
}

/// Opens a log and locks it.
pub(super) fn lock_log(shared: &Shared, names: &Names) -> Result<Locked, StoreError> {
    let path = names.log();
    let unknown = || StoreError::Unknown(names.id().clone());
    for attempt in 0..LOCK_ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(LOCK_PAUSE);
        }
        let (file, access) = match open_either(&path) {
            Ok(opened) => opened,
            Err(error) if is_missing(&error) => return Err(unknown()),
            Err(error) => return Err(failed(&path, &error)),
        };
        match lock::take(&file) {
            Ok(Lock::Ours) => {}
            Ok(Lock::Theirs) => continue,
            Err(error) => return Err(failed(&path, &error)),
        }
        // It may have been deleted, and perhaps replaced, between the opening and the lock.
        match (std::fs::metadata(&path), file.metadata()) {
            (Ok(there), Ok(ours)) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                return Ok(Locked { file: Arc::new(file), access });
            }
            (Err(error), _) if is_missing(&error) => return Err(unknown()),
            (Err(error), _) | (_, Err(error)) => return Err(failed(&path, &error)),
            _ => {}
        }
    }
    Err(locked(shared, names))
}

fn locked(shared: &Shared, names: &Names) -> StoreError {
    let holder = shared.index.holder(names.id()).and_then(|holder| holder.pid).filter(|pid| is_alive(*pid));
    let holder = holder.map_or_else(|| "which one is not known".to_owned(), |pid| format!("process {pid}"));
    StoreError::Locked { id: names.id().clone(), holder }
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    // A process of another user is one too.
    pid.is_some_and(|pid| !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH)))
}

fn open_either(path: &std::path::Path) -> io::Result<(File, Access)> {
    match open_checked(path, OpenOptions::new().read(true).append(true)) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Ok((open_checked(path, OpenOptions::new().read(true))?, Access::Read))
        }
        opened => Ok((opened?, Access::Write)),
    }
}

/// Where a log's last whole line ends, and what is behind it. Whole lines are left alone, whatever they are.
struct Sound {
    end: u64,
    after: After,
}

enum After {
    Nothing,
    /// A record of which only the line end is missing.
    Whole(Vec<u8>),
    /// So many bytes of nothing.
    Broken(u64),
}

fn sound_end(source: &Source) -> io::Result<Sound> {
    let end = source.lines_back()?.position();
    let unfinished = source.len() - end;
    if unfinished == 0 {
        return Ok(Sound { end, after: After::Nothing });
    }
    if unfinished <= u64::try_from(LINE_LIMIT).unwrap_or_default() {
        let mut rest = vec![0; usize::try_from(unfinished).unwrap_or_default()];
        let read = source.read_at(&mut rest, end)?;
        rest.truncate(read);
        if Peek::at(&rest).is_some() {
            return Ok(Sound { end, after: After::Whole(rest) });
        }
    }
    Ok(Sound { end, after: After::Broken(unfinished) })
}
