//! What a session remembers: a fold of its records into turns.

use std::collections::HashSet;

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::failure::Failure;
use milk_core::id::{ToolCallId, TurnId};
use milk_core::model::AssistantMessage;
use milk_core::record::{Record, TurnWork};
use milk_core::tool::ToolStatus;

/// The turns of a session, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    turns: Vec<TurnHistory>,
    calls: HashSet<ToolCallId>,
}

/// One turn.
#[derive(Debug)]
pub(crate) struct TurnHistory {
    pub(crate) id: TurnId,
    pub(crate) content: Vec<ContentBlock>,
    pub(crate) work: TurnWork,
    pub(crate) steps: Vec<Step>,
    pub(crate) ending: Ending,
}

/// One response of the model and what its calls gave.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) said: AssistantMessage,
    pub(crate) results: Vec<CallResult>,
}

#[derive(Debug)]
pub(crate) struct CallResult {
    pub(crate) call: ToolCallId,
    pub(crate) status: ToolStatus,
    pub(crate) output: String,
}

/// How a turn stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ending {
    /// It runs, or the process died while it ran.
    Open,
    Ended {
        stop: StopReason,
        failure: Option<Failure>,
    },
}

impl History {
    pub(crate) fn from_records(records: Vec<Record>) -> Self {
        let mut history = Self::default();
        for record in records {
            history.apply(record);
        }
        history
    }

    /// Takes one record in. A record of a turn that is not the newest is ignored: logs are written in order.
    pub(crate) fn apply(&mut self, record: Record) {
        match record {
            Record::TurnStarted { turn, content, work, .. } => {
                self.turns.push(TurnHistory {
                    id: turn,
                    content,
                    work,
                    steps: Vec::new(),
                    ending: Ending::Open,
                });
            }
            Record::ModelSaid { turn, said, .. } => {
                self.calls.extend(said.tool_calls.iter().map(|call| call.id.clone()));
                if let Some(newest) = self.turn_mut(turn) {
                    newest.steps.push(Step { said, results: Vec::new() });
                }
            }
            Record::ToolEnded { turn, call, status, output, .. } => {
                if let Some(step) = self.turn_mut(turn).and_then(|newest| newest.steps.last_mut()) {
                    step.results.push(CallResult { call, status, output });
                }
            }
            Record::TurnEnded { turn, stop, failure, .. } => {
                if let Some(newest) = self.turn_mut(turn) {
                    newest.ending = Ending::Ended { stop, failure };
                }
            }
            Record::Routed { .. } | Record::Noted { .. } => {}
        }
    }

    pub(crate) fn turns(&self) -> &[TurnHistory] {
        &self.turns
    }

    /// The turn that began last; turn 0 before the first.
    pub(crate) fn newest_turn(&self) -> TurnId {
        self.turns.last().map_or(TurnId(0), |turn| turn.id)
    }

    pub(crate) fn next_turn(&self) -> TurnId {
        TurnId(self.newest_turn().0 + 1)
    }

    /// Every call id that the session has used.
    pub(crate) fn calls(&self) -> &HashSet<ToolCallId> {
        &self.calls
    }

    fn turn_mut(&mut self, id: TurnId) -> Option<&mut TurnHistory> {
        self.turns.last_mut().filter(|turn| turn.id == id)
    }
}
