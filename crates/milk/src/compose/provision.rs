//! What a conversation runs with, made from the configuration as it is on disk when a session opens.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use milk_config::{Agent, Config, Loaded, Prompt};
use milk_core::BoxFuture;
use milk_core::failure::Failure;
use milk_core::ports::{AgentSource, Provisioner, Tool};
use milk_core::settings::{
    Agents, PermissionMode, Provision, ResumeByDefault, Settings, TextDelivery, Thoughts,
};
use milk_core::tool::Workspace;
use milk_files::read_bounded;
use milk_store::DirectoryGrants;
use milk_tools::process::Launcher;
use milk_tools::{ToolEnv, builtin_tools};

use super::Process;
use super::agents::{ConfiguredAgent, FoundAgent};
use super::discovery::Discovery;
use super::instructions;

/// Largest prompt file of an agent, in bytes.
const PROMPT_FILE_LIMIT: u64 = 1024 * 1024;

/// Reads the configuration for every session anew.
#[derive(Debug)]
pub(super) struct FromConfig {
    process: Process,
    discovery: Arc<Discovery>,
    /// The tools of the latest session: another one with the same needs shares them.
    tools: Mutex<Option<MadeTools>>,
}

/// Tools, and what they were made for.
#[derive(Debug)]
struct MadeTools {
    needs: ToolNeeds,
    tools: Vec<Arc<dyn Tool>>,
}

/// What of the configuration the tools depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ToolNeeds {
    secret_env: Vec<String>,
    result_limit: usize,
    included: Vec<String>,
    excluded: Vec<String>,
}

impl FromConfig {
    pub(super) fn new(process: Process) -> Self {
        let discovery = Arc::new(Discovery::new(process.clone()));
        Self { process, discovery, tools: Mutex::default() }
    }

    fn provision_now(&self, workspace: &Workspace) -> Provision {
        let loaded = milk_config::load(&self.process.home, &self.process.env, &workspace.root);
        self.process.tell(&loaded.warnings);
        let Loaded { config, .. } = &loaded;
        let agent = config.primary();
        let limits = agent.map(|agent| agent.limits.clone());
        let defaults = DefaultLimits::of(config);
        let needs = ToolNeeds {
            secret_env: config.secret_env_names().iter().cloned().collect(),
            result_limit: limits
                .as_ref()
                .map_or(defaults.result_limit, |limits| limits.tool_result_max_bytes),
            included: limits.as_ref().map(|limits| limits.included_tools.clone()).unwrap_or_default(),
            excluded: limits.as_ref().map(|limits| limits.excluded_tools.clone()).unwrap_or_default(),
        };
        let settings = Settings {
            max_model_calls: limits
                .as_ref()
                .map_or(defaults.model_calls, |limits| limits.max_tool_iterations),
            tool_time_limit: limits.as_ref().and_then(|limits| limits.tool_timeout),
            turn_time_limit: limits.as_ref().and_then(|limits| limits.turn_timeout),
            tool_result_limit: needs.result_limit,
            permissions: permissions(config, agent),
            allowed_commands: agent.map(|agent| config.bash_allowed_patterns(agent)).unwrap_or_default(),
            thoughts: if config.show_reasoning() { Thoughts::Shown } else { Thoughts::Hidden },
            resume: if config.acp_resume() { ResumeByDefault::Adopt } else { ResumeByDefault::Fresh },
            delivery: if config.acp_streaming() { TextDelivery::Streamed } else { TextDelivery::Whole },
        };
        let instructions = match agent {
            Some(agent) if agent.disable_project_instructions => None,
            _ => instructions::find(&workspace.root),
        };
        Provision {
            agents: Agents { primary: self.agent_source(&loaded), escalation: None },
            tools: self.tools(needs),
            settings,
            instructions,
            announcements: self.announcements(&loaded, workspace),
        }
    }

