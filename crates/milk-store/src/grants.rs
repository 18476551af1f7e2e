//! What the user has allowed for good, one file a directory under `MILK_HOME/permissions/` (R28).

use std::fs::File;
use std::path::{Path, PathBuf};

use md5::{Digest, Md5};
use milk_core::BoxFuture;
use milk_core::ports::{Grant, GrantStore, Grants, StoreError};
use milk_files::{FileError, Folder, MilkHome, read_bounded, replace_private, resolve};
use serde_json::{Map, Value};

/// The key of whole-tool grants; the name that older versions of milk wrote.
const TOOLS: &str = "allowed_tools";
/// The key of shell commands.
const COMMANDS: &str = "allowed_commands";
/// The shell: a whole-tool grant of it in an old file does not count (R28).
const SHELL: &str = "bash";
/// Larger than any list of grants that people click together, in bytes.
const FILE_LIMIT: u64 = 1024 * 1024;

/// Grants on disk.
#[derive(Debug, Clone)]
pub struct DirectoryGrants {
    home: MilkHome,
}

impl DirectoryGrants {
    /// Grants under this home.
    pub fn new(home: MilkHome) -> Self {
        Self { home }
    }

    /// The file of a directory: named by the MD5 of its path, as older versions of milk named it.
    fn file(&self, cwd: &Path) -> PathBuf {
        let directory = resolve(cwd, Path::new("/"));
        let digest = Md5::digest(directory.as_os_str().as_encoded_bytes());
        let name = format!("{:032x}", u128::from_be_bytes(digest.into()));
        self.home.path(Folder::Permissions).join(format!("{name}.json"))
    }

    fn read(&self, cwd: &Path) -> Result<Map<String, Value>, StoreError> {
        let file = self.file(cwd);
        let bytes = match read_bounded(&file, FILE_LIMIT) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(Map::new()),
            Err(error) => return Err(failed(&error)),
        };
        serde_json::from_slice(&bytes)
            .map_err(|error| StoreError::Failed(format!("{} is not valid: {error}", file.display())))
    }

    fn load(&self, cwd: &Path) -> Result<Grants, StoreError> {
        let stored = self.read(cwd)?;
        let tools =
            texts(&stored, TOOLS).filter(|tool| *tool != SHELL).map(|tool| Grant::Tool(tool.to_owned()));
        let commands = texts(&stored, COMMANDS).map(|command| Grant::Command(command.to_owned()));
        Ok(Grants { grants: tools.chain(commands).collect() })
    }

    /// Whether an older version of milk allowed every shell command in this directory, which no longer counts (R28).
    pub fn has_old_shell_grant(&self, cwd: &Path) -> bool {
        self.read(cwd).is_ok_and(|stored| texts(&stored, TOOLS).any(|tool| tool == SHELL))
    }

    /// Adds a grant under a lock of its own, so that two processes lose none of each other's.
    fn add(&self, cwd: &Path, grant: &Grant) -> Result<(), StoreError> {
        let folder = self.home.ensure(Folder::Permissions).map_err(|error| failed(&error))?;
        let lock =
            File::create(folder.join(".lock")).map_err(|error| StoreError::Failed(error.to_string()))?;
        lock.lock().map_err(|error| StoreError::Failed(error.to_string()))?;
        let mut stored = self.read(cwd)?;
        let (key, text) = match grant {
            Grant::Tool(tool) => (TOOLS, tool),
            Grant::Command(command) => (COMMANDS, command),
        };
        if texts(&stored, key).any(|known| known == text) {
            return Ok(());
        }
        let list = stored.entry(key).or_insert_with(|| Value::Array(Vec::new()));
        match list {
            Value::Array(list) => list.push(Value::from(text.as_str())),
            other => *other = Value::from(vec![text.as_str()]),
        }
        let mut content =
            serde_json::to_vec_pretty(&stored).map_err(|error| StoreError::Failed(error.to_string()))?;
        content.push(b'\n');
        replace_private(&self.file(cwd), &content).map_err(|error| failed(&error))
    }
}

fn failed(error: &FileError) -> StoreError {
    StoreError::Failed(error.to_string())
}

fn texts<'a>(stored: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    stored.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

impl GrantStore for DirectoryGrants {
    fn grants<'a>(&'a self, cwd: &'a Path) -> BoxFuture<'a, Result<Grants, StoreError>> {
        Box::pin(std::future::ready(self.load(cwd)))
    }

    fn remember<'a>(&'a self, cwd: &'a Path, grant: &'a Grant) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.add(cwd, grant)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants() -> (tempfile::TempDir, DirectoryGrants) {
        let folder = tempfile::tempdir().unwrap();
        let grants = DirectoryGrants::new(MilkHome::at(folder.path().join("home")));
        (folder, grants)
    }

    #[test]
    fn a_grant_holds_for_its_directory_alone_and_survives() {
        let (folder, grants) = grants();
        let here = folder.path().join("here");
        std::fs::create_dir(&here).unwrap();
        let wanted = [Grant::Tool("write_file".into()), Grant::Command("cargo test".into())];
        for grant in &wanted {
            grants.add(&here, grant).unwrap();
            grants.add(&here, grant).unwrap();
        }
        let again = DirectoryGrants::new(MilkHome::at(folder.path().join("home")));
        assert_eq!(
            again.load(&here.join(".")).unwrap().grants,
            wanted,
            "however the directory is spelled, once each"
        );
        assert_eq!(again.load(folder.path()).unwrap(), Grants::default());
    }

    #[test]
    fn an_old_grant_of_the_whole_shell_does_not_count() {
        let (folder, grants) = grants();
        let file = grants.file(folder.path());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, r#"{"allowed_tools":["bash","write_file"],"other":1}"#).unwrap();
        assert_eq!(grants.load(folder.path()).unwrap().grants, [Grant::Tool("write_file".into())]);
        grants.add(folder.path(), &Grant::Command("ls".into())).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("\"other\": 1"), "unknown keys stay: {text}");
    }

    #[test]
    fn a_broken_file_is_an_error_and_is_left_alone() {
        let (folder, grants) = grants();
        let file = grants.file(folder.path());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "{").unwrap();
        assert!(grants.load(folder.path()).is_err());
        assert!(grants.add(folder.path(), &Grant::Tool("x".into())).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{");
    }
}
