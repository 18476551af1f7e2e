//! Where a session's files are. An id comes from anywhere, so it is checked before it becomes a part of a path.

use std::path::{Path, PathBuf};

use milk_core::id::SessionId;

/// Longest id of a session, in bytes.
const ID_LIMIT: usize = 64;
/// The list that older versions of milk kept beside their sessions.
const OLD_LIST: &str = "index";

/// The files of one session. Exists for checked ids alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    folder: PathBuf,
    id: SessionId,
}

impl Names {
    /// The files of this session in `folder`; `None` where this is not the id of any session.
    pub(super) fn of(folder: &Path, id: &SessionId) -> Option<Self> {
        is_id(id.as_str()).then(|| Self { folder: folder.to_owned(), id: id.clone() })
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.{LOG}", self.id))
    }

    /// The folder of texts that are too large for a line of the log.
    pub(super) fn spills(&self) -> PathBuf {
        self.folder.join(format!("{}.{SPILLS}", self.id))
    }

    /// The file of an older version of milk; `None` where that name was something else.
    pub(super) fn old(&self) -> Option<PathBuf> {
        (self.id.as_str() != OLD_LIST).then(|| self.folder.join(format!("{}.{OLD}", self.id)))
    }

    /// Where the file of the older version goes when it has become a log.
    pub(super) fn old_backup(&self) -> Option<PathBuf> {
        (self.id.as_str() != OLD_LIST).then(|| self.folder.join(format!("{}.{OLD}.bak", self.id)))
    }
}

const LOG: &str = "jsonl";
const SPILLS: &str = "d";
const OLD: &str = "json";

/// A name in the folder of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// A log.
    Log(SessionId),
    /// A session of an older version of milk.
    Old(SessionId),
    /// A folder of large texts.
    Spills(SessionId),
}

impl Found {
    /// What this name stands for, if it is one of milk's.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let (id, kind) = name.rsplit_once('.')?;
        if !is_id(id) {
            return None;
        }
        match kind {
            LOG => Some(Self::Log(id.into())),
            OLD if id != OLD_LIST => Some(Self::Old(id.into())),
            SPILLS => Some(Self::Spills(id.into())),
            _ => None,
        }
    }
}

/// Whether a text has the shape of a session's id.
pub(super) fn is_id(text: &str) -> bool {
    (1..=ID_LIMIT).contains(&text.len()) && text.bytes().all(is_id_byte)
}

/// Whether a session's id can begin with this text.
pub(super) fn is_prefix(text: &str) -> bool {
    is_id(text)
}

fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_an_id_has_no_files() {
        let long = "a".repeat(65);
        for bad in [
            "",
            ".",
            "..",
            "../victim",
            "/tmp/victim",
            "..\\victim",
            "%2e%2e/v",
            "a/b",
            "*",
            "\0",
            "é",
            "a.b",
            &long,
        ] {
            assert_eq!(Names::of(Path::new("/s"), &bad.into()), None, "{bad:?}");
        }
        let names = Names::of(Path::new("/s"), &"a_B-9".into()).unwrap();
        assert_eq!(names.log(), Path::new("/s/a_B-9.jsonl"));
        assert!(Names::of(Path::new("/s"), &long[1..].into()).is_some());
    }

    #[test]
    fn only_milks_own_names_are_found() {
        assert_eq!(Found::from_name("a.jsonl"), Some(Found::Log("a".into())));
        assert_eq!(Found::from_name("a.json"), Some(Found::Old("a".into())));
        assert_eq!(Found::from_name("a.d"), Some(Found::Spills("a".into())));
        for other in
            ["index.json", "index.db", "a.json.bak", ".jsonl", "a", "a.b.jsonl", ".milk-tmp.aaaaaaaaaaaa"]
        {
            assert_eq!(Found::from_name(other), None, "{other}");
        }
    }
}
