//! The model behind a chat agent, and how it sends a request.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use futures_util::StreamExt as _;
use milk_core::BoxStream;
use milk_core::model::{ModelError, ModelErrorKind, ModelEvent, ModelInfo, ModelRequest};
use milk_core::ports::Model;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION,
};
use reqwest::{Response, StatusCode};
use url::Url;

use super::config::ChatConfig;
use super::exchange::Exchange;
use super::format::{self, BodyOptions, ReasoningFields, UsageWish};
use crate::credential::{Credential, Credentials, Renewal, Secret};
use crate::failure::{Failed, Reporter, ServerError, Waited};
use crate::http::headers::{bearer, headers};
use crate::http::{BaseUrl, HttpClients, place, read_start};
use crate::retry::{self, Again};
use crate::secret::Masker;

/// A model behind an OpenAI-compatible server.
#[derive(Debug, Clone)]
pub struct ChatModel {
    server: Arc<Server>,
}

impl ChatModel {
    /// The model that this configuration describes. Nothing is sent and nothing is built yet. An error is of the kind
    /// [`ModelErrorKind::Misconfigured`]: the address or a header cannot be used.
    pub fn new(config: ChatConfig, http: HttpClients) -> Result<Self, ModelError> {
        Ok(Self { server: Arc::new(Server::new(config, http)?) })
    }
}

impl Model for ChatModel {
    fn info(&self) -> &ModelInfo {
        &self.server.info
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let exchange = Exchange::new(Arc::clone(&self.server), request);
        futures_util::stream::unfold(exchange, |mut exchange| async move {
            Some((exchange.next().await?, exchange))
        })
        .boxed()
    }
}

/// A server as it was configured, and what milk has learnt about it.
pub(super) struct Server {
    pub(super) info: ModelInfo,
    pub(super) config: ChatConfig,
    pub(super) reporter: Reporter,
    http: HttpClients,
    url: Url,
    headers: HeaderMap,
    credentials: Credentials,
    learnt: Learnt,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("config", &self.config)
            .field("learnt", &self.learnt)
            .finish_non_exhaustive()
    }
}

/// Fields that this server has refused, and answered well without.
#[derive(Debug, Default)]
struct Learnt {
    no_usage_wish: AtomicBool,
    no_reasoning: AtomicBool,
}

/// What one attempt leaves out of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    usage: UsageWish,
    reasoning: ReasoningFields,
}

impl Server {
    fn new(config: ChatConfig, http: HttpClients) -> Result<Self, ModelError> {
        let misconfigured = |details: String| ModelError {
            kind: ModelErrorKind::Misconfigured,
            provider: config.provider.clone(),
            status: None,
            details,
        };
        let base = BaseUrl::parse(&config.url)
            .map_err(|error| misconfigured(format!("{error} (agent `{}`)", config.agent)))?;
        let headers = headers(&config.headers, own_headers()).map_err(|name| {
            misconfigured(format!("the header `{name}` of the agent `{}` cannot be sent", config.agent))
        })?;
        let credentials = Credentials::new(config.credential.clone());
        let mut masker = Masker::default();
        let key = match &config.credential {
            Credential::Key(key) => Some(key),
            Credential::None | Credential::Command(_) => None,
        };
        config.headers.iter().map(|(_, value)| value).chain(key).for_each(|secret| masker.add(secret));
        base.secrets().into_iter().for_each(|secret| masker.add(&Secret::from(secret)));
        let reporter = Reporter {
            provider: config.provider.clone(),
            agent: config.agent.to_string(),
            model: config.model.clone(),
            base: base.clone(),
            masker,
            has_credential: !credentials.is_none() || headers.contains_key(AUTHORIZATION),
        };
        let info = ModelInfo {
            agent: config.agent.clone(),
            provider: config.provider.clone(),
            model: config.model.clone(),
            context_window: config.context_window,
            vision: config.vision,
        };
        let url = base.chat(config.chat_path.as_deref());
        Ok(Self { info, reporter, http, url, headers, credentials, learnt: Learnt::default(), config })
    }

    /// Sends the request and gives the response once its status says that it worked. A refused token is made again,
    /// once, and a field that the server does not know is left out, once.
    pub(super) async fn open(&self, request: &ModelRequest) -> Result<Response, Failed> {
        let mut shape = self.learnt.shape();
        let mut renewal = Renewal::Possible;
        loop {
            let token = self.token().await?;
            let response = self.send(request, shape, token.as_ref()).await?;
            let status = response.status();
            if status.is_success() {
                self.learnt.remember(shape);
                return Ok(response);
            }
            if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
                && renewal == Renewal::Possible
            {
                renewal = Renewal::Impossible;
                if self.credentials.forget(token.as_ref()) == Renewal::Possible {
                    continue;
                }
            }
            let refusal = self.refusal(response).await;
            match without_refused_field(request, shape, status, &refusal.said) {
                Some(smaller) => shape = smaller,
                None => return Err(refusal.failed),
            }
        }
    }

