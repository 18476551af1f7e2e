//! From a configured agent to its model.

use std::sync::Arc;
use std::time::Duration;

use milk_config::{Agent, Credential};
use milk_core::model::Vision;
use milk_core::ports::Model;
use milk_model::discover::{self, Found, LOCAL_LIMIT, Target};
use milk_model::http::{CertificateTrust, HttpOptions};
use milk_model::{ChatConfig, ChatModel, HttpClients, Secret};
use milk_tools::HttpBuilder;

use super::Process;

/// How long a server may take to list its models when the user waits for it.
const LISTING_LIMIT: Duration = Duration::from_secs(10);
/// Stands for "no limit" where a limit is needed.
const NO_LIMIT: Duration = Duration::from_hours(10 * 365 * 24);

/// The model of an agent that speaks chat completions. Nothing is sent yet. The error is a piece of a sentence about the
/// agent.
pub(crate) fn chat_model(process: &Process, agent: &Agent) -> Result<Arc<dyn Model>, String> {
    let url = agent.url.as_ref().ok_or("has no usable `url`")?;
    let model = agent.model.as_ref().ok_or("names no `model`")?;
    let mut config = ChatConfig::new(agent.name.as_str(), provider_name(agent), url.expose(), model);
    config.chat_path = (agent.chat_path != milk_config::provider::CHAT_PATH).then(|| agent.chat_path.clone());
    config.context_window = agent.context_window_tokens;
    config.vision = if agent.vision { Vision::Sees } else { Vision::Blind };
    config.credential = credential(agent);
    config.headers = headers(agent);
    config.request_overrides.clone_from(&agent.request_overrides);
    config.patience.first_byte = agent.timeouts.first_byte.unwrap_or(NO_LIMIT);
    config.patience.between_bytes = agent.timeouts.idle.unwrap_or(NO_LIMIT);
    config.retry.tries = agent.retry_limit.saturating_add(1);
    config.retry.refused_tries = config.retry.refused_tries.min(config.retry.tries);
    let model = ChatModel::new(config, http_for(process, agent))
        .map_err(|error| format!("cannot be used: {}", error.details))?;
    Ok(Arc::new(model))
}

/// What an agent's server says when it is asked for its models.
pub(crate) async fn look_at(process: &Process, agent: &Agent) -> Found {
    let Some(url) = &agent.url else { return Found::Misconfigured("it has no usable `url`".to_owned()) };
    let target = Target {
        name: agent.name.clone(),
        url: url.expose().to_owned(),
        credential: credential(agent),
        headers: headers(agent),
    };
    discover::probe(&http_for(process, agent), &target, LISTING_LIMIT).await.found
}

/// The models of a server on this machine that are meant for conversation, the first one first; none if nothing answers.
pub(super) async fn probe(process: &Process, url: &str) -> Vec<String> {
    let probe = discover::probe(&process.http, &Target::open("", url), LOCAL_LIMIT).await;
    probe.first_chat_model().map(str::to_owned).into_iter().collect()
}

/// How the tools' own HTTP client begins.
pub(super) fn tool_http() -> HttpBuilder {
    Arc::new(|| {
        // Fails where one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder()
    })
}

/// The process's HTTP clients, or some of the agent's own where it connects in another way.
fn http_for(process: &Process, agent: &Agent) -> HttpClients {
    let certificates = match (&agent.tls.ca_cert, agent.tls.skip_verify) {
        (_, true) => CertificateTrust::Anyone,
        (Some(file), false) => CertificateTrust::MachineAnd(file.clone()),
        (None, false) => CertificateTrust::Machine,
    };
    let wanted = HttpOptions { connect_timeout: agent.timeouts.connect.unwrap_or(NO_LIMIT), certificates };
    if wanted == *process.http.options() { process.http.clone() } else { HttpClients::new(wanted) }
}

fn provider_name(agent: &Agent) -> &str {
    if agent.provider.is_empty() { "local" } else { &agent.provider }
}

fn credential(agent: &Agent) -> milk_model::Credential {
    match &agent.credential {
        Credential::None => milk_model::Credential::None,
        Credential::Key(key) => milk_model::Credential::Key(Secret::from(key.expose())),
        Credential::Command(command) => milk_model::Credential::Command(command.expose().to_owned()),
    }
}

fn headers(agent: &Agent) -> Vec<(String, Secret)> {
    agent.headers.iter().map(|(name, value)| (name.clone(), Secret::from(value.expose()))).collect()
}
