//! The client's thread: feeds stdin, drains stdout and stderr, answers questions, waits for the exit.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::launch::Launch;
use super::policy::{Answer, Policy};
use super::transcript::{Direction, Transcript};
use crate::watched::Watched;

/// What goes to the agent's stdin.
#[derive(Debug)]
pub(crate) enum Input {
    Bytes(Vec<u8>),
    Close,
}

/// What the client does with one of the agent's output pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Going,
    Paused,
    Closed,
}

/// What the test and the client's thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Watched<State>,
    input: UnboundedSender<Input>,
    pub(crate) stdout: watch::Sender<Reading>,
    pub(crate) stderr: watch::Sender<Reading>,
    kill: watch::Sender<bool>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) transcript: Transcript,
    pub(crate) policy: Policy,
    /// Requests of the agent's that were not answered.
    pub(crate) held: Vec<Value>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) stdout_ended: bool,
    pub(crate) exit: Option<ExitStatus>,
    /// Where [`super::AgentProcess::expect`] goes on.
    pub(crate) cursor: usize,
    /// What was sent since the last line end.
    unfinished: Vec<u8>,
}

impl State {
    /// Whether nothing more can come from the agent.
    pub(crate) fn is_over(&self) -> bool {
        self.exit.is_some() && self.stdout_ended
    }
}

/// How long the rest of stdout is waited for after the exit: a child of the agent's may hold the pipe open.
pub(crate) const REST_OF_STDOUT: Duration = Duration::from_millis(500);
/// Bytes of stderr kept.
const STDERR_KEPT: usize = 4 << 20;

impl Shared {
    /// Records bytes for the agent and queues them; recorded first, so that an answer can only come behind them.
    pub(crate) fn send(&self, bytes: Vec<u8>) {
        self.state.update(|state| {
            state.unfinished.extend_from_slice(&bytes);
            while let Some(end) = state.unfinished.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = state.unfinished.drain(..=end).collect();
                line.pop();
                state.transcript.record(Direction::ToAgent, line);
            }
            // The receiver is gone when the agent is; then there is nobody to send to.
            let _ = self.input.send(Input::Bytes(bytes));
        });
    }

    pub(crate) fn send_json(&self, message: &Value) {
        self.send(format!("{message}\n").into_bytes());
    }

    pub(crate) fn close_stdin(&self) {
        let _ = self.input.send(Input::Close);
    }

    pub(crate) fn kill(&self) {
        self.kill.send_replace(true);
    }

    /// Answers a request of the agent's.
    pub(crate) fn answer(&self, id: &Value, answer: Answer) {
        let mut message = json!({"jsonrpc": "2.0", "id": id});
        match answer {
            Answer::Result(result) => message["result"] = result,
            Answer::Error(error) => message["error"] = error,
            Answer::Hold => return,
        }
        self.state.update(|state| state.held.retain(|request| request["id"] != *id));
        self.send_json(&message);
    }

    fn received(&self, lines: Vec<Vec<u8>>) {
        let (policy, requests) = self.state.update(|state| {
            let first = state.transcript.entries.len();
            for line in lines {
                state.transcript.record(Direction::FromAgent, line);
            }
            let new = &state.transcript.entries[first..];
            let is_request =
                |message: &&Value| message.get("method").is_some() && message.get("id").is_some();
            let requests: Vec<Value> =
                new.iter().map(|entry| &entry.json).filter(is_request).cloned().collect();
            (state.policy.clone(), requests)
        });
        for request in requests {
            match policy.decide(&request) {
                Answer::Hold => self.state.update(|state| state.held.push(request)),
                answer => self.answer(&request["id"], answer),
            }
        }
    }
}

/// Starts the agent and its thread; gives the process id.
#[expect(
    clippy::disallowed_methods,
    reason = "what a test sends is bounded by the test, and a send must not block it"
)]
pub(crate) fn start(launch: Launch) -> io::Result<(Arc<Shared>, u32, std::thread::JoinHandle<()>)> {
    let (input, inputs) = unbounded_channel();
    let shared = Arc::new(Shared {
        state: Watched::new(State {
            transcript: Transcript::default(),
            policy: launch.policy.clone(),
            held: Vec::new(),
            stderr: Vec::new(),
            stdout_ended: false,
            exit: None,
            cursor: 0,
            unfinished: Vec::new(),
        }),
        input,
        stdout: watch::Sender::new(Reading::Going),
        stderr: watch::Sender::new(Reading::Going),
        kill: watch::Sender::new(false),
    });
    let (started, is_started) = mpsc::channel();
    let driven = Arc::clone(&shared);
    let thread = std::thread::Builder::new().name("acp-client".to_owned()).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(started.send(Err(error))),
        };
        runtime.block_on(async {
            match spawn(launch) {
                Ok((child, pid)) => {
                    let _ = started.send(Ok(pid));
                    drive(driven, child, pid, inputs).await;
                }
                Err(error) => drop(started.send(Err(error))),
            }
        });
    })?;
    let pid = is_started.recv().map_err(|_| io::Error::other("the client's thread ended at once"))??;
    Ok((shared, pid, thread))
}

