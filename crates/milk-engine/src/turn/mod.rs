//! One turn of the model: from the user's message to the idle state, through as many model calls and tool calls as it
//! takes.

mod live_output;
mod progress;
mod response;
mod tool_calls;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use milk_core::content::ContentBlock;
use milk_core::event::{EventKind, PromptOutcome, Route, RouteTarget, State, StopReason};
use milk_core::failure::Failure;
use milk_core::id::{MessageId, TurnId};
use milk_core::model::Vision;
use milk_core::ports::ResolvedAgent;
use milk_core::record::{Record, TurnWork};
use tokio_util::sync::CancellationToken;

use crate::conversation::{Begun, ConversationState, begin};
use crate::emit::Emitter;
use progress::Progress;

/// How long a tool may take to end what it started once it is told to stop; then it is dropped (R12).
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// How a turn ended.
#[derive(Debug)]
pub(crate) struct TurnEnd {
    stop: StopReason,
    failure: Option<Failure>,
    route: Option<Route>,
}

impl TurnEnd {
    /// The record of it.
    pub(crate) fn record(&self, turn: TurnId) -> Record {
        Record::TurnEnded { turn, stop: self.stop, failure: self.failure.clone() }
    }

    /// The end of a turn in which no model took part.
    pub(crate) fn command() -> Self {
        Self { stop: StopReason::EndTurn, failure: None, route: None }
    }

    pub(crate) fn cancelled(route: Option<Route>) -> Self {
        Self { stop: StopReason::Cancelled, failure: None, route }
    }

    fn failed(failure: Failure, route: Option<Route>) -> Self {
        Self { stop: StopReason::Error, failure: Some(failure), route }
    }

    /// The end of a turn that a bug of milk's broke off.
    pub(crate) fn own_bug() -> Self {
        Self::failed(own_bug(), None)
    }
}

/// A turn while it runs.
struct Turn<'a> {
    state: &'a mut ConversationState,
    emitter: &'a Emitter,
    id: TurnId,
    agent: ResolvedAgent,
    /// Tripped by a person.
    cancel: &'a CancellationToken,
    /// Tripped by a person and by the turn's time limit; everything that the turn starts listens to it.
    stop: CancellationToken,
    progress: Progress,
}

/// Why a turn's work ended before it was done.
#[derive(Debug)]
enum Cut {
    /// The turn was told to stop.
    Stopped,
    Failed(Failure),
}

impl From<Failure> for Cut {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Runs a prompt as a turn of the model. Returns when everything that the turn started has ended.
pub(crate) async fn run(
    state: &mut ConversationState,
    emitter: &Emitter,
    begun: Begun,
    cancel: &CancellationToken,
) {
    let message = begun.message.clone();
    let images = begun.content.iter().any(|block| matches!(block, ContentBlock::Image { .. }));
    let id = begin(state, emitter, begun, TurnWork::Prompt).await;
    let source = Arc::clone(&state.provision.agents.primary);
    let resolved = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        resolved = source.resolve() => Some(resolved),
    };
    let agent = match resolved {
        Some(Ok(agent)) => agent,
        Some(Err(failure)) => return end(state, emitter, id, message, TurnEnd::failed(failure, None)).await,
        None => return end(state, emitter, id, message, TurnEnd::cancelled(None)).await,
    };
    let route = route_to(&agent);
    state.record(emitter, vec![Record::Routed { turn: id, route: route.clone() }]).await;
    emitter.emit(EventKind::Routed(route.clone()));
    announce(state, emitter, &agent);
    if images && agent.model.info().vision == Vision::Blind {
        emitter.notice(format!(
            "[milk] {} cannot see images; it is told that one is attached.",
            agent.model.info().model
        ));
    }
    let progress = Progress::default();
    let mut turn = Turn { state, emitter, id, agent, cancel, stop: cancel.child_token(), progress };
    let worked = turn.work().await;
    if let Err(cut) = &worked {
        turn.settle(cut).await;
    }
    let ended = match worked {
        Ok(stop) => TurnEnd { stop, failure: None, route: Some(route) },
        Err(Cut::Stopped) => TurnEnd::cancelled(Some(route)),
        Err(Cut::Failed(failure)) => TurnEnd::failed(failure, Some(route)),
    };
    end(state, emitter, id, message, ended).await;
}

