//! Bounds of a turn: the limit on model calls, empty replies, reasoning without an answer (bug cases 109, 114, 115).

use milk_core::event::StopReason;
use milk_core::settings::{Settings, Thoughts};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::fakes::model::Exchange;
use crate::fakes::tool::{Does, reading};
use crate::lines::{self, assert_lines};
use crate::rig::{Rig, Setup, settings};

async fn rig_with_limit(limit: Option<u32>) -> Rig {
    let settings = Settings { max_model_calls: limit, ..settings() };
    Setup { settings, tools: vec![reading("look", Does::Works)], ..Setup::default() }.open().await
}

async fn call_again(rig: &mut Rig, id: &str) -> Exchange {
    let exchange = rig.exchange().await;
    assert!(!exchange.request.tools.is_empty());
    exchange.call(id, "look", json!({"arg": id}));
    exchange
}

#[tokio::test(start_paused = true)]
async fn at_the_limit_the_model_is_asked_once_for_a_summary_without_tools() {
    for summary in ["So far so good.", ""] {
        let mut rig = rig_with_limit(Some(2)).await;
        let prompt = rig.submit("loop");
        call_again(&mut rig, "c1").await.finish();
        call_again(&mut rig, "c2").await.finish();
        let exchange = rig.exchange().await;
        assert!(exchange.request.tools.is_empty());
        let last = lines::chat(&exchange.request).pop().unwrap();
        assert!(last.starts_with("user: [milk] The limit on model calls"), "{last}");
        exchange.call("c3", "look", json!({})); // a model that does not listen
        if !summary.is_empty() {
            exchange.text(summary);
        }
        exchange.finish();
        assert_eq!(rig.stop_of(prompt).await, StopReason::MaxTurnRequests);
        assert_eq!(rig.request_count(), 3);
        assert_eq!(rig.seen_like(&["tool look c3"]), Vec::<String>::new(), "its call is not run");
        let work = rig.work_of(prompt);
        assert!(work.last().unwrap().starts_with("text: "), "never an empty end: {work:#?}");
        let sent = rig.next_prompt_works().await;
        assert_eq!(sent.len(), 7, "the note is of that request alone: {sent:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_at_its_limit_by_itself_is_a_normal_end() {
    let mut rig = rig_with_limit(Some(2)).await;
    let prompt = rig.submit("look");
    call_again(&mut rig, "c1").await.finish();
    rig.exchange().await.say("done");
    assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
    assert_eq!(rig.text_turn("again", "the limit is each turn's own").await, StopReason::EndTurn);
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_a_turn_goes_on() {
    let mut rig = rig_with_limit(None).await;
    let prompt = rig.submit("loop");
    for call in 0..120 {
        call_again(&mut rig, &format!("c{call}")).await.finish();
    }
    rig.exchange().await.say("done");
    assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
}

#[tokio::test(start_paused = true)]
async fn an_empty_reply_is_asked_for_again() {
    for empty in ["", " \n"] {
        let mut rig = Setup::default().open().await;
        let prompt = rig.submit("hello");
        let exchange = rig.exchange().await;
        if !empty.is_empty() {
            exchange.text(empty);
        }
        exchange.finish();
        let exchange = rig.exchange().await;
        let sent = lines::chat(&exchange.request);
        assert_eq!(sent.len(), 1, "nothing empty is sent back: {sent:#?}");
        assert!(sent[0].starts_with("user: hello | [milk] Your last reply had no text"));
        exchange.say("Here I am.");
        assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
        assert_eq!(rig.work_of(prompt).last().unwrap(), "text: Here I am.");
        let sent = rig.next_prompt_works().await;
        assert_eq!(sent, ["user: hello", "assistant: Here I am.", "user: and now?"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_stays_empty_is_named_after_three_requests() {
    let mut rig = Setup::with_tools([reading("look", Does::Works)]).open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.call("c1", "look", json!({}));
    exchange.finish();
    for _ in 0..3 {
        rig.exchange().await.finish();
    }
    assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
    assert_eq!(rig.request_count(), 4);
    assert_lines(
        &rig.work_of(prompt),
        &[
            "row c1: look in_progress",
            "row c1: completed: look done",
            "text: (The model gave no answer (3 tries). One tool call was made before; its row above shows what it did.…",
        ],
    );
    rig.next_prompt_works().await;
}

/// Bug case 109: at most one nudge; then the reasoning as text if it was not shown, else a plain word about it.
#[tokio::test(start_paused = true)]
async fn reasoning_without_an_answer_is_never_silence() {
    for (thoughts, shown) in [
        (Thoughts::Hidden, vec!["text: it is 42"]),
        (
            Thoughts::Shown,
            vec![
                "thought: it is 42",
                "thought: it is 42",
                "text: (The model gave only reasoning, shown above, and no answer (2 tries). No tool was used.…",
            ],
        ),
    ] {
        let settings = Settings { thoughts, ..settings() };
        let mut rig = Setup { settings, ..Setup::default() }.open().await;
        let prompt = rig.submit("hello");
        for _ in 0..2 {
            let exchange = rig.exchange().await;
            exchange.thought("it is 42");
            exchange.finish();
        }
        assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
        assert_eq!(rig.request_count(), 2, "one nudge");
        assert_lines(&rig.work_of(prompt), &shown);
        rig.next_prompt_works().await;
    }
}

#[tokio::test(start_paused = true)]
async fn empty_replies_count_against_the_limit() {
    let mut rig = rig_with_limit(Some(2)).await;
    let prompt = rig.submit("hello");
    rig.exchange().await.finish();
    call_again(&mut rig, "c1").await.finish();
    let exchange = rig.exchange().await;
    assert!(exchange.request.tools.is_empty(), "two calls were made: this is the summary");
    exchange.say("summary");
    assert_eq!(rig.stop_of(prompt).await, StopReason::MaxTurnRequests);
}
