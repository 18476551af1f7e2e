//! What a server is told to do: replies in order, a responder, or the directives of the newest user message.

use std::collections::VecDeque;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use super::directive;
use super::record::{Keep, RecordedRequest};
use super::reply::Reply;

/// The plan of a server.
///
/// ```
/// use milk_testkit::{Reply, Script};
///
/// let in_order = Script::replies([Reply::tool("list_dir", serde_json::json!({})), Reply::text("done")]);
/// let by_request = Script::respond(|request| Reply::text(format!("you said {}", request.last_user())));
/// let with_more = Script::replies([]).models(["a", "b"]).route("/api/tags", Reply::status(404));
/// # let _ = (in_order, by_request, with_more);
/// ```
pub struct Script {
    pub(crate) source: Source,
    pub(crate) models: Vec<String>,
    pub(crate) routes: Vec<(String, Reply)>,
    pub(crate) bind: SocketAddr,
    pub(crate) keep: Keep,
    pub(crate) checks: Checks,
}

/// Where the replies come from.
pub(crate) enum Source {
    Queue(VecDeque<Reply>),
    Responder(Box<dyn FnMut(&RecordedRequest) -> Reply + Send>),
}

/// Whether broken rules fail the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checks {
    /// They are recorded, and reported by `assert_clean` and on drop.
    Enforced,
    /// They are recorded.
    Recorded,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("bind", &self.bind)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

/// What a test's server remembers.
const KEEP: Keep = Keep { requests: 10_000, bytes: 256 << 20 };
/// What a directive server remembers: it may run for days.
const KEEP_DIRECTIVE: Keep = Keep { requests: 32, bytes: 4 << 20 };

impl Script {
    fn new(source: Source) -> Self {
        Self {
            source,
            models: vec!["test-model".to_owned()],
            routes: Vec::new(),
            bind: (Ipv4Addr::LOCALHOST, 0).into(),
            keep: KEEP,
            checks: Checks::Enforced,
        }
    }

    /// One reply for each chat request, in order. A request after the last one is answered 400, and is a violation.
    pub fn replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::new(Source::Queue(replies.into_iter().collect()))
    }

    /// The reply to each chat request is what `responder` makes of it.
    pub fn respond(responder: impl FnMut(&RecordedRequest) -> Reply + Send + 'static) -> Self {
        Self::new(Source::Responder(Box::new(responder)))
    }

    /// The newest user message says what happens; see [`super::directive`].
    pub fn directive() -> Self {
        let script = Self::respond(directive::reply).models(["mock"]).unchecked();
        Self { keep: KEEP_DIRECTIVE, ..script }
    }

    /// The models that `GET …/models` lists.
    pub fn models<M: Into<String>>(mut self, models: impl IntoIterator<Item = M>) -> Self {
        self.models = models.into_iter().map(Into::into).collect();
        self
    }

    /// Answers every request to this exact path, whatever its method, with this reply.
    pub fn route(mut self, path: &str, reply: Reply) -> Self {
        self.routes.push((path.to_owned(), reply));
        self
    }

    /// Listens here in place of a free port of 127.0.0.1.
    pub fn bind(mut self, address: SocketAddr) -> Self {
        self.bind = address;
        self
    }

    /// Records broken rules and does not fail for them; see [`super::ModelServer::violations`].
    pub fn unchecked(mut self) -> Self {
        self.checks = Checks::Recorded;
        self
    }
}

impl Source {
    /// The next reply, or `None` when the script is over.
    pub(crate) fn next(&mut self, request: &RecordedRequest) -> Option<Reply> {
        match self {
            Self::Queue(replies) => replies.pop_front(),
            Self::Responder(responder) => Some(responder(request)),
        }
    }
}