    fn announcements(&self, loaded: &Loaded, workspace: &Workspace) -> Vec<String> {
        let held = loaded.held_notice().map(|notice| format!("[milk] {notice}"));
        let old = DirectoryGrants::new(self.process.home.clone()).has_old_shell_grant(&workspace.root)
            && self.process.is_first(&workspace.root, "old shell grant");
        let old = old.then(|| {
            "[milk] An earlier version was allowed every bash command in this folder. That no longer counts: milk asks for \
             each command, and remembers those that you always allow."
                .to_owned()
        });
        held.into_iter().chain(old).collect()
    }

    fn agent_source(&self, loaded: &Loaded) -> Arc<dyn AgentSource> {
        if let Some(agent) = loaded.config.primary() {
            let prompt = agent.prompt.as_ref().and_then(agent_prompt);
            Arc::new(ConfiguredAgent::new(self.process.clone(), agent.clone(), prompt))
        } else {
            let found = FoundAgent::new(Arc::clone(&self.discovery), loaded.config.clone());
            found.look_ahead();
            Arc::new(found)
        }
    }

    fn tools(&self, needs: ToolNeeds) -> Vec<Arc<dyn Tool>> {
        let mut latest = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = latest.as_ref().filter(|made| made.needs == needs) {
            return made.tools.clone();
        }
        let tools: Vec<Arc<dyn Tool>> = builtin_tools(ToolEnv {
            home: self.process.env.home().map(PathBuf::from),
            private: self.private_places(),
            secret_env: needs.secret_env.clone(),
            result_limit: needs.result_limit,
            launcher: Launcher::this_program(),
            processes: Arc::clone(&self.process.commands),
            http: super::chat_model::tool_http(),
        })
        .into_iter()
        .filter(|tool| {
            let name = &tool.spec().name;
            let included = needs.included.is_empty() || needs.included.contains(name);
            included && !needs.excluded.contains(name)
        })
        .collect();
        *latest = Some(MadeTools { needs, tools: tools.clone() });
        tools
    }

    /// Where the user's secrets are: milk's own home, and its config where that was moved.
    fn private_places(&self) -> Vec<PathBuf> {
        let home = &self.process.home;
        vec![home.root().to_owned(), home.config_file().to_owned(), home.config_backup()]
    }
}

/// Limits where no agent is configured.
struct DefaultLimits {
    model_calls: Option<u32>,
    result_limit: usize,
}

impl DefaultLimits {
    fn of(config: &Config) -> Self {
        let found = milk_config::Found {
            name: "found",
            provider: "",
            url: "http://127.0.0.1",
            model: None,
            key: None,
        };
        match config.found_agent(&found) {
            Ok(agent) => Self {
                model_calls: agent.limits.max_tool_iterations,
                result_limit: agent.limits.tool_result_max_bytes,
            },
            Err(_) => Self { model_calls: Some(50), result_limit: 20_000 },
        }
    }
}

fn permissions(config: &Config, agent: Option<&Agent>) -> PermissionMode {
    let skips = config.skip_permissions() || agent.is_some_and(|agent| agent.dangerously_skip_permissions);
    if skips { PermissionMode::SkipAll } else { PermissionMode::Ask }
}

fn agent_prompt(prompt: &Prompt) -> Option<Arc<str>> {
    match prompt {
        Prompt::Text(text) => Some(text.as_str().into()),
        Prompt::File(file) => match read_bounded(file, PROMPT_FILE_LIMIT) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into()),
            Err(error) => {
                tracing::warn!(%error, "the agent's prompt file cannot be read; the agent goes without it");
                None
            }
        },
    }
}

impl Provisioner for FromConfig {
    fn provision<'a>(&'a self, workspace: &'a Workspace) -> BoxFuture<'a, Result<Provision, Failure>> {
        // A few small files of the user's own: quicker read here than handed to another thread.
        Box::pin(std::future::ready(Ok(self.provision_now(workspace))))
    }
}
