//! A small ACP client: drives any agent, v1 or v2, over a pair of byte streams, and tells what happens as typed events.
//!
//! It reads leniently: what it does not know it ignores, and what the protocol lets an agent leave out may be missing.
//! It offers no file system and no terminal; a request for one is refused as the protocol says.
//!
//! ```no_run
//! # async fn example(reader: std::process::ChildStdout, writer: std::process::ChildStdin) -> Result<(), Box<dyn std::error::Error>> {
//! use milk_acp::client::{Client, EventKind};
//!
//! let (client, mut events) = Client::connect(reader, writer)?;
//! client.initialize("my-program", "1.0").await?;
//! let session = client.new_session(std::path::Path::new("/home/me/project")).await?;
//! client.prompt(&session, "hello");
//! while let Some(event) = events.next().await {
//!     match event.kind {
//!         EventKind::Text { text, .. } => print!("{text}"),
//!         EventKind::Permission(question) => question.dismiss(),
//!         EventKind::TurnEnded(_) => break,
//!         _ => {}
//!     }
//! }
//! # Ok(()) }
//! ```

mod event;
mod permission;
mod read;
mod turn;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

pub use self::event::{AgentState, Event, EventKind, StopReason, ToolStatus, ToolUpdate, TurnFailure};
pub use self::permission::{Permission, PermissionId, PermissionKind, PermissionOption};
use self::turn::Turns;
use crate::frame::LineReader;
use crate::peer::{self, CallOutcome, Calls, Incoming, OnDone, RawId, RequestKey, classify};
use crate::rpc_error::RpcError;
use crate::wire::Version;
use crate::writer::{Outgoing, Writer};
use crate::{CallError, visible};

/// Events that may wait to be read; beyond it the agent has to wait.
const EVENTS: usize = 4096;

/// A connection to an agent. Cheap to clone. Calls may be awaited while [`Events`] are read elsewhere; whoever lets
/// thousands of events lie unread makes the agent wait, and its answers too.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What the agent does, in its order.
#[derive(Debug)]
pub struct Events {
    receiver: mpsc::Receiver<Event>,
}

impl Events {
    /// The next event; `None` when the agent is gone.
    pub async fn next(&mut self) -> Option<Event> {
        self.receiver.recv().await
    }
}

/// Who the agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The version that was agreed on.
    pub version: Version,
    /// Its name; empty if it gave none.
    pub name: String,
    /// Its own version; empty if it gave none.
    pub release: String,
}

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// The agent refused.
    #[error("{}", visible::line(.0.details()))]
    Refused(CallError),
    /// The agent is gone.
    #[error("the agent is gone")]
    Gone,
    /// The agent answered with something else than the protocol says.
    #[error("the agent gave a wrong answer to {0}")]
    WrongAnswer(&'static str),
    /// The agent speaks no version that this client does.
    #[error("the agent speaks version {0} of the protocol; this client speaks 1 and 2")]
    Version(u64),
}

#[derive(Debug)]
struct Shared {
    writer: Writer,
    calls: Calls,
    /// `None` once the agent is gone, so that [`Events`] end.
    events: Mutex<Option<mpsc::Sender<Event>>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    version: Version,
    turns: Turns,
    /// Open questions, by the id that the agent may withdraw them by.
    questions: HashMap<RequestKey, (String, PermissionId)>,
    next_question: u64,
}

