//! Finding a model where none is configured: a key in the environment, then a server on this machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use milk_config::provider::{LOOPBACK_SERVERS, PRESETS};
use milk_config::{Agent, Config};
use milk_core::ports::Model;
use tokio::sync::Mutex;

use super::Process;
use super::chat_model::{chat_model, probe};

/// How long one answer of discovery holds: a person who starts a server finds it in the next turn but one at the latest.
const FRESH: Duration = Duration::from_secs(5);

/// What was found.
#[derive(Debug, Clone)]
pub(crate) struct Discovered {
    pub(crate) model: Arc<dyn Model>,
    /// One line for the user.
    pub(crate) announcement: String,
    /// The agent, as if it had been configured.
    pub(crate) agent: Agent,
}

/// Looks for models, one look at a time, and remembers the latest for a moment.
#[derive(Debug)]
pub(crate) struct Discovery {
    process: Process,
    latest: Mutex<Option<(Instant, Option<Discovered>)>>,
}

impl Discovery {
    pub(crate) fn new(process: Process) -> Self {
        Self { process, latest: Mutex::default() }
    }

    /// The best model that can be had now. Takes no longer than one probe's limit.
    pub(crate) async fn look(&self, config: &Config) -> Option<Discovered> {
        if !config.discovery() {
            return None;
        }
        let mut latest = self.latest.lock().await;
        if let Some((at, found)) = latest.as_ref()
            && at.elapsed() < FRESH
        {
            return found.clone();
        }
        let found = match self.by_key(config) {
            Some(found) => Some(found),
            None => self.on_this_machine(config).await,
        };
        *latest = Some((Instant::now(), found.clone()));
        found
    }

    /// A known provider whose key is in the environment.
    fn by_key(&self, config: &Config) -> Option<Discovered> {
        PRESETS.iter().find_map(|preset| {
            let model = preset.model?;
            let (variable, key) = preset.key_in(&self.process.env)?;
            let found = milk_config::Found {
                name: preset.name,
                provider: preset.name,
                url: preset.url,
                model: Some(model),
                key: Some(&key),
            };
            let announcement = format!(
                "[milk] Nothing is configured; using {} ({model}) with the key in {variable}.",
                preset.name
            );
            self.found(config, &found, announcement)
        })
    }

    /// A model server on a well-known loopback port. All are asked at once; the order of the table decides.
    async fn on_this_machine(&self, config: &Config) -> Option<Discovered> {
        let probes = LOOPBACK_SERVERS.iter().map(|server| async move {
            let url = server.url();
            let models = probe(&self.process, &url).await;
            (server, url, models)
        });
        for (server, url, models) in futures_util::future::join_all(probes).await {
            let Some(model) = models.into_iter().next() else { continue };
            let found = milk_config::Found {
                name: server.name,
                provider: server.name,
                url: &url,
                model: Some(&model),
                key: None,
            };
            let announcement =
                format!("[milk] Nothing is configured; using {model} of {} on this machine.", server.title);
            if let Some(found) = self.found(config, &found, announcement) {
                return Some(found);
            }
        }
        None
    }

    fn found(
        &self,
        config: &Config,
        found: &milk_config::Found<'_>,
        announcement: String,
    ) -> Option<Discovered> {
        let agent = config.found_agent(found).ok()?;
        let model = chat_model(&self.process, &agent).ok()?;
        Some(Discovered { model, announcement, agent })
    }
}

/// Where Claude Code is, if it is installed.
pub(crate) fn claude_on_path(process: &Process) -> Option<PathBuf> {
    let path = process.env.get_os("PATH")?;
    std::env::split_paths(path).map(|folder| folder.join("claude")).find(|file| file.is_file())
}
