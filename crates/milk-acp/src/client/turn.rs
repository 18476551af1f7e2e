//! When a turn has ended: v1 says it in the prompt's answer, v2 in the answer and in `idle`, which may come in either order.

use std::collections::HashMap;

use super::event::{AgentState, StopReason, TurnFailure};

/// The running turn of each session.
#[derive(Debug, Default)]
pub(super) struct Turns {
    open: HashMap<String, Turn>,
    next: u64,
}

/// Which prompt an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnNumber(u64);

#[derive(Debug)]
struct Turn {
    number: TurnNumber,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Sent,
    /// The agent works; it has not answered.
    Running,
    /// The answer came first.
    Answered,
    /// `idle` came first.
    Stopped(StopReason),
}

/// What a prompt's answer says about its turn.
#[derive(Debug)]
pub(super) enum Answered {
    /// It is over.
    Ended(Result<StopReason, TurnFailure>),
    /// It was taken; `idle` ends it.
    Taken,
}

/// What a `state_update` says.
#[derive(Debug)]
pub(super) struct StateSeen {
    pub(super) state: AgentState,
    pub(super) stop: Option<StopReason>,
}

/// How a turn ended, if it just did.
type Ended = Option<Result<StopReason, TurnFailure>>;

impl Turns {
    pub(super) fn begin(&mut self, session: &str) -> TurnNumber {
        let number = TurnNumber(self.next);
        self.next += 1;
        self.open.insert(session.to_owned(), Turn { number, stage: Stage::Sent });
        number
    }

    pub(super) fn answered(&mut self, session: &str, number: TurnNumber, answer: Answered) -> Ended {
        let turn = self.open.get_mut(session).filter(|turn| turn.number == number)?;
        let end = match answer {
            Answered::Ended(end) => end,
            Answered::Taken => match std::mem::replace(&mut turn.stage, Stage::Answered) {
                Stage::Stopped(stop) => Ok(stop),
                Stage::Sent | Stage::Running | Stage::Answered => return None,
            },
        };
        self.open.remove(session);
        Some(end)
    }

    pub(super) fn state(&mut self, session: &str, seen: &StateSeen) -> Ended {
        let turn = self.open.get_mut(session)?;
        if seen.state != AgentState::Idle {
            if matches!(turn.stage, Stage::Sent) {
                turn.stage = Stage::Running;
            }
            return None;
        }
        // An idle without a reason, before anything ran, is that of a new session.
        let stop = match (&turn.stage, &seen.stop) {
            (Stage::Sent, None) => return None,
            (_, stop) => stop.clone().unwrap_or(StopReason::Other(String::new())),
        };
        if matches!(turn.stage, Stage::Answered) {
            self.open.remove(session);
            return Some(Ok(stop));
        }
        turn.stage = Stage::Stopped(stop);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: AgentState, stop: Option<StopReason>) -> StateSeen {
        StateSeen { state, stop }
    }

    #[test]
    fn a_v2_turn_ends_when_both_have_come() {
        let idle = || seen(AgentState::Idle, Some(StopReason::EndTurn));
        let mut turns = Turns::default();

        let held = turns.begin("s");
        assert_eq!(turns.state("s", &seen(AgentState::Idle, None)), None, "of the new session");
        assert_eq!(turns.state("s", &seen(AgentState::Running, None)), None);
        assert_eq!(turns.state("other", &idle()), None);
        assert_eq!(turns.state("s", &idle()), None);
        assert_eq!(turns.answered("s", held, Answered::Taken), Some(Ok(StopReason::EndTurn)));

        let early = turns.begin("s");
        assert_eq!(turns.answered("s", held, Answered::Taken), None, "an old answer");
        assert_eq!(turns.answered("s", early, Answered::Taken), None);
        assert_eq!(turns.state("s", &seen(AgentState::Running, None)), None);
        assert_eq!(turns.state("s", &idle()), Some(Ok(StopReason::EndTurn)));
        assert_eq!(turns.state("s", &idle()), None, "once");
    }

    #[test]
    fn an_error_ends_a_turn_at_once() {
        let mut turns = Turns::default();
        let turn = turns.begin("s");
        assert_eq!(
            turns.answered("s", turn, Answered::Ended(Err(TurnFailure::Gone))),
            Some(Err(TurnFailure::Gone))
        );
    }
}