fn route_to(agent: &ResolvedAgent) -> Route {
    Route {
        agent: agent.model.info().agent.clone(),
        target: RouteTarget::Primary,
        reason: "the only agent in use".to_owned(),
    }
}

/// Tells once how the agent was found, and again when that changes.
fn announce(state: &mut ConversationState, emitter: &Emitter, agent: &ResolvedAgent) {
    if agent.announcement != state.announced_agent
        && let Some(line) = &agent.announcement
    {
        emitter.notice(line.clone());
    }
    state.announced_agent.clone_from(&agent.announcement);
}

/// Records the end of a turn, says that the foreground is idle, and answers the prompt: always in this order (R6, R10).
pub(crate) async fn end(
    state: &mut ConversationState,
    emitter: &Emitter,
    turn: TurnId,
    message: MessageId,
    ended: TurnEnd,
) {
    state.record(emitter, vec![ended.record(turn)]).await;
    tell_end(state, emitter, message, ended);
}

/// The same for a turn whose end is recorded already, or whose session is gone.
pub(crate) fn tell_end(state: &ConversationState, emitter: &Emitter, message: MessageId, ended: TurnEnd) {
    let TurnEnd { stop, failure, route } = ended;
    state.prompt_is_over(emitter);
    emitter.state(State::Idle { stop, failure: failure.clone(), route });
    emitter.emit(EventKind::PromptEnded(PromptOutcome::Ended { message, stop, failure }));
}

impl Turn<'_> {
    /// Works until the turn is done or cut. A bug in it costs this turn, not the conversation.
    async fn work(&mut self) -> Result<StopReason, Cut> {
        let limit = self.state.provision.settings.turn_time_limit;
        let stop = self.stop.clone();
        let stopped_for_long = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep_or_never(limit) => stop.cancel(),
            }
            tokio::time::sleep(SETTLE_TIME).await;
        };
        let work = AssertUnwindSafe(self.call_model_until_done()).catch_unwind();
        let worked = tokio::select! {
            biased;
            worked = work => worked.unwrap_or_else(|_| Err(own_bug().into())),
            () = stopped_for_long => Err(Cut::Stopped),
        };
        match (worked, limit) {
            (Err(Cut::Stopped), Some(limit)) if !self.cancel.is_cancelled() => Err(out_of_time(limit).into()),
            (worked, _) => worked,
        }
    }

    async fn call_model_until_done(&mut self) -> Result<StopReason, Cut> {
        let limit = self.state.provision.settings.max_model_calls;
        let mut calls = 0_u32;
        loop {
            let left = limit.map(|limit| limit.saturating_sub(calls));
            let offer = if left == Some(0) { Offer::TextOnly } else { Offer::Tools { left } };
            let response = self.ask_model(offer).await?;
            calls += response.model_calls;
            if offer == Offer::TextOnly {
                return Ok(StopReason::MaxTurnRequests);
            }
            if response.calls.is_empty() {
                return Ok(response.stop);
            }
            self.run_calls(response.calls).await?;
        }
    }

    /// Leaves nothing open when the work was cut: what the model said so far is kept, rows are closed.
    async fn settle(&mut self, cut: &Cut) {
        self.keep_partial_response().await;
        self.close_open_calls(cut).await;
    }
}

async fn sleep_or_never(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

fn own_bug() -> Failure {
    Failure::new(
        "internal",
        "milk met a bug of its own in this turn. The session goes on; milk's error output has the details.",
    )
}

fn out_of_time(limit: Duration) -> Failure {
    let details = format!("The turn took longer than its limit of {} s.", limit.as_secs());
    Failure { retryable: true, ..Failure::new("turn_timed_out", details) }
}

/// What the model may do in its next response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    /// Text or tool calls, with so many model calls left; `None` is no limit.
    Tools { left: Option<u32> },
    /// The limit on model calls is reached: one summary, no tools.
    TextOnly,
}
