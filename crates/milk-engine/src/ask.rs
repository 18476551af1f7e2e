//! The ask race: one question, several sources, the first real answer wins.

use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use milk_core::BoxFuture;
use milk_core::ask::{AskOutcome, Question};
use milk_core::event::{AnswerSlot, EventKind};
use milk_core::id::{OptionId, QuestionId};
use milk_core::ports::AskSource;
use tokio::sync::oneshot;

use crate::emit::Emitter;

/// What a question came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Somebody picked this.
    Picked(OptionId),
    /// Somebody said no without picking.
    Dismissed,
    /// Nobody could be asked; the causes in one line.
    NobodyAsked(String),
}

/// Puts a question to the front end and to every other source at once. Dropping the future withdraws the question
/// everywhere. A source that could not ask is no answer while another is open (R28).
pub(crate) async fn race(emitter: &Emitter, sources: &[Arc<dyn AskSource>], question: Question) -> Answer {
    let mut open: FuturesUnordered<BoxFuture<'_, AskOutcome>> = FuturesUnordered::new();
    let asked = question.clone();
    open.push(Box::pin(ask_front_end(emitter, asked)));
    for source in sources {
        open.push(source.ask(&question));
    }
    let mut causes = Vec::new();
    while let Some(outcome) = open.next().await {
        match outcome {
            AskOutcome::Picked(option) => return Answer::Picked(option),
            AskOutcome::Dismissed => return Answer::Dismissed,
            AskOutcome::Unanswered { cause } => causes.push(cause),
        }
    }
    Answer::NobodyAsked(causes.join("; "))
}

async fn ask_front_end(emitter: &Emitter, question: Question) -> AskOutcome {
    let (sender, receiver) = oneshot::channel();
    let mut withdrawal = Withdrawal { emitter, question: Some(question.id) };
    let answer = AnswerSlot::new(move |outcome| {
        let _ = sender.send(outcome); // the asker may be gone
    });
    emitter.emit(EventKind::Asked { question, answer });
    let outcome = receiver.await;
    withdrawal.question = None;
    outcome.unwrap_or_else(|_| AskOutcome::Unanswered { cause: "the front end is gone".into() })
}

/// Takes the question from the screen when its asker is dropped before the answer came.
struct Withdrawal<'a> {
    emitter: &'a Emitter,
    question: Option<QuestionId>,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            self.emitter.emit(EventKind::AskWithdrawn(question));
        }
    }
}
