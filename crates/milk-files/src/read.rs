//! Reading files that somebody else may have put there.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::{FileError, FileOp};

/// Reads a regular file of at most `limit` bytes, following links.
///
/// Never blocks on a pipe or device, and never holds more than `limit` + 1 bytes, even if the file grows meanwhile.
///
/// # Errors
/// [`FileError::NotRegular`], [`FileError::TooLarge`], or the system's reason.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let fail = || FileError::io(FileOp::Read, path);
    // Asked before opening, because opening a device can have effects; asked again of what was really opened.
    if !fs::metadata(path).map_err(fail())?.is_file() {
        return Err(FileError::NotRegular { path: path.to_owned() });
    }
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(fail())?;
    let metadata = file.metadata().map_err(fail())?;
    if !metadata.is_file() {
        return Err(FileError::NotRegular { path: path.to_owned() });
    }
    if metadata.len() > limit {
        return Err(FileError::TooLarge { path: path.to_owned(), limit });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(fail())?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(FileError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_up_to_the_limit_and_no_further() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, b"12345").unwrap();
        assert_eq!(read_bounded(&path, 5).unwrap(), b"12345");
        assert!(matches!(read_bounded(&path, 4), Err(FileError::TooLarge { limit: 4, .. })));
    }

    #[test]
    fn a_file_that_says_it_is_empty_is_still_bounded() {
        // Files of /proc have length 0 and content.
        let path = Path::new("/proc/self/maps");
        if path.exists() {
            assert!(!read_bounded(path, 1 << 20).unwrap().is_empty());
            assert!(matches!(read_bounded(path, 8), Err(FileError::TooLarge { .. })));
        }
    }

    #[test]
    fn what_is_not_a_file_is_refused_without_opening_it() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        for path in [dir.path(), &pipe, Path::new("/dev/zero")] {
            assert!(matches!(read_bounded(path, 8), Err(FileError::NotRegular { .. })), "{}", path.display());
        }
    }

    #[test]
    fn a_missing_file_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let error = read_bounded(&dir.path().join("none"), 8).unwrap_err();
        assert!(error.is_not_found());
        assert!(error.to_string().contains("none"), "{error}");
    }
}
