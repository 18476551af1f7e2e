//! The snapshot that the rest of milk reads.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::agent::{self, Agent, Found, texts};
use crate::check::same_name;
use crate::key;
use crate::layer::Layer;
use crate::merge::{Origin, Origins};
use crate::provider::ProviderKind;
use crate::secret::{Secret, redact};
use crate::server_url::UrlError;
use crate::shown::masked;

/// Everything that was configured when it was loaded. Immutable; a clone is a pointer.
#[derive(Clone)]
pub struct Config(Arc<Snapshot>);

pub(crate) struct Snapshot {
    /// Global, then what counts of the project's file, then defaults.
    pub(crate) merged: Map<String, Value>,
    pub(crate) origins: Origins,
    pub(crate) global: Option<Layer>,
    pub(crate) project: Option<Layer>,
    pub(crate) agents: Vec<Agent>,
    pub(crate) secrets: Vec<Secret>,
    pub(crate) secret_env: BTreeSet<String>,
}

/// When a prompt is answered (R6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptResponse {
    /// When its turn has ended.
    Held,
    /// At once.
    Accepted,
}

/// Which ids replayed messages have (R27).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayIds {
    /// Those of their place in the history.
    Hist,
    /// Those that they had live.
    Live,
}

/// What happens when claude-cli wants a permission (R31).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaudePermissions {
    /// The person is asked.
    Ask,
    /// It is denied.
    Deny,
}

/// Which shell commands are locked into the workspace (R33).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// Those that only a pattern allowed, where the kernel can.
    Auto,
    /// All.
    On,
    /// None.
    Off,
}

