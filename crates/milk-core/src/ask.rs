//! Questions to a person, and their answers. Several sources may race to answer one question; the first real answer
//! wins (contract: Tool permissions, Remote oversight).

use crate::id::{OptionId, QuestionId, ToolCallId};

/// A question with fixed choices: a permission, later also a wizard's clickable step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Which question.
    pub id: QuestionId,
    /// Who asks.
    pub asker: Asker,
    /// `Allow <tool>?` (contract: Request shape).
    pub title: String,
    /// What would be done, whole: the command, the path, who asks.
    pub summary: String,
    /// The tool row that the question is about.
    pub subject: Option<ToolCallId>,
    /// The choices, in the order to show them.
    pub options: Vec<AnswerOption>,
}

/// Who asks. Only the foreground makes its conversation wait visibly (R10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asker {
    /// The running turn.
    Foreground,
    /// Work that runs beside the turn; the text names it for the person.
    Background(String),
}

/// One choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerOption {
    /// Reported back when it is picked.
    pub id: OptionId,
    /// What the button says.
    pub label: String,
    /// What kind of choice it is.
    pub kind: OptionKind,
}

/// The kind of a choice, for icons and for clients that answer by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// Yes, now.
    AllowOnce,
    /// Yes, and remember it.
    AllowAlways,
    /// No, now.
    RejectOnce,
}

/// How one source ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskOutcome {
    /// A person (or a policy standing in for one) picked this choice. An id that was not offered is a no.
    Picked(OptionId),
    /// A person dismissed the question: a no.
    Dismissed,
    /// The source could not ask. No answer while another source is open; a no, with this cause shown, when it was the
    /// last (R28).
    Unanswered {
        /// One line naming the cause.
        cause: String,
    },
}
