//! What the tools are given by the composition.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::process::{Launcher, ProcessGroups};

/// Makes the beginning of an HTTP client, with TLS and proxies chosen. Called once, when the first request needs it; the
/// tools add their own redirect rule.
pub type HttpBuilder = Arc<dyn Fn() -> reqwest::ClientBuilder + Send + Sync>;

/// Everything that the built-in tools need from outside.
#[derive(Clone)]
pub struct ToolEnv {
    /// What a leading `~` in a path stands for.
    pub home: Option<PathBuf>,
    /// Files and folders with the user's secrets, milk's own home first of all: reading them asks, writing them always
    /// asks, and searches that begin elsewhere pass them by.
    pub private: Vec<PathBuf>,
    /// Names of the environment variables that commands must not see: those that hold API keys and tokens.
    pub secret_env: Vec<String>,
    /// Longest result of a tool, in bytes; what is longer loses its middle, with a mark.
    pub result_limit: usize,
    /// How commands are started.
    pub launcher: Launcher,
    /// The commands that run, shared by all sessions of the process.
    pub processes: Arc<ProcessGroups>,
    /// Where HTTP clients come from.
    pub http: HttpBuilder,
}

impl fmt::Debug for ToolEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolEnv")
            .field("home", &self.home)
            .field("private", &self.private)
            .field("secret_env", &self.secret_env)
            .field("result_limit", &self.result_limit)
            .field("launcher", &self.launcher)
            .finish_non_exhaustive()
    }
}

/// Smallest [`ToolEnv::result_limit`] that is honoured: below it no answer would make sense.
const SMALLEST_RESULT: usize = 1024;

/// A [`ToolEnv`] as the tools share it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) env: ToolEnv,
    /// The private places with links resolved.
    pub(crate) private: Vec<PathBuf>,
    pub(crate) secret_env: Arc<[String]>,
    http: OnceLock<Result<reqwest::Client, String>>,
    writers: [Mutex<()>; WRITER_LOCKS],
}

/// Files are many and locks are few: two files may share one, which costs a wait of one write.
const WRITER_LOCKS: usize = 16;

impl Shared {
    pub(crate) fn new(mut env: ToolEnv) -> Self {
        env.result_limit = env.result_limit.max(SMALLEST_RESULT);
        let private = env.private.iter().map(|path| milk_files::resolve(path, Path::new("/"))).collect();
        let secret_env = env.secret_env.clone().into();
        Self { env, private, secret_env, http: OnceLock::new(), writers: Default::default() }
    }

    /// The HTTP client, made at first use. It follows no redirects: the tools decide about each.
    pub(crate) fn http(&self) -> Result<reqwest::Client, String> {
        self.http
            .get_or_init(|| {
                let builder = (self.env.http)().redirect(reqwest::redirect::Policy::none());
                let name = concat!("milk/", env!("CARGO_PKG_VERSION"));
                builder.user_agent(name).build().map_err(|error| error.to_string())
            })
            .clone()
    }

    /// Held from the last look at these files to the end of their change, so that no other call of this process comes
    /// between.
    pub(crate) fn writing(&self, paths: &[&Path]) -> Vec<MutexGuard<'_, ()>> {
        let slot = |path: &&Path| {
            let mut hasher = DefaultHasher::new();
            path.hash(&mut hasher);
            usize::try_from(hasher.finish() % WRITER_LOCKS as u64).unwrap_or_default()
        };
        // Each once and in one order, whatever the call: so no two calls wait for each other.
        let slots: BTreeSet<usize> = paths.iter().map(slot).collect();
        let locks = slots.into_iter().filter_map(|slot| self.writers.get(slot));
        locks.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}
