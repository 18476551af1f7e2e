//! Records folded into turns, one at a time, so that a document holds no more of the log than the turn in hand.

use std::collections::HashMap;
use std::mem;

use milk_core::content::ContentBlock;
use milk_core::event::{Route, StopReason};
use milk_core::failure::Failure;
use milk_core::id::{MessageId, ToolCallId, TurnId};
use milk_core::model::{AssistantMessage, ToolCall, Usage};
use milk_core::record::{EntryNumber, Logged, Record, Speaker, TurnOrigin, TurnWork};
use milk_core::tool::{FileChange, Location, ToolKind, ToolStatus};

/// A piece of a session, in the order of the log.
#[derive(Debug)]
pub(crate) enum Part {
    /// A turn with all that belongs to it.
    Turn(Box<Turn>),
    /// What milk said outside turns.
    Note(Note),
}

/// A turn as far as the log tells.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) id: TurnId,
    /// `None` where the log has lost the turn's beginning.
    pub(crate) start: Option<Start>,
    pub(crate) routes: Vec<(u64, Route)>,
    pub(crate) steps: Vec<Step>,
    /// Results of calls that no response in this turn made.
    pub(crate) unmatched: Vec<(ToolCallId, CallResult)>,
    pub(crate) notes: Vec<Note>,
    /// `None` where it has not ended, or never will.
    pub(crate) end: Option<End>,
    /// Whether the log goes on after it.
    pub(crate) place: Place,
}

/// Where a turn stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Another turn came after it: without an end it was interrupted.
    Before,
    /// It is the last: without an end it may be running.
    Last,
}

#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) at_ms: u64,
    pub(crate) entry: Option<EntryNumber>,
    pub(crate) origin: TurnOrigin,
    pub(crate) message: MessageId,
    pub(crate) content: Vec<ContentBlock>,
    pub(crate) work: TurnWork,
}

/// One response of a model and what came of its calls.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) at_ms: u64,
    pub(crate) entry: Option<EntryNumber>,
    pub(crate) message: MessageId,
    pub(crate) thought: Option<MessageId>,
    pub(crate) said: AssistantMessage,
    pub(crate) usage: Option<Usage>,
    pub(crate) by: Speaker,
    pub(crate) calls: Vec<Call>,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) made: ToolCall,
    pub(crate) result: Option<CallResult>,
}

#[derive(Debug)]
pub(crate) struct CallResult {
    pub(crate) at_ms: u64,
    pub(crate) entry: Option<EntryNumber>,
    pub(crate) title: String,
    pub(crate) kind: ToolKind,
    pub(crate) status: ToolStatus,
    pub(crate) output: String,
    pub(crate) locations: Vec<Location>,
    pub(crate) changes: Vec<FileChange>,
}

#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) at_ms: u64,
    pub(crate) message: MessageId,
    pub(crate) text: String,
}

#[derive(Debug)]
pub(crate) struct End {
    pub(crate) at_ms: u64,
    pub(crate) stop: StopReason,
    pub(crate) failure: Option<Failure>,
}

impl Turn {
    fn new(id: TurnId) -> Self {
        Self {
            id,
            start: None,
            routes: Vec::new(),
            steps: Vec::new(),
            unmatched: Vec::new(),
            notes: Vec::new(),
            end: None,
            place: Place::Before,
        }
    }

    /// Whether it is a slash command, which is no part of the conversation with a model.
    pub(crate) fn is_command(&self) -> bool {
        self.start.as_ref().is_some_and(|start| start.work == TurnWork::Command)
    }

    /// Tokens over all its responses; `None` where no server gave any.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.steps.iter().filter_map(|step| step.usage).reduce(|sum, next| Usage {
            input: sum.input.saturating_add(next.input),
            cached: sum.cached.saturating_add(next.cached),
            output: sum.output.saturating_add(next.output),
        })
    }

    /// How it came out, if it did not simply end.
    pub(crate) fn trouble(&self) -> Option<Trouble<'_>> {
        let Some(end) = &self.end else {
            return Some(match self.place {
                Place::Before => Trouble::Interrupted,
                Place::Last => Trouble::Unfinished,
            });
        };
        match end.stop {
            StopReason::EndTurn => end.failure.as_ref().map(|failure| Trouble::Failed(Some(failure))),
            StopReason::Error => Some(Trouble::Failed(end.failure.as_ref())),
            StopReason::Cancelled => Some(Trouble::Cancelled),
            StopReason::MaxTokens => Some(Trouble::OutputLimit),
            StopReason::MaxTurnRequests => Some(Trouble::RequestLimit),
            StopReason::Refusal => Some(Trouble::Refused),
        }
    }
}

