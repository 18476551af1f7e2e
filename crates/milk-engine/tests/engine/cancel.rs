//! A cancel, at every stage that a turn can be in (R12; bug cases 036, 038 to 044).

use std::time::Duration;

use milk_core::event::{PromptOutcome, StopReason};
use milk_core::id::PromptId;
use milk_core::settings::{Settings, TextDelivery};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::time::Instant;

use crate::fakes::agent::Resolving;
use crate::fakes::gate::Gate;
use crate::fakes::knowledge::{Knowledge, Recall};
use crate::fakes::model::Exchange;
use crate::fakes::tool::{Does, reading, shell, writing};
use crate::lines::assert_lines;
use crate::rig::{Rig, Setup, settings};

/// Where a turn stands when it is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Read, and nobody has looked at it.
    BeforeItIsTaken,
    Resolving,
    Recalling,
    BeforeTheFirstByte,
    WhileThinking,
    MidText,
    AfterACallWasAnnounced,
    AtAQuestion,
    InAToolThatListens,
    InAToolThatDoesNot,
    InReads,
    BetweenCalls,
    InTheSecondResponse,
}

/// What must be seen of a turn that was cancelled there.
struct Expected {
    stage: Stage,
    /// What is shown between the route and idle.
    work: &'static [&'static str],
    /// What a later request has of it, after the user's text.
    history: &'static [&'static str],
    /// The longest that it may take.
    within: Duration,
}

const AT_ONCE: Duration = Duration::ZERO;
/// How long what does not listen is waited for.
const SETTLING: Duration = Duration::from_secs(1);

const TABLE: &[Expected] = &[
    Expected { stage: Stage::BeforeItIsTaken, work: &[], history: &[], within: AT_ONCE },
    Expected { stage: Stage::Resolving, work: &[], history: &[], within: AT_ONCE },
    Expected { stage: Stage::Recalling, work: &[], history: &[], within: SETTLING },
    Expected { stage: Stage::BeforeTheFirstByte, work: &[], history: &[], within: AT_ONCE },
    Expected { stage: Stage::WhileThinking, work: &["thought: hm"], history: &[], within: AT_ONCE },
    Expected {
        stage: Stage::MidText,
        work: &["text: The ans"],
        history: &["assistant: The ans"],
        within: AT_ONCE,
    },
    Expected { stage: Stage::AfterACallWasAnnounced, work: &[], history: &[], within: AT_ONCE },
    Expected {
        stage: Stage::AtAQuestion,
        work: &[
            "row c1: bash a pending",
            "requires_action",
            "asked: Allow bash? a [allow allow_always deny]",
            "withdrawn",
            "row c1: cancelled: cancelled by the user",
        ],
        history: &["assistant:  [c1 bash {\"arg\":\"a\"}]", "result c1: cancelled by the user"],
        within: AT_ONCE,
    },
    Expected {
        stage: Stage::InAToolThatListens,
        work: &["row c1: write a in_progress", "row c1: cancelled: stopped in the middle"],
        history: &["assistant:  [c1 write {\"arg\":\"a\"}]", "result c1: stopped in the middle"],
        within: AT_ONCE,
    },
    Expected {
        stage: Stage::InAToolThatDoesNot,
        work: &["row c1: deaf a in_progress", "row c1: cancelled: cancelled by the user"],
        history: &["assistant:  [c1 deaf {\"arg\":\"a\"}]", "result c1: cancelled by the user"],
        within: SETTLING,
    },
    Expected {
        stage: Stage::InReads,
        work: &[
            "row c1: read a in_progress",
            "row c2: read b in_progress",
            "row c1: cancelled: stopped in the middle",
            "row c2: cancelled: stopped in the middle",
        ],
        history: &[
            "assistant:  [c1 read {\"arg\":\"a\"}] [c2 read {\"arg\":\"b\"}]",
            "result c1: stopped in the middle",
            "result c2: stopped in the middle",
        ],
        within: AT_ONCE,
    },
    Expected {
        stage: Stage::BetweenCalls,
        work: &["row c1: write a in_progress", "row c1: cancelled: stopped in the middle"],
        history: &[
            "assistant:  [c1 write {\"arg\":\"a\"}] [c2 write {\"arg\":\"b\"}]",
            "result c1: stopped in the middle",
            "result c2: not run; cancelled by the user",
        ],
        within: AT_ONCE,
    },
    Expected {
        stage: Stage::InTheSecondResponse,
        work: &["row c1: look a in_progress", "row c1: completed: look a done", "text: It is"],
        history: &["assistant:  [c1 look {\"arg\":\"a\"}]", "result c1: look a done", "assistant: It is"],
        within: AT_ONCE,
    },
];