impl Client {
    /// Starts talking over these streams. Fails when the system has no threads to give.
    pub fn connect(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> std::io::Result<(Self, Events)> {
        let (events, receiver) = mpsc::channel(EVENTS);
        let state = State {
            version: Version::V2,
            turns: Turns::default(),
            questions: HashMap::new(),
            next_question: 1,
        };
        let shared = Arc::new(Shared {
            writer: Writer::start(writer)?,
            calls: Calls::new(),
            events: Mutex::new(Some(events)),
            state: Mutex::new(state),
        });
        let connection = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("acp-client".to_owned())
            .spawn(move || connection.read_all(reader))?;
        Ok((Self { shared }, Events { receiver }))
    }

    /// Says hello: asks for v2, takes v1, and asks again for v1 where the question itself was refused.
    pub async fn initialize(&self, name: &str, version: &str) -> Result<Agent, ClientError> {
        let answer = match self.call("initialize", &hello(2, name, version)).await {
            Err(ClientError::Refused(_)) => self.call("initialize", &hello(1, name, version)).await?,
            answer => answer?,
        };
        let version = match answer.get("protocolVersion").and_then(Value::as_u64) {
            Some(1) => Version::V1,
            Some(2) => Version::V2,
            Some(other) => return Err(ClientError::Version(other)),
            None => return Err(ClientError::WrongAnswer("initialize")),
        };
        self.shared.lock().version = version;
        let info = answer.get("info").or_else(|| answer.get("agentInfo"));
        let text =
            |name: &str| info.and_then(|info| info.get(name)).and_then(Value::as_str).unwrap_or_default();
        Ok(Agent { version, name: text("name").to_owned(), release: text("version").to_owned() })
    }

    /// Opens a session in an absolute directory. milk is asked for a fresh one, whatever it has stored.
    pub async fn new_session(&self, cwd: &Path) -> Result<String, ClientError> {
        let params =
            json!({ "cwd": cwd.to_string_lossy(), "mcpServers": [], "_meta": { "milk": { "fresh": true } } });
        let answer = self.call("session/new", &params).await?;
        let session = answer.get("sessionId").and_then(Value::as_str);
        session.map(str::to_owned).ok_or(ClientError::WrongAnswer("session/new"))
    }

    /// Sends a prompt. What comes of it are events, the last of them [`EventKind::TurnEnded`]. One prompt at a time for
    /// each session.
    pub fn prompt(&self, session: &str, text: &str) {
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        let turn = self.shared.lock().turns.begin(session);
        let shared = Arc::downgrade(&self.shared);
        let named = session.to_owned();
        let on_done: OnDone = Box::new(move |outcome| {
            let Some(shared) = shared.upgrade() else { return };
            let ended = {
                let mut state = shared.lock();
                let version = state.version;
                state.turns.answered(&named, turn, read::prompt_outcome(version, outcome))
            };
            shared.tell_end(&named, ended);
        });
        self.shared.send_call("session/prompt", &params, on_done);
    }

    /// Cancels what runs in the session.
    pub fn cancel(&self, session: &str) {
        self.shared.notify("session/cancel", &json!({ "sessionId": session }));
    }

    /// Sends any request and waits for its answer.
    pub async fn call(&self, method: &'static str, params: &Value) -> Result<Value, ClientError> {
        let (sender, receiver) = oneshot::channel();
        let on_done: OnDone = Box::new(move |outcome| {
            let answer = match outcome {
                CallOutcome::Answered(result) => {
                    serde_json::from_str(result.get()).map_err(|_| ClientError::WrongAnswer(method))
                }
                CallOutcome::Refused(error) => Err(ClientError::Refused(error)),
                CallOutcome::Gone => Err(ClientError::Gone),
            };
            let _ = sender.send(answer); // the caller may have given up
        });
        self.shared.send_call(method, params, on_done);
        receiver.await.unwrap_or(Err(ClientError::Gone))
    }

    /// Ends the way out, which an agent takes for the end; what was sent before is written first, within `limit`.
    pub async fn hang_up(&self, limit: Duration) {
        self.shared.writer.finish(limit).await;
    }
}

/// Both versions' members, so that any agent finds its own.
fn hello(protocol: u8, name: &str, version: &str) -> Value {
    let info = json!({ "name": name, "version": version });
    json!({
        "protocolVersion": protocol,
        "info": info,
        "clientInfo": info,
        "capabilities": {},
        "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
    })
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_call(&self, method: &str, params: &impl Serialize, on_done: OnDone) {
        // Where the agent is gone the call is dropped, and its waiter with it.
        if let Some(call) = self.calls.register(on_done) {
            self.write(peer::call(call.0, method, params));
        }
    }

    fn notify(&self, method: &str, params: &impl Serialize) {
        self.write(peer::notification(method, params));
    }

    fn write(&self, line: Vec<u8>) {
        self.writer.push(Outgoing::Line { of: None, line });
    }

    /// Runs on the reader's thread, which may wait for the events to be read.
    fn tell(&self, session: &str, kind: EventKind) {
        let sender = self.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sender) = sender {
            let event = Event { session: session.to_owned(), kind };
            let _ = sender.blocking_send(event); // nobody may listen any more
        }
    }

