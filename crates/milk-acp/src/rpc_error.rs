//! Errors as clients see them (R16, R17).

use agent_client_protocol_schema::v2;
use milk_core::failure::Failure;
use milk_engine::OpenError;
use serde_json::{Map, Value};

use crate::visible;
use crate::wire::Version;

/// Longest piece of a client's own text that an error repeats, in characters.
const QUOTED: usize = 120;

/// Why a request is refused. It becomes a code and a `data` object; the code of a plain failure depends on the version
/// (R16).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum RpcError {
    /// A message that is no request.
    #[error("{0}")]
    InvalidRequest(String),
    /// A method that milk does not have.
    #[error("method not found: {0}")]
    MethodNotFound(String),
    /// Parameters that do not fit; the text says which.
    #[error("{0}")]
    InvalidParams(String),
    /// A session that does not exist.
    #[error("{method}: unknown session \"{session}\"")]
    UnknownSession {
        /// Which request named it.
        method: &'static str,
        /// The name.
        session: String,
    },
    /// A prompt that was cancelled before its turn began (R12).
    #[error("the prompt was cancelled before it ran")]
    Cancelled,
    /// Everything else.
    #[error("{0}")]
    Failed(Failure),
}

impl RpcError {
    pub(crate) fn method_not_found(method: &str) -> Self {
        Self::MethodNotFound(quote(method))
    }

    pub(crate) fn unknown_session(method: &'static str, session: &str) -> Self {
        Self::UnknownSession { method, session: quote(session) }
    }

    /// Why a session did not open, seen from the request that asked for it.
    pub(crate) fn from_open(error: OpenError, method: &'static str) -> Self {
        match error {
            OpenError::Unknown(id) => Self::unknown_session(method, id.as_str()),
            OpenError::Failed(failure) => Self::Failed(failure),
            taken @ OpenError::Taken(_) => {
                Self::Failed(Failure { retryable: true, ..Failure::new("session_taken", taken.to_string()) })
            }
            locked @ OpenError::Locked { .. } => Self::Failed(Failure {
                retryable: true,
                ..Failure::new("session_locked", locked.to_string())
            }),
        }
    }

    /// A bug of milk's own, found by the guard around a handler.
    pub(crate) fn bug(method: &str) -> Self {
        let details = format!("milk failed while it handled {}; this is a bug in milk.", quote(method));
        Self::Failed(Failure::new("internal", details))
    }

    fn code(&self, version: Version) -> i32 {
        match self {
            Self::InvalidRequest(_) => -32600,
            Self::MethodNotFound(_) => -32601,
            Self::InvalidParams(_) => -32602,
            Self::UnknownSession { .. } => -32002,
            Self::Cancelled => -32800,
            // v1 clients read -32000 as "authentication required" and open a sign-in page.
            Self::Failed(_) => match version {
                Version::V1 => -32603,
                Version::V2 => -32000,
            },
        }
    }

    fn data(&self) -> Map<String, Value> {
        let mut data = Map::new();
        let mut put = |key: &str, value: Value| data.insert(key.to_owned(), value);
        match self {
            Self::InvalidRequest(_) => put("kind", "invalid_request".into()),
            Self::MethodNotFound(_) => put("kind", "method_not_found".into()),
            Self::InvalidParams(_) => put("kind", "invalid_params".into()),
            Self::UnknownSession { .. } => put("kind", "unknown_session".into()),
            Self::Cancelled => put("kind", "cancelled".into()),
            Self::Failed(failure) => put("kind", failure.kind.clone().into()),
        };
        put("details", self.details().into());
        match self {
            Self::UnknownSession { session, .. } => {
                put("sessionId", session.clone().into());
            }
            Self::Failed(failure) => {
                put("retryable", failure.retryable.into());
                if let Some(provider) = &failure.provider {
                    put("provider", provider.clone().into());
                }
                if let Some(status) = failure.status {
                    put("status", status.into());
                }
            }
            _ => {}
        }
        data
    }

