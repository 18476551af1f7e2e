//! One agent process: its lines go into a channel with the time at which each was read.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use milk_testkit::ModelServer;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Nothing that is measured takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How to start an agent, in an empty home of its own.
pub struct Command {
    pub name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
    variables: Vec<(&'static str, String)>,
    home: TempDir,
}

impl Command {
    pub fn milk(program: &Path, server: &ModelServer) -> Self {
        let command = Self::new("milk", program, &["serve", "--acp"]);
        let folder = command.home.path().join(".milk");
        std::fs::create_dir(&folder).expect("a temporary folder can be written");
        std::fs::write(folder.join("config.json"), server.config().to_string()).expect("so can a file in it");
        Self { variables: vec![("MILK_HOME", folder.display().to_string())], ..command }
    }

    pub fn floor(program: &Path, server: &ModelServer) -> Self {
        let command = Self::new("floor", program, &[]);
        Self { variables: vec![("FLOOR_MODEL", server.address().to_string())], ..command }
    }

    fn new(name: &'static str, program: &Path, arguments: &'static [&'static str]) -> Self {
        let program = program.canonicalize().expect("checked by the caller");
        let home = TempDir::new().expect("a temporary folder can be made");
        std::fs::create_dir(home.path().join("work")).expect("a temporary folder can be written");
        Self { name, program, arguments, variables: Vec::new(), home }
    }

    /// The folder that sessions are opened in.
    pub fn workspace(&self) -> PathBuf {
        self.home.path().join("work")
    }
}

/// A line that the agent wrote, and when it had been read whole.
pub struct Line {
    pub at: Instant,
    pub text: String,
}

impl Line {
    /// The text of a chunk of an answer, if that is what the line is.
    pub fn chunk(&self) -> Option<Chunk> {
        if !self.text.contains("agent_message_chunk") {
            return None;
        }
        let message = self.json();
        Some(Chunk {
            session: message["params"]["sessionId"].as_str()?.to_owned(),
            text: message["params"]["update"]["content"]["text"].as_str()?.to_owned(),
        })
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("not JSON: {}: {error}", self.text))
    }
}

/// A piece of an answer.
pub struct Chunk {
    pub session: String,
    pub text: String,
}

/// A running agent.
pub struct Agent {
    pub spawned: Instant,
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Line>,
    next_id: u64,
    workspace: PathBuf,
}

impl Agent {
    pub fn start(command: &Command) -> Self {
        let spawned = Instant::now();
        let mut process = std::process::Command::new(&command.program)
            .args(command.arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", command.home.path())
            .envs(command.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(command.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the agent starts");
        let stdin = process.stdin.take();
        let mut stdout = BufReader::with_capacity(256 << 10, process.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            while stdout.read_line(&mut text).is_ok_and(|length| length > 0) {
                let line = Line { at: Instant::now(), text: std::mem::take(&mut text) };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { spawned, process, stdin, lines, next_id: 0, workspace: command.workspace() }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Writes a request; its id, and when it was written.
    pub fn send(&mut self, method: &str, params: &Value) -> (u64, Instant) {
        self.next_id += 1;
        // The id goes before the rest: the floor finds it by its comma.
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\",\"params\":{params}}}\n",
            self.next_id
        );
        let at = Instant::now();
        let stdin = self.stdin.as_mut().expect("open until the end");
        stdin.write_all(line.as_bytes()).expect("the agent reads");
        (self.next_id, at)
    }

    pub fn prompt(&mut self, session: &str, text: &str) -> (u64, Instant) {
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        self.send("session/prompt", &params)
    }

    /// The next line that the agent writes.
    pub fn line(&self) -> Line {
        self.lines.recv_timeout(PATIENCE).expect("the agent goes on writing")
    }

    /// Reads up to the response to a request; it comes with the lines before it.
    pub fn response(&self, id: u64) -> (Line, Vec<Line>) {
        let (mark, mut before) = (format!("\"id\":{id}"), Vec::new());
        loop {
            let line = self.line();
            if !line.text.contains("\"method\":") && line.text.contains(&mark) {
                let message = line.json();
                assert!(message["error"].is_null(), "{}", line.text);
                if message["id"] == id {
                    return (line, before);
                }
            }
            before.push(line);
        }
    }

    /// Says hello; when the answer came.
    pub fn initialize(&mut self) -> Instant {
        let hello =
            json!({"protocolVersion": 2, "info": {"name": "bench", "version": "0"}, "capabilities": {}});
        let (id, _) = self.send("initialize", &hello);
        self.response(id).0.at
    }

    /// Opens a session; its id and when the answer came.
    pub fn session(&mut self) -> (String, Instant) {
        let (id, _) = self.send("session/new", &json!({"cwd": self.workspace, "mcpServers": []}));
        let (line, _) = self.response(id);
        let session = line.json()["result"]["sessionId"].as_str().expect("an id").to_owned();
        (session, line.at)
    }
}

impl Drop for Agent {
    /// Closes its stdin, and ends it if that does not.
    fn drop(&mut self) {
        self.stdin = None;
        let deadline = Instant::now() + Duration::from_secs(2);
        while self.process.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > deadline {
                eprintln!("the agent did not end with its stdin");
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
