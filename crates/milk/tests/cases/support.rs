//! One milk in one home with one scripted model server, and what tests ask about a turn.

use std::fmt::Debug;
use std::path::Path;
use std::time::{Duration, Instant};

use milk_testkit::client::{Direction, Speaker, ToolRow, Turn};
use milk_testkit::{
    AgentProcess, Matcher, ModelServer, Policy, RecordedRequest, Reply, Script, TestHome, ToolCall,
};
use serde_json::{Map, Value, json};

/// The binary under test.
pub(crate) const MILK: &str = env!("CARGO_BIN_EXE_milk");

/// What a rig is made of, before it is started.
#[derive(Debug)]
pub(crate) struct Plan {
    script: Script,
    root: Map<String, Value>,
    agent: Map<String, Value>,
    policy: Policy,
    version: u16,
    env: Vec<(String, String)>,
    process_cwd: Option<String>,
    address_space: Option<u64>,
}

impl Plan {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            script,
            root: Map::new(),
            agent: Map::new(),
            policy: Policy::Hold,
            version: 2,
            env: Vec::new(),
            process_cwd: None,
            address_space: None,
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

    /// A model that does what [`Rig::call`] orders.
    pub(crate) fn obedient() -> Self {
        Self::respond(obey)
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

    /// Errors are shown at once.
    pub(crate) fn no_retries(self) -> Self {
        self.agent("retry_limit", 0)
    }

    pub(crate) fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    pub(crate) fn version(mut self, version: u16) -> Self {
        self.version = version;
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The directory that the process is started in; the home if nothing is said.
    pub(crate) fn process_cwd(mut self, directory: &str) -> Self {
        self.process_cwd = Some(directory.to_owned());
        self
    }

    /// Gives the process this many bytes of address space: where a fault would take the memory of the whole machine.
    pub(crate) fn address_space(mut self, bytes: u64) -> Self {
        self.address_space = Some(bytes);
        self
    }

    pub(crate) async fn start(self) -> Rig {
        self.start_in(TestHome::new()).await
    }

    /// Starts everything in a home that the test has furnished.
    pub(crate) async fn start_in(self, home: TestHome) -> Rig {
        let server = ModelServer::start(self.script).await;
        let mut agent = server.agent("test");
        agent.as_object_mut().unwrap().extend(self.agent);
        let mut config = json!({"agent": "test", "agents": [agent]});
        config.as_object_mut().unwrap().extend(self.root);
        home.config(&config);
        let seat = Seat {
            policy: self.policy,
            version: self.version,
            env: self.env,
            process_cwd: self.process_cwd,
            address_space: self.address_space,
        };
        let agent = seat.start(&home).await;
        let session = agent.new_session(home.workspace()).await;
        Rig { agent, session, server, home, seat }
    }
}

/// How the process is started, to start it again the same way.
#[derive(Debug)]
struct Seat {
    policy: Policy,
    version: u16,
    env: Vec<(String, String)>,
    process_cwd: Option<String>,
    address_space: Option<u64>,
}

impl Seat {
    async fn start(&self, home: &TestHome) -> AgentProcess {
        let launch = match self.address_space {
            None => home.launch(MILK, &["serve", "--acp"]),
            Some(bytes) => {
                let kibibytes = bytes >> 10;
                let limited = format!("ulimit -v {kibibytes} && exec '{MILK}' serve --acp");
                home.launch("sh", &["-c", &limited])
            }
        };
        let mut launch = launch.envs(self.env.clone()).policy(self.policy.clone());
        if let Some(directory) = &self.process_cwd {
            launch = launch.cwd(directory);
        }
        let agent = AgentProcess::start(launch);
        agent.initialize(self.version).await;
        agent
    }
}

/// An editor, milk, a model server and a home, with one session open in the workspace.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) agent: AgentProcess,
    pub(crate) session: String,
    pub(crate) server: ModelServer,
    pub(crate) home: TestHome,
    seat: Seat,
}

/// What became of the tool calls that a test ordered.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) turn: Turn,
    /// What the model was told, a text for each call, in its order.
    pub(crate) results: Vec<String>,
    /// The permission questions, whole messages.
    pub(crate) questions: Vec<Value>,
    pub(crate) rows: Vec<ToolRow>,
    pub(crate) took: Duration,
}

