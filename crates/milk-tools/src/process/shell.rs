//! One shell command from its start to its end.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::groups::{Kept, ProcessGroups};
use super::launcher::{Launcher, SUPERVISE};
use super::tree;

/// One shell command.
#[derive(Debug, Clone)]
pub struct ShellCommand {
    /// The command line, for `sh -c`.
    pub command: String,
    /// The folder that it runs in.
    pub cwd: PathBuf,
    /// Variables of milk's own environment that it must not see.
    pub secret_env: Arc<[String]>,
    /// The longest time that it may take.
    pub limit: Duration,
    /// Ends it early when it trips.
    pub cancel: CancellationToken,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The shell exited with this code.
    Exited(i32),
    /// A signal ended the shell.
    Signalled(i32),
    /// Its time was up, and its whole tree was ended.
    TimedOut,
    /// It was cancelled, and its whole tree was ended.
    Cancelled,
    /// It did not run, or milk lost sight of it: why, in a sentence.
    Failed(String),
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How the shell ended.
    pub ended: Ended,
    /// Whether processes that it started still run. They are ended when milk exits.
    pub left_running: bool,
}

/// Takes the output of a command, standard output and standard error in the order that they were written.
pub trait OutputSink: Send {
    /// The next bytes.
    fn take(&mut self, bytes: &[u8]);

    /// When [`flush`](Self::flush) is to be called next, if anything is held back.
    fn flush_at(&self) -> Option<Instant>;

    /// Nothing more came for a while: shows what is held back.
    fn flush(&mut self);

    /// Nothing more will come.
    fn finish(&mut self);
}

