//! Rows and questions: an id is used once, a row ends once and before its turn, output comes only from a row that runs, a
//! question is about a pending row and is gone when the turn goes on; an effect runs alone (R28, R30; bug case 044).

use std::collections::{HashMap, HashSet};

use milk_core::ask::Question;
use milk_core::event::{EventKind, RowChange, RowStatus, State};
use milk_core::id::{QuestionId, ToolCallId};

use super::Broken;
use crate::fakes::journal::{Nature, Seen, ToolNote};
use crate::lines;

#[derive(Default)]
struct Rows {
    status: HashMap<ToolCallId, RowStatus>,
    open_question: Option<QuestionId>,
    questions: HashSet<QuestionId>,
    /// Questions that the front end dealt with by itself: they need not be withdrawn.
    taken: HashSet<QuestionId>,
}

pub(super) fn check(entries: &[Seen], broken: &mut Broken) {
    let mut rows = Rows::default();
    for seen in entries {
        if let Seen::QuestionTaken(id) = seen {
            rows.taken.insert(*id);
        }
        if let Seen::Event(event) = seen {
            let fault = rows.step(&event.kind);
            broken.unless(fault.is_none(), || {
                format!("{}: {:?}", fault.unwrap_or_default(), lines::event(event))
            });
        }
    }
    effects_run_alone(entries, broken);
}

impl Rows {
    /// Takes one event in; tells the law that it breaks.
    fn step(&mut self, kind: &EventKind) -> Option<&'static str> {
        match kind {
            EventKind::ToolCallStarted(row) => {
                let known = self.status.insert(row.id.clone(), row.status).is_some();
                let readable = !row.name.is_empty() && !row.title.is_empty() && !row.id.as_str().is_empty();
                let open = !matches!(row.status, RowStatus::Ended(_));
                (known || !readable || !open).then_some("a row begins once, open, with an id and a title")
            }
            EventKind::ToolCallChanged { id, change } => {
                let row = self.status.get_mut(id);
                let (next, allowed) = match change {
                    RowChange::Running => (RowStatus::InProgress, matches!(row, Some(RowStatus::Pending))),
                    RowChange::Ended { status, .. } => (
                        RowStatus::Ended(*status),
                        matches!(row, Some(RowStatus::Pending | RowStatus::InProgress)),
                    ),
                };
                if let Some(row) = row {
                    *row = next;
                }
                (!allowed).then_some("a row goes from pending to running to its end, once")
            }
            EventKind::ToolOutput { id, text } => {
                let runs = self.status.get(id) == Some(&RowStatus::InProgress);
                (!runs || text.is_empty()).then_some("output comes from a row that runs")
            }
            EventKind::Asked { question, .. } => self.asked(question),
            EventKind::AskWithdrawn(id) => {
                (self.open_question.take() != Some(*id)).then_some("only an open question is withdrawn")
            }
            EventKind::State(State::Running) => {
                self.open_question = None;
                None
            }
            EventKind::State(State::Idle { .. }) => {
                let open = self.status.values().any(|row| !matches!(row, RowStatus::Ended(_)));
                let asking = self.open_question.take().is_some_and(|id| !self.taken.contains(&id));
                (open || asking).then_some("every row and question is closed before idle")
            }
            _ => None,
        }
    }

    fn asked(&mut self, question: &Question) -> Option<&'static str> {
        let fresh = self.questions.insert(question.id);
        let alone = self.open_question.replace(question.id).is_none();
        let pending =
            question.subject.as_ref().is_some_and(|row| self.status.get(row) == Some(&RowStatus::Pending));
        let options: Vec<&str> = question.options.iter().map(|option| option.id.as_str()).collect();
        let known = options == ["allow", "allow_always", "deny"] || options == ["allow", "deny"];
        (!fresh || !alone || !pending || !known)
            .then_some("one question at a time, about a pending row, with the options of R28")
    }
}

fn effects_run_alone(entries: &[Seen], broken: &mut Broken) {
    let mut running: Vec<(&str, Nature)> = Vec::new();
    for seen in entries {
        let Seen::Tool { label, nature, what } = seen else { continue };
        match what {
            ToolNote::Prepared => {}
            ToolNote::Starts => {
                let together =
                    running.iter().all(|(_, other)| *other == Nature::Looks && *nature == Nature::Looks);
                broken.unless(together, || format!("an effect runs alone: {label} beside {running:?}"));
                running.push((label, *nature));
            }
            ToolNote::Ends | ToolNote::Dropped => {
                if let Some(at) = running.iter().position(|(other, _)| other == label) {
                    running.remove(at);
                }
            }
        }
    }
}
