//! The logs: turns follow one another, every call has one result, and what is shown as ended is kept already. A log that
//! failed on the way is not judged.

use std::collections::HashMap;

use milk_core::event::{EventKind, RowChange, State};
use milk_core::id::{SessionId, ToolCallId, TurnId};
use milk_core::record::Record;

use super::Broken;
use crate::fakes::journal::Seen;
use crate::lines;

#[derive(Default)]
struct Log {
    open: Option<TurnId>,
    newest: Option<TurnId>,
    /// Every call of the session, and whether it has a result.
    calls: HashMap<ToolCallId, bool>,
}

pub(super) fn check(entries: &[Seen], broken: &mut Broken) {
    if entries.iter().any(|seen| matches!(seen, Seen::LogFailed)) {
        return;
    }
    let mut logs: HashMap<SessionId, Log> = HashMap::new();
    // Another conversation may be at work too: what is shown is judged by the log that was written last.
    let mut newest = None;
    for seen in entries {
        let fault = match seen {
            Seen::Record(session, record) => {
                newest = Some(session);
                logs.entry(session.clone()).or_default().kept(record)
            }
            Seen::Event(event) => {
                newest.and_then(|session| logs.get(session)).and_then(|log| log.shown(&event.kind))
            }
            Seen::Deleted(session) => {
                logs.remove(session);
                None
            }
            Seen::LogFailed | Seen::Tool { .. } | Seen::QuestionTaken(_) => None,
        };
        broken.unless(fault.is_none(), || format!("{}: {:?}", fault.unwrap_or_default(), lines::seen(seen)));
    }
}

impl Log {
    fn kept(&mut self, record: &Record) -> Option<&'static str> {
        match record {
            Record::TurnStarted { turn, .. } => {
                let follows = self.newest.is_none_or(|newest| *turn > newest);
                let alone = self.open.replace(*turn).is_none();
                self.newest = Some(*turn);
                (!follows || !alone).then_some("turns follow one another")
            }
            Record::ModelSaid { turn, said, .. } => {
                let fresh = said
                    .tool_calls
                    .iter()
                    .filter(|call| self.calls.insert(call.id.clone(), false).is_none())
                    .count();
                let holds = self.open == Some(*turn) && fresh == said.tool_calls.len();
                (!holds).then_some("what is said belongs to the open turn, and its calls have new ids")
            }
            Record::ToolEnded { turn, call, .. } => {
                let first = self.calls.insert(call.clone(), true) == Some(false);
                (!first || self.open != Some(*turn)).then_some("a call of this turn has one result")
            }
            Record::TurnEnded { turn, .. } => {
                let was_open = self.open.take() == Some(*turn);
                let paired = self.calls.values().all(|has_result| *has_result);
                (!was_open || !paired).then_some("a turn ends once, and its calls have results then")
            }
            Record::Routed { turn, .. } => {
                (self.open != Some(*turn)).then_some("a route is of the open turn")
            }
            Record::Noted { .. } => None,
        }
    }

    fn shown(&self, kind: &EventKind) -> Option<&'static str> {
        match kind {
            EventKind::ToolCallChanged { id, change: RowChange::Ended { .. } } => {
                (self.calls.get(id) == Some(&false)).then_some("an end is in the log before it is shown")
            }
            EventKind::State(State::Idle { .. }) => {
                self.open.map(|_| "the turn's end is in the log before it is shown")
            }
            _ => None,
        }
    }
}
