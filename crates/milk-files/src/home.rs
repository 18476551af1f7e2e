//! Where milk keeps its files: `MILK_HOME`, else `~/.milk`; `MILK_CONFIG` moves the global config file alone.

use std::ffi::OsStr;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::env::Env;
use crate::identity::expand_tilde;
use crate::{FileError, FileOp};

/// Mode of every folder that milk makes for itself: what is said to a model is nobody else's business.
const FOLDER_MODE: u32 = 0o700;

/// A folder of [`MilkHome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Folder {
    /// Session logs and their index.
    Sessions,
    /// What was remembered, global and per session.
    Memory,
    /// Tasks, global and per session.
    Tasks,
    /// Background jobs of each session.
    Jobs,
    /// Grants of each directory.
    Permissions,
    /// Tool results that were too large for the conversation.
    ToolOutput,
    /// The user's workflow definitions.
    Workflows,
    /// Tokens of MCP servers.
    McpOauth,
    /// Logs and process ids of model servers that milk started.
    Servers,
    /// Logs and metrics.
    Otel,
    /// Input history of each directory.
    History,
}

impl Folder {
    /// The folder's name in the home.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Memory => "memory",
            Self::Tasks => "tasks",
            Self::Jobs => "jobs",
            Self::Permissions => "permissions",
            Self::ToolOutput => "tool-output",
            Self::Workflows => "workflows",
            Self::McpOauth => "mcp_oauth",
            Self::Servers => "servers",
            Self::Otel => "otel",
            Self::History => "history",
        }
    }
}

/// No place for milk's files can be told from the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HomeError {
    /// Neither `MILK_HOME` nor a home folder is known.
    #[error("no home folder is known: set HOME, or MILK_HOME to the folder that milk may use")]
    Unknown,
}

/// The folder that holds everything milk keeps, and the global config file. Cheap to clone.
///
/// Nothing is created until [`ensure`](Self::ensure) asks for it.
#[derive(Debug, Clone)]
pub struct MilkHome {
    root: PathBuf,
    config: PathBuf,
    config_moved: bool,
    // Never read: it holds a temporary home until its last user is gone.
    temporary: Option<Arc<tempfile::TempDir>>,
}

impl MilkHome {
    /// The home that an environment names. Empty variables count as missing, a leading `~` is expanded, and a relative
    /// path is taken from the process's directory.
    ///
    /// # Errors
    /// [`HomeError::Unknown`] if there is neither `MILK_HOME` nor a home folder.
    pub fn resolve(env: &Env) -> Result<Self, HomeError> {
        let root = match named(env, "MILK_HOME") {
            Some(root) => root,
            None => env.home().ok_or(HomeError::Unknown)?.join(".milk"),
        };
        Ok(Self::with_config(root, env))
    }

    /// As [`resolve`](Self::resolve), but never without a home: where none is known, a private folder that is removed
    /// with the last clone stands in, and the reason comes with it, to be told. So `milk serve` comes up anywhere.
    ///
    /// # Errors
    /// [`FileError`] if not even a temporary folder can be made.
    pub fn resolve_or_temporary(env: &Env) -> Result<(Self, Option<HomeError>), FileError> {
        let reason = match Self::resolve(env) {
            Ok(home) => return Ok((home, None)),
            Err(reason) => reason,
        };
        let folder = tempfile::Builder::new()
            .prefix("milk-home.")
            .permissions(Permissions::from_mode(FOLDER_MODE))
            .tempdir()
            .map_err(FileError::io(FileOp::CreateFolder, &std::env::temp_dir()))?;
        let mut home = Self::with_config(folder.path().to_owned(), env);
        home.temporary = Some(Arc::new(folder));
        Ok((home, Some(reason)))
    }

    /// The home at a given folder, with its config file in it.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self::with_config(root.into(), &Env::default())
    }

    fn with_config(root: PathBuf, env: &Env) -> Self {
        let moved = named(env, "MILK_CONFIG");
        let config_moved = moved.is_some();
        let config = moved.unwrap_or_else(|| root.join("config.json"));
        Self { root, config, config_moved, temporary: None }
    }

    /// The home folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The global config file.
    pub fn config_file(&self) -> &Path {
        &self.config
    }

    /// Whether `MILK_CONFIG` named the config file, so that a missing one is worth telling.
    pub fn config_is_moved(&self) -> bool {
        self.config_moved
    }

    /// The copy of the last global config file that could be read: its name with `.bak` added.
    pub fn config_backup(&self) -> PathBuf {
        let mut name = self.config.clone().into_os_string();
        name.push(".bak");
        PathBuf::from(name)
    }

    /// The file that lists the directories whose project config is trusted (R38).
    pub fn trust_file(&self) -> PathBuf {
        self.root.join("trust.json")
    }

    /// The path of a folder, which may not exist.
    pub fn path(&self, folder: Folder) -> PathBuf {
        self.root.join(folder.name())
    }

    /// The path of a folder, created with mode 0700 if need be.
    ///
    /// # Errors
    /// [`FileError`] with the folder that could not be made.
    pub fn ensure(&self, folder: Folder) -> Result<PathBuf, FileError> {
        let path = self.path(folder);
        make_private(&path)?;
        Ok(path)
    }

    /// The home folder itself, created with mode 0700 if need be.
    ///
    /// # Errors
    /// [`FileError`] with the folder that could not be made.
    pub fn ensure_root(&self) -> Result<&Path, FileError> {
        make_private(&self.root)?;
        Ok(&self.root)
    }
}

