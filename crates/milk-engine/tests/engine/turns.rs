//! Plain turns: what is shown, in which order and under which ids.

use std::collections::HashSet;
use std::time::Duration;

use milk_core::event::{EventKind, PromptOutcome, StopReason};
use milk_core::model::{FinishReason, ModelErrorKind};
use milk_core::record::Record;
use milk_core::settings::{Settings, TextDelivery, Thoughts};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::fakes::agent::Resolving;
use crate::fakes::journal::Seen;
use crate::fakes::tool::{Does, reading};
use crate::lines::assert_lines;
use crate::rig::{Rig, Setup, settings};

#[tokio::test(start_paused = true)]
async fn a_text_turn_streams_between_running_and_idle() {
    let mut rig = Setup::default().open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    assert_eq!(exchange.request.messages.len(), 1);
    exchange.thought("a greeting");
    exchange.text("Hi ");
    rig.settle().await;
    assert_eq!(rig.lines().last().unwrap(), "text: Hi ", "a delta leaves at once");
    exchange.text("there.");
    exchange.usage(12, 3);
    exchange.finish();
    assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
    assert_lines(
        &rig.lines(),
        &[
            "user: hello",
            "running",
            "routed: main",
            "thought: a greeting",
            "text: Hi ",
            "text: there.",
            "usage: 12+3",
            "idle: end_turn",
            "ended: end_turn",
        ],
    );
    assert_eq!(
        rig.seen_like(&["log"]),
        [
            "log turn 1 starts: hello",
            "log routed: main",
            "log said: \"Hi there.\" []",
            "log turn 1 ends: end_turn"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn text_that_is_not_streamed_comes_whole_for_each_response() {
    let settings = Settings { delivery: TextDelivery::Whole, ..settings() };
    let tools = vec![reading("read", Does::Works)];
    let mut rig = Setup { settings, tools, ..Setup::default() }.open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.text("Let me ");
    exchange.text("look.");
    exchange.call("c1", "read", json!({"arg": "a"}));
    rig.settle().await;
    assert_eq!(rig.lines().last().unwrap(), "routed: main", "nothing is shown before the response is whole");
    exchange.finish();
    rig.exchange().await.say("Found it.");
    rig.ended(prompt).await;
    assert_lines(
        &rig.work_of(prompt),
        &[
            "text: Let me look.",
            "row c1: read a in_progress",
            "row c1: completed: read a done",
            "text: Found it.",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn hidden_thoughts_are_kept_and_not_shown() {
    let settings = Settings { thoughts: Thoughts::Hidden, ..settings() };
    let mut rig = Setup { settings, ..Setup::default() }.open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.thought("secretly");
    exchange.say("openly");
    rig.ended(prompt).await;
    assert_lines(&rig.work_of(prompt), &["text: openly"]);
    let entries = rig.journal.entries();
    let thinking = entries.iter().find_map(|seen| match seen {
        Seen::Record(_, Record::ModelSaid { said, .. }) => said.thinking.clone(),
        _ => None,
    });
    assert_eq!(thinking.as_deref(), Some("secretly"), "a provider may want it back");
}

#[tokio::test(start_paused = true)]
async fn announcements_are_told_once_and_the_agents_again_when_it_changes() {
    let announcements = vec!["the config was repaired".to_owned()];
    let mut rig = Setup { announcements, ..Setup::default() }.open().await;
    let announcing = |line: Option<&str>| Resolving::Ready { announcement: line.map(str::to_owned) };
    let mut told = Vec::new();
    for line in [Some("found one"), Some("found one"), None, Some("found another")] {
        rig.agent.next(announcing(line));
        let before = rig.lines().len();
        rig.text_turn("hello", "hi").await;
        let notices = rig.lines().split_off(before).into_iter().filter(|line| line.starts_with("notice"));
        told.push(notices.collect::<Vec<_>>());
    }
    let expected: [&[&str]; 4] =
        [&["notice: the config was repaired", "notice: found one"], &[], &[], &["notice: found another"]];
    assert_eq!(told, expected);
    assert_lines(&rig.lines()[..3], &["user: hello", "running", "notice: the config was repaired"]);
}

#[tokio::test(start_paused = true)]
async fn every_finish_has_its_own_stop_reason() {
    for (reason, stop) in [
        (FinishReason::Complete, StopReason::EndTurn),
        (FinishReason::Length, StopReason::MaxTokens),
        (FinishReason::Refusal, StopReason::Refusal),
    ] {
        for text in ["as far as it came", ""] {
            if (reason, text) == (FinishReason::Complete, "") {
                continue; // an empty reply has its own tests
            }
            let mut rig = Setup::default().open().await;
            let prompt = rig.submit("hello");
            let exchange = rig.exchange().await;
            if !text.is_empty() {
                exchange.text(text);
            }
            exchange.finish_as(reason);
            assert_eq!(rig.stop_of(prompt).await, stop, "{reason:?} with {text:?}");
            rig.next_prompt_works().await;
        }
    }
}

/// R8: the answer to a prompt carries the id of the user's message; each response of the model has ids of its own.
#[tokio::test(start_paused = true)]
async fn ids_are_the_users_for_the_answer_and_new_for_each_response() {
    let mut rig = Setup::with_tools([reading("read", Does::Works)]).open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.thought("first thought");
    exchange.text("first");
    exchange.call("c1", "read", json!({}));
    exchange.finish();
    let exchange = rig.exchange().await;
    exchange.thought("second thought");
    exchange.say("second");
    let PromptOutcome::Ended { message, .. } = rig.ended(prompt).await else { panic!("it ran") };
    let entries = rig.journal.entries();
    let (mut user, mut others) = (None, HashSet::new());
    for seen in entries.iter() {
        let Seen::Event(event) = seen else { continue };
        match &event.kind {
            EventKind::UserMessage { id, .. } => user = Some(id.clone()),
            EventKind::AgentText { id, .. } | EventKind::AgentThought { id, .. } => {
                others.insert(id.clone());
            }
            _ => {}
        }
    }
    assert_eq!(user, Some(message.clone()));
    assert_eq!(others.len(), 4, "two thoughts and two texts");
    assert!(!others.contains(&message));
    let recorded: Vec<_> = entries
        .iter()
        .filter_map(|seen| match seen {
            Seen::Record(_, Record::ModelSaid { message, thought, .. }) => Some((message, thought)),
            Seen::Record(_, Record::TurnStarted { message, .. }) => Some((message, &None)),
            _ => None,
        })
        .collect();
    assert_eq!(recorded[0].0, &message, "live ids are recorded (R27)");
    let recorded: HashSet<_> = recorded[1..]
        .iter()
        .flat_map(|(text, thought)| [Some((*text).clone()), (*thought).clone()])
        .flatten()
        .collect();
    assert_eq!(recorded, others);
}

#[tokio::test(start_paused = true)]
async fn prompts_run_one_after_another_in_the_order_of_their_arrival() {
    let mut rig = Setup::default().open().await;
    let prompts = ["one", "two", "three"].map(|text| rig.submit(text));
    for (text, prompt) in ["one", "two", "three"].into_iter().zip(prompts) {
        let exchange = rig.exchange().await;
        assert!(exchange.request.messages.iter().any(|_| true));
        assert_eq!(rig.exchange_now().map(|_| ()), None, "one at a time");
        exchange.say(&format!("answer to {text}"));
        assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
    }
    let answers: Vec<String> = rig.lines().into_iter().filter(|line| line.starts_with("text")).collect();
    assert_eq!(answers, ["text: answer to one", "text: answer to two", "text: answer to three"]);
}

#[tokio::test(start_paused = true)]
async fn two_conversations_do_not_wait_for_each_other() {
    let mut slow = Setup::default().open().await;
    let mut quick = Setup::default().open().await;
    let waiting = slow.submit("hello");
    let _held = slow.exchange().await;
    assert_eq!(quick.text_turn("hello", "hi").await, StopReason::EndTurn);
    assert_eq!(slow.outcome_now(waiting), None);
}

#[tokio::test(start_paused = true)]
async fn only_a_long_wait_for_a_retry_is_told() {
    let mut rig = Setup::default().open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.retrying(Duration::from_millis(500));
    exchange.retrying(Duration::from_secs(9));
    exchange.say("hi");
    rig.ended(prompt).await;
    assert_lines(
        &rig.work_of(prompt),
        &["notice: [milk] the server is busy; trying again in 9 s (2 of 4).", "text: hi"],
    );
}

#[tokio::test(start_paused = true)]
async fn counts_of_zero_are_not_reported() {
    let mut rig = Setup::default().open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.usage(0, 0);
    exchange.say("hi");
    rig.ended(prompt).await;
    assert_lines(&rig.work_of(prompt), &["text: hi"]);
}

/// A front end without room stops its own turn from reading the model, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_slow_front_end_slows_its_turn() {
    let mut rig = Setup::default().open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    rig.screen.has_room(false);
    for piece in ["a", "b", "c", "d"] {
        exchange.text(piece);
    }
    rig.settle().await;
    assert_lines(&rig.work_of(prompt), &["text: a"]);
    assert_eq!(exchange.unread(), 3, "what the front end cannot take stays with the model");
    rig.screen.has_room(true);
    exchange.finish();
    rig.ended(prompt).await;
    assert_lines(&rig.work_of(prompt), &["text: a", "text: b", "text: c", "text: d"]);
}

#[tokio::test(start_paused = true)]
async fn a_front_end_that_never_has_room_does_not_hold_a_cancel() {
    let mut rig = Setup::default().open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    rig.screen.has_room(false);
    exchange.text("a");
    exchange.text("b");
    rig.settle().await;
    rig.conversation.cancel();
    assert_eq!(rig.stop_of(prompt).await, StopReason::Cancelled);
    assert!(exchange.is_dropped());
    rig.screen.has_room(true);
    rig.next_prompt_works().await;
}

/// Two failures in a row, then a repaired log that breaks again: one notice for each time that it breaks.
#[tokio::test(start_paused = true)]
async fn a_log_that_cannot_be_written_is_told_once_and_stops_nothing() {
    let mut rig = Setup::default().open().await;
    let notices = |rig: &Rig| rig.lines().iter().filter(|line| line.contains("cannot be saved")).count();
    rig.store.fails(true);
    assert_eq!(rig.text_turn("one", "first").await, StopReason::EndTurn);
    assert_eq!(rig.text_turn("two", "second").await, StopReason::EndTurn);
    assert_eq!(notices(&rig), 1);
    assert_lines(
        &rig.lines()[..3],
        &["user: one", "running", "notice: [milk] this session cannot be saved: the disk is full…"],
    );
    rig.store.fails(false);
    let sent = rig.next_prompt_works().await;
    assert_eq!(
        sent,
        ["user: one", "assistant: first", "user: two", "assistant: second", "user: and now?"],
        "the conversation goes on in memory"
    );
    rig.store.fails(true);
    rig.text_turn("three", "third").await;
    assert_eq!(notices(&rig), 2);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_breaks_at_the_end_of_a_turn_is_told_before_idle() {
    let mut rig = Setup::default().open().await;
    let prompt = rig.submit("one");
    let exchange = rig.exchange().await;
    rig.store.fails(true);
    exchange.fail(ModelErrorKind::BadRequest);
    rig.ended(prompt).await;
    assert_lines(&rig.work_of(prompt), &["notice: [milk] this session cannot be saved: the disk is full…"]);
}
