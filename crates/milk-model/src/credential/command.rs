//! Runs a token command: no input, a process group of its own, bounded time and output.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// The longest output that is read, in bytes. A token is far shorter.
const OUTPUT_LIMIT: u64 = 64 << 10;

/// Characters of the command's own complaint that are told.
const COMPLAINT: usize = 200;

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenCommandError {
    #[error("it cannot be started: {0}")]
    NotStarted(String),
    #[error("it ran longer than {} s", .0.as_secs_f64())]
    TooSlow(Duration),
    #[error("it failed ({status}){}", if complaint.is_empty() { String::new() } else { format!(": {complaint}") })]
    Failed { status: String, complaint: String },
    #[error("it printed nothing")]
    Nothing,
    #[error("what it printed is not one line of text")]
    NotALine,
}

/// What the command prints, without the white space around it. Whatever it started is gone when this returns or is
/// dropped.
pub(super) async fn run(line: &str, limit: Duration) -> Result<String, TokenCommandError> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.process_group(0).kill_on_drop(true).spawn();
    let child = child.map_err(|error| TokenCommandError::NotStarted(error.to_string()))?;
    let mut group = Group::of(child);
    tokio::time::timeout(limit, group.outcome()).await.unwrap_or(Err(TokenCommandError::TooSlow(limit)))
}

/// A child and everything that it started; dropping it kills what is left.
struct Group {
    child: Child,
    leader: Option<Pid>,
}

impl Group {
    fn of(child: Child) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { child, leader }
    }

    async fn outcome(&mut self) -> Result<String, TokenCommandError> {
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        let (printed, complaint) = tokio::join!(read(stdout), read(stderr));
        let status =
            self.child.wait().await.map_err(|error| TokenCommandError::NotStarted(error.to_string()))?;
        // Both pipes are closed and the leader is gone: nothing of the group that matters here is left.
        self.leader = None;
        if !status.success() {
            let complaint =
                complaint.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            let complaint = complaint.chars().filter(|c| !c.is_control()).take(COMPLAINT).collect();
            return Err(TokenCommandError::Failed { status: status.to_string(), complaint });
        }
        match printed.trim() {
            "" => Err(TokenCommandError::Nothing),
            token if token.contains(char::is_control) => Err(TokenCommandError::NotALine),
            token => Ok(token.to_owned()),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Reads to the end and keeps the beginning, so that the command never stands before a full pipe.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let mut kept = Vec::new();
    if (&mut pipe).take(OUTPUT_LIMIT).read_to_end(&mut kept).await.is_ok() {
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    async fn run_here(line: &str) -> Result<String, TokenCommandError> {
        run(line, Duration::from_secs(20)).await
    }

    #[tokio::test]
    async fn the_output_is_the_token() {
        assert_eq!(run_here("printf ' tok\\n\\n'; echo noise >&2").await, Ok("tok".to_owned()));
        assert_eq!(run_here("cat; echo tok").await, Ok("tok".to_owned()), "input is closed");
    }

    #[tokio::test]
    async fn faults_are_told_in_one_line() {
        assert_eq!(run_here("true").await, Err(TokenCommandError::Nothing));
        assert_eq!(run_here("printf 'a\\nb'").await, Err(TokenCommandError::NotALine));
        let error =
            run_here("echo; echo 'not logged in' >&2; echo more >&2; exit 3").await.unwrap_err().to_string();
        assert_eq!(error, "it failed (exit status: 3): not logged in");
        let flood = run_here("head -c 1000000 /dev/zero; echo; exit 1").await;
        assert!(matches!(flood, Err(TokenCommandError::Failed { .. })), "{flood:?}");
    }

    #[tokio::test]
    async fn a_slow_command_is_ended() {
        let limit = Duration::from_millis(50);
        assert_eq!(run("sleep 60", limit).await, Err(TokenCommandError::TooSlow(limit)));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn nothing_that_it_started_outlives_it() {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pid");
        let line = format!("sleep 60 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; wait", pid_file.display());
        let started = async {
            while !pid_file.exists() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::select! {
            result = run_here(&line) => panic!("{result:?}"),
            () = started => {}
        }
        let pid: i32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        let is_gone = || {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        while !is_gone() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
