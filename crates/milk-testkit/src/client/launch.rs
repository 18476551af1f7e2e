//! How an agent is started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::policy::Policy;

/// A command to start, in an environment that holds `PATH` and what is given, and nothing else.
///
/// ```no_run
/// use milk_testkit::{AgentProcess, Launch, Policy};
///
/// let launch = Launch::new("milk").args(["serve", "--acp"]).env("HOME", "/nowhere").policy(Policy::Allow);
/// let agent = AgentProcess::start(launch);
/// ```
#[derive(Clone, Debug)]
pub struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) policy: Policy,
    pub(crate) client_name: String,
    pub(crate) capabilities: Value,
    pub(crate) checks: Checks,
}

/// Whether what the agent wrote is checked when it is dropped or shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checks {
    /// Every line is JSON-RPC, and valid in the protocol version that was agreed (feature `schema`).
    All,
    /// Every line is JSON-RPC.
    Purity,
    None,
}

impl Launch {
    /// This program, looked up in `PATH` if it is a bare name.
    pub fn new(program: impl AsRef<Path>) -> Self {
        let path = std::env::var_os("PATH").map(|path| (OsString::from("PATH"), path));
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: path.into_iter().collect(),
            cwd: None,
            policy: Policy::default(),
            client_name: "milk-testkit".to_owned(),
            capabilities: json!({}),
            checks: Checks::All,
        }
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the agent's environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let name = name.into();
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value.into()));
        self
    }

    /// Sets variables of the agent's environment.
    pub fn envs<N: Into<OsString>, V: Into<OsString>>(
        self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        variables.into_iter().fold(self, |launch, (name, value)| launch.env(name, value))
    }

    /// Starts it in this directory.
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = Some(directory.into());
        self
    }

    /// How the agent's questions are answered; they are held if nothing is said.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The name that the client gives in `initialize`.
    pub fn client_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.client_name);
        self
    }

    /// The client capabilities that `initialize` announces; none if nothing is said.
    pub fn capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Does not check the agent's messages against the schema.
    pub fn unvalidated(mut self) -> Self {
        self.checks = Checks::Purity;
        self
    }

    /// Does not check what the agent writes at all.
    pub fn unchecked(mut self) -> Self {
        self.checks = Checks::None;
        self
    }
}
