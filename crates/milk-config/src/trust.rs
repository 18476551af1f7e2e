//! Directories whose own config the user has trusted (R38): `trust.json` in milk's home.

use std::path::{Path, PathBuf};

use milk_files::{DirId, FileError, MilkHome, read_bounded, replace_private};
use serde_json::{Map, Value};

use crate::warning::Warning;

const MAX_TRUST_BYTES: u64 = 4 << 20;
const DIRECTORIES: &str = "directories";

/// The directories that are trusted, as of when they were read. A directory is trusted itself, not with those in it.
#[derive(Debug, Clone)]
pub struct Trust {
    file: PathBuf,
    /// The file's content: keys that milk does not know stay.
    raw: Map<String, Value>,
}

/// A change of trust that was not made.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file or folder refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is there is no list of directories; writing would lose it.
    #[error("{} is not a list of directories; mend or remove it first", .0.display())]
    Broken(PathBuf),
    /// The directory's name is not UTF-8, so that it cannot be written down.
    #[error("the name of {} is not UTF-8", .0.display())]
    NotText(PathBuf),
}

impl Trust {
    /// Reads the list. One that cannot be read trusts nothing, with a warning; a missing one trusts nothing, without.
    pub fn load(home: &MilkHome) -> (Self, Option<Warning>) {
        let file = home.trust_file();
        match read(&file) {
            Ok(raw) => (Self { file, raw }, None),
            Err(error) => {
                let reason = match error {
                    TrustError::File(error) => error.to_string(),
                    _ => "is not a list of directories".to_owned(),
                };
                let text = format!("{reason}; no directory is trusted");
                let warning = Warning { file: file.clone(), line: None, text };
                (Self { file, raw: Map::new() }, Some(warning))
            }
        }
    }

    /// Whether this directory (absolute, in any spelling, R21) is trusted.
    pub fn is_trusted(&self, directory: &Path) -> bool {
        let id = DirId::of(directory);
        self.paths().any(|path| path == id.as_path())
    }

    /// The trusted directories, in the order in which they were added.
    pub fn list(&self) -> Vec<DirId> {
        self.paths().map(DirId::of).collect()
    }

    /// Trusts an absolute directory, on disk and here. Returns whether that is new. The list is read again first, so that what
    /// another process added stays.
    ///
    /// # Errors
    /// [`TrustError`]; nothing has changed then.
    pub fn add(&mut self, home: &MilkHome, directory: &Path) -> Result<bool, TrustError> {
        let id = DirId::of(directory);
        let text = id.as_path().to_str().ok_or_else(|| TrustError::NotText(id.as_path().to_owned()))?;
        self.change(home, |list| {
            let new = !list.iter().any(|entry| entry.as_str() == Some(text));
            if new {
                list.push(Value::from(text));
            }
            new
        })
    }

    /// Trusts an absolute directory no longer, on disk and here. Returns whether it was trusted.
    ///
    /// # Errors
    /// [`TrustError`]; nothing has changed then.
    pub fn remove(&mut self, home: &MilkHome, directory: &Path) -> Result<bool, TrustError> {
        let id = DirId::of(directory);
        self.change(home, |list| {
            let before = list.len();
            // By identity, so that an entry somebody wrote by hand goes too.
            list.retain(|entry| entry.as_str().is_none_or(|path| DirId::of(Path::new(path)) != id));
            list.len() != before
        })
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let list = self.raw.get(DIRECTORIES).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(Path::new).filter(|path| path.is_absolute())
    }

    fn change(
        &mut self,
        home: &MilkHome,
        edit: impl FnOnce(&mut Vec<Value>) -> bool,
    ) -> Result<bool, TrustError> {
        let mut raw = read(&self.file)?;
        let list = raw.entry(DIRECTORIES).or_insert_with(|| Value::Array(Vec::new()));
        let changed = match list {
            Value::Array(list) => edit(list),
            _ => return Err(TrustError::Broken(self.file.clone())),
        };
        if changed {
            home.ensure_root()?;
            let text = format!("{:#}\n", Value::Object(raw.clone()));
            replace_private(&self.file, text.as_bytes())?;
        }
        self.raw = raw;
        Ok(changed)
    }
}

