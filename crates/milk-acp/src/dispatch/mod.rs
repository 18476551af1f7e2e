//! From lines to what they ask for: one file for each family of methods.
//!
//! The reader's thread handles lines in arrival order and never waits for a turn. What takes effect at once does so here,
//! before the next line is read: the negotiation, a prompt's registration, a cancel, a session's disappearance. What takes
//! time is spawned and answers when it is done.

mod cancel;
mod close;
mod delete;
mod initialize;
mod list;
mod new_session;
mod prompt;
mod resume;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use milk_core::failure::Failure;
use milk_engine::Engine;
use serde_json::value::RawValue;

use crate::link::Link;
use crate::peer::{CallOutcome, Incoming, RawId, classify};
use crate::rpc_error::RpcError;
use crate::serve::AcpSettings;
use crate::view::{Registry, SETTLING, Shapes, View};
use crate::wire::receive::Fields;

/// One client and everything that it has open.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: Arc<Link>,
    pub(crate) registry: Registry,
    engine: Engine,
    settings: AcpSettings,
    /// What counts for sessions that open from now on (R1).
    shapes: Mutex<Shapes>,
}

/// What a handler has to say at once.
enum Reply {
    Now(Box<RawValue>),
    /// The answer comes later, from a task or from the end of a turn.
    Later,
}

/// What a spawned handler has to say.
struct Done {
    result: Box<RawValue>,
    then: Then,
}

/// What follows an answer.
enum Then {
    Nothing,
    /// The client has just learned this view's handle; the view may speak a moment later (R22).
    Settle(Arc<View>),
    /// The client is told the commands of a view that it knew before.
    Announce(Arc<View>),
}

impl From<Box<RawValue>> for Done {
    fn from(result: Box<RawValue>) -> Self {
        Self { result, then: Then::Nothing }
    }
}

/// A request, while it is handled.
struct Request<'a> {
    connection: &'a Arc<Connection>,
    id: &'a RawId,
    fields: Fields<'a>,
    shapes: Shapes,
}

/// What handles a request. It runs on the reader's thread.
type Handler = fn(&Request<'_>) -> Result<Reply, RpcError>;

/// Every request that has an answer other than `-32601`.
const METHODS: &[(&str, Handler)] = &[
    ("initialize", initialize::handle),
    ("session/new", new_session::handle),
    ("session/prompt", prompt::handle),
    ("session/cancel", cancel::handle),
    ("session/list", list::handle),
    ("session/resume", resume::handle),
    ("session/load", resume::load),
    ("session/close", close::handle),
    ("session/delete", delete::handle),
];

impl Connection {
    pub(crate) fn new(link: Arc<Link>, engine: Engine, settings: AcpSettings) -> Arc<Self> {
        let shapes = Mutex::new(initialize::uninitialized(&settings));
        Arc::new(Self { link, registry: Registry::default(), engine, settings, shapes })
    }

    /// Handles one line. A bug in a handler costs one answer, not the connection.
    pub(crate) fn receive(self: &Arc<Self>, line: &[u8]) {
        match classify(line) {
            None => tracing::debug!(bytes = line.len(), "dropped a line that is no message"),
            Some(Incoming::Request { id, method, params }) => self.request(&id, &method, params),
            Some(Incoming::Notification { method, params }) => {
                let handled = catch_unwind(AssertUnwindSafe(|| cancel::notified(self, &method, params)));
                if handled.is_err() {
                    tracing::error!(method, "a notification's handler failed");
                }
            }
            Some(Incoming::Response { id, outcome }) => {
                let outcome = outcome.map_or_else(CallOutcome::Refused, CallOutcome::Answered);
                let Some(number) = id.number() else { return };
                if catch_unwind(AssertUnwindSafe(|| self.link.calls.settle(number, outcome))).is_err() {
                    tracing::error!("the handler of an answer failed");
                }
            }
            Some(Incoming::NoMethod { id }) => {
                let error = RpcError::InvalidRequest("method must be a text".to_owned());
                self.link.answer(&id, self.shapes().version, Err(&error));
            }
        }
    }

    fn request(self: &Arc<Self>, id: &RawId, method: &str, params: Option<&RawValue>) {
        let shapes = self.shapes();
        let version = shapes.version;
        let handled = catch_unwind(AssertUnwindSafe(|| {
            let known = METHODS.iter().find(|(name, _)| *name == method);
            let (name, handler) = known.ok_or_else(|| RpcError::method_not_found(method))?;
            let fields = if *name == "initialize" {
                Fields::read_any(name, params)
            } else {
                Fields::read(name, params)?
            };
            handler(&Request { connection: self, id, fields, shapes })
        }));
        match handled {
            Ok(Ok(Reply::Later)) => {}
            Ok(Ok(Reply::Now(result))) => self.link.answer(id, version, Ok(&result)),
            Ok(Err(error)) => self.link.answer(id, version, Err(&error)),
            Err(_) => self.link.answer(id, version, Err(&RpcError::bug(method))),
        }
    }

    fn shapes(&self) -> Shapes {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends every view; each open prompt has its answer when this returns.
    pub(crate) async fn close_all(&self) {
        let views = self.registry.shut();
        futures_util::future::join_all(views.iter().map(|view| view.close())).await;
    }
}

impl Request<'_> {
    /// Has the work done by a task, which answers when it is done.
    fn spawn<F>(
        &self,
        method: &'static str,
        work: impl FnOnce(Arc<Connection>, Shapes) -> F,
    ) -> Result<Reply, RpcError>
    where
        F: Future<Output = Result<Done, RpcError>> + Send + 'static,
    {
        if self.connection.link.is_crowded() {
            let details = "Too many requests are under way; wait for some of them to be answered.";
            return Err(RpcError::Failed(Failure {
                retryable: true,
                ..Failure::new("too_many_requests", details)
            }));
        }
        let connection = Arc::clone(self.connection);
        let (id, version) = (self.id.clone(), self.shapes.version);
        let work = work(Arc::clone(&connection), self.shapes.clone());
        self.connection.link.spawn_answer(async move {
            let done = AssertUnwindSafe(work).catch_unwind().await;
            match done.unwrap_or_else(|_| Err(RpcError::bug(method))) {
                Err(error) => connection.link.answer(&id, version, Err(&error)),
                Ok(Done { result, then }) => {
                    connection.link.answer(&id, version, Ok(&result));
                    match then {
                        Then::Nothing => {}
                        Then::Announce(view) => view.announce_commands(),
                        Then::Settle(view) => {
                            connection.link.after(SETTLING, move || view.open_gate());
                        }
                    }
                }
            }
        });
        Ok(Reply::Later)
    }

    /// The view that the request names. The client knows the name, so the view may speak.
    fn view(&self, method: &'static str, session: &str) -> Result<Arc<View>, RpcError> {
        self.connection.registry.get(session).ok_or_else(|| RpcError::unknown_session(method, session))
    }
}

/// The directory that a request means: a relative one is taken from the process's own, links are resolved (R16, R21).
fn directory(cwd: &str) -> PathBuf {
    let base = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    milk_files::resolve(Path::new(cwd), &base)
}