fn spawn(launch: Launch) -> io::Result<(Child, u32)> {
    let mut command = Command::new(launch.program);
    command.args(launch.args).env_clear().envs(launch.env);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    if let Some(cwd) = launch.cwd {
        command.current_dir(cwd);
    }
    // A group of its own, so that what it leaves in it can be ended with it.
    #[cfg(unix)]
    command.process_group(0);
    let child = command.spawn()?;
    let pid = child.id().ok_or_else(|| io::Error::other("the agent ended at once"))?;
    Ok((child, pid))
}

/// Runs until the agent has ended and the test has let go of it.
async fn drive(shared: Arc<Shared>, mut child: Child, pid: u32, inputs: UnboundedReceiver<Input>) {
    if let Some(stdin) = child.stdin.take() {
        tokio::spawn(feed(stdin, inputs));
    }
    if let Some(stdout) = child.stdout.take() {
        tokio::spawn(read_lines(Arc::clone(&shared), stdout));
    }
    if let Some(stderr) = child.stderr.take() {
        let (to, reading) = (Arc::clone(&shared), shared.stderr.subscribe());
        tokio::spawn(async move {
            drain(stderr, reading, |bytes| {
                to.state.update(|state| {
                    let room = STDERR_KEPT.saturating_sub(state.stderr.len());
                    state.stderr.extend_from_slice(&bytes[..room.min(bytes.len())]);
                });
            })
            .await;
        });
    }
    let mut killed = shared.kill.subscribe();
    let status = tokio::select! {
        status = child.wait() => status,
        _ = killed.wait_for(|killed| *killed) => {
            kill_group(pid);
            let _ = child.start_kill();
            child.wait().await
        }
    };
    if let Ok(status) = status {
        shared.state.update(|state| state.exit = Some(status));
    }
    let _ = killed.wait_for(|killed| *killed).await;
    // What the agent wrote before its end is looked at as well; a child of its may hold the pipe open for ever.
    if *shared.stdout.borrow() == Reading::Going {
        shared.state.until(REST_OF_STDOUT, |state| state.stdout_ended.then_some(())).await;
    }
}

#[cfg(unix)]
fn kill_group(pid: u32) {
    if let Some(group) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(_pid: u32) {}

async fn feed(mut stdin: ChildStdin, mut inputs: UnboundedReceiver<Input>) {
    while let Some(Input::Bytes(bytes)) = inputs.recv().await {
        // A pipe that the agent has closed swallows what is left; the test sees that nothing answers.
        if stdin.write_all(&bytes).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read_lines(shared: Arc<Shared>, stdout: ChildStdout) {
    let mut unfinished = Vec::new();
    let reading = shared.stdout.subscribe();
    drain(stdout, reading, |bytes| {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            unfinished.extend_from_slice(piece);
            if unfinished.last() == Some(&b'\n') {
                unfinished.pop();
                lines.push(std::mem::take(&mut unfinished));
            }
        }
        if !lines.is_empty() {
            shared.received(lines);
        }
    })
    .await;
    shared.state.update(|state| {
        if !unfinished.is_empty() && *shared.kill.borrow() {
            // Cut off by the test itself: no fault of the agent's.
        } else if !unfinished.is_empty() {
            let line = String::from_utf8_lossy(&unfinished).into_owned();
            state.transcript.violations.push(format!("stdout ended within a line: {line:?}"));
        }
        state.stdout_ended = true;
    });
}

/// Reads a pipe until it ends or is to be closed; holds still while paused.
async fn drain(
    mut pipe: impl AsyncRead + Unpin,
    mut reading: watch::Receiver<Reading>,
    mut take: impl FnMut(&[u8]),
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let now = *reading.borrow_and_update();
        tokio::select! {
            biased;
            changed = reading.changed() => if changed.is_err() { return },
            count = pipe.read(&mut buffer), if now == Reading::Going => match count {
                Ok(0) | Err(_) => return,
                Ok(count) => take(&buffer[..count]),
            },
            () = std::future::ready(()), if now == Reading::Closed => return,
        }
    }
}
