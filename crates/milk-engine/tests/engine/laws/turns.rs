//! Every prompt is answered once; turns do not overlap; a turn is `UserMessage`, `Running`, …, `Idle`, `PromptEnded`
//! (R6, R10, R11).

use std::collections::HashSet;

use milk_core::event::{Event, EventKind, PromptOutcome, State, StopReason};
use milk_core::failure::Failure;
use milk_core::id::{MessageId, PromptId};

use super::Broken;
use crate::fakes::journal::Seen;
use crate::lines;

#[derive(Debug)]
struct Turn {
    prompt: PromptId,
    message: MessageId,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Echoed,
    Running,
    RequiresAction,
    Idle(StopReason, Option<Failure>),
}

pub(super) fn check(entries: &[Seen], broken: &mut Broken) {
    let mut turn: Option<Turn> = None;
    let mut answered = HashSet::new();
    for seen in entries {
        let Seen::Event(event) = seen else { continue };
        let line = || lines::event(event);
        let Some(prompt) = event.prompt else {
            let stored = matches!(event.kind, EventKind::Replayed(_));
            broken.unless(stored, || {
                format!("nothing but stored history comes outside prompts, but {:?} did", line())
            });
            continue;
        };
        broken.unless(!answered.contains(&prompt), || {
            format!("nothing of a prompt after its answer: {:?}", line())
        });
        match &event.kind {
            EventKind::PromptEnded(PromptOutcome::NeverRan | PromptOutcome::Rejected(_)) => {
                let ran = turn.as_ref().is_some_and(|turn| turn.prompt == prompt);
                broken.unless(!ran, || format!("a prompt that runs ends through its turn: {:?}", line()));
                answered.insert(prompt);
            }
            EventKind::UserMessage { id, .. } => {
                broken.unless(turn.is_none(), || format!("turns do not overlap: {:?} in {turn:?}", line()));
                turn = Some(Turn { prompt, message: id.clone(), phase: Phase::Echoed });
            }
            kind => {
                let Some(current) = turn.as_mut().filter(|turn| turn.prompt == prompt) else {
                    broken.0.push(format!("a turn's events come between its echo and its end: {:?}", line()));
                    continue;
                };
                step(current, event, kind, broken);
                if matches!(kind, EventKind::PromptEnded(_)) {
                    answered.insert(prompt);
                    turn = None;
                }
            }
        }
    }
}

fn step(turn: &mut Turn, event: &Event, kind: &EventKind, broken: &mut Broken) {
    let before = turn.phase.clone();
    let allowed = match (&before, kind) {
        (Phase::Echoed | Phase::RequiresAction, EventKind::State(State::Running)) => {
            turn.phase = Phase::Running;
            true
        }
        (Phase::Running, EventKind::State(State::RequiresAction)) => {
            turn.phase = Phase::RequiresAction;
            true
        }
        (Phase::Running | Phase::RequiresAction, EventKind::State(State::Idle { stop, failure, .. })) => {
            turn.phase = Phase::Idle(*stop, failure.clone());
            (*stop == StopReason::Error) == failure.is_some()
        }
        (
            Phase::Idle(stop, failure),
            EventKind::PromptEnded(PromptOutcome::Ended { message, stop: told, failure: told_failure }),
        ) => *message == turn.message && told == stop && told_failure == failure,
        (Phase::Running, kind) => !matches!(kind, EventKind::State(_) | EventKind::PromptEnded(_)),
        // While a person is asked the turn says nothing; a cut may end the call and tell of a log that fails.
        (Phase::RequiresAction, kind) => matches!(
            kind,
            EventKind::Asked { .. }
                | EventKind::AskWithdrawn(_)
                | EventKind::ToolCallChanged { .. }
                | EventKind::Notice { .. }
        ),
        _ => false,
    };
    broken
        .unless(allowed, || format!("{:?} must not come while the turn is {before:?}", lines::event(event)));
}
