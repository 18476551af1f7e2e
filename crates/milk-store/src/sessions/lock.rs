//! The advisory lock on a log: whoever has it may write. It goes with its process, however that ends.

use std::fs::{File, TryLockError};
use std::io;

use rustix::io::Errno;

/// What came of asking for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// This handle may write. So it is too where the file system knows no locks: they are a help, not a condition.
    Ours,
    /// Another handle may, of this process or of another.
    Theirs,
}

/// Asks for the lock on a file, and does not wait for it. It is given back with the handle.
pub(super) fn take(file: &File) -> io::Result<Lock> {
    match file.try_lock() {
        Ok(()) => Ok(Lock::Ours),
        Err(TryLockError::WouldBlock) => Ok(Lock::Theirs),
        Err(TryLockError::Error(error)) if is_unknown(&error) => Ok(Lock::Ours),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether somebody has the lock on a file. Takes it for a moment, shared, to find out.
pub(super) fn is_taken(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            // It is given back with the handle at the latest.
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

/// The file system has no locks.
fn is_unknown(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS].contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_handle_has_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::options().create(true).append(true).open(dir.path().join("f")).unwrap();
        let (one, two) = (open(), open());
        assert!(!is_taken(&two));
        assert_eq!(take(&one).unwrap(), Lock::Ours);
        assert_eq!(take(&two).unwrap(), Lock::Theirs);
        assert!(is_taken(&two));
        drop(one);
        assert_eq!(take(&two).unwrap(), Lock::Ours);
    }

    #[test]
    fn a_file_system_without_locks_stops_nothing() {
        for errno in [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS] {
            assert!(is_unknown(&errno.into()));
        }
        assert!(!is_unknown(&Errno::IO.into()));
    }
}