    fn tell_end(&self, session: &str, ended: Option<Result<StopReason, TurnFailure>>) {
        if let Some(end) = ended {
            self.tell(session, EventKind::TurnEnded(end));
        }
    }

    fn read_all(self: Arc<Self>, reader: impl Read) {
        let mut lines = LineReader::new(reader);
        while let Ok(Some(line)) = lines.next_line() {
            self.receive(line);
        }
        self.calls.close();
        self.events.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn receive(self: &Arc<Self>, line: &[u8]) {
        match classify(line) {
            Some(Incoming::Notification { method, params }) => self.notified(&method, params),
            Some(Incoming::Request { id, method, params }) => match method.as_str() {
                "session/request_permission" => self.asked(id, params),
                _ => self.refuse(&id, &RpcError::method_not_found(&method)),
            },
            Some(Incoming::Response { id, outcome }) => {
                if let Some(number) = id.number() {
                    let outcome = outcome.map_or_else(CallOutcome::Refused, CallOutcome::Answered);
                    self.calls.settle(number, outcome);
                }
            }
            Some(Incoming::NoMethod { .. }) | None => {}
        }
    }

    fn refuse(&self, id: &RawId, error: &RpcError) {
        let version = self.lock().version;
        self.write(peer::failure(id, &error.object(version)));
    }

    fn notified(&self, method: &str, params: Option<&RawValue>) {
        let params =
            params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok()).unwrap_or_default();
        match method {
            "session/update" => self.updated(&params),
            "$/cancel_request" => {
                let id = params.get("requestId").and_then(|id| serde_json::value::to_raw_value(id).ok());
                let Some(id) = id else { return };
                let withdrawn = self.lock().questions.remove(&RequestKey::of(&id));
                if let Some((session, question)) = withdrawn {
                    self.tell(&session, EventKind::PermissionWithdrawn(question));
                }
            }
            _ => {}
        }
    }

    fn updated(&self, params: &Value) {
        let session = params.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        let Some(update) = params.get("update") else { return };
        if let Some(kind) = read::update(update) {
            self.tell(session, kind);
        }
        if let Some(state) = read::state(update) {
            let ended = self.lock().turns.state(session, &state);
            self.tell(session, EventKind::State(state.state));
            self.tell_end(session, ended);
        }
    }

    fn asked(self: &Arc<Self>, id: RawId, params: Option<&RawValue>) {
        let params =
            params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok()).unwrap_or_default();
        let session = params.get("sessionId").and_then(Value::as_str).unwrap_or_default().to_owned();
        let question = {
            let mut state = self.lock();
            let question = PermissionId(state.next_question);
            state.next_question += 1;
            state.questions.insert(id.key(), (session.clone(), question));
            question
        };
        let permission = Permission::new(question, &params, id, Arc::clone(self));
        self.tell(&session, EventKind::Permission(permission));
    }

    /// Answers a question, unless the agent has withdrawn it.
    fn answer(&self, id: &RawId, outcome: &Value) {
        if self.lock().questions.remove(&id.key()).is_some() {
            self.write(peer::response(id, &json!({ "outcome": outcome })));
        }
    }
}
