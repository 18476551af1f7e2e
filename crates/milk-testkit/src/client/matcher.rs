//! Matchers: named conditions on lines, for order assertions that say what they missed.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::request_id::RequestId;
use super::transcript::{Direction, Entry};

/// A condition on one line of a transcript, with a name for failure messages.
///
/// ```
/// use milk_testkit::Matcher;
///
/// let end = Matcher::update("state_update").session("s1").field("/params/update/state", "idle");
/// assert_eq!(end.to_string(), "update state_update of session s1 with /params/update/state = \"idle\"");
/// ```
#[derive(Clone)]
pub struct Matcher {
    name: String,
    direction: Direction,
    condition: Arc<dyn Fn(&Value) -> bool + Send + Sync>,
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Matcher({})", self.name)
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Matcher {
    /// A message of the agent's that `condition` holds for.
    pub fn from_agent(name: &str, condition: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        Self { name: name.to_owned(), direction: Direction::FromAgent, condition: Arc::new(condition) }
    }

    /// A message to the agent that `condition` holds for.
    pub fn to_agent(name: &str, condition: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        Self { name: name.to_owned(), direction: Direction::ToAgent, condition: Arc::new(condition) }
    }

    /// A `session/update` of this kind.
    pub fn update(kind: &str) -> Self {
        let wanted = kind.to_owned();
        Self::from_agent(&format!("update {kind}"), move |message| {
            message["method"] == "session/update"
                && message["params"]["update"]["sessionUpdate"] == wanted.as_str()
        })
    }

    /// A `state_update` with this state.
    pub fn state(state: &str) -> Self {
        Self::update("state_update").field("/params/update/state", state)
    }

    /// A request or notification of the agent's with this method.
    pub fn method(method: &str) -> Self {
        let wanted = method.to_owned();
        Self::from_agent(&format!("message {method}"), move |message| message["method"] == wanted.as_str())
    }

    /// A request or notification to the agent with this method.
    pub fn sent(method: &str) -> Self {
        let wanted = method.to_owned();
        Self::to_agent(&format!("sent {method}"), move |message| message["method"] == wanted.as_str())
    }

    /// The agent's response, result or error, to this request.
    pub fn response(id: impl Into<RequestId>) -> Self {
        let id: RequestId = id.into();
        Self::from_agent(&format!("response to {id}"), move |message| id.is_answered_by(message))
    }

    /// Of this session only.
    pub fn session(self, session: &str) -> Self {
        let wanted = session.to_owned();
        self.and(&format!("of session {session}"), move |message| {
            message["params"]["sessionId"] == wanted.as_str()
        })
    }

    /// Only with this value at this JSON pointer.
    pub fn field(self, pointer: &str, value: impl Into<Value>) -> Self {
        let (place, value) = (pointer.to_owned(), value.into());
        let name = format!("with {pointer} = {value}");
        self.and(&name, move |message| message.pointer(&place) == Some(&value))
    }

    /// Only where this holds too.
    pub fn and(self, name: &str, condition: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        let first = self.condition;
        Self {
            name: format!("{} {name}", self.name),
            direction: self.direction,
            condition: Arc::new(move |message| first(message) && condition(message)),
        }
    }

    /// Whether a line matches.
    pub fn matches(&self, entry: &Entry) -> bool {
        entry.direction == self.direction && (self.condition)(&entry.json)
    }
}
