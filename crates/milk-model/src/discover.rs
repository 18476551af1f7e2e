//! Looks which model servers answer: for finding one on a machine where nothing is configured, and for telling a person
//! what is wrong with one that is.

use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use crate::credential::{Credential, Credentials, Secret};
use crate::failure::{ServerError, html_summary, one_line};
use crate::http::headers::{bearer, headers};
use crate::http::{BaseUrl, HttpClients};
use crate::secret::Masker;

/// Where model servers listen on this machine unless they are told otherwise, as name and address, best first.
pub const LOCAL_SERVERS: &[(&str, &str)] = &[
    ("ollama", "http://127.0.0.1:11434"),
    ("lmstudio", "http://127.0.0.1:1234"),
    ("llama.cpp", "http://127.0.0.1:8080"),
    ("vllm", "http://127.0.0.1:8000"),
];

/// How long a server on this machine may take to list its models: long enough for a busy one, short enough to wait for.
pub const LOCAL_LIMIT: Duration = Duration::from_secs(1);

/// The longest list of models that is read, in bytes.
const LIST_LIMIT: usize = 4 << 20;

/// A server to look at.
#[derive(Clone)]
pub struct Target {
    /// What a person calls it.
    pub name: String,
    /// Its base address.
    pub url: String,
    /// How one is let in.
    pub credential: Credential,
    /// Further headers.
    pub headers: Vec<(String, Secret)>,
}

impl Target {
    /// A server that wants no credential.
    pub fn open(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self { name: name.into(), url: url.into(), credential: Credential::None, headers: Vec::new() }
    }

    fn place(&self) -> String {
        BaseUrl::parse(&self.url)
            .map_or_else(|_| "an address that cannot be read".to_owned(), |base| base.place())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("name", &self.name)
            .field("place", &self.place())
            .finish_non_exhaustive()
    }
}

/// What was found at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The target's name.
    pub name: String,
    /// Where the target is, as `host:port`: for people, without what may be secret in its address.
    pub place: String,
    /// What is there.
    pub found: Found,
}

/// What is at an address. Texts are one line each and hold no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A model server with these models.
    Models(Vec<String>),
    /// A model server that has no model yet.
    NoModels,
    /// A model server that is still loading its model.
    Loading,
    /// A server that wants another credential, or one at all.
    Unauthorized,
    /// Something answers, but it is no model server; what it said.
    NotAModelServer(String),
    /// The server failed; what it said.
    Failed(String),
    /// Nothing listens there.
    Refused,
    /// It cannot be reached; why.
    Unreachable(String),
    /// No answer came in time.
    TimedOut,
    /// The address, the headers or the token command cannot work; why.
    Misconfigured(String),
}

impl Probe {
    /// Whether a prompt could be sent there: models are listed, or may be loaded on demand.
    pub fn is_usable(&self) -> bool {
        matches!(&self.found, Found::Models(models) if !models.is_empty())
    }

    /// The first model that is meant for conversation, by its name.
    pub fn first_chat_model(&self) -> Option<&str> {
        match &self.found {
            Found::Models(models) => models.iter().map(String::as_str).find(|name| is_for_chat(name)),
            _ => None,
        }
    }
}

/// Parts of the names of models that do not converse.
const NOT_FOR_CHAT: &[&str] = &["embed", "rerank", "whisper", "tts", "bge-", "clip", "moderation", "dall-e"];

fn is_for_chat(name: &str) -> bool {
    let name = name.to_lowercase();
    !NOT_FOR_CHAT.iter().any(|part| name.contains(part))
}

/// Looks at all targets at the same time; each may take as long as `limit`. Probes come in the order of the targets.
pub async fn probe_all(http: &HttpClients, targets: &[Target], limit: Duration) -> Vec<Probe> {
    join_all(targets.iter().map(|target| probe(http, target, limit))).await
}

/// Looks at one server, with `GET …/models`.
pub async fn probe(http: &HttpClients, target: &Target, limit: Duration) -> Probe {
    let found = tokio::time::timeout(limit, look(http, target)).await.unwrap_or(Found::TimedOut);
    Probe { name: target.name.clone(), place: target.place(), found }
}