fn make_private(path: &Path) -> Result<(), FileError> {
    // An existing folder keeps the mode that its owner chose.
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(path)
        .map_err(FileError::io(FileOp::CreateFolder, path))
}

/// An absolute path from a variable.
fn named(env: &Env, name: &str) -> Option<PathBuf> {
    let value = env.get_os(name).filter(|value| *value != OsStr::new(""))?;
    let expanded = expand_tilde(Path::new(value), env.home());
    Some(std::path::absolute(&expanded).unwrap_or(expanded))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_environment_decides() {
        for (vars, root, config) in [
            (vec![("HOME", "/h")], "/h/.milk", "/h/.milk/config.json"),
            (vec![("HOME", "/h"), ("MILK_HOME", "/m")], "/m", "/m/config.json"),
            (vec![("MILK_HOME", "/m")], "/m", "/m/config.json"),
            (vec![("HOME", "/h"), ("MILK_HOME", "")], "/h/.milk", "/h/.milk/config.json"),
            (vec![("HOME", "/h"), ("MILK_CONFIG", "/c.json")], "/h/.milk", "/c.json"),
            (vec![("MILK_HOME", "/m"), ("MILK_CONFIG", "/c.json")], "/m", "/c.json"),
            (vec![("HOME", "/h"), ("MILK_HOME", "~/m"), ("MILK_CONFIG", "~/c")], "/h/m", "/h/c"),
        ] {
            let home = MilkHome::resolve(&Env::of(vars.clone())).unwrap();
            assert_eq!(home.root(), Path::new(root), "{vars:?}");
            assert_eq!(home.config_file(), Path::new(config), "{vars:?}");
            assert_eq!(home.config_is_moved(), vars.iter().any(|v| v.0 == "MILK_CONFIG"));
            assert_eq!(home.config_backup(), Path::new(&format!("{config}.bak")));
            assert_eq!(home.trust_file(), Path::new(root).join("trust.json"));
        }
    }

    #[test]
    fn a_relative_home_becomes_absolute() {
        let home = MilkHome::resolve(&Env::of([("MILK_HOME", "here")])).unwrap();
        assert!(home.root().is_absolute() && home.root().ends_with("here"));
    }

    #[test]
    fn no_home_is_an_error_or_a_temporary_one() {
        for vars in [vec![], vec![("HOME", "")], vec![("HOME", "relative")]] {
            let env = Env::of(vars);
            assert_eq!(MilkHome::resolve(&env).unwrap_err(), HomeError::Unknown);
            let (home, reason) = MilkHome::resolve_or_temporary(&env).unwrap();
            assert_eq!(reason, Some(HomeError::Unknown));
            let root = home.root().to_owned();
            assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
            let clone = home.clone();
            drop(home);
            assert!(clone.ensure(Folder::Sessions).unwrap().is_dir());
            drop(clone);
            assert!(!root.exists());
        }
    }

    #[test]
    fn a_known_home_is_never_temporary() {
        let (home, reason) = MilkHome::resolve_or_temporary(&Env::of([("HOME", "/h")])).unwrap();
        assert_eq!((home.root(), reason), (Path::new("/h/.milk"), None));
    }

    #[test]
    fn folders_appear_on_demand_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let home = MilkHome::at(dir.path().join("a/b"));
        assert!(!home.root().exists());
        for folder in [Folder::Sessions, Folder::Permissions, Folder::ToolOutput, Folder::Sessions] {
            let path = home.ensure(folder).unwrap();
            assert_eq!(path, home.path(folder));
            for made in [&path, home.root()] {
                assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700, "{made:?}");
            }
        }
        assert_eq!(home.ensure_root().unwrap(), home.root());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let home = MilkHome::at(dir.path().join("file/home"));
        let error = home.ensure(Folder::Sessions).unwrap_err();
        assert!(error.to_string().contains("file/home/sessions"), "{error}");
    }
}