async fn rig_for(stage: Stage) -> Rig {
    let gate = Gate::shut();
    let recall = if stage == Stage::Recalling { Recall::Never } else { Recall::AtOnce };
    let tools = vec![
        shell(Does::Works),
        writing("write", Does::WaitsFor(gate.clone())),
        writing("deaf", Does::IgnoresCancel(gate.clone())),
        reading("read", Does::WaitsFor(gate)),
        reading("look", Does::Works),
    ];
    let knowledge = Some(Knowledge { recall, ..Knowledge::default() });
    let grants = ["write", "deaf"].map(|tool| milk_core::ports::Grant::Tool(tool.to_owned())).into();
    let rig = Setup { tools, knowledge, grants, ..Setup::default() }.open().await;
    if stage == Stage::Resolving {
        rig.agent.next(Resolving::Hangs);
    }
    rig
}

/// Brings the turn to its stage, and keeps what must live as long as the turn.
async fn bring_to(rig: &mut Rig, stage: Stage) -> Option<Exchange> {
    let calls: &[(&str, &str)] = match stage {
        Stage::BeforeItIsTaken => return None,
        Stage::Resolving | Stage::Recalling => {
            rig.settle().await;
            return None;
        }
        Stage::BeforeTheFirstByte | Stage::WhileThinking | Stage::MidText | Stage::AfterACallWasAnnounced => {
            let exchange = rig.exchange().await;
            match stage {
                Stage::WhileThinking => exchange.thought("hm"),
                Stage::MidText => exchange.text("The ans"),
                Stage::AfterACallWasAnnounced => exchange.call("c1", "write", json!({"arg": "a"})),
                _ => {}
            }
            rig.settle().await;
            return Some(exchange);
        }
        Stage::AtAQuestion => &[("bash", "a")],
        Stage::InAToolThatListens => &[("write", "a")],
        Stage::InAToolThatDoesNot => &[("deaf", "a")],
        Stage::InReads => &[("read", "a"), ("read", "b")],
        Stage::BetweenCalls => &[("write", "a"), ("write", "b")],
        Stage::InTheSecondResponse => &[("look", "a")],
    };
    let exchange = rig.exchange().await;
    for (index, (tool, arg)) in calls.iter().enumerate() {
        exchange.call(&format!("c{}", index + 1), tool, json!({"arg": arg}));
    }
    exchange.finish();
    rig.settle().await;
    if stage != Stage::InTheSecondResponse {
        return None;
    }
    let exchange = rig.exchange().await;
    exchange.text("It is");
    rig.settle().await;
    Some(exchange)
}

