//! Removing sessions.

use std::fs::DirEntry;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use milk_core::id::SessionId;
use milk_core::ports::StoreError;
use milk_core::session::SessionSummary;

use super::look::{failed, is_missing};
use super::names::{Found, Names};
use super::open::lock_log;
use super::{Shared, not_vital};

/// How long a session without turn and name is kept (R23).
const EMPTY_FOR: Duration = Duration::from_hours(24);

/// Which sessions are to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prune {
    /// Those without turn and name that were not used for a day (R23).
    Empty,
    /// These, and every one without a name that was not used for so long.
    UnusedFor(Duration),
}

/// What went, and what did not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Sessions that were removed.
    pub removed: Vec<SessionSummary>,
    /// Sessions that would have gone but for their name.
    pub named: Vec<SessionSummary>,
    /// Sessions that could not be removed, with the reason: some process has them open, or the disk refused.
    pub kept: Vec<(SessionSummary, String)>,
}

/// Removes a session with all that belongs to it.
pub(super) fn delete(shared: &Shared, names: &Names) -> Result<(), StoreError> {
    shared.index.changing(|| delete_if(shared, names, None))
}

/// Removes a session, unless its log has another length than `expected`, in bytes.
fn delete_if(shared: &Shared, names: &Names, expected: Option<u64>) -> Result<(), StoreError> {
    match shared.living(names.id()) {
        Some(_) if expected.is_some() => return Err(StoreError::Failed("it is open".to_owned())),
        // Held under the lock: nothing is appended between the removal and its note.
        Some(live) => {
            let mut writer = live.writer();
            match remove_file(&names.log()) {
                Ok(_) => writer.set_deleted(),
                Err(error) => return Err(failed(&names.log(), &error)),
            }
        }
        None => match lock_log(shared, names) {
            // The lock is held until the file is gone.
            Ok(locked) => {
                let len = locked.file.metadata().map_err(|error| failed(&names.log(), &error))?.len();
                if expected.is_some_and(|expected| expected != len) {
                    return Err(StoreError::Failed("it was used meanwhile".to_owned()));
                }
                remove_file(&names.log()).map_err(|error| failed(&names.log(), &error))?;
            }
            Err(StoreError::Unknown(id)) => {
                let old = names.old().ok_or_else(|| StoreError::Unknown(id.clone()))?;
                if !remove_file(&old).map_err(|error| failed(&old, &error))? {
                    // A row without a session must not stay.
                    let _ = shared.index.remove(&id);
                    return Err(StoreError::Unknown(id));
                }
            }
            Err(error) => return Err(error),
        },
    }
    remove_leftovers(names);
    if let Err(error) = shared.index.remove(names.id()) {
        tracing::debug!(%error, "a deleted session stays in the index until it is healed");
    }
    Ok(())
}

/// Whether there was a file.
fn remove_file(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What belongs to a session beside its log. Where it cannot be removed it is never read again.
fn remove_leftovers(names: &Names) {
    let old = [names.old(), names.old_backup()];
    let files = old.into_iter().flatten().map(|path| (remove_file(&path).map(drop), path));
    let folder = match std::fs::remove_dir_all(names.spills()) {
        Err(error) if is_missing(&error) => Ok(()),
        done => done,
    };
    for (removed, path) in files.chain([(folder, names.spills())]) {
        if let Err(error) = removed {
            tracing::warn!(%error, path = %path.display(), "a part of a deleted session could not be removed");
        }
    }
}

/// Removes sessions that nobody will miss.
pub(super) fn prune(shared: &Arc<Shared>, which: Prune) -> Result<Pruned, StoreError> {
    let now = shared.clock.now_ms();
    let ago = |age: Duration| now.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    let mut candidates = shared.index.empty(ago(EMPTY_FOR))?;
    let mut pruned = Pruned::default();
    if let Prune::UnusedFor(age) = which {
        let (named, unused): (Vec<_>, Vec<_>) =
            shared.index.unused(ago(age))?.into_iter().partition(|summary| summary.name.is_some());
        pruned.named = named;
        candidates.extend(unused.into_iter().filter(|summary| !is_empty(summary)));
    }
    for summary in candidates {
        match remove_unused(shared, &summary) {
            Ok(()) => pruned.removed.push(summary),
            Err(StoreError::Unknown(_)) => {}
            Err(error) => pruned.kept.push((summary, error.to_string())),
        }
    }
    Ok(pruned)
}

fn is_empty(summary: &SessionSummary) -> bool {
    summary.turns == 0 && summary.name.is_none()
}

fn remove_unused(shared: &Arc<Shared>, listed: &SessionSummary) -> Result<(), StoreError> {
    let unknown = || StoreError::Unknown(listed.id.clone());
    let names = Names::of(&shared.folder, &listed.id).ok_or_else(unknown)?;
    let len = std::fs::metadata(names.log()).map_or(0, |metadata| metadata.len());
    // The index may be behind.
    let summary = shared.find(&names)?;
    if summary.last_used_ms != listed.last_used_ms || summary.turns != listed.turns {
        return Err(StoreError::Failed("it was used meanwhile".to_owned()));
    }
    shared.index.changing(|| delete_if(shared, &names, Some(len)))
}

/// Removes sessions that were made for nothing, and what kills left behind. To be done once in a while.
pub(super) fn tidy_up(shared: &Arc<Shared>) {
    match prune(shared, Prune::Empty) {
        Ok(pruned) if !pruned.removed.is_empty() => {
            tracing::debug!(count = pruned.removed.len(), "empty sessions were removed");
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "empty sessions were not looked for"),
    }
    let now = SystemTime::now();
    milk_files::sweep(&shared.folder, EMPTY_FOR, now);
    let Ok(entries) = std::fs::read_dir(&shared.folder) else { return };
    for entry in entries.flatten() {
        let found = entry.file_name().to_str().and_then(Found::from_name);
        let Some(found) = found.filter(|_| is_older(&entry, now)) else { continue };
        match found {
            Found::Log(id) => remove_unborn(shared, &id),
            Found::Spills(id) => remove_orphans(shared, &id),
            Found::Old(_) => {}
        }
    }
}

/// Whether a file was last written more than a day ago.
fn is_older(entry: &DirEntry, now: SystemTime) -> bool {
    let written = entry.metadata().and_then(|metadata| metadata.modified());
    written.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > EMPTY_FOR))
}

/// A log without a byte: milk was killed before it wrote the first line.
fn remove_unborn(shared: &Shared, id: &SessionId) {
    let Some(names) = Names::of(&shared.folder, id) else { return };
    if shared.living(id).is_none()
        && std::fs::metadata(names.log()).is_ok_and(|found| found.is_file() && found.len() == 0)
    {
        not_vital(delete_if(shared, &names, Some(0)));
    }
}

/// Large texts of a session that is not there.
fn remove_orphans(shared: &Shared, id: &SessionId) {
    let Some(names) = Names::of(&shared.folder, id) else { return };
    let belongs = names.log().exists() || names.old().is_some_and(|old| old.exists());
    if !belongs && shared.living(id).is_none() {
        remove_leftovers(&names);
    }
}
