//! An agent of the config in typed form: everything resolved, every limit a number or none.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use milk_files::{Env, expand_tilde};
use serde_json::{Map, Value};

use crate::key::{self, Default};
use crate::provider::{self, CHAT_PATH, ProviderKind};
use crate::reference::{self, Resolved};
use crate::secret::Secret;
use crate::server_url::{ServerUrl, UrlError};

/// One configured or discovered agent.
#[derive(Clone)]
pub struct Agent {
    /// Unique, in any case.
    pub name: String,
    /// The config's `provider`, empty if none is given.
    pub provider: String,
    /// How the agent is talked to.
    pub kind: ProviderKind,
    /// Base URL of the model server; `None` for an agent that has none, or none that is valid (a warning was given).
    pub url: Option<ServerUrl>,
    /// Path of chat completions under the base.
    pub chat_path: String,
    /// The model's name at the server; `None`: the first that the server lists.
    pub model: Option<String>,
    /// How milk shows who it is.
    pub credential: Credential,
    /// Added to every request; each name once, whatever its case.
    pub headers: Vec<(String, Secret)>,
    /// How the server's certificate is judged.
    pub tls: Tls,
    /// Whether the model can see images.
    pub vision: bool,
    /// Size of the model's context in tokens, where the config says.
    pub context_window_tokens: Option<u64>,
    /// Limits of a turn.
    pub limits: Limits,
    /// Limits of one model call.
    pub timeouts: Timeouts,
    /// How often a request is sent again; 0 never.
    pub retry_limit: u32,
    /// The agent's own patterns; the root's count as well, see [`Config::bash_allowed_patterns`](crate::Config::bash_allowed_patterns).
    pub bash_allowed_patterns: Vec<String>,
    /// Whether this agent never asks.
    pub dangerously_skip_permissions: bool,
    /// The agent's own system prompt.
    pub prompt: Option<Prompt>,
    /// Length of milk's system prompt.
    pub system_prompt_tier: PromptTier,
    /// Whether AGENTS.md and CLAUDE.md are not read.
    pub disable_project_instructions: bool,
    /// Merged into the body of every request, field by field; null removes a field.
    pub request_overrides: Map<String, Value>,
}

/// How milk shows a server who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// It does not.
    None,
    /// A bearer token.
    Key(Secret),
    /// A shell command that prints the token. It may hold a secret itself, so it is not printed by accident.
    Command(Secret),
}

/// How the server's certificate is judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Accept any certificate.
    pub skip_verify: bool,
    /// PEM file with a further authority; absolute.
    pub ca_cert: Option<PathBuf>,
}

/// An agent's own system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// As the config has it.
    Text(String),
    /// In this file; absolute.
    File(PathBuf),
}

/// Length of milk's system prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptTier {
    /// Rules that nothing works without.
    Minimal,
    /// Those, and how to work.
    Standard,
    /// Everything.
    Full,
}

/// Limits of a turn; `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Model calls in one turn.
    pub max_tool_iterations: Option<u32>,
    /// Time for one turn.
    pub turn_timeout: Option<Duration>,
    /// Time for one tool call.
    pub tool_timeout: Option<Duration>,
    /// Bytes of a tool's result that the model sees.
    pub tool_result_max_bytes: usize,
    /// The only tools that the model is offered; empty is all.
    pub included_tools: Vec<String>,
    /// Tools that the model is not offered.
    pub excluded_tools: Vec<String>,
}

/// Limits of one model call; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To reach the server.
    pub connect: Option<Duration>,
    /// From the request to the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// Between bytes of the answer.
    pub idle: Option<Duration>,
}

/// A model server that was found rather than configured.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The name that the agent gets.
    pub name: &'a str,
    /// Its provider; a known one gives the chat path.
    pub provider: &'a str,
    /// Base URL.
    pub url: &'a str,
    /// The model, if known.
    pub model: Option<&'a str>,
    /// The key, if it needs one.
    pub key: Option<&'a Secret>,
}

impl Agent {
    /// Where chat requests go; `None` for an agent without a server.
    pub fn endpoint(&self) -> Option<ServerUrl> {
        Some(self.url.as_ref()?.join(&self.chat_path))
    }

