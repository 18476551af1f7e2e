//! What one turn brought, counted while it comes, and printed at its end.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use crate::plan::Answer;

/// What the agent has shown of the current turn.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub answer: Answer,
    text: String,
    chunks: u32,
    permissions: u32,
    tools: BTreeMap<String, String>,
    /// v2: foreground work was seen, so that an idle that follows ends this turn and no earlier one.
    active: bool,
    idle: Option<Option<String>>,
}

/// The tally as handlers and the player share it.
#[derive(Clone, Debug)]
pub struct Board(watch::Sender<Tally>);

impl Board {
    pub fn new() -> Self {
        Self(watch::Sender::new(Tally::default()))
    }

    /// Starts the tally of a new turn.
    pub fn begin(&self, answer: Answer) {
        self.0.send_replace(Tally { answer, ..Tally::default() });
    }

    pub fn text(&self, text: &str) {
        self.0.send_modify(|tally| {
            tally.text.push_str(text);
            tally.chunks += 1;
        });
    }

    pub fn tool(&self, id: &str, status: Option<&impl Serialize>) {
        let status = status.map(word);
        self.0.send_modify(|tally| {
            let slot = tally.tools.entry(id.to_owned()).or_default();
            if let Some(status) = status {
                *slot = status;
            }
        });
    }

    /// Counts a question and says how it is to be answered.
    pub fn asked(&self) -> Answer {
        self.0.send_modify(|tally| tally.permissions += 1);
        self.0.borrow().answer
    }

    pub fn busy(&self) {
        self.0.send_modify(|tally| tally.active = true);
    }

    pub fn idle(&self, stop: Option<&impl Serialize>) {
        let stop = stop.map(word);
        self.0.send_if_modified(|tally| {
            let ends = tally.active && tally.idle.is_none();
            if ends {
                tally.idle = Some(stop);
            }
            ends
        });
    }

    pub async fn first_text(&self) -> Result<()> {
        let mut seen = self.0.subscribe();
        seen.wait_for(|tally| tally.chunks > 0).await?;
        Ok(())
    }

    /// v2: the end of the turn and its stop reason.
    pub async fn ended(&self) -> Result<String> {
        let mut seen = self.0.subscribe();
        let tally = seen.wait_for(|tally| tally.idle.is_some()).await?;
        tally.idle.clone().flatten().context("idle came without a stop reason")
    }

    /// Prints the turn's line.
    pub fn report(&self, name: &str, stop: &impl Serialize) {
        let tally = self.0.borrow().clone();
        say(&json!({
            "kind": "turn", "name": name, "stop": stop, "text": tally.text, "chunks": tally.chunks,
            "permissions": tally.permissions, "tools": tally.tools,
        }));
    }
}

/// Awaits one step's work, but not for ever.
pub async fn in_time<T>(limit: Duration, what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, work)
        .await
        .with_context(|| format!("{what}: nothing after {} s", limit.as_secs()))?
        .with_context(|| what.to_owned())
}

/// Prints one line of the report.
pub fn say(line: &serde_json::Value) {
    println!("{line}");
}

/// A wire enum's word. v2's stop reason is flattened into the state, and so is an object with that one key.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(serde_json::Value::Object(fields)) => {
            let mut words = fields.values().filter_map(serde_json::Value::as_str);
            words.next().unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}