fn is_cancelled(outcome: &PromptOutcome) -> bool {
    matches!(outcome, PromptOutcome::Ended { stop: StopReason::Cancelled, failure: None, .. })
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_the_turn_at_every_stage_and_touches_nothing_later() {
    for Expected { stage, work, history, within } in TABLE {
        let mut rig = rig_for(*stage).await;
        let running = rig.submit("first");
        let waiting = [rig.submit("second"), rig.submit("third")];
        let exchange = bring_to(&mut rig, *stage).await;
        rig.conversation.cancel();
        let later = rig.submit("later");
        let at = Instant::now();
        assert!(is_cancelled(&rig.ended(running).await), "{stage:?}");
        assert!(at.elapsed() <= *within + Duration::from_millis(5), "{stage:?} took {:?}", at.elapsed());
        assert!(exchange.is_none_or(|exchange| exchange.is_dropped()), "{stage:?}: the request goes on");
        for prompt in waiting {
            assert_eq!(rig.lines_of(prompt), ["never ran"], "{stage:?}");
        }
        assert_lines(&rig.work_of(running), work);
        if matches!(stage, Stage::Resolving | Stage::Recalling) {
            // The later prompt would hang there too; it is cancelled, and the next one is let through.
            rig.conversation.cancel();
            assert!(is_cancelled(&rig.ended(later).await));
            continue;
        }
        let exchange = rig.exchange().await;
        let mut sent: Vec<&str> = vec!["user: first"];
        sent.extend(*history);
        let note = "[The user cancelled the turn above.] | later";
        let with_note = if history.is_empty() {
            vec![format!("user: first | {note}")]
        } else {
            let mut lines: Vec<String> = sent.iter().map(|line| (*line).to_owned()).collect();
            lines.push(format!("user: {note}"));
            lines
        };
        assert_eq!(crate::lines::chat(&exchange.request), with_note, "{stage:?}");
        exchange.say("still here");
        assert_eq!(
            rig.stop_of(later).await,
            StopReason::EndTurn,
            "{stage:?}: a cancel touches nothing later"
        );
        rig.next_prompt_works().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_hung_while_it_looked_for_its_agent_leaves_the_next_one_free() {
    let mut rig = Setup::default().open().await;
    rig.agent.next(Resolving::Hangs);
    let prompt = rig.submit("first");
    rig.settle().await;
    rig.conversation.cancel();
    assert!(is_cancelled(&rig.ended(prompt).await));
    rig.agent.next(Resolving::Ready { announcement: None });
    rig.next_prompt_works().await;
}

/// Bug case 036, many times over: the cancel comes right behind the prompt.
#[tokio::test(start_paused = true)]
async fn a_cancel_in_the_very_next_line_always_cancels() {
    let mut rig = Setup::default().open().await;
    for round in 0..200 {
        let prompt = rig.submit("never mind");
        for _ in 0..round % 12 {
            tokio::task::yield_now().await;
        }
        rig.conversation.cancel();
        assert!(is_cancelled(&rig.ended(prompt).await), "round {round}");
    }
    while let Some(exchange) = rig.exchange_now() {
        assert!(exchange.is_dropped());
    }
    let sent = rig.next_prompt_works().await;
    assert!(!sent.iter().any(|line| line.starts_with("assistant")), "nothing was said");
}

/// Bug case 040: cancel in mid stream and prompt again at once, many times.
#[tokio::test(start_paused = true)]
async fn the_session_is_usable_straight_after_a_cancel() {
    let mut rig = Setup::default().open().await;
    for _ in 0..50 {
        let prompt = rig.submit("one");
        let exchange = rig.exchange().await;
        exchange.text("token");
        rig.settle().await;
        rig.conversation.cancel();
        assert!(is_cancelled(&rig.ended(prompt).await));
        exchange.dropped().await;
        assert_eq!(rig.text_turn("ok", "fine").await, StopReason::EndTurn);
    }
}

/// Bug case 041: every response calls a tool again; after a cancel no request starts.
#[tokio::test(start_paused = true)]
async fn no_request_starts_after_a_cancel() {
    let mut rig = Setup::with_tools([reading("look", Does::Works)]).open().await;
    let prompt = rig.submit("loop");
    for _ in 0..5 {
        let exchange = rig.exchange().await;
        exchange.call("", "look", json!({}));
        exchange.finish();
    }
    rig.conversation.cancel();
    assert!(is_cancelled(&rig.ended(prompt).await));
    let before = rig.request_count();
    rig.settle().await;
    assert_eq!(rig.request_count(), before);
    assert!(before <= 6, "{before} requests");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_with_nothing_to_cancel_is_nothing() {
    let mut rig = Setup::default().open().await;
    rig.conversation.cancel();
    rig.conversation.cancel_prompt(PromptId(u64::MAX));
    rig.text_turn("hello", "hi").await;
    rig.conversation.cancel();
    rig.settle().await;
    assert_eq!(rig.next_prompt_works().await.len(), 3);
    assert_eq!(rig.lines().len(), 12, "two turns and nothing else");
}

/// A cancel that comes twice, and once more while the turn settles.
#[tokio::test(start_paused = true)]
async fn cancelling_again_changes_nothing() {
    let mut rig = rig_for(Stage::InAToolThatDoesNot).await;
    let prompt = rig.submit("first");
    bring_to(&mut rig, Stage::InAToolThatDoesNot).await;
    for _ in 0..3 {
        rig.conversation.cancel();
        rig.settle().await;
    }
    let later = rig.submit("later");
    assert!(is_cancelled(&rig.ended(prompt).await));
    rig.exchange().await.say("ok");
    assert_eq!(rig.stop_of(later).await, StopReason::EndTurn);
}

/// R20: one prompt is cancelled, running or waiting, and no other.
#[tokio::test(start_paused = true)]
async fn one_prompt_is_cancelled_alone() {
    let mut rig = Setup::default().open().await;
    let prompts = ["one", "two", "three"].map(|text| rig.submit(text));
    let first = rig.exchange().await;
    rig.conversation.cancel_prompt(prompts[1]);
    assert_eq!(rig.ended(prompts[1]).await, PromptOutcome::NeverRan);
    assert!(!first.is_dropped());
    rig.conversation.cancel_prompt(prompts[0]);
    assert!(is_cancelled(&rig.ended(prompts[0]).await));
    let third = rig.exchange().await;
    rig.conversation.cancel_prompt(prompts[0]); // has ended: no effect
    rig.settle().await;
    assert!(!third.is_dropped());
    third.say("hi");
    assert_eq!(rig.stop_of(prompts[2]).await, StopReason::EndTurn);
}

/// A tool that had ended its work when the cancel came has done it; the turn is cancelled all the same.
#[tokio::test(start_paused = true)]
async fn what_a_deaf_tool_still_ends_within_a_second_counts() {
    let gate = Gate::shut();
    let mut rig = Setup::with_tools([reading("read", Does::IgnoresCancel(gate.clone()))]).open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.call("c1", "read", json!({}));
    exchange.finish();
    rig.settle().await;
    rig.conversation.cancel();
    tokio::time::sleep(Duration::from_millis(500)).await;
    gate.let_one_through();
    assert!(is_cancelled(&rig.ended(prompt).await));
    assert_lines(&rig.work_of(prompt), &["row c1: read in_progress", "row c1: completed: read done"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_listen_is_dropped() {
    let mut rig = rig_for(Stage::InAToolThatDoesNot).await;
    let prompt = rig.submit("first");
    bring_to(&mut rig, Stage::InAToolThatDoesNot).await;
    rig.conversation.cancel();
    rig.ended(prompt).await;
    assert_eq!(
        rig.seen_like(&["tool", "idle"]),
        ["tool deaf a is prepared", "tool deaf a starts", "tool deaf a is dropped", "idle: cancelled"],
        "when a turn has ended, everything that it started has ended"
    );
}

/// Text that was held back is shown when the turn is cancelled: it is in history too.
#[tokio::test(start_paused = true)]
async fn text_that_is_not_streamed_is_shown_as_far_as_it_came() {
    let settings = Settings { delivery: TextDelivery::Whole, ..settings() };
    let mut rig = Setup { settings, ..Setup::default() }.open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.text("half an ");
    exchange.text("answer");
    rig.settle().await;
    rig.conversation.cancel();
    rig.ended(prompt).await;
    assert_lines(&rig.work_of(prompt), &["text: half an answer"]);
}

/// No token counts for a turn that was cancelled (bug case 038).
#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_reports_no_usage() {
    let mut rig = Setup::default().open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.usage(10, 1);
    exchange.text("half");
    rig.settle().await;
    rig.conversation.cancel();
    rig.ended(prompt).await;
    assert!(!rig.lines().iter().any(|line| line.starts_with("usage")));
}

/// A turn with a time limit that a person cancels is cancelled, and not out of time.
#[tokio::test(start_paused = true)]
async fn a_cancel_is_a_cancel_also_under_a_time_limit() {
    let settings = Settings { turn_time_limit: Some(Duration::from_mins(5)), ..settings() };
    let mut rig = Setup { settings, ..Setup::default() }.open().await;
    let prompt = rig.submit("hello");
    let _exchange = rig.exchange().await;
    rig.conversation.cancel();
    assert!(is_cancelled(&rig.ended(prompt).await));
}