    /// Where the server lists its models: the neighbour of its chat completions.
    pub fn models_endpoint(&self) -> Option<ServerUrl> {
        let base = self.chat_path.trim_end_matches('/').strip_suffix("/chat/completions");
        Some(self.url.as_ref()?.join(&format!("{}/models", base.unwrap_or("/v1"))))
    }

    /// Every secret of the agent: its key, the values of its headers that are no common ones, and those in its URL. A
    /// token command is none: a person has to be told which one failed.
    pub fn secrets(&self) -> Vec<Secret> {
        let mut all = Vec::new();
        if let Credential::Key(key) = &self.credential {
            all.push(key.clone());
        }
        for (name, value) in &self.headers {
            all.extend(header_secrets(name, value.expose()));
        }
        all.extend(self.url.iter().flat_map(ServerUrl::secrets));
        all
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        let overrides: Vec<&String> = self.request_overrides.keys().collect();
        f.debug_struct("Agent")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("url", &self.url)
            .field("model", &self.model)
            .field("credential", &self.credential)
            .field("headers", &headers)
            .field("request_overrides", &overrides)
            .finish_non_exhaustive()
    }
}

/// Headers whose values say nothing secret; any other may be a credential.
const PLAIN_HEADERS: &[&str] = &[
    "accept",
    "accept-language",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "http-referer",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "referer",
    "user-agent",
    "x-title",
];

/// The secrets in a header: the value, and what follows a scheme such as `Bearer`.
pub(crate) fn header_secrets(name: &str, value: &str) -> Vec<Secret> {
    if PLAIN_HEADERS.iter().any(|plain| name.eq_ignore_ascii_case(plain)) {
        return Vec::new();
    }
    let token = value.split_once(' ').map(|(_, token)| token.trim());
    std::iter::once(value).chain(token).map(Secret::new).collect()
}

/// What an agent is built with, beside its own entry.
pub(crate) struct Workshop<'a> {
    pub(crate) env: &'a Env,
    /// The merged root, defaults filled in.
    pub(crate) root: &'a Map<String, Value>,
    /// The folder that a relative path of this key of this agent is taken from.
    pub(crate) base_of: &'a dyn Fn(&str) -> PathBuf,
    /// Names of variables that secret values refer to.
    pub(crate) referenced: &'a mut BTreeSet<String>,
    /// What cannot be used: the key of the agent, and what is wrong with it.
    pub(crate) problems: &'a mut Vec<(&'static str, String)>,
}

