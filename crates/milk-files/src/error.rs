//! What can go wrong with a file, always with its path.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A step that failed, named for the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileOp {
    /// Creating a folder.
    CreateFolder,
    /// Creating the temporary file beside the target.
    CreateTemp,
    /// Reading a file or its metadata.
    Read,
    /// Writing content.
    Write,
    /// Setting mode or owner.
    SetMode,
    /// Forcing content or a name to disk.
    Sync,
    /// Putting the new file in the old one's place.
    Rename,
}

impl fmt::Display for FileOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CreateFolder => "create the folder",
            Self::CreateTemp => "create a temporary file for",
            Self::Read => "read",
            Self::Write => "write",
            Self::SetMode => "set the mode of",
            Self::Sync => "sync",
            Self::Rename => "replace",
        })
    }
}

/// An operation on a file that failed. The message names path and operation, and never content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system refused.
    #[error("cannot {op} {}: {source}", path.display())]
    Io {
        /// What was tried.
        op: FileOp,
        /// On which path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A folder, pipe, socket or device stands where a file is wanted.
    #[error("{} is not a regular file", path.display())]
    NotRegular {
        /// The path in question.
        path: PathBuf,
    },
    /// The file holds more than the reader takes.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The path in question.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
}

impl FileError {
    pub(crate) fn io(op: FileOp, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { op, path: path.to_owned(), source }
    }

    /// The path that the operation was for.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. } | Self::NotRegular { path } | Self::TooLarge { path, .. } => path,
        }
    }

    /// The system's kind of error, where the system gave one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            Self::NotRegular { .. } | Self::TooLarge { .. } => None,
        }
    }

    /// Nothing is at that path (a missing parent, or a file where a folder was meant, included).
    pub fn is_not_found(&self) -> bool {
        matches!(self.io_kind(), Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
    }
}
