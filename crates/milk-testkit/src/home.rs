//! A user's machine for one test: a home, milk's home, a workspace, all in a temporary directory that goes with it.
//!
//! ```
//! use milk_testkit::TestHome;
//!
//! let home = TestHome::new();
//! home.config(&serde_json::json!({"agents": []}));
//! home.write("src/a.txt", "text");
//! assert_eq!(home.read("src/a.txt"), "text");
//! assert!(home.milk_home().join("config.json").is_file());
//! ```

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

use serde_json::Value;
use tempfile::TempDir;

use crate::client::{AgentProcess, Launch};
use crate::fault;
use crate::server::give_up;
use crate::watched::PATIENCE;

/// A temporary machine. Dropping it ends the processes that were started in it and still run, and removes its files.
#[derive(Debug)]
pub struct TestHome {
    _root: TempDir,
    /// The root with links resolved, so that paths compare equal to what an agent reports.
    path: PathBuf,
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}

impl TestHome {
    /// An empty machine with an empty workspace.
    ///
    /// # Panics
    /// When the directories cannot be made.
    #[track_caller]
    pub fn new() -> Self {
        let made = tempfile::Builder::new().prefix("milk-test-").tempdir().and_then(|root| {
            let path = root.path().canonicalize()?;
            ["home/.milk", "work", "outside", "tmp"]
                .iter()
                .try_for_each(|name| fs::create_dir_all(path.join(name)))?;
            Ok(Self { _root: root, path })
        });
        checked(made, "cannot make a home")
    }

    /// The directory that holds all others. Its name is in the environment of every process started here, and
    /// carried on by their children: a marker for [`fault::alive_with_marker`].
    pub fn root(&self) -> &Path {
        &self.path
    }

    /// The marker of this home's processes.
    pub fn marker(&self) -> String {
        self.path.display().to_string()
    }

    /// The user's home directory.
    pub fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// `MILK_HOME`.
    pub fn milk_home(&self) -> PathBuf {
        self.home().join(".milk")
    }

    /// The workspace.
    pub fn workspace(&self) -> PathBuf {
        self.path.join("work")
    }

    /// A directory beside the workspace, not in it.
    pub fn outside(&self) -> PathBuf {
        self.path.join("outside")
    }

    /// Makes another workspace beside the first.
    ///
    /// # Panics
    /// When it cannot be made.
    #[track_caller]
    pub fn another_workspace(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        checked(fs::create_dir_all(&path), "cannot make a workspace");
        path
    }

    /// Writes the user's config.
    ///
    /// # Panics
    /// When it cannot be written.
    #[track_caller]
    pub fn config(&self, config: &Value) {
        put(&self.milk_home().join("config.json"), config.to_string().as_bytes());
    }

    /// Writes the workspace's own config, `.milk/config.json` in it.
    ///
    /// # Panics
    /// When it cannot be written.
    #[track_caller]
    pub fn project_config(&self, config: &Value) {
        put(&self.workspace().join(".milk/config.json"), config.to_string().as_bytes());
    }

    /// Writes a file, with its directories; a relative path is one in the workspace.
    ///
    /// # Panics
    /// When it cannot be written.
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace().join(path);
        put(&path, content.as_ref());
        path
    }

    /// Reads a file; a relative path is one in the workspace.
    ///
    /// # Panics
    /// When it cannot be read as text.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.workspace().join(path);
        checked(fs::read_to_string(&path), &format!("cannot read {}", path.display()))
    }

    /// Whether a file is there; a relative path is one in the workspace.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.workspace().join(path).symlink_metadata().is_ok()
    }

    /// The environment of an agent: `PATH`, `HOME`, `MILK_HOME` and `TMPDIR`; no proxies, no keys.
    pub fn agent_env(&self) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), self.home().into()),
            ("MILK_HOME".into(), self.milk_home().into()),
            ("TMPDIR".into(), self.path.join("tmp").into()),
        ];
        env.extend(std::env::var_os("PATH").map(|path| ("PATH".into(), path)));
        env
    }

    /// How milk is started here: with this home's environment, in a directory that is not the workspace.
    pub fn launch(&self, program: impl AsRef<Path>, args: &[&str]) -> Launch {
        Launch::new(program).args(args.iter().copied()).envs(self.agent_env()).cwd(self.home())
    }

    /// Starts milk here.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn spawn_milk(&self, program: impl AsRef<Path>, args: &[&str]) -> AgentProcess {
        AgentProcess::start(self.launch(program, args))
    }

    /// Runs a program here to its end, in the workspace, with this text as its stdin: for commands that are no agent.
    ///
    /// # Panics
    /// When it cannot be started, or has not ended within [`PATIENCE`] (it is killed then).
    #[track_caller]
    pub fn run(&self, program: impl AsRef<Path>, args: &[&str], input: &str) -> Output {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(self.agent_env()).current_dir(self.workspace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = checked(command.spawn(), &format!("cannot start {}", program.display()));
        let (pid, input) = (child.id(), input.as_bytes().to_vec());
        if let Some(mut stdin) = child.stdin.take() {
            // A thread of its own: a program that writes before it reads must not block against this.
            std::thread::spawn(move || stdin.write_all(&input));
        }
        let (ended, is_ended) = mpsc::channel();
        std::thread::spawn(move || ended.send(child.wait_with_output()));
        let Ok(output) = is_ended.recv_timeout(PATIENCE) else {
            end(&[pid]);
            give_up(
                Location::caller(),
                &format!("{} did not end within {PATIENCE:?}", program.display()),
                "",
            );
        };
        checked(output, &format!("lost {}", program.display()))
    }
}

impl Drop for TestHome {
    fn drop(&mut self) {
        // Whatever still runs was started here: nothing else knows this directory's random name.
        end(&fault::alive_with_marker(&self.marker()));
        // A test may have taken rights away from directories; they must not stay behind for that.
        unlock(&self.path);
    }
}

#[cfg(unix)]
fn end(processes: &[u32]) {
    use rustix::process::{Pid, Signal, kill_process};
    let ids = processes.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?));
    ids.for_each(|pid| {
        let _ = kill_process(pid, Signal::KILL);
    });
}

#[cfg(not(unix))]
fn end(_processes: &[u32]) {}

/// Gives back the rights to remove what is in a directory.
#[cfg(unix)]
fn unlock(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        unlock(&entry.path());
    }
}

#[cfg(not(unix))]
fn unlock(_directory: &Path) {}

#[track_caller]
fn put(path: &Path, content: &[u8]) {
    let directory = path.parent().map_or(Ok(()), fs::create_dir_all);
    checked(directory.and_then(|()| fs::write(path, content)), &format!("cannot write {}", path.display()));
}

#[track_caller]
fn checked<T>(result: io::Result<T>, complaint: &str) -> T {
    match result {
        Ok(value) => value,
        Err(error) => give_up(Location::caller(), &format!("{complaint}: {error}"), ""),
    }
}
