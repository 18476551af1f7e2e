//! A scripted OpenAI-compatible model server on loopback: plays given bytes at given times and records what it got.
//!
//! It lives on a thread and a runtime of its own, so a test that blocks or pauses its clock does not stop it,
//! and it ends when it is dropped. `POST …/chat/completions` takes the next reply of the [`Script`];
//! `GET …/models` and `GET …/health` are answered; everything else is 404 unless the script has a route for it.
//!
//! ```
//! use milk_testkit::{Gate, ModelServer, Reply};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! let gate = Gate::new();
//! let server = ModelServer::script([
//!     Reply::tool("read_file", serde_json::json!({"path": "a.txt"})),
//!     Reply::stream().say("half").wait(&gate).say(" whole").end(),
//! ])
//! .await;
//! // … let the agent run a turn against `server.url()`, then:
//! // let second = server.request(1).await;      // the tool result has come
//! // gate.reached().await;                       // "half" is on the wire
//! // gate.open();
//! assert_eq!(server.requests().len(), 0);
//! server.assert_clean();
//! # });
//! ```
//!
//! Every chat request is held against the rules in [`invariants`]; what breaks them fails the test when the server
//! is dropped, unless the script is [`Script::unchecked`].

pub mod directive;
mod gate;
mod http;
pub mod invariants;
mod play;
mod record;
mod reply;
mod script;
mod serve;

use std::io;
use std::net::SocketAddr;
use std::panic::Location;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::oneshot;

pub use gate::Gate;
pub use record::{Outcome, RecordedRequest, text_of};
pub use reply::{Cut, Framing, LineEnd, Reply, Step, ToolCall};
pub use script::Script;

use crate::watched::PATIENCE;
use script::{Checks, Source};
use serve::Shared;