impl Called {
    /// What the model was told of the only call.
    #[track_caller]
    pub(crate) fn result(&self) -> &str {
        assert_eq!(self.results.len(), 1, "one call was ordered: {self:#?}");
        &self.results[0]
    }

    /// The row of the only call.
    #[track_caller]
    pub(crate) fn row(&self) -> &ToolRow {
        assert_eq!(self.rows.len(), 1, "one call was ordered: {self:#?}");
        &self.rows[0]
    }

    #[track_caller]
    pub(crate) fn asked(&self, times: usize) -> &Self {
        assert_eq!(self.questions.len(), times, "number of questions: {self:#?}");
        self
    }
}

impl Rig {
    /// Runs a turn; its text is the model's, without milk's own notices (see [`Self::notices`]).
    pub(crate) async fn turn(&self, text: &str) -> Turn {
        self.turn_in(&self.session, text).await
    }

    async fn turn_in(&self, session: &str, text: &str) -> Turn {
        let start = self.agent.with_transcript(|transcript| transcript.entries.len());
        let mut turn = self.agent.turn(session, text).await;
        let mut transcript = self.agent.transcript();
        transcript.entries.drain(..start);
        let messages =
            transcript.texts(session).into_iter().filter(|message| message.speaker == Speaker::Agent);
        turn.text = messages.map(|message| message.text).filter(|text| !text.starts_with(NOTICE)).collect();
        turn
    }

    /// The notices of milk's own in this session so far (R14): messages beside the model's.
    pub(crate) fn notices(&self) -> Vec<String> {
        let messages = self.agent.with_transcript(|transcript| transcript.texts(&self.session));
        let of_agent = messages.into_iter().filter(|message| message.speaker == Speaker::Agent);
        of_agent.map(|message| message.text).filter(|text| text.starts_with(NOTICE)).collect()
    }

    /// Has the model (an obedient one) call one tool, to the end of the turn.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Called {
        self.call_in(&self.session, tool, arguments).await
    }

    /// The same in another session.
    pub(crate) async fn call_in(&self, session: &str, tool: &str, arguments: Value) -> Called {
        self.calls_in(session, &[(tool, arguments)]).await
    }

    /// Has the model call several tools in one reply.
    pub(crate) async fn calls(&self, calls: &[(&str, Value)]) -> Called {
        self.calls_in(&self.session, calls).await
    }

    async fn calls_in(&self, session: &str, calls: &[(&str, Value)]) -> Called {
        let start = self.agent.with_transcript(|transcript| transcript.entries.len());
        let began = Instant::now();
        let turn = self.turn_in(session, &order(calls)).await;
        let took = began.elapsed();
        let told = newest_results(&self.server).await;
        let results = told[told.len().saturating_sub(calls.len())..].to_vec();
        let mut transcript = self.agent.transcript();
        transcript.entries.drain(..start);
        let of_session = |message: &&Value| message["params"]["sessionId"] == session;
        let questions = questions_in(transcript.from_agent().filter(of_session));
        Called { turn, results, questions, rows: transcript.tool_rows(session), took }
    }

    /// Sends the order and leaves the turn running; gives the id of the prompt.
    pub(crate) fn begin(&self, tool: &str, arguments: Value) -> milk_testkit::client::RequestId {
        self.agent.prompt(&self.session, &order(&[(tool, arguments)]))
    }

    /// All permission questions so far.
    pub(crate) fn questions(&self) -> Vec<Value> {
        self.agent.with_transcript(|transcript| questions_in(transcript.from_agent()))
    }

    /// Another session in this directory.
    pub(crate) async fn session_in(&self, directory: impl AsRef<Path>) -> String {
        self.agent.new_session(directory).await
    }

    /// Ends milk and starts it again in the same home, with a fresh session in the workspace.
    pub(crate) async fn restarted(self) -> Self {
        assert!(self.agent.shutdown().await.success());
        self.revived().await
    }

    /// Starts milk again after it has ended, in the same home, with a fresh session in the workspace.
    pub(crate) async fn revived(self) -> Self {
        let agent = self.seat.start(&self.home).await;
        let session = agent.new_session(self.home.workspace()).await;
        Self { agent, session, ..self }
    }

    /// Asserts that the session still works.
    pub(crate) async fn assert_usable(&self) {
        let turn = self.turn("is anyone there").await;
        assert!(turn.response.is_ok(), "the next prompt failed: {turn:#?}");
        assert!(!turn.text.is_empty(), "the next prompt had no answer: {turn:#?}");
    }

    /// The agent's text in this session so far.
    pub(crate) fn text(&self) -> String {
        self.agent.with_transcript(|transcript| transcript.agent_text(&self.session))
    }

    /// Asserts that every row has ended.
    #[track_caller]
    pub(crate) fn assert_rows_ended(&self) {
        for row in self.agent.transcript().tool_rows(&self.session) {
            assert!(
                ["completed", "failed", "cancelled"].contains(&row.status()),
                "a row is left open: {row:#?}"
            );
        }
    }

    /// Waits until the running call has shown this text in its row.
    pub(crate) async fn shown_live(&self, text: &str) {
        let is_row = |update: &Value| {
            let kind = update["sessionUpdate"].as_str().unwrap_or_default();
            kind == "tool_call_content_chunk" || (kind == "tool_call_update" && update["content"].is_array())
        };
        self.agent
            .expect(|message| {
                let update = &message["params"]["update"];
                is_row(update) && update["content"].to_string().contains(text)
            })
            .await;
    }
}

