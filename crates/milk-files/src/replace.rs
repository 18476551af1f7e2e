//! Whole files are replaced, never rewritten in place: a reader, or a kill at any instant, sees the old content or
//! the new, complete.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::identity::resolve;
use crate::{FileError, FileOp};

/// How the name of every temporary file of milk begins; 12 random letters and digits follow. A kill
/// between the steps of a replacement can leave one behind, which [`sweep`] removes later.
pub const TEMP_PREFIX: &str = ".milk-tmp.";
const TEMP_RANDOM: usize = 12;

const PRIVATE: u32 = 0o600;
const NEW: u32 = 0o666; // the umask is taken off by the system

/// Which mode the new file gets.
#[derive(Clone, Copy)]
enum Keep {
    /// The replaced file's, or what the umask gives a new file.
    Existing,
    /// Only the owner may read and write, whatever stood there.
    Private,
}

/// Replaces the file at `path`, or creates it, with `content`.
///
/// The mode (and, where the system allows it, the owner) of an existing file is kept. A link is followed, so that
/// the link stays and its target is replaced, also when the target does not exist yet. A file that this process may
/// not write is left alone, as with a plain write. Other hard links of the file keep the old content.
///
/// # Errors
/// [`FileError`] with path and step; the old content stands, except when [`FileOp::Sync`] failed on the folder, which
/// is after the new file took its place.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), FileError> {
    put(path, content, Keep::Existing)
}

/// As [`replace`], but the file ends with mode 0600 whatever it had, and is never readable for others on the way.
pub fn replace_private(path: &Path, content: &[u8]) -> Result<(), FileError> {
    put(path, content, Keep::Private)
}

fn put(path: &Path, content: &[u8], keep: Keep) -> Result<(), FileError> {
    let target = real_target(path)?;
    let existing = existing_file(&target)?;
    let folder = target.parent().ok_or_else(|| FileError::NotRegular { path: target.clone() })?;

    let mode = if matches!(keep, Keep::Private) || existing.is_some() { PRIVATE } else { NEW };
    let mut temp = tempfile::Builder::new()
        .prefix(TEMP_PREFIX)
        .rand_bytes(TEMP_RANDOM)
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)
        .map_err(FileError::io(FileOp::CreateTemp, &target))?;
    temp.write_all(content).map_err(FileError::io(FileOp::Write, &target))?;
    if let (Keep::Existing, Some(old)) = (keep, &existing) {
        adopt(temp.as_file(), old).map_err(FileError::io(FileOp::SetMode, &target))?;
    }
    temp.as_file().sync_all().map_err(FileError::io(FileOp::Sync, &target))?;
    temp.persist(&target).map_err(|failed| FileError::io(FileOp::Rename, &target)(failed.error))?;
    sync_folder(folder).map_err(FileError::io(FileOp::Sync, folder))
}

/// Where the content goes: `path` itself, or what it links to.
fn real_target(path: &Path) -> Result<PathBuf, FileError> {
    let base = if path.is_absolute() {
        PathBuf::from("/")
    } else {
        std::env::current_dir().map_err(FileError::io(FileOp::Read, path))?
    };
    Ok(resolve(path, &base))
}

/// The metadata of a regular file that may be replaced, or `None` where nothing stands.
fn existing_file(target: &Path) -> Result<Option<Metadata>, FileError> {
    let metadata = match fs::symlink_metadata(target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::io(FileOp::Read, target)(error)),
    };
    if !metadata.is_file() {
        return Err(FileError::NotRegular { path: target.to_owned() });
    }
    // Renaming over a file needs no right to write it; whoever made it read-only meant it.
    rustix::fs::access(target, rustix::fs::Access::WRITE_OK)
        .map_err(|errno| FileError::io(FileOp::Write, target)(errno.into()))?;
    Ok(Some(metadata))
}

fn adopt(new: &File, old: &Metadata) -> io::Result<()> {
    let now = new.metadata()?;
    let same_owner = (now.uid(), now.gid()) == (old.uid(), old.gid());
    let owner_kept = same_owner || std::os::unix::fs::fchown(new, Some(old.uid()), Some(old.gid())).is_ok();
    // Set-id bits must not pass to another owner.
    let bits = if owner_kept { 0o7777 } else { 0o777 };
    new.set_permissions(Permissions::from_mode(old.mode() & bits))
}

/// Makes the new name survive a power cut. Folders that cannot be opened or synced at all are let be: the content is
/// in place, and nothing better can be done.
fn sync_folder(folder: &Path) -> io::Result<()> {
    let Ok(handle) = File::open(folder) else { return Ok(()) };
    match handle.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        result => result,
    }
}

/// Whether this is the name of one of milk's temporary files.
pub fn is_temp_name(name: &OsStr) -> bool {
    name.to_str()
        .and_then(|name| name.strip_prefix(TEMP_PREFIX))
        .is_some_and(|rest| rest.len() == TEMP_RANDOM && rest.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Removes temporary files that a killed process left in `folder` and that are older than `age` at `now`. Returns how
/// many went; whatever cannot be looked at or removed is left for another time.
pub fn sweep(folder: &Path, age: Duration, now: SystemTime) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let stale = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|m| {
            m.is_file() && m.modified().is_ok_and(|at| now.duration_since(at).is_ok_and(|past| past > age))
        })
    };
    entries
        .flatten()
        .filter(|entry| is_temp_name(&entry.file_name()))
        .map(|entry| entry.path())
        .filter(|path| stale(path) && fs::remove_file(path).is_ok())
        .count()
}

#[cfg(test)]
mod tests;
