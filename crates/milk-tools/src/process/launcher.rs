//! How a supervisor is started.

use std::ffi::OsString;
use std::path::PathBuf;

/// The first argument that turns the program into a supervisor.
pub const SUPERVISE: &str = "__supervise";

/// The program that becomes a supervisor: it must call [`supervise`](super::supervise) first thing in `main`.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub(super) program: PathBuf,
    /// The name that process lists show.
    pub(super) name: OsString,
}

impl Launcher {
    /// This very program, also when its file has been replaced since it started (an update).
    pub fn this_program() -> Self {
        let own = PathBuf::from("/proc/self/exe");
        let file = std::env::current_exe();
        let name = match &file {
            Ok(file) => file.file_name().unwrap_or(file.as_os_str()).to_owned(),
            Err(_) => OsString::from("milk"),
        };
        let program = if own.exists() { own } else { file.unwrap_or(own) };
        Self { program, name }
    }

    /// Another program.
    pub fn program(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        let name = program.as_os_str().to_owned();
        Self { program, name }
    }
}