impl Config {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        Self(Arc::new(snapshot))
    }

    /// Every configured agent, in the order of the files.
    pub fn agents(&self) -> &[Agent] {
        &self.0.agents
    }

    /// The agent of this name, in any case.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.0.agents.iter().find(|agent| same_name(&agent.name, name))
    }

    /// The agent that `agent` names, else the first that is not an external program.
    pub fn primary(&self) -> Option<&Agent> {
        let named = self.text("agent").filter(|name| !name.is_empty()).and_then(|name| self.agent(name));
        named.or_else(|| self.0.agents.iter().find(|agent| !agent.kind.is_external()))
    }

    /// The agent that `escalation_agent` names, if it is configured.
    pub fn escalation(&self) -> Option<&Agent> {
        self.agent(self.escalation_agent())
    }

    /// The name in `escalation_agent`; `claude` unless set, whether or not there is such an agent.
    pub fn escalation_agent(&self) -> &str {
        self.text("escalation_agent").unwrap_or_default()
    }

    /// An agent for a server that was found, with the limits of the root.
    ///
    /// # Errors
    /// [`UrlError`] if its URL is none.
    pub fn found_agent(&self, server: &Found<'_>) -> Result<Agent, UrlError> {
        agent::found(server, &self.0.merged)
    }

    /// Whether tools start out running without a question: the root's `dangerously_skip_permissions` if it is set, else what
    /// the claude-cli agent says.
    pub fn skip_permissions(&self) -> bool {
        let claude =
            |agent: &Agent| agent.kind == ProviderKind::ClaudeCli && agent.dangerously_skip_permissions;
        let root = self.value("dangerously_skip_permissions").and_then(Value::as_bool);
        root.unwrap_or_else(|| self.0.agents.iter().any(claude))
    }

    /// Shell commands that run without a question for this agent (R29): the root's patterns and its own.
    pub fn bash_allowed_patterns(&self, agent: &Agent) -> Vec<String> {
        let mut patterns = texts(self.value("bash_allowed_patterns"));
        patterns.extend(agent.bash_allowed_patterns.iter().cloned());
        patterns
    }

    /// Whether reasoning is shown at first.
    pub fn show_reasoning(&self) -> bool {
        self.flag("show_reasoning")
    }

    /// Whether milk looks for a model when no agent is configured.
    pub fn discovery(&self) -> bool {
        self.flag("discovery")
    }

    /// Whether a new session continues the directory's last one (contract: Resume-by-default).
    pub fn acp_resume(&self) -> bool {
        self.flag("acp_resume")
    }

    /// Whether text is sent as the model produces it (R9).
    pub fn acp_streaming(&self) -> bool {
        self.flag("acp_streaming")
    }

    /// When a prompt is answered (R6).
    pub fn acp_prompt_response(&self) -> PromptResponse {
        match self.text("acp_prompt_response") {
            Some("accepted") => PromptResponse::Accepted,
            _ => PromptResponse::Held,
        }
    }

    /// Which ids replayed messages have (R27).
    pub fn acp_replay_ids(&self) -> ReplayIds {
        match self.text("acp_replay_ids") {
            Some("live") => ReplayIds::Live,
            _ => ReplayIds::Hist,
        }
    }

    /// Whether `session/load` is offered (R40); `None` leaves it to the client's profile.
    pub fn acp_session_load(&self) -> Option<bool> {
        self.value("acp_session_load").and_then(Value::as_bool)
    }

    /// Changes to the table of client profiles (R39), by client name, as they were written; `None` without any.
    pub fn acp_clients(&self) -> Option<&Map<String, Value>> {
        self.value("acp_clients").and_then(Value::as_object)
    }

    /// What happens when claude-cli wants a permission (R31).
    pub fn claude_permissions(&self) -> ClaudePermissions {
        match self.text("claude_permissions") {
            Some("deny") => ClaudePermissions::Deny,
            _ => ClaudePermissions::Ask,
        }
    }

    /// Which shell commands are locked into the workspace (R33).
    pub fn sandbox(&self) -> Sandbox {
        match self.text("sandbox") {
            Some("on") => Sandbox::On,
            Some("off") => Sandbox::Off,
            _ => Sandbox::Auto,
        }
    }

    /// Where the value at a path comes from: `show_reasoning`, `rules.local_threshold`, `agents[fast].model`.
    pub fn origin(&self, path: &str) -> Origin {
        self.0.origins.of(path)
    }

    /// The merged config as it may be shown: secrets masked (R37).
    pub fn shown(&self) -> Map<String, Value> {
        masked(&self.0.merged, &self.0.secrets)
    }

    /// The global file as it was read, if there is a usable one.
    pub fn global(&self) -> Option<&Layer> {
        self.0.global.as_ref()
    }

    /// The project's file as it was read, if there is a usable one. More may be in it than counts.
    pub fn project(&self) -> Option<&Layer> {
        self.0.project.as_ref()
    }

    /// Every secret that is known: of the files (as far as they are trusted), of the agents, and the keys of known
    /// providers in the environment.
    pub fn secrets(&self) -> &[Secret] {
        &self.0.secrets
    }

    /// The text with every known secret masked.
    pub fn redact(&self, text: &str) -> String {
        redact(text, &self.0.secrets).into_owned()
    }

    /// Environment variables that must not reach child processes: keys of known providers, the bot's token, those that
    /// secret values refer to, and those that hold a known secret.
    pub fn secret_env_names(&self) -> &BTreeSet<String> {
        &self.0.secret_env
    }

    /// The value at a path of sections, defaults included.
    fn value(&self, path: &str) -> Option<&Value> {
        debug_assert!(key::find(path).is_some(), "{path} is in no row of the table");
        let mut parts = path.split('.');
        let first = self.0.merged.get(parts.next()?)?;
        parts.try_fold(first, |object, part| object.get(part))
    }

    fn flag(&self, path: &str) -> bool {
        self.value(path).and_then(Value::as_bool).unwrap_or_default()
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.value(path).and_then(Value::as_str)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = &self.0;
        f.debug_struct("Config")
            .field("agents", &snapshot.agents)
            .field("global", &snapshot.global)
            .field("project", &snapshot.project)
            .finish_non_exhaustive()
    }
}
