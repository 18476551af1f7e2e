//! Questions on their way to the person, and what the client makes of them. Anything but a clear yes is a no (R28).

use milk_core::ask::{AskOutcome, Question};
use milk_core::event::AnswerSlot;
use milk_core::id::{OptionId, PromptId, QuestionId};
use serde_json::Value;

use super::{View, ViewState};
use crate::map::PERMISSION;
use crate::peer::{self, CallOutcome, OnDone};
use crate::wire::Handle;
use crate::writer::Outgoing;

impl View {
    pub(super) fn ask(
        &self,
        state: &mut ViewState,
        prompt: Option<PromptId>,
        question: &Question,
        answer: AnswerSlot,
    ) {
        let Some(handle) = state.handle_for(prompt) else { return };
        let id = question.id;
        let offered: Vec<OptionId> = question.options.iter().map(|option| option.id.clone()).collect();
        let view = self.me.clone();
        let on_done: OnDone = Box::new(move |outcome| {
            if let Some(view) = view.upgrade() {
                view.lock().questions.remove(&id);
            }
            answer.answer(read_outcome(outcome, &offered));
        });
        // Refused when the client is gone: the slot has then been dropped, which says so.
        let Some(call) = self.link.calls.register(on_done) else { return };
        state.questions.insert(id, call);
        let line = state.map.question(call.0, question, &handle);
        state.gate.pass(Outgoing::about(&handle, line), &self.link.writer);
    }

    /// Takes a question from the screen.
    pub(super) fn withdraw(&self, state: &mut ViewState, id: QuestionId) {
        let Some(call) = state.questions.remove(&id) else { return };
        if !self.link.calls.withdraw(call) {
            return;
        }
        let line = peer::notification("$/cancel_request", &serde_json::json!({ "requestId": call.0 }));
        let of = state.turn.clone().or_else(|| state.last_named.clone()).unwrap_or_else(|| Handle::new(""));
        state.gate.pass(Outgoing::about(&of, line), &self.link.writer);
    }
}

fn read_outcome(outcome: CallOutcome<'_>, offered: &[OptionId]) -> AskOutcome {
    match outcome {
        CallOutcome::Answered(result) => {
            let picked = picked(result.get()).map(OptionId::from);
            match picked.filter(|option| offered.contains(option)) {
                Some(option) => AskOutcome::Picked(option),
                None => AskOutcome::Dismissed,
            }
        }
        CallOutcome::Refused(error) => {
            AskOutcome::Unanswered { cause: format!("{PERMISSION}: {}", one_line(&error.message)) }
        }
        CallOutcome::Gone => AskOutcome::Unanswered { cause: format!("{PERMISSION}: the client is gone") },
    }
}

fn picked(result: &str) -> Option<String> {
    let mut result: Value = serde_json::from_str(result).ok()?;
    let outcome = result.get_mut("outcome")?;
    if outcome.get("outcome")?.as_str()? != "selected" {
        return None;
    }
    match outcome.get_mut("optionId")?.take() {
        Value::String(option) => Some(option),
        _ => None,
    }
}

/// A client's message, fit to be shown in one line.
fn one_line(message: &str) -> String {
    let line: String = message.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect();
    if line.is_empty() { "it gave no reason".to_owned() } else { crate::visible::line(&line).into_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::peer::CallError;

    fn outcome(result: &str) -> AskOutcome {
        let raw = RawValue::from_string(result.to_owned()).unwrap();
        read_outcome(CallOutcome::Answered(&raw), &["allow".into(), "deny".into()])
    }

    #[test]
    fn only_an_offered_option_is_picked() {
        for option in ["allow", "deny"] {
            let result =
                format!(r#"{{"outcome":{{"outcome":"selected","optionId":"{option}"}},"_meta":null}}"#);
            assert_eq!(outcome(&result), AskOutcome::Picked(option.into()));
        }
        for no in [
            r#"{"outcome":{"outcome":"selected","optionId":"nope"}}"#,
            r#"{"outcome":{"outcome":"selected","optionId":"Allow"}}"#,
            r#"{"outcome":{"outcome":"selected","optionId":1}}"#,
            r#"{"outcome":{"outcome":"selected"}}"#,
            r#"{"outcome":{"outcome":"_later","optionId":"allow"}}"#,
            r#"{"outcome":{"optionId":"allow"}}"#,
            r#"{"outcome":{"outcome":"cancelled"}}"#,
            r#"{"outcome":"selected","optionId":"allow"}"#,
            r#"{"outcome":"selected"}"#,
            r#"{"outcome":null}"#,
            "{}",
            "null",
            "\"allow\"",
            "[]",
        ] {
            assert_eq!(outcome(no), AskOutcome::Dismissed, "{no}");
        }
    }

    #[test]
    fn a_client_that_cannot_ask_is_no_answer_and_says_why() {
        let refused = |message: &str| {
            let error = CallError { code: -32601, message: message.to_owned(), data: None };
            read_outcome(CallOutcome::Refused(error), &["allow".into()])
        };
        let cause = |cause: &str| AskOutcome::Unanswered { cause: cause.to_owned() };
        assert_eq!(refused("Method\nnot found"), cause("session/request_permission: Method not found"));
        assert_eq!(refused(""), cause("session/request_permission: it gave no reason"));
        assert_eq!(
            read_outcome(CallOutcome::Gone, &[]),
            cause("session/request_permission: the client is gone")
        );
    }
}
