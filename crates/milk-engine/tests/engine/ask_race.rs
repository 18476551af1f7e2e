//! One question, several sources: the first real answer wins (contract: Remote oversight races along; R28; bug case 059).

use milk_core::ask::AskOutcome;
use milk_core::event::StopReason;
use milk_core::id::OptionId;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::fakes::asking::RemoteAsk;
use crate::fakes::tool::{Does, shell};
use crate::lines::assert_lines;
use crate::rig::{Rig, Setup};

fn pick(option: &str) -> AskOutcome {
    AskOutcome::Picked(OptionId::from(option))
}

fn cannot(cause: &str) -> AskOutcome {
    AskOutcome::Unanswered { cause: cause.to_owned() }
}

/// A rig whose shell is asked about at the front end and at every remote side.
async fn asking(sides: usize) -> (Rig, milk_core::id::PromptId, Vec<RemoteAsk>) {
    let mut rig =
        Setup { remote_sides: sides, tools: vec![shell(Does::Works)], ..Setup::default() }.open().await;
    let (prompt, asks) = ask_again(&mut rig, sides, "make").await;
    (rig, prompt, asks)
}

async fn ask_again(rig: &mut Rig, sides: usize, command: &str) -> (milk_core::id::PromptId, Vec<RemoteAsk>) {
    let prompt = rig.submit("do it");
    let exchange = rig.exchange().await;
    exchange.call(command, "bash", json!({"arg": command}));
    exchange.finish();
    let mut asks = Vec::new();
    for side in 0..sides {
        asks.push(rig.remote_ask(side).await);
    }
    rig.settle().await;
    (prompt, asks)
}

async fn finish(rig: &mut Rig, prompt: milk_core::id::PromptId) {
    rig.exchange().await.say("done");
    assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
}

#[tokio::test(start_paused = true)]
async fn a_remote_yes_runs_the_call_and_takes_the_question_from_the_screen() {
    let (mut rig, prompt, mut asks) = asking(2).await;
    let (shown, slot) = rig.screen.take_question();
    assert!(asks.iter().all(|ask| ask.question == shown), "everybody is asked the same");
    asks.remove(1).answer(pick("allow"));
    rig.settle().await;
    assert!(asks[0].is_withdrawn(), "the loser is withdrawn");
    slot.answer(pick("deny")); // too late
    finish(&mut rig, prompt).await;
    assert_lines(
        &rig.work_of(prompt),
        &[
            "row make: bash make pending",
            "requires_action",
            "asked: Allow bash? make [allow allow_always deny]",
            "withdrawn",
            "running",
            "row make: runs",
            "row make: completed: bash make done",
            "text: done",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn the_front_ends_no_wins_and_a_late_remote_yes_is_nobodys() {
    let (mut rig, prompt, mut asks) = asking(1).await;
    rig.pick("deny").await;
    rig.settle().await;
    let late = asks.remove(0);
    assert!(late.is_withdrawn());
    late.answer(pick("allow"));
    finish(&mut rig, prompt).await;
    let (prompt, asks) = ask_again(&mut rig, 1, "test").await;
    rig.settle().await;
    assert_eq!(rig.outcome_now(prompt), None, "the next question waits for its own answer");
    rig.pick("allow").await;
    finish(&mut rig, prompt).await;
    assert!(asks[0].is_withdrawn());
    assert_eq!(rig.seen_like(&["tool bash make starts", "tool bash test starts"]), ["tool bash test starts"]);
}

/// Each row: how front end, first and second remote side end, in this order; whether the call runs then.
#[tokio::test(start_paused = true)]
async fn a_source_that_cannot_ask_is_no_answer_while_another_is_open() {
    let table = [
        ([cannot("a"), pick("allow"), cannot("unused")], true),
        ([cannot("a"), cannot("b"), pick("allow")], true),
        ([cannot("a"), cannot("b"), pick("deny")], false),
        ([cannot("a"), AskOutcome::Dismissed, pick("allow")], false),
        ([pick("nope"), pick("allow"), pick("allow")], false),
    ];
    for (outcomes, runs) in table {
        let (mut rig, prompt, asks) = asking(2).await;
        let [front, first, second] = outcomes.clone();
        rig.answer(front).await;
        for (ask, outcome) in asks.into_iter().zip([first, second]) {
            rig.settle().await;
            ask.answer(outcome);
        }
        finish(&mut rig, prompt).await;
        let ran = !rig.seen_like(&["tool bash make starts"]).is_empty();
        assert_eq!(ran, runs, "{outcomes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_nobody_can_be_asked_every_cause_is_named() {
    let (mut rig, prompt, asks) = asking(2).await;
    rig.answer(cannot("the editor is gone")).await;
    rig.settle().await;
    assert_eq!(rig.seen_like(&["running"]).len(), 1, "the others are still asked");
    for ask in asks {
        ask.answer(cannot("no network"));
    }
    finish(&mut rig, prompt).await;
    assert_lines(
        &rig.work_of(prompt)[3..],
        &[
            "running",
            "notice: [milk] bash was denied: the client could not be asked for permission (the editor is gone; no network; no network)…",
            "row make: failed: tool bash was denied, because nobody could be asked for permission",
            "text: done",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_withdraws_the_question_everywhere() {
    let (mut rig, prompt, asks) = asking(2).await;
    rig.conversation.cancel();
    assert_eq!(rig.stop_of(prompt).await, StopReason::Cancelled);
    assert!(asks.iter().all(RemoteAsk::is_withdrawn));
    assert_lines(
        &rig.work_of(prompt)[2..],
        &["asked: Allow bash? make…", "withdrawn", "row make: cancelled: cancelled by the user"],
    );
    rig.next_prompt_works().await;
}
