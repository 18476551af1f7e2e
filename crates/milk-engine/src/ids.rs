//! Ids that milk makes up: prompts and questions for the process, messages and calls for a conversation.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use milk_core::id::{MessageId, PromptId, QuestionId, SessionId, ToolCallId};

static NEXT_PROMPT: AtomicU64 = AtomicU64::new(1);
static NEXT_QUESTION: AtomicU64 = AtomicU64::new(1);

/// The id of the next prompt, unique in the process. A front end takes one before it submits, so that it can know the
/// prompt by it before the first event arrives.
pub fn next_prompt_id() -> PromptId {
    PromptId(NEXT_PROMPT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn next_question_id() -> QuestionId {
    QuestionId(NEXT_QUESTION.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn new_session_id() -> SessionId {
    SessionId::new(uuid::Uuid::new_v4().to_string())
}

/// What a live message id stands for; the word before the run id.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MessageKind {
    User,
    Agent,
    Thought,
    Notice,
}

impl MessageKind {
    fn word(self) -> &'static str {
        match self {
            Self::User => "msg",
            Self::Agent => "agent",
            Self::Thought => "thought",
            Self::Notice => "note",
        }
    }
}

/// Mints ids for one conversation: `<kind>-<run>-<n>`. The run is random for each conversation and process, so that a live id
/// meets neither a replayed `hist-…` id nor one from before a restart.
#[derive(Debug)]
pub(crate) struct IdMint {
    run: String,
    next: AtomicU64,
}

impl IdMint {
    pub(crate) fn new() -> Self {
        let mut run = uuid::Uuid::new_v4().simple().to_string();
        run.truncate(6);
        Self { run, next: AtomicU64::new(1) }
    }

    pub(crate) fn message(&self, kind: MessageKind) -> MessageId {
        MessageId::new(format!("{}-{}-{}", kind.word(), self.run, self.count()))
    }

    /// The provider's id for a call where it is usable (not empty, not seen in this session), else one of milk's own.
    pub(crate) fn call(&self, offered: Option<&str>, seen: &HashSet<ToolCallId>) -> ToolCallId {
        if let Some(offered) = offered.map(str::trim).filter(|id| !id.is_empty() && id.len() <= 256) {
            let id = ToolCallId::from(offered);
            if !seen.contains(&id) {
                return id;
            }
        }
        ToolCallId::new(format!("call-{}-{}", self.run, self.count()))
    }

    fn count(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_id_is_never_empty_and_never_repeated() {
        let mint = IdMint::new();
        let mut seen = HashSet::new();
        assert_eq!(mint.call(Some("call_1"), &seen).as_str(), "call_1");
        seen.insert(ToolCallId::from("call_1"));
        let mut made = HashSet::new();
        for offered in [Some("call_1"), Some(""), Some("  "), None, Some("call_1")] {
            assert!(made.insert(mint.call(offered, &seen)), "{offered:?} gave an id twice");
        }
    }
}
