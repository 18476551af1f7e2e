//! What to play: read from the plan file that the caller wrote.

use std::{path::PathBuf, time::Duration};

use agent_client_protocol::{AcpAgent, AcpAgentConfig};
use anyhow::{Context as _, Result};
use serde::Deserialize;

/// A whole run: one agent process, one session, some turns.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub version: u16,
    pub agent: Vec<String>,
    pub cwd: PathBuf,
    /// The longest that one step may take, in milliseconds.
    pub step_limit_ms: u64,
    pub steps: Vec<Step>,
}

/// One turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub name: String,
    pub prompt: String,
    pub answer: Answer,
    pub cancel: Cancel,
}

/// How permission questions of the step are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Allow,
    #[default]
    Reject,
}

/// When the step's turn is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cancel {
    Never,
    /// Once the first text of the turn has come.
    FirstText,
    /// In the line after the prompt.
    AtOnce,
}

impl Plan {
    /// The agent as the SDK wants it: the SDK starts and ends the process.
    pub fn agent(&self) -> Result<AcpAgent> {
        let (program, arguments) = self.agent.split_first().context("the plan names no agent")?;
        Ok(AcpAgent::new(AcpAgentConfig::new(program).args(arguments)))
    }

    pub fn step_limit(&self) -> Duration {
        Duration::from_millis(self.step_limit_ms)
    }
}
