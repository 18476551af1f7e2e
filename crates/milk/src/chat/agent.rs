//! The agent that a chat talks to.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use milk_acp::client::{Client, Events};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::compose::{self, Process};
use crate::exit;

/// How long an agent may take to end.
const ENDING: Duration = Duration::from_secs(2);

/// An agent at the other end.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) events: Events,
    pub(super) hold: Hold,
}

/// What must be ended with the chat.
pub(super) enum Hold {
    Own { served: JoinHandle<io::Result<milk_acp::ServeEnd>>, stop: CancellationToken, process: Process },
    Other(Child),
}

/// milk, in this process, behind two pipes: the same bytes as for an editor.
pub(super) fn own(stop: CancellationToken) -> Result<Connected> {
    let process = Process::from_env()?;
    let (agent_in, to_agent) = io::pipe()?;
    let (from_agent, agent_out) = io::pipe()?;
    let engine = compose::engine(&process);
    let settings = crate::serve::settings(&process);
    exit::end_soon_after(stop.clone(), process.commands.clone());
    let served = tokio::spawn(milk_acp::serve(agent_in, agent_out, engine, settings, stop.clone()));
    let (client, events) = Client::connect(from_agent, to_agent)?;
    Ok(Connected { client, events, hold: Hold::Own { served, stop, process } })
}

/// Any other agent, as a child process. Its standard error is this terminal's.
pub(super) fn other(command: &str, cwd: &Path) -> Result<Connected> {
    let mut child = Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("exec {command}"))
        .current_dir(cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command} cannot be started"))?;
    let (input, output) = child.stdin.take().zip(child.stdout.take()).context("the agent has no pipes")?;
    let (client, events) = Client::connect(output, input)?;
    Ok(Connected { client, events, hold: Hold::Other(child) })
}

impl Hold {
    /// Ends the agent: its input first, then, if it does not take the hint, by force.
    pub(super) async fn end(self, client: &Client) {
        client.hang_up(ENDING).await;
        match self {
            Self::Own { served, stop, process } => {
                let _ = tokio::time::timeout(ENDING, served).await; // what is left ends with the process
                exit::end_children(&process.commands);
                drop(stop);
            }
            Self::Other(mut child) => {
                for _ in 0..ENDING.as_millis() / 20 {
                    if !matches!(child.try_wait(), Ok(None)) {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                let _ = child.kill(); // it may have ended this instant
                let _ = child.wait();
            }
        }
    }
}