fn read(file: &Path) -> Result<Map<String, Value>, TrustError> {
    let bytes = match read_bounded(file, MAX_TRUST_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(Map::new()),
        Err(error) => return Err(error.into()),
    };
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(map)) if map.get(DIRECTORIES).is_none_or(Value::is_array) => Ok(map),
        _ => Err(TrustError::Broken(file.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use pretty_assertions::assert_eq;

    use super::*;

    struct Place {
        _dir: tempfile::TempDir,
        home: MilkHome,
        base: PathBuf,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("project/inner")).unwrap();
        symlink("project", base.join("link")).unwrap();
        Place { home: MilkHome::at(base.join("home")), base, _dir: dir }
    }

    fn load(place: &Place) -> Trust {
        let (trust, warning) = Trust::load(&place.home);
        assert_eq!(warning, None);
        trust
    }

    #[test]
    fn trust_is_by_place_and_lasts() {
        let place = place();
        let project = place.base.join("project");
        let mut trust = load(&place);
        assert!(!trust.is_trusted(&project));

        assert!(trust.add(&place.home, &place.base.join("link/inner/..")).unwrap());
        assert!(!trust.add(&place.home, &project).unwrap(), "not twice");
        for trust in [&trust, &load(&place)] {
            for spelling in ["project", "link", "link/", "project/./inner/.."] {
                assert!(trust.is_trusted(&place.base.join(spelling)), "{spelling}");
            }
            assert!(!trust.is_trusted(&project.join("inner")));
            assert!(!trust.is_trusted(&place.base));
            assert_eq!(trust.list(), [DirId::of(&project)]);
        }

        assert!(trust.remove(&place.home, &place.base.join("link")).unwrap());
        assert!(!trust.remove(&place.home, &project).unwrap());
        assert!(!trust.is_trusted(&project) && !load(&place).is_trusted(&project));
    }

    #[test]
    fn a_link_pointed_elsewhere_takes_no_trust_along() {
        let place = place();
        let link = place.base.join("link");
        load(&place).add(&place.home, &link).unwrap();
        fs::remove_file(&link).unwrap();
        fs::create_dir(place.base.join("other")).unwrap();
        symlink("other", &link).unwrap();
        assert!(!load(&place).is_trusted(&link));
    }

    #[test]
    fn what_others_wrote_stays() {
        let place = place();
        fs::create_dir(place.home.root()).unwrap();
        fs::write(place.home.trust_file(), r#"{"note": 1, "directories": ["/a", 7]}"#).unwrap();
        let mut one = load(&place);
        let mut two = load(&place);
        one.add(&place.home, Path::new("/b")).unwrap();
        two.add(&place.home, Path::new("/c")).unwrap();
        let text = fs::read_to_string(place.home.trust_file()).unwrap();
        let content: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(content, serde_json::json!({"note": 1, "directories": ["/a", 7, "/b", "/c"]}));
    }

    #[test]
    fn the_file_is_private() {
        let place = place();
        load(&place).add(&place.home, &place.base).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&place.home.trust_file()), mode(place.home.root())), (0o600, 0o700));
    }

    #[test]
    fn a_broken_list_trusts_nothing_and_is_not_overwritten() {
        for content in ["", "[]", "{", r#"{"directories": "/"}"#, "\u{0}"] {
            let place = place();
            fs::create_dir(place.home.root()).unwrap();
            fs::write(place.home.trust_file(), content).unwrap();
            let (mut trust, warning) = Trust::load(&place.home);
            assert!(warning.unwrap().to_string().contains("no directory is trusted"));
            assert!(!trust.is_trusted(Path::new("/")));
            assert!(matches!(trust.add(&place.home, &place.base), Err(TrustError::Broken(_))));
            assert_eq!(fs::read_to_string(place.home.trust_file()).unwrap(), content);
        }
    }

    #[test]
    fn entries_that_are_no_absolute_paths_trust_nothing() {
        let place = place();
        fs::create_dir(place.home.root()).unwrap();
        fs::write(place.home.trust_file(), r#"{"directories": ["", ".", "a", null, {"x": 1}]}"#).unwrap();
        let trust = load(&place);
        assert!(trust.list().is_empty() && !trust.is_trusted(Path::new("/")));
    }
}
