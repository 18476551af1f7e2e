//! One milk in one home with one scripted model server, and what tests ask about what was said.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use milk_testkit::client::{RequestId, Turn};
use milk_testkit::{
    AgentProcess, Launch, ModelServer, Policy, RecordedRequest, Reply, Script, TestHome, Transcript,
};
use serde_json::{Map, Value, json};

/// The binary under test.
pub(crate) const MILK: &str = env!("CARGO_BIN_EXE_milk");

/// What the contract and the cases call "within two seconds", for a machine that is busy with other tests.
pub(crate) const SOON: Duration = Duration::from_secs(6);

/// What a rig is made of, before it is started.
#[derive(Debug)]
pub(crate) struct Setup {
    script: Script,
    root: Map<String, Value>,
    agent: Map<String, Value>,
    policy: Policy,
    version: u16,
    client: Option<String>,
    capabilities: Value,
    meta: Value,
    env: Vec<(String, String)>,
    validated: bool,
}

impl Setup {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            script,
            root: Map::new(),
            agent: Map::new(),
            policy: Policy::Hold,
            version: 2,
            client: None,
            capabilities: json!({}),
            meta: Value::Null,
            env: Vec::new(),
            validated: true,
        }
    }

    /// A model that plays these replies in order.
    pub(crate) fn replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::new(Script::replies(replies))
    }

    /// A model that answers each request with what `responder` makes of it.
    pub(crate) fn respond(responder: impl FnMut(&RecordedRequest) -> Reply + Send + 'static) -> Self {
        Self::new(Script::respond(responder))
    }

    /// A model that answers every prompt with `you said …`.
    pub(crate) fn echo() -> Self {
        Self::respond(|request| Reply::text(format!("you said {}", request.last_user())))
    }

    /// The client speaks v1.
    pub(crate) fn v1(self) -> Self {
        self.version(1)
    }

    pub(crate) fn version(mut self, version: u16) -> Self {
        self.version = version;
        self
    }

    pub(crate) fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets a key at the root of the user's config.
    pub(crate) fn root(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.root.insert(key.to_owned(), value.into());
        self
    }

    /// Sets a key of the config's one agent.
    pub(crate) fn agent(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.agent.insert(key.to_owned(), value.into());
        self
    }

    /// The name that the client gives.
    pub(crate) fn client(mut self, name: &str) -> Self {
        self.client = Some(name.to_owned());
        self
    }

    /// The `_meta` of `initialize`.
    pub(crate) fn meta(mut self, meta: Value) -> Self {
        self.meta = meta;
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// For tests that make the agent answer what no schema has a word for; every line must still be JSON-RPC.
    pub(crate) fn unvalidated(mut self) -> Self {
        self.validated = false;
        self
    }

    pub(crate) async fn start(self) -> Rig {
        self.start_in(TestHome::new()).await
    }

    /// Starts everything in a home that the test has furnished, and initializes the connection.
    pub(crate) async fn start_in(self, home: TestHome) -> Rig {
        let (version, meta, client) = (self.version, self.meta.clone(), self.client.clone());
        let capabilities = self.capabilities.clone();
        let rig = self.start_raw(home).await;
        let info = json!({"name": client.unwrap_or_else(|| "milk-testkit".to_owned()), "version": "1.0.0"});
        let (info_key, capabilities_key) =
            if version == 1 { ("clientInfo", "clientCapabilities") } else { ("info", "capabilities") };
        let mut params = json!({"protocolVersion": version});
        params[info_key] = info;
        params[capabilities_key] = capabilities;
        if !meta.is_null() {
            params["_meta"] = meta;
        }
        rig.agent.request("initialize", params).await.unwrap();
        rig
    }

    /// Starts everything and says nothing to milk yet.
    pub(crate) async fn start_raw(self, home: TestHome) -> Rig {
        let server = ModelServer::start(self.script).await;
        let mut agent = server.agent("test");
        agent.as_object_mut().unwrap().extend(self.agent);
        let mut config = json!({"agent": "test", "agents": [agent], "discovery": false});
        config.as_object_mut().unwrap().extend(self.root);
        home.config(&config);
        let mut launch = serve(&home).envs(self.env).policy(self.policy);
        if !self.validated {
            launch = launch.unvalidated();
        }
        Rig { agent: AgentProcess::start(launch), server, home }
    }
}

/// How `milk serve --acp` is started in a home.
pub(crate) fn serve(home: &TestHome) -> Launch {
    home.launch(MILK, &["serve", "--acp"])
}

