//! Removing sessions.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use milk_core::ports::StoreError;
use milk_core::session::SessionSummary;

use super::Shared;
use super::look::{failed, is_missing};
use super::names::Names;
use super::open::lock;

/// How long a session without turn and name is kept (R23).
const EMPTY_FOR: Duration = Duration::from_secs(24 * 60 * 60);

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
    match shared.living(names.id()) {
        // Held under the lock: nothing is appended between the removal and its note.
        Some(live) => {
            let mut writer = live.writer();
            match remove_file(&names.log()) {
                Ok(_) => writer.set_deleted(),
                Err(error) => return Err(failed(&names.log(), &error)),
            }
        }
        None => match lock(shared, names) {
            // The lock is held until the file is gone.
            Ok(_locked) => {
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
    if shared.living(&listed.id).is_some() {
        return Err(StoreError::Failed("it is open".to_owned()));
    }
    // The index may be behind.
    let summary = shared.find(&names)?;
    if summary.last_used_ms != listed.last_used_ms || summary.turns != listed.turns {
        return Err(StoreError::Failed("it was used meanwhile".to_owned()));
    }
    delete(shared, &names)
}

/// Removes sessions that were made for nothing, once in a while.
pub(super) fn prune_empty(shared: &Arc<Shared>) {
    match prune(shared, Prune::Empty) {
        Ok(pruned) if !pruned.removed.is_empty() => {
            tracing::debug!(count = pruned.removed.len(), "empty sessions were removed");
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "empty sessions were not looked for"),
    }
}
