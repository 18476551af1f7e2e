//! The HTTP clients of the process: built when a request first needs them, and shared by all models.

pub mod address;
mod certificates;
pub(crate) mod headers;

use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder, Response};
use tokio::sync::OnceCell;
use url::Url;

pub(crate) use address::place;
pub use address::{BadAddress, BaseUrl, CHAT_PATH};
pub use certificates::CertificateTrust;

/// How connections are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// The longest wait for a connection, TLS included. 10 seconds unless set.
    pub connect_timeout: Duration,
    /// Which certificates are accepted. The machine's unless set.
    pub certificates: CertificateTrust,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(10), certificates: CertificateTrust::default() }
    }
}

/// A handle on the process's HTTP clients; clones share them. Making one costs nothing: a client is built by the first
/// request that needs it, and connections are kept for the next turn.
///
/// Loopback is always reached directly. Everything else goes through the proxy that `HTTP_PROXY`, `HTTPS_PROXY`,
/// `ALL_PROXY` and `NO_PROXY` name, as they are when the client is built.
#[derive(Debug, Clone, Default)]
pub struct HttpClients {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    options: HttpOptions,
    /// Plain HTTP on this machine: no certificates are read, so that a local model's first answer is not delayed.
    plain_loopback: OnceCell<Client>,
    secure_loopback: OnceCell<Client>,
    remote: OnceCell<Client>,
}

/// A client could not be built: the certificates of this machine cannot be read, or the proxy settings are wrong.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub struct ClientUnavailable(String);

impl HttpClients {
    /// A handle with these options.
    pub fn new(options: HttpOptions) -> Self {
        Self { inner: Arc::new(Inner { options, ..Inner::default() }) }
    }

    /// How connections are made.
    pub fn options(&self) -> &HttpOptions {
        &self.inner.options
    }

    /// The client for this address.
    pub(crate) async fn client_for(&self, url: &Url) -> Result<&Client, ClientUnavailable> {
        let inner = &self.inner;
        let HttpOptions { connect_timeout, certificates } = &inner.options;
        let timeout = *connect_timeout;
        match (address::is_loopback(url), url.scheme()) {
            (true, "http") => {
                inner
                    .plain_loopback
                    .get_or_try_init(async || build(timeout, Route::Direct, certificates::none()?))
                    .await
            }
            (true, _) => {
                inner
                    .secure_loopback
                    .get_or_try_init(|| build_secure(timeout, Route::Direct, certificates))
                    .await
            }
            (false, _) => {
                inner
                    .remote
                    .get_or_try_init(|| build_secure(timeout, Route::ByEnvironment, certificates))
                    .await
            }
        }
    }
}

/// Reads the start of a body that is only for telling a person: at most 64 KiB, and as much of it as comes while each
/// piece takes no longer than `patience`. What cannot be read is left out.
pub(crate) async fn read_start(mut response: Response, patience: Duration) -> Vec<u8> {
    const MOST: usize = 64 << 10;
    let mut body = Vec::new();
    while let Ok(Ok(Some(bytes))) = tokio::time::timeout(patience, response.chunk()).await {
        body.extend_from_slice(&bytes[..bytes.len().min(MOST - body.len())]);
        if body.len() == MOST {
            break;
        }
    }
    body
}

/// Which way requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// Straight to the server.
    Direct,
    /// Through the proxy that the environment names, if it names one.
    ByEnvironment,
}

/// Reading the machine's certificates takes tens of milliseconds, so it is done beside the runtime.
async fn build_secure(
    timeout: Duration,
    route: Route,
    trust: &CertificateTrust,
) -> Result<Client, ClientUnavailable> {
    let trust = trust.clone();
    let built =
        tokio::task::spawn_blocking(move || build(timeout, route, certificates::config(&trust)?)).await;
    built.unwrap_or_else(|error| Err(ClientUnavailable(error.to_string())))
}

fn build(timeout: Duration, route: Route, tls: rustls::ClientConfig) -> Result<Client, ClientUnavailable> {
    let builder = Client::builder()
        .user_agent(concat!("milk/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeout)
        .tcp_nodelay(true)
        .redirect(Policy::custom(|attempt| if stays(&attempt) { attempt.follow() } else { attempt.stop() }))
        .tls_backend_preconfigured(tls);
    let builder = match route {
        Route::Direct => builder.no_proxy(),
        Route::ByEnvironment => builder,
    };
    ClientBuilder::build(builder).map_err(|error| ClientUnavailable(error.to_string()))
}

/// Whether a redirect keeps the request as it is (method, body) and its credentials where they were meant to go.
fn stays(attempt: &Attempt<'_>) -> bool {
    /// More are a loop.
    const MOST: usize = 4;
    let origin = attempt.previous().first().map(Url::origin);
    matches!(attempt.status().as_u16(), 307 | 308)
        && origin == Some(attempt.url().origin())
        && attempt.previous().len() <= MOST
}
