//! A file as it was when a person was shown what would happen to it, and the check that it still is.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use milk_core::tool::ToolError;
use milk_files::FileError;

/// Longest text of a file that is shown in a change, in bytes, before and after each.
pub(crate) const SHOWN_LIMIT: u64 = 1 << 20;

/// What stood at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing.
    Missing,
    /// A text file, with its bytes.
    Text(Arc<str>),
    /// Anything else, told apart by its metadata: a binary or large file, a folder, a link.
    Other(Stamp),
}

/// Metadata that change when an entry does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl Before {
    /// Looks at a real path. A text file of more than `limit` bytes is told apart by its metadata only.
    pub(crate) fn look(real: &Path, limit: u64) -> Result<Self, ToolError> {
        let metadata = match fs::symlink_metadata(real) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Missing),
            Err(error) => return Err(cannot("look at", real, &error)),
        };
        if !metadata.is_file() || metadata.len() > limit {
            return Ok(Self::Other(Stamp::of(&metadata)));
        }
        match milk_files::read_bounded(real, limit) {
            Ok(bytes) => Ok(match String::from_utf8(bytes) {
                Ok(text) if !text.contains('\0') => Self::Text(text.into()),
                _ => Self::Other(Stamp::of(&metadata)),
            }),
            Err(FileError::TooLarge { .. }) => Ok(Self::Other(Stamp::of(&metadata))),
            // A file that may not be read can still be replaced or removed, if the folder allows it.
            Err(error) if error.io_kind() == Some(io::ErrorKind::PermissionDenied) => {
                Ok(Self::Other(Stamp::of(&metadata)))
            }
            Err(error) => Err(ToolError::new(error.to_string())),
        }
    }

    /// Fails if the path does not hold any more what was seen, or has come to lead elsewhere.
    pub(crate) fn still(&self, real: &Path) -> Result<(), String> {
        let changed = || {
            format!("{} has changed since it was looked at: nothing was done. Read it again.", real.display())
        };
        let parent = real.parent().unwrap_or(real);
        if milk_files::resolve(parent, Path::new("/")) != parent {
            return Err(changed());
        }
        let limit = match self {
            Self::Text(text) => text.len() as u64,
            Self::Missing | Self::Other(_) => 0,
        };
        let now = match self {
            // Its bytes do not matter, only its metadata.
            Self::Other(_) => match fs::symlink_metadata(real) {
                Ok(metadata) => Self::Other(Stamp::of(&metadata)),
                Err(_) => return Err(changed()),
            },
            Self::Missing | Self::Text(_) => Self::look(real, limit).map_err(|error| error.message)?,
        };
        if now == *self { Ok(()) } else { Err(changed()) }
    }

    /// The text, if it is short enough to be shown.
    pub(crate) fn shown(&self) -> Option<Arc<str>> {
        match self {
            Self::Text(text) => shown(text),
            Self::Missing | Self::Other(_) => None,
        }
    }
}

/// A text, if it is short enough to be shown.
pub(crate) fn shown(text: &Arc<str>) -> Option<Arc<str>> {
    (text.len() as u64 <= SHOWN_LIMIT).then(|| Arc::clone(text))
}

/// Opens a regular file for reading. Never blocks: a pipe or device is refused before it is opened, and again after.
pub(crate) fn open_regular(real: &Path) -> Result<(File, Metadata), ToolError> {
    let refuse = |metadata: &Metadata| match what(metadata) {
        None => Ok(()),
        Some(kind) => {
            Err(ToolError::new(format!("{} is {kind}, not a file that can be read", real.display())))
        }
    };
    refuse(&fs::metadata(real).map_err(|error| cannot("read", real, &error))?)?;
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(real);
    let file = file.map_err(|error| cannot("read", real, &error))?;
    let metadata = file.metadata().map_err(|error| cannot("read", real, &error))?;
    refuse(&metadata)?;
    Ok((file, metadata))
}

/// The kind of an entry that is not a regular file.
pub(crate) fn what(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a folder")
    } else if kind.is_symlink() {
        Some("a link")
    } else if kind.is_fifo() {
        Some("a named pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

/// "cannot read /w/a: not found", in words for the model.
pub(crate) fn cannot(verb: &str, real: &Path, error: &io::Error) -> ToolError {
    ToolError::new(format!("cannot {verb} {}: {}", real.display(), reason(error)))
}

/// Why, without the system's numbers.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::NotADirectory => "a file stands where a folder was meant".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_change_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let file = base.join("f");
        let look = |limit| Before::look(&file, limit).unwrap();

        let missing = look(100);
        assert_eq!(missing, Before::Missing);
        assert_eq!(missing.still(&file), Ok(()));
        fs::write(&file, "one").unwrap();
        assert!(missing.still(&file).unwrap_err().contains("has changed"));

        let text = look(100);
        assert_eq!(text, Before::Text("one".into()));
        assert_eq!(text.still(&file), Ok(()));
        for other in ["two", "", "one "] {
            fs::write(&file, other).unwrap();
            assert!(text.still(&file).is_err(), "{other:?}");
        }
        fs::write(&file, "one").unwrap();
        assert_eq!(text.still(&file), Ok(()), "the same bytes are the same text");

        let large = look(2);
        assert!(matches!(large, Before::Other(_)));
        assert_eq!(large.still(&file), Ok(()));
        fs::write(&file, "longer").unwrap();
        assert!(large.still(&file).is_err());
        fs::remove_file(&file).unwrap();
        assert!(large.still(&file).is_err());
        assert!(text.still(&file).is_err());
    }

    #[test]
    fn a_folder_that_became_a_link_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["in", "out"] {
            fs::create_dir(base.join(folder)).unwrap();
        }
        let target = base.join("in/new");
        let before = Before::look(&target, 100).unwrap();
        fs::remove_dir(base.join("in")).unwrap();
        symlink("out", base.join("in")).unwrap();
        assert!(before.still(&target).is_err());
    }

    #[test]
    fn binary_and_special_are_not_text() {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in [("nul", b"a\0b".as_slice()), ("latin1", b"caf\xe9")] {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            assert!(matches!(Before::look(&path, 100), Ok(Before::Other(_))), "{name}");
        }
        assert!(matches!(Before::look(dir.path(), 100), Ok(Before::Other(_))));
    }
}