/// Variables that make programs print instead of asking: there is nobody at a keyboard.
const UNATTENDED: [(&str, &str); 15] = [
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("SSH_ASKPASS_REQUIRE", "force"),
    ("SUDO_ASKPASS", "false"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// After the shell has ended: how long nothing may come before what others still print is left alone.
const QUIET: Duration = Duration::from_millis(50);
/// After the shell has ended: how long its output is read at most.
const DRAIN: Duration = Duration::from_millis(500);
/// After the output has ended: how long the supervisor may take to see that nothing is left.
const SETTLE: Duration = Duration::from_millis(100);
/// After a time-out or a cancel: how long the end of the tree is waited for. The supervisor kills after 250 ms; whoever
/// cancelled waits a second.
const ENDING: Duration = Duration::from_millis(700);
/// A tree without its supervisor: how often it is looked for at most, and the time between two looks.
const LOOKS: usize = 100;
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Output read at once.
const PIECE: usize = 16 * 1024;
/// Longest line of the supervisor.
const REPORT: u64 = 1024;

/// Runs a command to the end of its shell, its output going to `sink` as it comes. Dropping the future ends the whole
/// tree. Returns soon after the shell has ended, also when what it started holds its output open.
pub async fn run_shell(
    groups: &Arc<ProcessGroups>,
    launcher: &Launcher,
    command: ShellCommand,
    sink: &mut dyn OutputSink,
) -> Finished {
    let deadline = Instant::now() + command.limit;
    let started = match start(groups, launcher, &command) {
        Ok(started) => started,
        Err(reason) => return Finished { ended: Ended::Failed(reason), left_running: false },
    };
    let Started { mut kept, mut output, report, supervisor } = started;

    let seen = watch(&mut output, report, sink, deadline, &command.cancel).await;
    let quiet = match seen {
        Seen::Ended(_) => QUIET,
        Seen::Lost => {
            // Without its supervisor the tree is on its own.
            for _ in 0..LOOKS {
                if tree::kill_session(supervisor) == 0 {
                    break;
                }
                sleep(LOOK_AGAIN).await;
            }
            QUIET
        }
        Seen::TimeIsUp | Seen::Cancel => {
            kept.end();
            ENDING
        }
    };
    let closed = drain(&mut output, sink, quiet).await;
    sink.finish();
    let gone = timeout(SETTLE, &mut kept.gone).await.is_ok();
    let ended = match seen {
        Seen::Ended(ended) => {
            if !gone {
                kept.leave_running();
                if !closed {
                    // A full pipe would stop it, a closed one could end it.
                    tokio::spawn(discard(output));
                }
            }
            return Finished { ended, left_running: !gone };
        }
        Seen::Lost => Ended::Failed("the process that watched over the command was killed".to_owned()),
        Seen::TimeIsUp => Ended::TimedOut,
        Seen::Cancel => Ended::Cancelled,
    };
    if !gone {
        kept.force();
    }
    Finished { ended, left_running: false }
}

struct Started {
    kept: Kept,
    output: ChildStdout,
    report: ChildStderr,
    supervisor: Pid,
}

fn start(
    groups: &Arc<ProcessGroups>,
    launcher: &Launcher,
    command: &ShellCommand,
) -> Result<Started, String> {
    if groups.is_closed() {
        return Err("milk is exiting: no command starts any more".to_owned());
    }
    if !command.cwd.is_dir() {
        return Err(format!("the folder {} does not exist", command.cwd.display()));
    }
    let mut supervisor = std::process::Command::new(&launcher.program);
    supervisor
        .arg0(&launcher.name)
        .args([SUPERVISE, &command.command])
        .current_dir(&command.cwd)
        .env("PWD", &command.cwd)
        .envs(UNATTENDED)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.secret_env.iter().for_each(|name| {
        supervisor.env_remove(name);
    });
    let mut child = tokio::process::Command::from(supervisor)
        .spawn()
        .map_err(|error| format!("the command could not be started: {error}"))?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    match (pid, child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(supervisor), Some(hold), Some(output), Some(report)) => {
            let kept = groups.keep(child, supervisor, hold);
            Ok(Started { kept, output, report, supervisor })
        }
        _ => Err("the command was started without its pipes".to_owned()),
    }
}

/// What ends the watch over a command.
enum Seen {
    /// The supervisor told how the shell ended.
    Ended(Ended),
    /// The supervisor is gone, and told nothing.
    Lost,
    TimeIsUp,
    Cancel,
}

/// Passes output on until the shell has ended or is to end.
async fn watch(
    output: &mut ChildStdout,
    report: ChildStderr,
    sink: &mut dyn OutputSink,
    deadline: Instant,
    cancel: &CancellationToken,
) -> Seen {
    let report = read_report(report);
    tokio::pin!(report);
    let mut piece = vec![0; PIECE];
    let mut open = true;
    loop {
        let flush_at = sink.flush_at();
        tokio::select! {
            seen = &mut report => return seen,
            () = cancel.cancelled() => return Seen::Cancel,
            () = sleep_until(deadline) => return Seen::TimeIsUp,
            () = sleep_until(flush_at.unwrap_or(deadline)), if flush_at.is_some() => sink.flush(),
            read = output.read(&mut piece), if open => match read {
                Ok(length) if length > 0 => sink.take(&piece[..length]),
                _ => open = false,
            },
        }
    }
}

async fn read_report(report: ChildStderr) -> Seen {
    let mut line = String::new();
    let mut report = report.take(REPORT);
    let mut piece = [0; 256];
    while !line.contains('\n') {
        match report.read(&mut piece).await {
            Ok(length) if length > 0 => line.push_str(&String::from_utf8_lossy(&piece[..length])),
            _ => break,
        }
    }
    parse_report(&line)
}

fn parse_report(line: &str) -> Seen {
    let line = line.lines().next().unwrap_or_default();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match (word, rest.parse()) {
        ("exit", Ok(code)) => Seen::Ended(Ended::Exited(code)),
        ("signal", Ok(signal)) => Seen::Ended(Ended::Signalled(signal)),
        ("error", _) => Seen::Ended(Ended::Failed(format!("the shell could not be started: {rest}"))),
        _ => Seen::Lost,
    }
}

/// Reads what is still in the pipe. Returns whether it came to its end.
async fn drain(output: &mut ChildStdout, sink: &mut dyn OutputSink, quiet: Duration) -> bool {
    let until = Instant::now() + quiet.max(DRAIN);
    let mut piece = vec![0; PIECE];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false; // a flood never lets a time-out come first
        }
        match timeout(quiet.min(left), output.read(&mut piece)).await {
            Ok(Ok(length)) if length > 0 => sink.take(&piece[..length]),
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}

async fn discard(mut output: impl AsyncRead + Unpin) {
    let mut piece = vec![0; PIECE];
    while matches!(output.read(&mut piece).await, Ok(length) if length > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_strictly() {
        for (line, expected) in [
            ("exit 0\n", Some(Ended::Exited(0))),
            ("exit 255\nsurplus", Some(Ended::Exited(255))),
            ("signal 9\n", Some(Ended::Signalled(9))),
            (
                "error no such file\n",
                Some(Ended::Failed("the shell could not be started: no such file".into())),
            ),
            ("exit\n", None),
            ("exit x\n", None),
            ("thread 'main' panicked\n", None),
            ("", None),
        ] {
            let got = match parse_report(line) {
                Seen::Ended(ended) => Some(ended),
                _ => None,
            };
            assert_eq!(got, expected, "{line:?}");
        }
    }
}
