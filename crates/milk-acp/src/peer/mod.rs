//! The JSON-RPC peer: what a line is, ids as they were sent, and the calls that milk has open with the other side.
//!
//! It is milk's own because the contract drops lines that do not parse, answers before `initialize` and takes lenient
//! parameters, which the official SDK's typed path refuses.

mod calls;
mod id;
mod incoming;
mod outgoing;

pub(crate) use calls::{CallId, CallOutcome, Calls, OnDone};
pub(crate) use id::{RawId, RequestKey};
pub(crate) use incoming::{Incoming, classify};
pub(crate) use outgoing::{call, failure, notification, response};

use serde::Deserialize;
use serde_json::Value;

/// What the other side says when it refuses a call.
#[derive(Debug, Clone, PartialEq, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// JSON-RPC error code; 0 where it gave none.
    #[serde(default)]
    pub code: i64,
    /// Its message; may be empty.
    #[serde(default)]
    pub message: String,
    /// Whatever it added.
    #[serde(default)]
    pub data: Option<Value>,
}

impl CallError {
    /// The sentence that is meant for a person: `data.details` or a text in `data` where there is one, else the message.
    pub fn details(&self) -> &str {
        let data = self.data.as_ref().and_then(|data| match data {
            Value::String(text) => Some(text.as_str()),
            other => other.get("details").and_then(Value::as_str),
        });
        data.filter(|text| !text.trim().is_empty()).unwrap_or(&self.message)
    }
}
