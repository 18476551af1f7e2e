//! Closing a conversation: what runs is cancelled, what waits is answered, and it returns when everything has ended.

use milk_core::event::{PromptOutcome, StopReason};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::fakes::agent::Resolving;
use crate::fakes::gate::Gate;
use crate::fakes::tool::{Does, reading, shell};
use crate::lines::assert_lines;
use crate::rig::{Rig, Setup};

/// Where the conversation stands when it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    BeforeItIsTaken,
    Resolving,
    MidText,
    AtAQuestion,
    InAToolThatDoesNotListen,
}

async fn rig_at(stage: Stage) -> (Rig, milk_core::id::PromptId, Option<crate::fakes::model::Exchange>) {
    let tools = [shell(Does::Works), reading("deaf", Does::IgnoresCancel(Gate::shut()))];
    let mut rig = Setup::with_tools(tools).open().await;
    if stage == Stage::Resolving {
        rig.agent.next(Resolving::Hangs);
    }
    let prompt = rig.submit("first");
    let call = match stage {
        Stage::BeforeItIsTaken => return (rig, prompt, None),
        Stage::Resolving => {
            rig.settle().await;
            return (rig, prompt, None);
        }
        Stage::MidText => None,
        Stage::AtAQuestion => Some("bash"),
        Stage::InAToolThatDoesNotListen => Some("deaf"),
    };
    let exchange = rig.exchange().await;
    exchange.text("half");
    let Some(tool) = call else {
        rig.settle().await;
        return (rig, prompt, Some(exchange));
    };
    exchange.call("c1", tool, json!({"arg": "a"}));
    exchange.finish();
    rig.settle().await;
    (rig, prompt, None)
}

#[tokio::test(start_paused = true)]
async fn closing_ends_everything_at_every_stage() {
    for stage in [
        Stage::BeforeItIsTaken,
        Stage::Resolving,
        Stage::MidText,
        Stage::AtAQuestion,
        Stage::InAToolThatDoesNotListen,
    ] {
        let (rig, running, exchange) = rig_at(stage).await;
        let waiting = rig.submit("second");
        rig.conversation.close().await;
        let outcome = rig.outcome_now(running);
        assert!(
            matches!(outcome, Some(PromptOutcome::Ended { stop: StopReason::Cancelled, .. })),
            "{stage:?}: {outcome:?} when close returns"
        );
        assert!(exchange.is_none_or(|exchange| exchange.is_dropped()), "{stage:?}");
        assert_eq!(rig.lines_of(waiting), ["never ran"], "{stage:?}");
        let late = rig.submit("third");
        assert_eq!(rig.lines_of(late), ["rejected: session_closed"], "{stage:?}");
        let shown = rig.lines().len();
        rig.conversation.cancel();
        rig.conversation.close().await;
        rig.settle().await;
        assert_eq!(rig.lines().len(), shown, "{stage:?}: closing again is nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_conversation_closes_at_once_and_shows_nothing() {
    let rig = Setup::default().open().await;
    rig.conversation.close().await;
    assert_lines(&rig.lines(), &[]);
}

#[tokio::test(start_paused = true)]
async fn several_may_close_at_once() {
    let (rig, prompt, _exchange) = rig_at(Stage::InAToolThatDoesNotListen).await;
    let closing: Vec<_> = (0..3)
        .map(|_| {
            let conversation = rig.conversation.clone();
            tokio::spawn(async move { conversation.close().await })
        })
        .collect();
    for closing in closing {
        closing.await.unwrap();
    }
    assert!(rig.outcome_now(prompt).is_some());
}

#[tokio::test(start_paused = true)]
async fn too_many_waiting_prompts_are_refused_and_the_others_are_answered() {
    let rig = Setup::default().open().await;
    let prompts: Vec<_> = (0..1_005).map(|_| rig.submit("hello")).collect();
    let refused: Vec<_> = prompts.iter().filter(|prompt| rig.outcome_now(**prompt).is_some()).collect();
    assert_eq!(refused.len(), 4, "one runs and a thousand wait");
    assert_eq!(rig.lines_of(*refused[0]), ["rejected: too_many_prompts"]);
    rig.conversation.close().await;
    assert!(prompts.iter().all(|prompt| rig.outcome_now(*prompt).is_some()));
}