impl Workshop<'_> {
    /// The agent of a merged entry. Whatever cannot be used is left out and told; an agent without a server fails when it is
    /// used, with the same reason.
    pub(crate) fn build(&mut self, entry: &Map<String, Value>) -> Agent {
        let fields = Fields(entry);
        let provider = fields.text("provider").unwrap_or_default().to_owned();
        let kind = ProviderKind::of(&provider);
        let preset = provider::find(&provider);
        let url = self.url(&fields, &provider, kind);
        Agent {
            name: fields.text("name").unwrap_or_default().trim().to_owned(),
            kind,
            chat_path: fields
                .text("chat_path")
                .or(preset.map(|preset| preset.chat_path))
                .unwrap_or(CHAT_PATH)
                .to_owned(),
            model: fields.text("model").map(str::to_owned),
            credential: self.credential(&fields, &provider, url.as_ref()),
            headers: self.headers(&fields),
            tls: Tls {
                skip_verify: fields.flag("tls_skip_verify"),
                ca_cert: self.path(&fields, "tls_ca_cert"),
            },
            vision: fields.flag("vision"),
            context_window_tokens: fields.number("context_window_tokens").and_then(|n| u64::try_from(n).ok()),
            limits: self.limits(&fields),
            timeouts: Timeouts {
                connect: self.seconds(&fields, "connect_timeout_secs"),
                first_byte: self.seconds(&fields, "first_byte_timeout_secs"),
                idle: self.seconds(&fields, "idle_timeout_secs"),
            },
            retry_limit: u32::try_from(self.inherited(&fields, "retry_limit")).unwrap_or_default(),
            bash_allowed_patterns: fields.texts("bash_allowed_patterns"),
            dangerously_skip_permissions: fields.flag("dangerously_skip_permissions"),
            prompt: self.prompt(&fields),
            system_prompt_tier: match fields.text("system_prompt_tier") {
                Some("minimal") => PromptTier::Minimal,
                Some("standard") => PromptTier::Standard,
                _ => PromptTier::Full,
            },
            disable_project_instructions: fields.flag("disable_project_instructions"),
            request_overrides: fields.object("request_overrides").cloned().unwrap_or_default(),
            provider,
            url,
        }
    }

    fn url(&mut self, fields: &Fields<'_>, provider: &str, kind: ProviderKind) -> Option<ServerUrl> {
        let text = match fields.text("url") {
            // Its references are mostly hosts and ports; a key in it is known by its value.
            Some(text) => self.resolved("url", text, &mut BTreeSet::new())?,
            None if kind != ProviderKind::ChatCompletions => return None,
            None => match (provider::find(provider), provider::find_loopback(provider)) {
                (Some(preset), _) => preset.url.to_owned(),
                (None, Some(server)) => server.url(),
                (None, None) => {
                    self.problem("url", "is missing, and the provider is none that milk knows");
                    return None;
                }
            },
        };
        ServerUrl::parse(&text).map_err(|error| self.problem("url", error.to_string())).ok()
    }

    fn credential(&mut self, fields: &Fields<'_>, provider: &str, url: Option<&ServerUrl>) -> Credential {
        if let Some(text) = fields.text("api_key") {
            let key =
                self.secret("api_key", text).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
            return match key {
                Some(key) if is_header_value(&key) => Credential::Key(Secret::new(key)),
                Some(_) => {
                    self.problem("api_key", "has characters that no key can have");
                    Credential::None
                }
                None => Credential::None,
            };
        }
        if let Some(command) = fields.text("token_cmd") {
            return Credential::Command(Secret::new(command));
        }
        // A provider's own variable, and only to that provider's own address.
        let preset = provider::find(provider).filter(|preset| {
            let own = ServerUrl::parse(preset.url);
            url.is_some_and(|url| own.is_ok_and(|own| own.same_origin(url)))
        });
        preset
            .and_then(|preset| preset.key_in(self.env))
            .map_or(Credential::None, |(_, key)| Credential::Key(key))
    }

    fn headers(&mut self, fields: &Fields<'_>) -> Vec<(String, Secret)> {
        let mut headers: Vec<(String, Secret)> = Vec::new();
        for (name, value) in fields.object("headers").into_iter().flatten() {
            let Some(value) = value.as_str().and_then(|text| self.secret("headers", text)) else { continue };
            if !is_header_name(name) || !is_header_value(&value) {
                self.problem("headers", "have a name or value that HTTP does not allow; it is left out");
                continue;
            }
            headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            headers.push((name.clone(), Secret::new(value)));
        }
        headers
    }

    fn prompt(&mut self, fields: &Fields<'_>) -> Option<Prompt> {
        match (self.path(fields, "prompt_file"), fields.text("prompt")) {
            (Some(file), text) => {
                if text.is_some() {
                    self.problem("prompt", "does not count: there is a prompt_file too");
                }
                Some(Prompt::File(file))
            }
            (None, Some(text)) => Some(Prompt::Text(text.to_owned())),
            (None, None) => None,
        }
    }

    fn path(&self, fields: &Fields<'_>, key: &str) -> Option<PathBuf> {
        let path = expand_tilde(Path::new(fields.text(key)?), self.env.home());
        Some((self.base_of)(key).join(path))
    }

    fn limits(&self, fields: &Fields<'_>) -> Limits {
        let empty = Map::new();
        let limits = Fields(fields.object("limits").unwrap_or(&empty));
        let of = |name: &str| self.inherited(&limits, &format!("limits.{name}"));
        Limits {
            max_tool_iterations: u32::try_from(of("max_tool_iterations")).ok(),
            turn_timeout: seconds(of("turn_timeout_secs")),
            tool_timeout: seconds(of("tool_timeout_secs")),
            tool_result_max_bytes: tool_result_cap(
                of("tool_result_max_bytes"),
                fields.number("context_window_tokens"),
            ),
            included_tools: limits.texts("included_tools"),
            excluded_tools: limits.texts("excluded_tools"),
        }
    }

    fn seconds(&self, fields: &Fields<'_>, name: &str) -> Option<Duration> {
        seconds(self.inherited(fields, name))
    }

    /// The number of `agents[].{path}`: the entry's own, else the root's, else the default. 0 if there is none at all.
    fn inherited(&self, fields: &Fields<'_>, path: &str) -> i64 {
        let Some(row) = key::find(&format!("agents[].{path}")) else { return 0 };
        let standard = row.standard().and_then(|value| value.as_i64()).unwrap_or_default();
        let above = match row.default {
            Default::SameAs(other) => self.root.get(other).and_then(Value::as_i64),
            _ => None,
        };
        let name = path.rsplit('.').next().unwrap_or(path);
        match fields.number(name).or(above).unwrap_or(standard) {
            0 if !row.zero_is_none() => standard,
            number => number,
        }
    }

    /// The text with its references resolved, or `None` with a word about the variable that is missing.
    fn resolved(&mut self, key: &'static str, text: &str, names: &mut BTreeSet<String>) -> Option<String> {
        match reference::resolve(text, self.env, names) {
            Resolved::Text(text) => Some(text),
            Resolved::Missing(name) => {
                self.problem(key, format!("does not count: the variable {name} is not set"));
                None
            }
        }
    }

    /// The same for a value that is secret: so are the variables that it refers to.
    fn secret(&mut self, key: &'static str, text: &str) -> Option<String> {
        let mut names = std::mem::take(self.referenced);
        let text = self.resolved(key, text, &mut names);
        *self.referenced = names;
        text
    }

    fn problem(&mut self, key: &'static str, text: impl Into<String>) {
        self.problems.push((key, text.into()));
    }
}