/// What milk's own notices begin with.
const NOTICE: &str = "[milk]";

/// Marks the calls in the prompt to an obedient model.
const ORDER: &str = "Please make these calls: ";

fn order(calls: &[(&str, Value)]) -> String {
    format!("{ORDER}{}", json!(calls))
}

/// The obedient model: the newest prompt says which tools are called, then it says `done`.
pub(crate) fn obey(request: &RecordedRequest) -> Reply {
    let newest = request.messages().last().map(|message| message["role"].as_str().unwrap_or_default());
    if newest == Some("tool") {
        return Reply::text("done");
    }
    let prompt = request.last_user();
    let Some((_, order)) = prompt.split_once(ORDER) else {
        return Reply::text("hello");
    };
    let calls = serde_json::Deserializer::from_str(order).into_iter::<Vec<(String, Value)>>().next();
    let calls = calls.expect("an order").expect("an order in JSON");
    Reply::tools(calls.into_iter().map(|(name, arguments)| ToolCall::new(name, arguments)))
}

/// What the newest chat request told of tool calls: a text each.
pub(crate) async fn newest_results(server: &ModelServer) -> Vec<String> {
    let Some(newest) = server.count().checked_sub(1) else {
        return Vec::new();
    };
    results(&server.request(newest).await)
}

/// What a chat request tells of tool calls, a text each: the plain text, also where it is wrapped in an envelope.
pub(crate) fn results(request: &RecordedRequest) -> Vec<String> {
    request.tool_results().into_iter().map(|(_, text)| unwrapped(text)).collect()
}

fn unwrapped(text: String) -> String {
    let Ok(Value::Object(envelope)) = serde_json::from_str::<Value>(&text) else {
        return text;
    };
    let part = |name: &str| envelope.get(name).and_then(Value::as_str);
    match (part("output"), part("error")) {
        (None, None) => text,
        (output, error) => [output, error].into_iter().flatten().collect::<Vec<_>>().join("\n"),
    }
}

fn questions_in<'a>(messages: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    messages.filter(|message| message["method"] == "session/request_permission").cloned().collect()
}