/// A running server. Dropping it stops it, and fails the test if a rule was broken.
#[derive(Debug)]
pub struct ModelServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    checks: Checks,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server.
    ///
    /// # Panics
    /// When it cannot listen.
    #[expect(clippy::panic, reason = "a test that has no server has failed")]
    pub async fn start(script: Script) -> Self {
        match Self::try_start(script).await {
            Ok(server) => server,
            Err(error) => panic!("the scripted model server cannot start: {error}"),
        }
    }

    /// Starts a server, or says why it cannot: the address is taken, or there is no thread for it.
    pub async fn try_start(script: Script) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(script.bind)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let checks = script.checks;
        let shared = Arc::new(Shared::new(script));
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("model-server".to_owned())
            .spawn(move || serve::run(&served, listener, stopped, ready))?;
        is_ready.await.map_err(|_| io::Error::other("the server's thread ended at once"))??;
        Ok(Self { shared, address, checks, stop: Some(stop), thread: Some(thread) })
    }

    /// Starts a server that plays these replies in order.
    pub async fn script(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::start(Script::replies(replies)).await
    }

    /// Starts a server that answers each chat request with what `responder` makes of it.
    pub async fn respond(responder: impl FnMut(&RecordedRequest) -> Reply + Send + 'static) -> Self {
        Self::start(Script::respond(responder)).await
    }

    /// Appends a reply to a script of replies (no effect where a responder answers).
    pub fn push(&self, reply: Reply) {
        self.shared.with_source(|source| {
            if let Source::Queue(replies) = source {
                replies.push_back(reply);
            }
        });
    }

    // ---- where it is

    /// `http://127.0.0.1:PORT`, with no path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A milk config whose only agent, `test`, talks to this server.
    pub fn config(&self) -> Value {
        json!({"agent": "test", "agents": [self.agent("test")]})
    }

    /// One entry for the `agents` of a config.
    pub fn agent(&self, name: &str) -> Value {
        json!({"name": name, "provider": "local", "url": self.url(), "model": "test-model"})
    }

    // ---- what it got

    /// Waits for chat request `index` (from 0) and gives it as it stands.
    ///
    /// # Panics
    /// When it has not come within [`PATIENCE`].
    #[track_caller]
    pub fn request(&self, index: usize) -> impl Future<Output = RecordedRequest> + '_ {
        self.until(Location::caller(), format!("chat request {index} did not come"), move |log| {
            log.chat(index).cloned()
        })
    }

    /// Waits until the client has closed the connection that chat request `index` came on.
    ///
    /// # Panics
    /// When it has not within [`PATIENCE`].
    #[track_caller]
    pub fn closed(&self, index: usize) -> impl Future<Output = Instant> + '_ {
        self.until(
            Location::caller(),
            format!("the client kept the connection of request {index}"),
            move |log| log.chat(index)?.connection_closed,
        )
    }

    /// Waits until the reply to chat request `index` is over, and says how it ended.
    ///
    /// # Panics
    /// When it is not within [`PATIENCE`].
    #[track_caller]
    pub fn replied(&self, index: usize) -> impl Future<Output = Outcome> + '_ {
        self.until(Location::caller(), format!("the reply to request {index} is not over"), move |log| {
            log.chat(index)?.outcome
        })
    }

    #[expect(clippy::manual_async_fn, reason = "the caller's place must be taken before the first poll")]
    fn until<'a, R: 'a>(
        &'a self,
        caller: &'static Location<'static>,
        complaint: String,
        find: impl FnMut(&record::Log) -> Option<R> + 'a,
    ) -> impl Future<Output = R> + 'a {
        async move {
            match self.shared.log.until(PATIENCE, find).await {
                Some(found) => found,
                None => give_up(caller, &complaint, &self.summary()),
            }
        }
    }

    /// How many chat requests have come.
    pub fn count(&self) -> usize {
        self.shared.log.read(record::Log::chats)
    }

    /// All chat requests that are remembered.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared
            .log
            .read(|log| log.all().filter(|request| request.chat_index.is_some()).cloned().collect())
    }

    /// All requests that are remembered, chat or not.
    pub fn all_requests(&self) -> Vec<RecordedRequest> {
        self.shared.log.read(|log| log.all().cloned().collect())
    }

    /// How many connections have been made.
    pub fn connections(&self) -> usize {
        self.shared.log.read(|log| log.connections)
    }

    /// When each write of the reply to chat request `index` was done (known when it is over; the first 65,536).
    pub fn sent(&self, index: usize) -> Vec<Instant> {
        self.shared.log.read(|log| log.sent(index))
    }

    /// How many replies of the script have not been played (0 where a responder answers).
    pub fn left(&self) -> usize {
        self.shared.with_source(|source| match source {
            Source::Queue(replies) => replies.len(),
            Source::Responder(_) => 0,
        })
    }

    // ---- whether it was right

    /// The rules broken so far: those of [`invariants`], and requests that the script had no reply for.
    pub fn violations(&self) -> Vec<String> {
        self.shared.log.read(|log| log.violations.clone())
    }

    /// Fails if a rule has been broken.
    ///
    /// # Panics
    /// Then.
    #[track_caller]
    pub fn assert_clean(&self) {
        let violations = self.violations();
        if !violations.is_empty() {
            give_up(Location::caller(), &format!("requests broke rules:\n  {}", violations.join("\n  ")), "");
        }
    }

    /// Fails if replies of the script were not asked for, or a rule has been broken.
    ///
    /// # Panics
    /// Then.
    #[track_caller]
    pub fn assert_played(&self) {
        self.assert_clean();
        if self.left() > 0 {
            give_up(
                Location::caller(),
                &format!("{} replies were not asked for", self.left()),
                &self.summary(),
            );
        }
    }

    fn summary(&self) -> String {
        self.shared.log.read(record::Log::summary)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the responder has been printed by its own thread.
            let _ = thread.join();
        }
        if self.checks == Checks::Enforced && !std::thread::panicking() {
            self.assert_clean();
        }
    }
}

/// Fails the test with what was seen.
#[expect(clippy::panic, reason = "failing the test is the purpose")]
pub(crate) fn give_up(caller: &Location<'_>, complaint: &str, seen: &str) -> ! {
    panic!("{complaint} (asked at {caller})\n{seen}")
}