    /// One sentence for a person.
    fn details(&self) -> String {
        match self {
            Self::MethodNotFound(method) => format!("milk does not have the method {method}."),
            Self::UnknownSession { session, .. } => format!("There is no session \"{session}\"."),
            other => one_line(&other.to_string()),
        }
    }

    /// The error object; v1's and v2's have one form.
    pub(crate) fn object(&self, version: Version) -> v2::Error {
        v2::Error::new(self.code(version), one_line(&self.to_string())).data(Value::Object(self.data()))
    }
}

/// The error object of a failed turn's `idle` (R11).
pub(crate) fn turn_failure(failure: &Failure) -> v2::Error {
    RpcError::Failed(failure.clone()).object(Version::V2)
}

/// What a peer wrote, cut and made visible, fit to stand in an error.
fn quote(text: &str) -> String {
    let cut = text.char_indices().nth(QUOTED).map(|(at, _)| at);
    let shown = visible::line(cut.map_or(text, |at| &text[..at]));
    if cut.is_some() { format!("{shown}…") } else { shown.into_owned() }
}

/// A message is one line that is not empty, whatever it was made from.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "unknown error".to_owned() } else { visible::line(&line).into_owned() }
}

/// A refused parameter, named with its method.
pub(crate) fn bad_param(method: &str, name: &str, expected: &str) -> RpcError {
    RpcError::InvalidParams(format!("{method}: {name} must be {expected}"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn object(error: &RpcError, version: Version) -> Value {
        serde_json::to_value(error.object(version)).unwrap()
    }

    #[test]
    fn codes_and_data() {
        let provider = Failure {
            kind: "rate_limited".into(),
            details: "ollama: busy".into(),
            retryable: true,
            provider: Some("ollama".into()),
            status: Some(429),
        };
        let cases = [
            (
                RpcError::method_not_found("session/load"),
                json!({"code": -32601, "message": "method not found: session/load",
                    "data": {"kind": "method_not_found", "details": "milk does not have the method session/load."}}),
            ),
            (
                bad_param("session/new", "cwd", "a text"),
                json!({"code": -32602, "message": "session/new: cwd must be a text",
                    "data": {"kind": "invalid_params", "details": "session/new: cwd must be a text"}}),
            ),
            (
                RpcError::unknown_session("session/prompt", "s1"),
                json!({"code": -32002, "message": "session/prompt: unknown session \"s1\"",
                    "data": {"kind": "unknown_session", "details": "There is no session \"s1\".", "sessionId": "s1"}}),
            ),
            (
                RpcError::Cancelled,
                json!({"code": -32800, "message": "the prompt was cancelled before it ran",
                    "data": {"kind": "cancelled", "details": "the prompt was cancelled before it ran"}}),
            ),
            (
                RpcError::Failed(provider),
                json!({"code": -32000, "message": "ollama: busy",
                    "data": {"kind": "rate_limited", "details": "ollama: busy", "retryable": true,
                        "provider": "ollama", "status": 429}}),
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(object(&error, Version::V2), expected);
            let v1 = object(&error, Version::V1);
            assert_eq!(
                v1["code"],
                if expected["code"] == -32000 { json!(-32603) } else { expected["code"].clone() }
            );
            assert_eq!(v1["data"], expected["data"]);
        }
    }

    #[test]
    fn an_error_is_one_bounded_visible_line() {
        let nasty = format!("a\n\u{1b}[2J{}", "x".repeat(100_000));
        for error in [RpcError::method_not_found(&nasty), RpcError::unknown_session("session/prompt", &nasty)]
        {
            let text = object(&error, Version::V2).to_string();
            assert!(text.len() < 1000 && !text.contains("\\u001b") && !text.contains("\\n\\u"), "{text}");
        }
        let empty = RpcError::Failed(Failure::new("internal", " \n"));
        assert_eq!(object(&empty, Version::V1)["message"], json!("unknown error"));
    }
}
