//! How the test's client answers the questions of the agent.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

/// What to do with a request of the agent's.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Answer with this result.
    Result(Value),
    /// Answer with this error object.
    Error(Value),
    /// Leave it open; the test answers later ([`super::AgentProcess::answer`]) or never.
    Hold,
}

impl Answer {
    /// The permission result that selects this option.
    pub fn selected(option_id: &str) -> Self {
        Self::Result(json!({"outcome": {"outcome": "selected", "optionId": option_id}}))
    }

    /// The permission result of a client that dismissed the question.
    pub fn cancelled() -> Self {
        Self::Result(json!({"outcome": {"outcome": "cancelled"}}))
    }

    /// An error with this code.
    pub fn error(code: i64, message: &str) -> Self {
        Self::Error(json!({"code": code, "message": message}))
    }

    /// The error of a client that does not know the method.
    pub fn not_found() -> Self {
        Self::error(-32601, "method not found")
    }
}

/// How `session/request_permission` is answered. Other requests get -32601, except under [`Policy::Hold`] and
/// [`Policy::script`].
///
/// ```
/// use milk_testkit::{Answer, Policy};
///
/// let question = serde_json::json!({"id": 1, "method": "session/request_permission", "params": {"options": [
///     {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
///     {"optionId": "deny", "name": "Deny", "kind": "reject_once"},
/// ]}});
/// assert_eq!(Policy::Allow.decide(&question), Answer::selected("allow"));
/// assert_eq!(Policy::Deny.decide(&question), Answer::selected("deny"));
/// ```
#[derive(Clone, Default)]
pub enum Policy {
    /// Select the option of kind `allow_once`.
    Allow,
    /// Select the option of kind `reject_once`.
    Deny,
    /// Select the option of this kind.
    Kind(String),
    /// Select this option, offered or not.
    Option(String),
    /// Leave every request open; the test answers later or never.
    #[default]
    Hold,
    /// Ask a closure, for every request of the agent's.
    Script(Arc<dyn Fn(&Value) -> Answer + Send + Sync>),
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("Allow"),
            Self::Deny => f.write_str("Deny"),
            Self::Kind(kind) => write!(f, "Kind({kind})"),
            Self::Option(id) => write!(f, "Option({id})"),
            Self::Hold => f.write_str("Hold"),
            Self::Script(_) => f.write_str("Script(..)"),
        }
    }
}

impl Policy {
    /// A policy that asks a closure about every request of the agent's (the whole message).
    pub fn script(decide: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        Self::Script(Arc::new(decide))
    }

    /// The answer to this request.
    pub fn decide(&self, request: &Value) -> Answer {
        let is_permission = request["method"] == "session/request_permission";
        let by_kind = |kind: &str| {
            let options = request["params"]["options"].as_array().map_or(&[] as &[Value], Vec::as_slice);
            let found =
                options.iter().find(|option| option["kind"] == kind).and_then(|o| o["optionId"].as_str());
            found
                .map_or_else(|| Answer::error(-32602, &format!("no option of kind {kind}")), Answer::selected)
        };
        match self {
            Self::Hold => Answer::Hold,
            Self::Script(decide) => decide(request),
            _ if !is_permission => Answer::not_found(),
            Self::Allow => by_kind("allow_once"),
            Self::Deny => by_kind("reject_once"),
            Self::Kind(kind) => by_kind(kind),
            Self::Option(id) => Answer::selected(id),
        }
    }
}
