//! What a chat agent is set up with.

use std::fmt;
use std::time::Duration;

use milk_core::JsonObject;
use milk_core::id::AgentName;
use milk_core::model::Vision;

use super::format::EmptyContent;
use crate::credential::{Credential, Secret};
use crate::http::BaseUrl;
use crate::retry::RetryPolicy;

/// One chat agent: where it is, how it is let in, how patient milk is with it. `Debug` leaves out what may hold a secret.
#[derive(Clone)]
pub struct ChatConfig {
    /// The configured agent's name.
    pub agent: AgentName,
    /// The provider's name, for titles and errors.
    pub provider: String,
    /// The base address; see [`crate::http::BaseUrl`] for the forms that are understood.
    pub url: String,
    /// The path of the call below it; `/v1/chat/completions` unless set.
    pub chat_path: Option<String>,
    /// The model's name.
    pub model: String,
    /// The size of its context in tokens, where known.
    pub context_window: Option<u64>,
    /// Whether it sees pictures.
    pub vision: Vision,
    /// How it is let in.
    pub credential: Credential,
    /// Headers for every request. One named `Authorization` takes the place of the credential's.
    pub headers: Vec<(String, Secret)>,
    /// Merged into every request body last; a key with `null` is taken out.
    pub request_overrides: JsonObject,
    /// How an assistant message without text is written.
    pub empty_content: EmptyContent,
    /// How long milk waits for it.
    pub patience: Patience,
    /// How failed requests are repeated.
    pub retry: RetryPolicy,
}

impl ChatConfig {
    /// An agent at this address with this model, and the usual values for everything else.
    pub fn new(
        agent: impl Into<AgentName>,
        provider: impl Into<String>,
        url: impl Into<String>,
        model: impl Into<String>,
    ) -> Self {
        Self {
            agent: agent.into(),
            provider: provider.into(),
            url: url.into(),
            chat_path: None,
            model: model.into(),
            context_window: None,
            vision: Vision::Blind,
            credential: Credential::None,
            headers: Vec::new(),
            request_overrides: JsonObject::new(),
            empty_content: EmptyContent::default(),
            patience: Patience::default(),
            retry: RetryPolicy::default(),
        }
    }
}

impl fmt::Debug for ChatConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatConfig")
            .field("agent", &self.agent)
            .field("provider", &self.provider)
            .field("url", &BaseUrl::parse(&self.url))
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// How long milk waits for a server that has taken a connection. (For the connection itself see
/// [`crate::http::HttpOptions`].) Every byte that comes begins a wait anew, comments included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Until the first piece of the answer: a slow local model reads its prompt for minutes. 10 minutes unless set.
    pub first_byte: Duration,
    /// Between two bytes of an answer that has begun. 2 minutes unless set.
    pub between_bytes: Duration,
    /// For what may follow an answer that is complete (token counts). 5 seconds unless set, never longer than
    /// `between_bytes`.
    pub after_finish: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_mins(10),
            between_bytes: Duration::from_mins(2),
            after_finish: Duration::from_secs(5),
        }
    }
}
