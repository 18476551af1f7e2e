//! A client that is a test: it writes lines and reads lines.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use milk_acp::profile::ProfileOverrides;
use milk_acp::{AcpSettings, PromptResponse, ServeEnd, serve};
use milk_testkit::client::Direction;
use milk_testkit::schema::SchemaOracle;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use tempfile::TempDir;

use crate::fakes::{Script, engine};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection to an agent.
pub(crate) struct Rig {
    pub(crate) model: Script,
    pub(crate) shutdown: CancellationToken,
    runtime: Runtime,
    _home: TempDir,
    serving: Option<JoinHandle<io::Result<ServeEnd>>>,
    input: Option<PipeWriter>,
    lines: Receiver<Value>,
    /// Read ahead while something else was looked for, oldest first.
    passed: Vec<Value>,
    version: u16,
    next_id: u64,
    /// What the test has asked, for checking the answers.
    methods: HashMap<String, String>,
}

/// Settings as they are without a config.
pub(crate) fn settings() -> AcpSettings {
    AcpSettings {
        version: "1.2.3".to_owned(),
        prompt_response: PromptResponse::Held,
        replay_ids: milk_acp::ReplayIds::Hist,
        session_load: None,
        clients: ProfileOverrides::new(),
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(settings())
    }

    pub(crate) fn with(settings: AcpSettings) -> Self {
        let (output, writer) = io::pipe().unwrap();
        let mut rig = Self::on(settings, writer);
        rig.read_from(BufReader::new(output));
        rig
    }

    /// A rig that reads nothing before the test lets it.
    pub(crate) fn unread(settings: AcpSettings) -> (Self, BufReader<PipeReader>) {
        let (output, writer) = io::pipe().unwrap();
        (Self::on(settings, writer), BufReader::new(output))
    }

    fn on(settings: AcpSettings, writer: PipeWriter) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (reader, input) = io::pipe().unwrap();
        let model = Script::new();
        let shutdown = CancellationToken::new();
        let home = tempfile::tempdir().unwrap();
        let serving = runtime.spawn(serve(reader, writer, engine(&model, &home), settings, shutdown.clone()));
        let (_, lines) = channel();
        Self {
            model,
            shutdown,
            runtime,
            _home: home,
            serving: Some(serving),
            input: Some(input),
            lines,
            passed: Vec::new(),
            version: 2,
            next_id: 1,
            methods: HashMap::new(),
        }
    }

    /// Starts to read what the agent writes.
    pub(crate) fn read_from(&mut self, output: BufReader<PipeReader>) {
        let (sender, lines) = channel();
        self.lines = lines;
        std::thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { return };
                let message = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
    }

    // ---- writing

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().expect("the input is open").write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
            self.methods.insert(id.to_string(), method.to_owned());
        }
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request, and gives its id.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = json!(self.next_id);
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn reply(&mut self, question: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
    }

    // ---- reading

    /// The next message; `None` when there will be none.
    pub(crate) fn next(&mut self) -> Option<Value> {
        if !self.passed.is_empty() {
            return Some(self.passed.remove(0));
        }
        self.read()
    }

    fn read(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(message) => {
                self.check(&message);
                Some(message)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing came; passed over: {:#?}", self.passed),
        }
    }

    /// Whether nothing comes for a while. Only for what would come at once.
    pub(crate) fn silent_for(&mut self, time: Duration) -> bool {
        self.passed.is_empty()
            && match self.lines.recv_timeout(time) {
                Ok(message) => {
                    self.passed.push(message);
                    false
                }
                Err(_) => true,
            }
    }

    /// Reads up to the first message that fits, and gives it with all before it.
    pub(crate) fn until(&mut self, fits: impl Fn(&Value) -> bool) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        while let Some(message) = self.next() {
            if fits(&message) {
                return (before, message);
            }
            before.push(message);
        }
        panic!("it never came; before: {before:#?}");
    }

    /// The answer to a request; what came before it stays to be read.
    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        let (before, answer) = self.until(|message| message["id"] == *id && message.get("method").is_none());
        self.passed.splice(0..0, before);
        answer
    }

    /// Sends a request and gives its answer whole.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        self.answer(&id)
    }

    fn check(&mut self, message: &Value) {
        let is_answer = message.get("method").is_none();
        let method = is_answer.then(|| self.methods.get(&message["id"].to_string()).cloned()).flatten();
        if method.as_deref() == Some("initialize") {
            self.version = u16::try_from(message["result"]["protocolVersion"].as_u64().unwrap()).unwrap();
        }
        if method.as_deref() == Some("session/cancel") {
            // A notification in the schema; sent as a request it is answered all the same (R20).
            return;
        }
        let oracle = SchemaOracle::of_version(self.version);
        let wrong = oracle.check_message(Direction::FromAgent, message, method.as_deref());
        assert!(wrong.is_empty(), "v{}: {message}: {wrong:?}", self.version);
    }

    // ---- what tests do all the time

    pub(crate) fn initialize(&mut self, params: &Value) -> Value {
        self.ask("initialize", params)["result"].take()
    }

    pub(crate) fn v1(&mut self) {
        self.initialize(&json!({"protocolVersion": 1}));
    }

    pub(crate) fn v2(&mut self) {
        self.initialize(&json!({"protocolVersion": 2, "info": {"name": "test"}}));
    }

    /// A new session whose commands have been announced.
    pub(crate) fn session(&mut self) -> String {
        self.session_in("/work/place")
    }

    pub(crate) fn session_in(&mut self, cwd: &str) -> String {
        let answer = self.ask("session/new", &json!({"cwd": cwd, "mcpServers": []}));
        let session = answer["result"]["sessionId"].as_str().expect("a session").to_owned();
        let (before, _) = self.until(|message| {
            message["params"]["update"]["sessionUpdate"] == "available_commands_update"
                && message["params"]["sessionId"] == session.as_str()
        });
        self.passed.splice(0..0, before);
        session
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.request("session/prompt", &text_prompt(session, text))
    }

    /// A whole turn: everything before the answer, and the answer.
    pub(crate) fn turn(&mut self, session: &str, text: &str) -> (Vec<Value>, Value) {
        let id = self.prompt(session, text);
        self.until(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Waits for a question.
    pub(crate) fn question(&mut self) -> Value {
        self.until(|message| message["method"] == "session/request_permission").1
    }

    /// Closes the input, and gives how serving ended.
    pub(crate) fn hang_up(&mut self) -> ServeEnd {
        self.input = None;
        self.ended()
    }

    pub(crate) fn ended(&mut self) -> ServeEnd {
        let serving = self.serving.take().expect("it serves");
        let end = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, serving).await });
        end.expect("serving ends").unwrap().unwrap()
    }
}

pub(crate) fn text_prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

pub(crate) fn picked(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

/// Updates in a few words each: kind, and what tells it from others of its kind.
pub(crate) fn words(messages: &[Value]) -> Vec<String> {
    messages.iter().map(word).collect()
}

fn word(message: &Value) -> String {
    let update = &message["params"]["update"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match update["sessionUpdate"].as_str() {
        None => message["method"].as_str().map_or_else(|| format!("answer {}", message["id"]), str::to_owned),
        Some("state_update") => match update["stopReason"].as_str() {
            Some(stop) => format!("idle {stop}"),
            None => text(&update["state"]),
        },
        Some(kind @ ("tool_call" | "tool_call_update")) => match update["status"].as_str() {
            Some(status) => format!("{kind} {status}"),
            None => format!("{kind} output"),
        },
        Some("user_message") => format!("user {}", text(&update["content"][0]["text"])),
        Some("user_message_chunk") => format!("user {}", text(&update["content"]["text"])),
        Some("agent_message_chunk") => format!("agent {}", text(&update["content"]["text"])),
        Some("agent_thought_chunk") => format!("thought {}", text(&update["content"]["text"])),
        Some(kind) => kind.to_owned(),
    }
}
