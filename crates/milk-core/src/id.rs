//! Identifiers, one type each, so that a session id can never stand where a message id belongs.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a text as this kind of id. The text is not checked.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The id as it is written on the wire and on disk.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
    };
}

text_id! {
    /// A stored session (a UUID v4 for sessions that milk makes). A conversation's current binding is one of these.
    SessionId
}
text_id! {
    /// One message of a conversation: the user's, the agent's, a thought or a notice. `<kind>-<run>-<n>` when live.
    MessageId
}
text_id! {
    /// One tool call, unique within its session.
    ToolCallId
}
text_id! {
    /// The name of a configured agent.
    AgentName
}
text_id! {
    /// One choice that a question offers, as the front end reports it back.
    OptionId
}

/// One turn of a session, counted from 1 over the session's whole life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(pub u64);

/// One submitted prompt, unique within its process. A front end finds by it which request a turn answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PromptId(pub u64);

/// One open question, unique within its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuestionId(pub u64);