/// An editor, milk, a model server and a home.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) agent: AgentProcess,
    pub(crate) server: ModelServer,
    pub(crate) home: TestHome,
}

impl Rig {
    /// Another milk on the same home and the same model server, initialized. The one before must have ended, or goes on
    /// beside it where it is kept.
    pub(crate) async fn another_agent(&self, version: u16, client: &str, meta: Value) -> AgentProcess {
        let agent = AgentProcess::start(serve(&self.home));
        let (info_key, capabilities_key) =
            if version == 1 { ("clientInfo", "clientCapabilities") } else { ("info", "capabilities") };
        let mut params = json!({"protocolVersion": version, "_meta": meta});
        params[info_key] = json!({"name": client, "version": "1.0.0"});
        params[capabilities_key] = json!({});
        agent.request("initialize", params).await.unwrap();
        agent
    }

    /// Ends milk as an editor does and starts it again.
    pub(crate) async fn restart(&mut self, version: u16) {
        self.agent.shutdown().await;
        self.agent = self.another_agent(version, "milk-testkit", Value::Null).await;
    }

    /// A fresh session in the workspace, after everything that milk says about it unasked.
    pub(crate) async fn session(&self) -> String {
        self.session_in(self.home.workspace()).await
    }

    /// A fresh session in this directory, after everything that milk says about it unasked.
    pub(crate) async fn session_in(&self, directory: impl AsRef<Path>) -> String {
        let session = self.agent.new_session(directory).await;
        self.agent.expect_update(&session, "available_commands_update").await;
        session
    }

    /// How many lines there are so far: where the next ones begin.
    pub(crate) fn mark(&self) -> usize {
        self.agent.with_transcript(|transcript| transcript.entries.len())
    }

    /// What was said since then.
    pub(crate) fn since(&self, mark: usize) -> Transcript {
        let mut transcript = self.agent.transcript();
        transcript.entries.drain(..mark);
        transcript
    }

    /// Runs a turn and gives it with what was said in it, the response included.
    pub(crate) async fn story_of_turn(&self, session: &str, text: &str) -> (Turn, Vec<String>) {
        let mark = self.mark();
        let turn = self.agent.turn(session, text).await;
        (turn, story(&self.since(mark)))
    }

    /// Waits until the agent has shown this text in a session, behind what was waited for before.
    pub(crate) async fn shown(&self, session: &str, text: &str) {
        let is_it = |message: &Value| {
            let params = &message["params"];
            params["sessionId"] == session
                && params["update"]["sessionUpdate"] == "agent_message_chunk"
                && params["update"]["content"]["text"].as_str().is_some_and(|shown| shown.contains(text))
        };
        self.agent.expect(is_it).await;
    }

    /// Asserts that this session works.
    pub(crate) async fn assert_usable(&self, session: &str) {
        let turn = self.agent.turn(session, "are you there").await;
        ended(&turn, "end_turn");
        assert!(!turn.text.is_empty(), "the next prompt had no answer: {turn:#?}");
    }

    /// Asserts that every tool row of this session has ended.
    #[track_caller]
    pub(crate) fn assert_rows_ended(&self, session: &str) {
        for row in self.agent.transcript().tool_rows(session) {
            assert!(["completed", "failed", "cancelled"].contains(&row.status()), "an open row: {row:#?}");
        }
    }

    /// What the model was told of its calls in this chat request, a text each.
    pub(crate) async fn results(&self, index: usize) -> Vec<String> {
        self.server.request(index).await.tool_results().into_iter().map(|(_, text)| text).collect()
    }

    /// Lists the sessions, all pages, in the order given.
    pub(crate) async fn list(&self, params: Value) -> Vec<Value> {
        let mut params = params;
        let mut sessions = Vec::new();
        loop {
            let mut page = self.agent.request("session/list", params.clone()).await.unwrap();
            sessions.append(page["sessions"].as_array_mut().unwrap());
            match page.get("nextCursor") {
                Some(cursor) if cursor.is_string() => params["cursor"] = cursor.clone(),
                _ => return sessions,
            }
        }
    }
}

/// What the agent said, a label for each message; labels that repeat at once are told once, responses always.
///
/// `state_update idle end_turn`, `agent_message_chunk`, `tool_call_update pending`, `session/request_permission`,
/// `result`, `error -32000`, …
pub(crate) fn story(transcript: &Transcript) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for label in transcript.from_agent().map(label) {
        let repeats = told.last() == Some(&label) && label != "result" && !label.starts_with("error");
        if !repeats {
            told.push(label);
        }
    }
    told
}

