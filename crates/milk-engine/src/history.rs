//! What a conversation remembers of its session: a fold of the newest records into turns. Older turns stay in the log.

use std::collections::{HashSet, VecDeque};

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::failure::Failure;
use milk_core::id::{ToolCallId, TurnId};
use milk_core::model::{AssistantMessage, ToolArguments};
use milk_core::record::{Logged, Record, TurnWork};
use milk_core::tool::ToolStatus;

/// How much text of ended turns is kept in memory, in bytes: more than any model's context holds.
const KEPT: usize = 4 * 1024 * 1024;

/// The newest turns of a session, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    turns: VecDeque<TurnHistory>,
    calls: HashSet<ToolCallId>,
    /// Text of the ended turns, in bytes.
    bytes: usize,
    /// Turns that are in the log alone.
    earlier: u64,
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
    /// The history that these newest records make, with `earlier` turns before them.
    pub(crate) fn from_recent(recent: Vec<Logged>, earlier: u64) -> Self {
        let mut history = Self { earlier, ..Self::default() };
        for logged in recent {
            history.apply(logged.record);
        }
        // A turn that the process died in is as ended as it will ever be.
        history.bytes = history.turns.iter().map(TurnHistory::bytes).sum();
        history.forget_beyond(KEPT);
        history
    }

    /// Takes one record in. A record of a turn that is not the newest is ignored: logs are written in order.
    pub(crate) fn apply(&mut self, record: Record) {
        match record {
            Record::TurnStarted { turn, content, work, .. } => {
                self.turns.push_back(TurnHistory {
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
                let ended = self.turn_mut(turn).map(|newest| {
                    newest.ending = Ending::Ended { stop, failure };
                    newest.bytes()
                });
                self.bytes += ended.unwrap_or_default();
                self.forget_beyond(KEPT);
            }
            Record::Routed { .. } | Record::Noted { .. } => {}
        }
    }

    /// Lets the oldest turns go until the rest fits; the newest stays, whatever its size.
    fn forget_beyond(&mut self, limit: usize) {
        while self.bytes > limit && self.turns.len() > 1 {
            let Some(oldest) = self.turns.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
            self.earlier += 1;
            for call in oldest.steps.iter().flat_map(|step| &step.said.tool_calls) {
                self.calls.remove(&call.id);
            }
        }
    }

    pub(crate) fn turns(&self) -> impl DoubleEndedIterator<Item = &TurnHistory> {
        self.turns.iter()
    }

    /// How many turns came before those that are remembered.
    pub(crate) fn earlier_turns(&self) -> u64 {
        self.earlier
    }

    /// The turn that began last; turn 0 before the first.
    pub(crate) fn newest_turn(&self) -> TurnId {
        self.turns.back().map_or(TurnId(self.earlier), |turn| turn.id)
    }

    pub(crate) fn next_turn(&self) -> TurnId {
        TurnId(self.newest_turn().0 + 1)
    }

    /// Every call id that the session has used; `None` where they are not all known.
    pub(crate) fn calls(&self) -> Option<&HashSet<ToolCallId>> {
        (self.earlier == 0).then_some(&self.calls)
    }

    fn turn_mut(&mut self, id: TurnId) -> Option<&mut TurnHistory> {
        self.turns.back_mut().filter(|turn| turn.id == id)
    }
}

impl TurnHistory {
    /// Its text, in bytes, roughly.
    fn bytes(&self) -> usize {
        let content: usize = self.content.iter().map(content_bytes).sum();
        content + self.steps.iter().map(Step::bytes).sum::<usize>()
    }
}

impl Step {
    fn bytes(&self) -> usize {
        let said = &self.said;
        let calls = said.tool_calls.iter().map(|call| call.name.len() + argument_bytes(&call.arguments));
        let results = self.results.iter().map(|result| result.output.len());
        said.text.len()
            + said.thinking.as_ref().map_or(0, String::len)
            + calls.sum::<usize>()
            + results.sum::<usize>()
    }
}

fn content_bytes(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text { text } | ContentBlock::EmbeddedText { text, .. } => text.len(),
        ContentBlock::EmbeddedBlob { data, .. } | ContentBlock::Image { data, .. } => data.len(),
        ContentBlock::Link { uri, name, .. } => uri.len() + name.len(),
        ContentBlock::Unknown { kind } => kind.len(),
    }
}

/// The size of a call's arguments as text, in bytes.
pub(crate) fn argument_bytes(arguments: &ToolArguments) -> usize {
    match arguments {
        ToolArguments::Object(object) => serde_json::to_string(object).map_or(0, |text| text.len()),
        ToolArguments::Unparsable(raw) => raw.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use milk_core::record::TurnOrigin;

    fn turn(id: u64, text: &str) -> [Record; 2] {
        let started = Record::TurnStarted {
            turn: TurnId(id),
            origin: TurnOrigin::Client,
            message: "m".into(),
            content: vec![ContentBlock::text(text)],
            work: TurnWork::Prompt,
        };
        let ended = Record::TurnEnded { turn: TurnId(id), stop: StopReason::EndTurn, failure: None };
        [started, ended]
    }

    #[test]
    fn memory_is_bounded_and_the_newest_turns_stay() {
        let mut history = History::default();
        let text = "x".repeat(KEPT / 4);
        for id in 1..=20 {
            for record in turn(id, &text) {
                history.apply(record);
            }
        }
        let kept: Vec<u64> = history.turns().map(|turn| turn.id.0).collect();
        assert_eq!(kept, [17, 18, 19, 20]);
        assert_eq!(history.earlier_turns(), 16);
        assert_eq!(history.next_turn(), TurnId(21));
        assert!(history.calls().is_none(), "ids of forgotten calls are not known any more");
        for record in turn(21, &"y".repeat(KEPT * 2)) {
            history.apply(record);
        }
        assert_eq!(history.turns().count(), 1, "the newest stays, whatever its size");
    }

    #[test]
    fn turns_are_counted_on_from_the_log() {
        let history = History::from_recent(Vec::new(), 7);
        assert_eq!(history.next_turn(), TurnId(8));
    }
}