/// The words of a question that a person reads: v2's title and description, v1's title of the call.
pub(crate) fn words(question: &Value) -> String {
    let params = &question["params"];
    let read = [&params["title"], &params["description"], &params["toolCall"]["title"]];
    read.into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ")
}

/// The id of the call that a question is about.
pub(crate) fn subject(question: &Value) -> String {
    let params = &question["params"];
    let id = params["subject"]["toolCall"]["toolCallId"].as_str();
    id.or(params["toolCall"]["toolCallId"].as_str()).unwrap_or_default().to_owned()
}

/// Every permission question of this session.
pub(crate) fn question_in(session: &str) -> Matcher {
    Matcher::method("session/request_permission").session(session)
}

/// Everything that milk has written: its lines and its stderr.
pub(crate) fn everything_said(agent: &AgentProcess) -> String {
    let mut said = agent.with_transcript(|transcript| {
        let lines = transcript.entries.iter().filter(|entry| entry.direction == Direction::FromAgent);
        lines.map(|entry| String::from_utf8_lossy(&entry.raw).into_owned() + "\n").collect::<String>()
    });
    said.push_str(&agent.stderr());
    said
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

/// Asserts that a text holds one of these words, whatever their case.
#[track_caller]
pub(crate) fn assert_has_any(text: &str, words: &[&str]) {
    let lower = text.to_lowercase();
    assert!(
        words.iter().any(|word| lower.contains(&word.to_lowercase())),
        "none of {words:?} is in:\n{text}"
    );
}

/// Asserts that a turn ended in an error response with a true `idle` before it, and gives the error object.
#[track_caller]
pub(crate) fn failed(turn: &Turn) -> Value {
    assert_eq!(turn.stop_reason.as_deref(), Some("error"), "the idle of a failed turn: {turn:#?}");
    match &turn.response {
        Err(error) => {
            assert_eq!(error["code"], -32000, "contract, Error handling: {error}");
            error.clone()
        }
        Ok(result) => panic!("a failed turn was answered with a result: {result}"),
    }
}

/// Asserts that a turn ended well, with exactly this text.
#[track_caller]
pub(crate) fn answered(turn: &Turn, text: &str) {
    ended(turn, "end_turn");
    assert_eq!(turn.text, text, "the answer: {turn:#?}");
}

/// Asserts that a turn was answered and ended for this reason.
#[track_caller]
pub(crate) fn ended(turn: &Turn, reason: &str) {
    assert!(turn.response.is_ok(), "the turn failed: {turn:#?}");
    assert_eq!(turn.stop_reason.as_deref(), Some(reason), "the stop reason: {turn:#?}");
}

/// Asserts that nothing took longer than it may.
#[track_caller]
pub(crate) fn within(took: Duration, limit: Duration, what: &(impl Debug + ?Sized)) {
    assert!(took <= limit, "took {took:?}, the limit is {limit:?}: {what:?}");
}

/// The text that a git patch of one file makes of `old`.
#[track_caller]
pub(crate) fn patched(old: &str, patch: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut new, mut place) = (String::new(), 0);
    let mut lines = patch.split_inclusive('\n').skip_while(|line| !line.starts_with("@@ ")).peekable();
    while let Some(line) = lines.next() {
        let without_end = lines.peek().is_some_and(|next| next.starts_with('\\'));
        let (sign, rest) = line.split_at_checked(1).unwrap_or(("", ""));
        let rest = if without_end { rest.trim_end_matches('\n') } else { rest };
        match sign {
            "@" => {
                let start = line["@@ -".len()..].split([',', ' ']).next().unwrap().parse::<usize>().unwrap();
                let start = start.saturating_sub(1).max(place);
                new.extend(old[place..start].iter().copied());
                place = start;
            }
            " " | "-" => {
                assert_eq!(old.get(place).copied(), Some(rest), "the patch does not fit: {patch}");
                if sign == " " {
                    new.push_str(rest);
                }
                place += 1;
            }
            "+" => new.push_str(rest),
            _ => {}
        }
    }
    new.extend(old[place..].iter().copied());
    new
}