/// How a turn that did not simply end came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble<'a> {
    Failed(Option<&'a Failure>),
    Cancelled,
    OutputLimit,
    RequestLimit,
    Refused,
    Interrupted,
    Unfinished,
}

impl Trouble<'_> {
    /// One word for it, and why.
    pub(crate) fn words(&self) -> (&'static str, &str) {
        match self {
            Self::Failed(Some(failure)) => ("failed", &failure.details),
            Self::Failed(None) => ("failed", "no cause was recorded"),
            Self::Cancelled => ("cancelled", "somebody stopped it"),
            Self::OutputLimit => ("stopped", "the model ran into its output limit"),
            Self::RequestLimit => ("stopped", "the limit on model calls in one turn was reached"),
            Self::Refused => ("refused", "the model refused to answer"),
            Self::Interrupted => ("interrupted", "milk was stopped before the turn ended"),
            Self::Unfinished => ("unfinished", "the turn had not ended when this was exported"),
        }
    }
}

/// Gathers records into parts. A turn is handed out when the log goes on to something else, so that whatever follows its
/// end still finds it.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    open: Option<Box<Turn>>,
    /// Where a call of the open turn is: step and place in it. The newest call wins where ids repeat.
    calls: HashMap<ToolCallId, (usize, usize)>,
    /// Notes outside turns that came while a turn was open; they follow it.
    behind: Vec<Note>,
}

impl Fold {
    /// Takes the next record in, and gives the parts that are whole now.
    pub(crate) fn push(&mut self, logged: Logged) -> Vec<Part> {
        let Logged { at_ms, entry, record } = logged;
        let (done, turn) = match record.turn() {
            Some(id)
                if self.open.as_ref().is_some_and(|open| open.id == id && !begins_again(open, &record)) =>
            {
                (Vec::new(), self.open.as_mut())
            }
            Some(id) => {
                let done = self.close(Place::Before);
                (done, Some(self.open.insert(Box::new(Turn::new(id)))))
            }
            None => (Vec::new(), None),
        };
        match turn {
            Some(turn) => add(turn, &mut self.calls, at_ms, entry, record),
            None => {
                if let Record::Noted { message, text, .. } = record {
                    self.behind.push(Note { at_ms, message, text });
                }
            }
        }
        done
    }

    /// What is left when the log is over.
    pub(crate) fn finish(mut self) -> Vec<Part> {
        self.close(Place::Last)
    }

    fn close(&mut self, place: Place) -> Vec<Part> {
        self.calls.clear();
        let turn = self.open.take().map(|mut turn| {
            turn.place = place;
            Part::Turn(turn)
        });
        turn.into_iter().chain(mem::take(&mut self.behind).into_iter().map(Part::Note)).collect()
    }
}

/// A second beginning under one number: a log that was mended may hold it.
fn begins_again(open: &Turn, record: &Record) -> bool {
    open.start.is_some() && matches!(record, Record::TurnStarted { .. })
}

fn add(
    turn: &mut Turn,
    calls: &mut HashMap<ToolCallId, (usize, usize)>,
    at_ms: u64,
    entry: Option<EntryNumber>,
    record: Record,
) {
    match record {
        Record::TurnStarted { origin, message, content, work, .. } => {
            turn.start = Some(Start { at_ms, entry, origin, message, content, work });
        }
        Record::Routed { route, .. } => turn.routes.push((at_ms, route)),
        Record::ModelSaid { message, thought, mut said, usage, by, .. } => {
            let made = mem::take(&mut said.tool_calls);
            for (place, call) in made.iter().enumerate() {
                calls.insert(call.id.clone(), (turn.steps.len(), place));
            }
            let made = made.into_iter().map(|made| Call { made, result: None }).collect();
            turn.steps.push(Step { at_ms, entry, message, thought, said, usage, by, calls: made });
        }
        Record::ToolEnded { call, title, kind, status, output, locations, changes, .. } => {
            let result = CallResult { at_ms, entry, title, kind, status, output, locations, changes };
            let known =
                calls.get(&call).and_then(|(step, place)| turn.steps.get_mut(*step)?.calls.get_mut(*place));
            match known {
                Some(known) if known.result.is_none() => known.result = Some(result),
                _ => turn.unmatched.push((call, result)),
            }
        }
        Record::Noted { message, text, .. } => turn.notes.push(Note { at_ms, message, text }),
        Record::TurnEnded { stop, failure, .. } => turn.end = Some(End { at_ms, stop, failure }),
    }
}
