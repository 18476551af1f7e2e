//! An ACP client for tests: spawns any agent, records both directions, answers its questions by a policy.
//!
//! It lives on a thread and a runtime of its own, so the agent's output is always drained (unless the test pauses
//! it) whatever the test does. Methods take `&self`: waits may run side by side.
//!
//! ```no_run
//! use milk_testkit::{AgentProcess, Launch, Matcher, Policy};
//!
//! # async fn example() {
//! let agent = AgentProcess::start(Launch::new("milk").args(["serve", "--acp"]));
//! agent.initialize(2).await;
//! let session = agent.new_session("/work").await;
//!
//! // One turn, from the prompt to its response
//! let turn = agent.turn(&session, "hello").await;
//! assert_eq!(turn.stop_reason.as_deref(), Some("end_turn"));
//!
//! // A question that the test answers itself
//! let prompt = agent.prompt(&session, "write a file");
//! let question = agent.expect_request("session/request_permission").await;
//! agent.select(&question, "allow");
//! agent.response(&prompt).await.unwrap();
//!
//! agent.transcript().assert_order(&[Matcher::state("running"), Matcher::state("idle"), Matcher::response(&prompt)]);
//! assert!(agent.shutdown().await.success());
//! # }
//! ```
//!
//! Dropping it kills the agent and fails the test if a line of its stdout was no JSON-RPC 2.0 object or, with the
//! feature `schema`, not valid in the protocol version that `initialize` agreed on.

mod driver;
mod launch;
mod matcher;
mod policy;
mod request_id;
mod transcript;
mod view;

use std::io;
use std::panic::Location;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::give_up;
use crate::watched::PATIENCE;
use driver::{REST_OF_STDOUT, Reading, Shared, State};
use launch::Checks;

pub use launch::Launch;
pub use matcher::Matcher;
pub use policy::{Answer, Policy};
pub use request_id::RequestId;
pub use transcript::{Direction, Entry, Transcript};
pub use view::{Message, Speaker, ToolRow};

/// A running agent and the client that talks to it.
#[derive(Debug)]
pub struct AgentProcess {
    shared: Arc<Shared>,
    pid: u32,
    thread: Option<JoinHandle<()>>,
    next_id: AtomicI64,
    client_name: String,
    capabilities: Value,
    checks: Checks,
}

/// A signal that a test sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT
    Interrupt,
    /// SIGTERM
    Terminate,
    /// SIGKILL
    Kill,
    /// SIGSTOP
    Stop,
    /// SIGCONT
    Continue,
}

/// A turn from its prompt to the response.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The id of the `session/prompt`.
    pub id: RequestId,
    /// Its result, or its error object.
    pub response: Result<Value, Value>,
    /// The agent's text in that time.
    pub text: String,
    /// The stop reason: of the response (v1) or of the last `idle` (v2).
    pub stop_reason: Option<String>,
}

/// Ids of the client's own requests begin here, out of the way of ids that tests write by hand.
const FIRST_ID: i64 = 1000;
/// The time that an agent has for its end after its stdin closed.
const SHUTDOWN: Duration = Duration::from_secs(10);