/// The agent of a server that was found, with the root's limits.
pub(crate) fn found(found: &Found<'_>, root: &Map<String, Value>) -> Result<Agent, UrlError> {
    let url = ServerUrl::parse(found.url)?;
    let mut entry = Map::new();
    entry.insert("name".to_owned(), found.name.into());
    entry.insert("provider".to_owned(), found.provider.into());
    if let Some(model) = found.model {
        entry.insert("model".to_owned(), model.into());
    }
    let mut workshop = Workshop {
        env: &Env::default(),
        root,
        base_of: &|_| PathBuf::from("/"),
        referenced: &mut BTreeSet::new(),
        problems: &mut Vec::new(),
    };
    let agent = workshop.build(&entry);
    let credential = found.key.map_or(Credential::None, |key| Credential::Key(key.clone()));
    Ok(Agent { url: Some(url), credential, ..agent })
}

/// Typed reading of an entry that was checked against the table. Empty texts count as not set.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
    }

    fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(Value::as_i64)
    }

    fn texts(&self, name: &str) -> Vec<String> {
        texts(self.0.get(name))
    }

    fn object(&self, name: &str) -> Option<&'a Map<String, Value>> {
        self.0.get(name).and_then(Value::as_object)
    }
}

pub(crate) fn texts(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn seconds(number: i64) -> Option<Duration> {
    u64::try_from(number).ok().map(Duration::from_secs)
}

/// Bytes of a result: as set, else a tenth of the context at 4 bytes per token within bounds, else 20000.
fn tool_result_cap(set: i64, context_tokens: Option<i64>) -> usize {
    let bytes = match (set, context_tokens) {
        (1.., _) => set,
        (_, Some(tokens)) => (tokens.saturating_mul(4) / 10).clamp(4096, 51_200),
        (_, None) => 20_000,
    };
    usize::try_from(bytes).unwrap_or(20_000)
}

/// RFC 9110: a field name is a token.
fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// RFC 9110: visible characters, blanks and tabs; a line break would begin another header.
fn is_header_value(value: &str) -> bool {
    value.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f))
}

#[cfg(test)]
mod tests;
