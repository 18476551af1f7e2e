//! Where agents come from: the configuration, or what is found on this machine.

use std::sync::{Arc, Mutex, PoisonError};

use milk_config::provider::ProviderKind;
use milk_config::{Agent, Config};
use milk_core::BoxFuture;
use milk_core::failure::Failure;
use milk_core::ports::{AgentSource, Model, ResolvedAgent};
use milk_model::DemoModel;
use milk_model::discover::Found;

use super::Process;
use super::chat_model::{chat_model, look_at};
use super::discovery::{Discovered, Discovery};

/// An agent that the configuration names.
#[derive(Debug)]
pub(super) struct ConfiguredAgent {
    process: Process,
    agent: Agent,
    prompt: Option<Arc<str>>,
    made: Mutex<Option<Arc<dyn Model>>>,
}

impl ConfiguredAgent {
    pub(super) fn new(process: Process, agent: Agent, prompt: Option<Arc<str>>) -> Self {
        Self { process, agent, prompt, made: Mutex::default() }
    }

    async fn model(&self) -> Result<Arc<dyn Model>, Failure> {
        if let Some(model) = self.made.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(model);
        }
        if self.agent.kind != ProviderKind::ChatCompletions {
            return Err(self.cannot(&format!(
                "uses the provider \"{}\", which this version of milk cannot talk to; set `agent` to one with a `url`",
                self.agent.provider
            )));
        }
        let agent = match &self.agent.model {
            Some(_) => self.agent.clone(),
            None => Agent { model: Some(self.first_model().await?), ..self.agent.clone() },
        };
        let model = chat_model(&self.process, &agent).map_err(|problem| self.cannot(&problem))?;
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&model));
        Ok(model)
    }

    /// The model that a server lists first, for an agent that names none.
    async fn first_model(&self) -> Result<String, Failure> {
        let problem = match look_at(&self.process, &self.agent).await {
            Found::Models(models) => match models.into_iter().next() {
                Some(model) => return Ok(model),
                None => "names no model, and its server has none",
            },
            Found::NoModels => "names no model, and its server has none",
            Found::Loading => "names no model, and its server is still loading one",
            _ => "names no model, and its server could not be asked for one",
        };
        Err(Failure { retryable: true, ..self.cannot(problem) })
    }

    fn cannot(&self, problem: &str) -> Failure {
        let details =
            format!("The agent \"{}\" {problem}. `milk doctor` checks the configuration.", self.agent.name);
        Failure { provider: Some(self.agent.provider.clone()), ..Failure::new("misconfigured", details) }
    }
}

impl AgentSource for ConfiguredAgent {
    fn resolve(&self) -> BoxFuture<'_, Result<ResolvedAgent, Failure>> {
        Box::pin(async {
            let model = self.model().await?;
            Ok(ResolvedAgent { model, prompt: self.prompt.clone(), announcement: None })
        })
    }
}

/// An agent for someone who has configured none: what is found, else the demo. What was found stays for the conversation;
/// the demo gives way as soon as something is found.
#[derive(Debug)]
pub(super) struct FoundAgent {
    discovery: Arc<Discovery>,
    config: Config,
    kept: Mutex<Option<ResolvedAgent>>,
}

impl FoundAgent {
    pub(super) fn new(discovery: Arc<Discovery>, config: Config) -> Self {
        Self { discovery, config, kept: Mutex::default() }
    }

    /// Begins to look in the background, so that the first prompt need not wait.
    pub(super) fn look_ahead(&self) {
        let (discovery, config) = (Arc::clone(&self.discovery), self.config.clone());
        tokio::spawn(async move { drop(discovery.look(&config).await) }); // ends by itself: every probe has a limit
    }

    async fn look(&self) -> ResolvedAgent {
        if let Some(kept) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return kept;
        }
        match self.discovery.look(&self.config).await {
            Some(Discovered { model, announcement, .. }) => {
                let agent = ResolvedAgent { model, prompt: None, announcement: Some(announcement) };
                *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(agent.clone());
                agent
            }
            None => ResolvedAgent {
                model: Arc::new(DemoModel::new()),
                prompt: None,
                announcement: Some(
                    "[milk] No model is configured and none was found, so milk's built-in demo agent answers. \
                     `milk doctor` says how to get a real one."
                        .to_owned(),
                ),
            },
        }
    }
}

impl AgentSource for FoundAgent {
    fn resolve(&self) -> BoxFuture<'_, Result<ResolvedAgent, Failure>> {
        Box::pin(async { Ok(self.look().await) })
    }
}