    async fn token(&self) -> Result<Option<Secret>, Failed> {
        let token = self.credentials.current().await.map_err(|error| {
            let agent = &self.info.agent;
            let details =
                format!("there is no token: the `token_cmd` of the agent `{agent}` did not work, {error}");
            self.reporter.failed(ModelErrorKind::Unauthorized, Again::Never, &details)
        })?;
        if let Some(token) = &token {
            self.reporter.masker.add_token(token);
        }
        Ok(token)
    }

    async fn send(
        &self,
        request: &ModelRequest,
        shape: Shape,
        token: Option<&Secret>,
    ) -> Result<Response, Failed> {
        let misconfigured =
            |details: &str| self.reporter.failed(ModelErrorKind::Misconfigured, Again::Never, details);
        let body = format::body(request, self.body_options(shape))
            .map_err(|error| misconfigured(&error.to_string()))?;
        let client =
            self.http.client_for(&self.url).await.map_err(|error| misconfigured(&error.to_string()))?;
        let mut headers = self.headers.clone();
        if let Some(token) = token.filter(|_| !headers.contains_key(AUTHORIZATION)) {
            let value = bearer(token)
                .ok_or_else(|| misconfigured("the credential holds characters that no key has"))?;
            headers.insert(AUTHORIZATION, value);
        }
        tracing::debug!(place = self.reporter.base.place(), bytes = body.len(), "model request");
        let limit = self.config.patience.first_byte;
        let sent = client.post(self.url.clone()).headers(headers).body(body).send();
        match tokio::time::timeout(limit, sent).await {
            Ok(sent) => {
                sent.map_err(|error| self.reporter.not_sent(&error, self.http.options().connect_timeout))
            }
            Err(_) => Err(self.reporter.silent(Waited::ForTheFirstByte, limit)),
        }
    }

    fn body_options(&self, shape: Shape) -> BodyOptions<'_> {
        BodyOptions {
            model: &self.config.model,
            vision: self.config.vision,
            empty_content: self.config.empty_content,
            usage: shape.usage,
            reasoning: shape.reasoning,
            overrides: &self.config.request_overrides,
        }
    }

    /// Reads what the server says about a failure.
    async fn refusal(&self, response: Response) -> Refusal {
        let status = response.status();
        let text = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let content_type = text(CONTENT_TYPE).map(str::to_owned);
        let moved = text(LOCATION).map(str::to_owned).filter(|_| status.is_redirection());
        let asked = retry::asked_wait(response.headers(), SystemTime::now());
        let body = read_start(response, self.config.patience.after_finish).await;
        let said = match moved {
            Some(to) => ServerError::from_text(&self.redirect(&to)),
            None => ServerError::from_body(&body, content_type.as_deref()),
        };
        Refusal { failed: self.reporter.refused(status, &said, asked), said }
    }

    /// Redirects that change the request or leave the server are not followed: they would lose the body, or show the
    /// credential to another host.
    fn redirect(&self, location: &str) -> String {
        let to = self.url.join(location).ok();
        let to = to.map_or_else(|| "elsewhere".to_owned(), |to| format!("{}://{}", to.scheme(), place(&to)));
        format!(
            "it sends milk on to {to}; if that is right, make it the `url` of the agent `{}`",
            self.info.agent
        )
    }
}

/// A refused request, and what the server said.
struct Refusal {
    failed: Failed,
    said: ServerError,
}

/// The shape without a field that the server says it does not know, if the request had it.
fn without_refused_field(
    request: &ModelRequest,
    shape: Shape,
    status: StatusCode,
    said: &ServerError,
) -> Option<Shape> {
    if !matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY) {
        return None;
    }
    if shape.usage == UsageWish::AskedFor && said.rejects_field("stream_options") {
        return Some(Shape { usage: UsageWish::LeftOut, ..shape });
    }
    let fields = format::reasoning_fields_of(request);
    let refuses_reasoning = fields.iter().any(|field| said.rejects_field(field));
    (shape.reasoning == ReasoningFields::SentBack && refuses_reasoning)
        .then_some(Shape { reasoning: ReasoningFields::LeftOut, ..shape })
}

impl Learnt {
    fn shape(&self) -> Shape {
        let refused = |field: &AtomicBool| field.load(Ordering::Relaxed);
        Shape {
            usage: if refused(&self.no_usage_wish) { UsageWish::LeftOut } else { UsageWish::AskedFor },
            reasoning: if refused(&self.no_reasoning) {
                ReasoningFields::LeftOut
            } else {
                ReasoningFields::SentBack
            },
        }
    }

    /// Only what worked is remembered: a field may be named in a refusal that has another cause.
    fn remember(&self, shape: Shape) {
        self.no_usage_wish.fetch_or(shape.usage == UsageWish::LeftOut, Ordering::Relaxed);
        self.no_reasoning.fetch_or(shape.reasoning == ReasoningFields::LeftOut, Ordering::Relaxed);
    }
}

/// The headers that every request has before those of its agent.
fn own_headers() -> HeaderMap {
    HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (ACCEPT, HeaderValue::from_static("text/event-stream, application/json")),
        // A compressed stream arrives in larger pieces, and later.
        (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
    ])
}