fn label(message: &Value) -> String {
    let update = &message["params"]["update"];
    let word = |value: &Value| value.as_str().map(|word| format!(" {word}")).unwrap_or_default();
    match message["method"].as_str() {
        Some("session/update") => {
            let kind = update["sessionUpdate"].as_str().unwrap_or_default();
            format!(
                "{kind}{}{}{}",
                word(&update["state"]),
                word(&update["stopReason"]),
                word(&update["status"])
            )
        }
        Some(method) => method.to_owned(),
        None if message.get("error").is_some() => format!("error {}", message["error"]["code"]),
        None => "result".to_owned(),
    }
}

/// The updates of this kind in a session.
pub(crate) fn updates_of<'a>(transcript: &'a Transcript, session: &str, kind: &str) -> Vec<&'a Value> {
    let of_kind = |update: &&Value| update["sessionUpdate"] == kind;
    transcript.updates(session).into_iter().filter(of_kind).collect()
}

/// The agent's messages that answer this request.
pub(crate) fn answers(transcript: &Transcript, id: &RequestId) -> Vec<Value> {
    transcript.from_agent().filter(|message| id.is_answered_by(message)).cloned().collect()
}

/// The text that the agent said in these lines, whatever the session.
pub(crate) fn said(transcript: &Transcript) -> String {
    let chunks = transcript.from_agent().map(|message| &message["params"]["update"]);
    let chunks = chunks.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
}

/// A line with a request.
pub(crate) fn request(id: impl Into<Value>, method: &str, params: impl Into<Value>) -> String {
    let params: Value = params.into();
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params}).to_string() + "\n"
}

/// A line with a notification.
pub(crate) fn notification(method: &str, params: impl Into<Value>) -> String {
    let params: Value = params.into();
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string() + "\n"
}

/// A line with a prompt of one text block.
pub(crate) fn prompt(id: impl Into<Value>, session: &str, text: &str) -> String {
    request(id, "session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}))
}

/// A line that cancels a session.
pub(crate) fn cancel(session: &str) -> String {
    notification("session/cancel", json!({"sessionId": session}))
}

/// The newest prompt in a chat request: what came before it unanswered may be in the same message.
pub(crate) fn asked(request: &RecordedRequest) -> String {
    request.last_user().lines().last().unwrap_or_default().to_owned()
}

/// This many words, each with a blank behind it.
pub(crate) fn words(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("w{number} ")).collect()
}

/// Asserts that a turn was answered and ended for this reason.
#[track_caller]
pub(crate) fn ended(turn: &Turn, reason: &str) {
    assert!(turn.response.is_ok(), "the turn failed: {turn:#?}");
    assert_eq!(turn.stop_reason.as_deref(), Some(reason), "the stop reason: {turn:#?}");
}

/// Asserts that a turn ended well, with exactly this text.
#[track_caller]
pub(crate) fn answered(turn: &Turn, text: &str) {
    ended(turn, "end_turn");
    assert_eq!(turn.text, text, "the answer: {turn:#?}");
}

/// Asserts that a response is an error with this code, with what every error carries (R17), and gives it.
#[track_caller]
pub(crate) fn refused(response: Result<Value, Value>, code: i64) -> Value {
    let error = match response {
        Err(error) => error,
        Ok(result) => panic!("answered with a result, not with error {code}: {result}"),
    };
    assert_eq!(error["code"], code, "the code of {error}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(!message.trim().is_empty() && !message.contains('\n'), "one line that is not empty: {error}");
    for field in ["kind", "details"] {
        let text = error["data"][field].as_str().unwrap_or_default();
        assert!(!text.trim().is_empty(), "data.{field} of {error}");
    }
    error
}

/// Asserts that a text holds another.
#[track_caller]
pub(crate) fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is missing in:\n{text}");
}

/// Asserts that a text does not hold another.
#[track_caller]
pub(crate) fn assert_lacks(text: &str, part: &str) {
    assert!(!text.contains(part), "{part:?} must not be in:\n{text}");
}

/// Asserts that something took no longer than it may.
#[track_caller]
pub(crate) fn within(took: Duration, limit: Duration, what: &(impl Debug + ?Sized)) {
    assert!(took <= limit, "took {took:?}, the limit is {limit:?}: {what:?}");
}