impl AgentProcess {
    /// Starts an agent.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(launch: Launch) -> Self {
        let program = launch.program.display().to_string();
        match Self::try_start(launch) {
            Ok(agent) => agent,
            Err(error) => give_up(Location::caller(), &format!("cannot start {program}: {error}"), ""),
        }
    }

    /// Starts an agent, or says why it cannot be started.
    pub fn try_start(launch: Launch) -> io::Result<Self> {
        let (client_name, capabilities) = (launch.client_name.clone(), launch.capabilities.clone());
        let checks = launch.checks;
        let (shared, pid, thread) = driver::start(launch)?;
        let next_id = AtomicI64::new(FIRST_ID);
        Ok(Self { shared, pid, thread: Some(thread), next_id, client_name, capabilities, checks })
    }

    // ---- raw sends

    /// Sends these bytes as they are.
    pub fn send_bytes(&self, bytes: &[u8]) {
        self.shared.send(bytes.to_vec());
    }

    /// Sends a line.
    pub fn send_line(&self, line: &str) {
        self.shared.send(format!("{line}\n").into_bytes());
    }

    /// Sends a message.
    pub fn send_json(&self, message: &Value) {
        self.shared.send_json(message);
    }

    /// Sends a request and gives its id.
    pub fn send_request(&self, method: &str, params: impl Into<Value>) -> RequestId {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let params: Value = params.into();
        self.send_json(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id.into()
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: impl Into<Value>) {
        let params: Value = params.into();
        self.send_json(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    // ---- typed sends

    /// Sends a request and waits for its result, or its error object.
    #[track_caller]
    pub fn request(
        &self,
        method: &str,
        params: impl Into<Value>,
    ) -> impl Future<Output = Result<Value, Value>> + '_ {
        let id = self.send_request(method, params);
        self.response(id)
    }

    /// Initializes the connection in this protocol version and gives the result.
    ///
    /// # Panics
    /// When it is an error.
    #[track_caller]
    pub fn initialize(&self, version: u16) -> impl Future<Output = Value> + '_ {
        let info = json!({"name": self.client_name, "version": "1.0.0"});
        let capabilities = self.capabilities.clone();
        self.ok(
            "initialize",
            if version == 1 {
                json!({"protocolVersion": 1, "clientInfo": info, "clientCapabilities": capabilities})
            } else {
                json!({"protocolVersion": version, "info": info, "capabilities": capabilities})
            },
        )
    }

    /// Opens a fresh session (never an adopted one) in this directory and gives its id.
    ///
    /// # Panics
    /// When it is an error.
    #[track_caller]
    pub fn new_session(&self, cwd: impl AsRef<Path>) -> impl Future<Output = String> + '_ {
        let cwd = cwd.as_ref().to_string_lossy();
        let meta = json!({"milk": {"fresh": true}});
        let opened = self.ok("session/new", json!({"cwd": cwd, "mcpServers": [], "_meta": meta}));
        async move { opened.await["sessionId"].as_str().unwrap_or_default().to_owned() }
    }

    /// Sends a prompt of one text block and gives the id of the request.
    pub fn prompt(&self, session: &str, text: &str) -> RequestId {
        self.prompt_blocks(session, json!([{"type": "text", "text": text}]))
    }

    /// Sends a prompt of these content blocks and gives the id of the request.
    pub fn prompt_blocks(&self, session: &str, blocks: impl Into<Value>) -> RequestId {
        let blocks: Value = blocks.into();
        self.send_request("session/prompt", json!({"sessionId": session, "prompt": blocks}))
    }

    /// Runs a turn: sends a prompt and waits for its response.
    #[track_caller]
    pub fn turn(&self, session: &str, text: &str) -> impl Future<Output = Turn> + '_ {
        let id = self.prompt(session, text);
        let response = self.response(id.clone());
        let session = session.to_owned();
        async move {
            let response = response.await;
            self.shared.state.read(|state| turn_of(&state.transcript, &session, id, response))
        }
    }

    /// Cancels what runs and waits in this session.
    pub fn cancel(&self, session: &str) {
        self.notify("session/cancel", json!({ "sessionId": session }));
    }

    #[track_caller]
    fn ok(&self, method: &'static str, params: Value) -> impl Future<Output = Value> + '_ {
        let caller = Location::caller();
        let answer = self.request(method, params);
        async move {
            match answer.await {
                Ok(result) => result,
                Err(error) => give_up(caller, &format!("{method} failed: {error}"), &self.seen()),
            }
        }
    }

    // ---- answers to the agent

    /// Changes how the agent's questions are answered from now on.
    pub fn set_policy(&self, policy: Policy) {
        self.shared.state.update(|state| state.policy = policy);
    }

    /// The requests of the agent's that are not answered.
    pub fn held(&self) -> Vec<Value> {
        self.shared.state.read(|state| state.held.clone())
    }

    /// Answers a request of the agent's (the whole message, as `expect_request` or `held` give it).
    pub fn answer(&self, request: &Value, answer: Answer) {
        self.shared.answer(&request["id"], answer);
    }

    /// Answers a permission question with this option.
    pub fn select(&self, request: &Value, option_id: &str) {
        self.answer(request, Answer::selected(option_id));
    }

    // ---- waiting

    /// Waits for the next message of the agent's that `matches`, behind the one that the last `expect` gave.
    ///
    /// # Panics
    /// When none comes within [`PATIENCE`], or the agent ends.
    #[track_caller]
    pub fn expect<'a>(
        &'a self,
        mut matches: impl FnMut(&Value) -> bool + 'a,
    ) -> impl Future<Output = Value> + 'a {
        let mut place = self.shared.state.read(|state| state.cursor);
        let found = self.until("the expected message did not come".to_owned(), move |state| {
            let entries = &state.transcript.entries;
            while let Some(entry) = entries.get(place) {
                place += 1;
                if entry.direction == Direction::FromAgent && matches(&entry.json) {
                    return Some((place, entry.json.clone()));
                }
            }
            None
        });
        async move {
            let (next, message) = found.await;
            self.shared.state.update(|state| state.cursor = state.cursor.max(next));
            message
        }
    }

    /// Waits for the next `session/update` of this kind, and gives its `update`.
    ///
    /// # Panics
    /// As [`Self::expect`].
    #[track_caller]
    pub fn expect_update<'a>(&'a self, session: &'a str, kind: &'a str) -> impl Future<Output = Value> + 'a {
        let found = self.expect(move |message| {
            let params = &message["params"];
            message["method"] == "session/update"
                && params["sessionId"] == session
                && params["update"]["sessionUpdate"] == kind
        });
        async move { found.await["params"]["update"].take() }
    }

    /// Waits for the next request of the agent's with this method.
    ///
    /// # Panics
    /// As [`Self::expect`].
    #[track_caller]
    pub fn expect_request<'a>(&'a self, method: &'a str) -> impl Future<Output = Value> + 'a {
        self.expect(move |message| message["method"] == method && message.get("id").is_some())
    }

    /// Waits for the response to a request: its result, or its error object. Looks at the whole transcript.
    ///
    /// # Panics
    /// When none comes within [`PATIENCE`], or the agent ends.
    #[track_caller]
    pub fn response(&self, id: impl Into<RequestId>) -> impl Future<Output = Result<Value, Value>> + '_ {
        let id: RequestId = id.into();
        let complaint = format!("no response to {id}");
        let mut place = 0;
        self.until(complaint, move |state| {
            let entries = state.transcript.entries.get(place..).unwrap_or_default();
            place = state.transcript.entries.len();
            let of_agent = entries.iter().filter(|entry| entry.direction == Direction::FromAgent);
            let message = of_agent.map(|entry| &entry.json).find(|message| id.is_answered_by(message))?;
            Some(match message.get("error") {
                Some(error) => Err(error.clone()),
                None => Ok(message["result"].clone()),
            })
        })
    }

    /// Waits until the newest prompt of this session is over, and gives the stop reason: v2 by the first `idle`
    /// behind it, v1 by its response.
    ///
    /// # Panics
    /// When it is not within [`PATIENCE`], or no prompt was sent.
    #[track_caller]
    pub fn until_idle<'a>(&'a self, session: &'a str) -> impl Future<Output = String> + 'a {
        let newest = Matcher::sent("session/prompt").session(session);
        let idle = Matcher::state("idle").session(session);
        let (version, prompt) = self.with_transcript(|transcript| {
            let prompt = transcript.entries.iter().rposition(|entry| newest.matches(entry));
            (
                transcript.version(),
                prompt.map(|place| (place, RequestId::of(&transcript.entries[place].json))),
            )
        });
        let Some((mut place, id)) = prompt else {
            give_up(Location::caller(), &format!("no prompt was sent to session {session}"), &self.seen());
        };
        let (end, reason) = if version == 1 {
            (Matcher::response(id), "/result/stopReason")
        } else {
            (idle, "/params/update/stopReason")
        };
        self.until(format!("session {session} did not come to rest"), move |state| {
            let found = state.transcript.find(place, &end);
            place = state.transcript.entries.len();
            let message = &state.transcript.entries[found?].json;
            Some(message.pointer(reason).and_then(Value::as_str).unwrap_or_default().to_owned())
        })
    }

    /// Waits until the agent has read and handled everything sent so far: a request of an unknown method is sent, and
    /// its answer can only come behind what the agent wrote before it.
    ///
    /// # Panics
    /// When no answer comes within [`PATIENCE`].
    #[track_caller]
    pub fn sync(&self) -> impl Future<Output = ()> + '_ {
        let answer = self.request("_testkit/sync", json!({}));
        async move { drop(answer.await) }
    }

    /// Waits until `find` gives something; fails when nothing more can come, or patience ends.
    #[track_caller]
    fn until<'a, R: 'a>(
        &'a self,
        complaint: String,
        mut find: impl FnMut(&State) -> Option<R> + 'a,
    ) -> impl Future<Output = R> + 'a {
        let caller = Location::caller();
        async move {
            let look = |state: &State| match find(state) {
                Some(found) => Some(Some(found)),
                None if state.is_over() => Some(None),
                None => None,
            };
            match self.shared.state.until(PATIENCE, look).await {
                Some(Some(found)) => found,
                Some(None) => give_up(caller, &format!("{complaint}: the agent ended"), &self.seen()),
                None => give_up(caller, &complaint, &self.seen()),
            }
        }
    }

    // ---- the process

    /// Closes the agent's stdin, behind everything that was sent.
    pub fn close_stdin(&self) {
        self.shared.close_stdin();
    }

    /// Stops reading the agent's stdout: a client that is busy.
    pub fn pause_reading(&self) {
        self.shared.stdout.send_replace(Reading::Paused);
    }

    /// Goes on reading the agent's stdout.
    pub fn resume_reading(&self) {
        self.shared.stdout.send_replace(Reading::Going);
    }

    /// Closes the reading end of the agent's stdout: a client that has vanished.
    pub fn close_stdout(&self) {
        self.shared.stdout.send_replace(Reading::Closed);
    }

    /// Closes the reading end of the agent's stderr.
    pub fn close_stderr(&self) {
        self.shared.stderr.send_replace(Reading::Closed);
    }

    /// Waits for the agent's end, and for the rest of its stdout.
    ///
    /// # Panics
    /// When it has not ended within `limit`.
    #[track_caller]
    pub fn wait_exit(&self, limit: Duration) -> impl Future<Output = ExitStatus> + '_ {
        let caller = Location::caller();
        async move {
            let Some(status) = self.shared.state.until(limit, |state| state.exit).await else {
                give_up(caller, &format!("the agent did not end within {limit:?}"), &self.seen());
            };
            if *self.shared.stdout.borrow() == Reading::Going {
                self.shared.state.until(REST_OF_STDOUT, |state| state.stdout_ended.then_some(())).await;
            }
            status
        }
    }

    /// Closes stdin, waits for the end and checks all that the agent wrote.
    ///
    /// # Panics
    /// When it does not end within 10 s, or wrote something that it may not.
    #[track_caller]
    pub fn shutdown(&self) -> impl Future<Output = ExitStatus> + '_ {
        self.close_stdin();
        let exit = self.wait_exit(SHUTDOWN);
        async move {
            let status = exit.await;
            self.verify();
            status
        }
    }

    /// How the agent ended, if it has.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.shared.state.read(|state| state.exit)
    }

    /// The process id of the agent.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal to the agent, if it still runs.
    #[cfg(unix)]
    pub fn signal(&self, signal: Signal) {
        use rustix::process::{Pid, Signal as Raw, kill_process};
        let signal = match signal {
            Signal::Interrupt => Raw::INT,
            Signal::Terminate => Raw::TERM,
            Signal::Kill => Raw::KILL,
            Signal::Stop => Raw::STOP,
            Signal::Continue => Raw::CONT,
        };
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (Some(pid), None) = (pid, self.exit_status()) {
            // Gone in this instant: then there is nothing to signal.
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills the agent and its process group.
    pub fn kill(&self) {
        self.shared.kill();
    }

    /// What the agent has written to stderr (the first 4 MiB).
    pub fn stderr(&self) -> String {
        self.shared.state.read(|state| String::from_utf8_lossy(&state.stderr).into_owned())
    }

    // ---- what was said

    /// A copy of the transcript so far.
    pub fn transcript(&self) -> Transcript {
        self.shared.state.read(|state| state.transcript.clone())
    }

    /// Looks at the transcript in place; for long ones.
    pub fn with_transcript<R>(&self, look: impl FnOnce(&Transcript) -> R) -> R {
        self.shared.state.read(|state| look(&state.transcript))
    }

    /// Checks all that the agent wrote so far, as dropping it does.
    ///
    /// # Panics
    /// When it wrote something that it may not.
    #[track_caller]
    pub fn verify(&self) {
        if self.checks == Checks::None {
            return;
        }
        let transcript = self.transcript();
        transcript.assert_pure();
        #[cfg(feature = "schema")]
        if self.checks == Checks::All {
            transcript.assert_valid();
        }
    }

    fn seen(&self) -> String {
        self.shared.state.read(|state| {
            let stderr = String::from_utf8_lossy(&state.stderr);
            let exit = state.exit.map_or_else(|| "still running".to_owned(), |status| status.to_string());
            format!("{}agent: {exit}\nstderr:\n{stderr}", state.transcript.render())
        })
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.shared.kill();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by itself.
            let _ = thread.join();
        }
        if !std::thread::panicking() {
            self.verify();
        }
    }
}

/// What came between a prompt and its response.
fn turn_of(transcript: &Transcript, session: &str, id: RequestId, response: Result<Value, Value>) -> Turn {
    let entries = &transcript.entries;
    let sent = |entry: &Entry| entry.direction == Direction::ToAgent && entry.json["id"] == *id.as_json();
    let start = entries.iter().position(sent).unwrap_or_default();
    let end = transcript.find(start, &Matcher::response(&id)).unwrap_or(entries.len());
    let within = Transcript { entries: entries[start..end].to_vec(), violations: Vec::new() };
    let idle = within.updates(session).into_iter().rfind(|update| update["state"] == "idle");
    let of_response = response.as_ref().ok().map(|result| &result["stopReason"]);
    let reason = [of_response, idle.map(|update| &update["stopReason"])];
    let stop_reason = reason.into_iter().flatten().find_map(Value::as_str).map(str::to_owned);
    Turn { id, response, text: within.agent_text(session), stop_reason }
}
