//! The id of a JSON-RPC request: any JSON value, compared as it is.

use std::fmt;

use serde_json::Value;

/// The id of a request, of the test's or of the agent's.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestId(Value);

impl RequestId {
    /// The id as JSON.
    pub fn as_json(&self) -> &Value {
        &self.0
    }

    /// The id of this request message.
    pub fn of(request: &Value) -> Self {
        Self(request["id"].clone())
    }

    /// Whether this message is the response to the request with this id.
    pub fn is_answered_by(&self, message: &Value) -> bool {
        let is_response = message.get("method").is_none()
            && (message.get("result").is_some() || message.get("error").is_some());
        is_response && message.get("id") == Some(&self.0)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Value> for RequestId {
    fn from(id: Value) -> Self {
        Self(id)
    }
}

impl From<i64> for RequestId {
    fn from(id: i64) -> Self {
        Self(id.into())
    }
}

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<&Self> for RequestId {
    fn from(id: &Self) -> Self {
        id.clone()
    }
}