async fn look(http: &HttpClients, target: &Target) -> Found {
    let response = match ask(http, target).await {
        Ok(response) => response,
        Err(found) => return found,
    };
    let status = response.status();
    let Some(body) = read(response).await else {
        return Found::Failed("its answer broke off, or is too long".to_owned());
    };
    let said = |body: &[u8]| {
        let mut masker = Masker::default();
        target.headers.iter().for_each(|(_, value)| masker.add(value));
        if let Credential::Key(key) = &target.credential {
            masker.add(key);
        }
        let error = ServerError::from_body(body, None);
        let message = error.message().map_or_else(String::new, |message| format!(": {message}"));
        one_line(&masker.mask(&format!("status {}{message}", status.as_u16())))
    };
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Found::Unauthorized,
        StatusCode::SERVICE_UNAVAILABLE if said(&body).to_lowercase().contains("loading") => Found::Loading,
        status if status.is_success() => listed(&body),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Found::Failed(said(&body))
        }
        _ => Found::NotAModelServer(said(&body)),
    }
}

async fn ask(http: &HttpClients, target: &Target) -> Result<Response, Found> {
    let misconfigured = |why: &dyn fmt::Display| Found::Misconfigured(why.to_string());
    let url = BaseUrl::parse(&target.url).map_err(|error| misconfigured(&error))?.models();
    let mut all = headers(&target.headers, HeaderMap::new())
        .map_err(|name| misconfigured(&format_args!("the header `{name}` cannot be sent")))?;
    let credentials = Credentials::new(target.credential.clone());
    let token =
        credentials.current().await.map_err(|error| misconfigured(&format_args!("token_cmd: {error}")))?;
    if let Some(token) = token.filter(|_| !all.contains_key(AUTHORIZATION)) {
        all.insert(AUTHORIZATION, bearer(&token).ok_or_else(|| misconfigured(&"the credential is no key"))?);
    }
    let client = http.client_for(&url).await.map_err(|error| misconfigured(&error))?;
    client.get(url).headers(all).send().await.map_err(|error| crate::failure::unreached(&error))
}

async fn read(mut response: Response) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.ok()? {
        body.extend_from_slice(&bytes);
        if body.len() > LIST_LIMIT {
            return None;
        }
    }
    Some(body)
}

/// Reads a list of models in the usual shapes: `data` as usual, `models` as Ollama has it, or a bare list.
fn listed(body: &[u8]) -> Found {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        let text = String::from_utf8_lossy(body);
        let is_page = text.trim_start().starts_with('<');
        return Found::NotAModelServer(if is_page {
            html_summary(&text)
        } else {
            "no list of models".to_owned()
        });
    };
    let list = match &value {
        Value::Object(object) => object.get("data").or_else(|| object.get("models")),
        Value::Array(_) => Some(&value),
        _ => None,
    };
    let name = |model: &Value| match model {
        Value::String(name) => Some(name.clone()),
        _ => ["id", "name", "model"].iter().find_map(|key| model.get(*key)?.as_str()).map(str::to_owned),
    };
    match list {
        // Ollama writes null for none.
        Some(Value::Null) => Found::NoModels,
        Some(Value::Array(models)) if models.is_empty() => Found::NoModels,
        Some(Value::Array(models)) => match models.iter().filter_map(name).collect::<Vec<_>>() {
            names if names.is_empty() => Found::NotAModelServer("no list of models".to_owned()),
            names => Found::Models(names),
        },
        _ => Found::NotAModelServer("no list of models".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn lists_in_every_shape() {
        let models = |names: &[&str]| Found::Models(names.iter().map(|name| (*name).to_owned()).collect());
        let nothing = || Found::NotAModelServer("no list of models".to_owned());
        let cases = [
            (r#"{"object":"list","data":[{"id":"a"},{"id":"b"}]}"#, models(&["a", "b"])),
            (r#"{"models":[{"name":"a"}]}"#, models(&["a"])),
            (r#"["a",{"model":"b"},3]"#, models(&["a", "b"])),
            (r#"{"object":"list","data":null}"#, Found::NoModels),
            (r#"{"data":[]}"#, Found::NoModels),
            (r#"{"data":[{}]}"#, nothing()),
            (r#"{"hello":1}"#, nothing()),
            ("hello", nothing()),
            ("<title>Router</title>", Found::NotAModelServer("a web page titled “Router”".to_owned())),
        ];
        for (body, expected) in cases {
            assert_eq!(listed(body.as_bytes()), expected, "{body}");
        }
    }

    #[test]
    fn models_for_other_purposes_are_passed_over() {
        let names = ["text-embedding-nomic", "BGE-m3", "whisper-1", "qwen3:8b"].map(str::to_owned).to_vec();
        let probe = Probe { name: "x".into(), place: "x".into(), found: Found::Models(names) };
        assert_eq!(probe.first_chat_model(), Some("qwen3:8b"));
    }
}
