//! What fails: the model, the agent's source, milk itself. Never an empty success, and the next prompt works (R11, R17; bug
//! cases 045, 125).

use milk_core::event::{PromptOutcome, StopReason};
use milk_core::failure::Failure;
use milk_core::model::ModelErrorKind;
use milk_core::settings::{PermissionMode, Settings, TextDelivery};
use milk_engine::OpenError;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::fakes::agent::Resolving;
use crate::fakes::tool::{Does, reading};
use crate::lines::assert_lines;
use crate::rig::{Setup, settings};

/// Every kind but the one that milk acts on itself.
const KINDS: [ModelErrorKind; 9] = [
    ModelErrorKind::Unreachable,
    ModelErrorKind::TimedOut,
    ModelErrorKind::RateLimited,
    ModelErrorKind::ServerFailed,
    ModelErrorKind::BrokenStream,
    ModelErrorKind::Unauthorized,
    ModelErrorKind::NotFound,
    ModelErrorKind::BadRequest,
    ModelErrorKind::Misconfigured,
];

#[tokio::test(start_paused = true)]
async fn a_failed_model_is_an_error_with_its_kind_and_stays_in_history() {
    for kind in KINDS {
        let mut rig = Setup::default().open().await;
        let prompt = rig.submit("hello");
        rig.exchange().await.fail(kind);
        let PromptOutcome::Ended { stop, failure, .. } = rig.ended(prompt).await else { panic!("it ran") };
        let failure = failure.unwrap();
        assert_eq!(stop, StopReason::Error);
        assert_eq!(failure.kind, kind.as_str());
        assert_eq!(failure.retryable, kind.retry_can_help());
        assert_eq!((failure.provider.as_deref(), failure.status), (Some("fake"), Some(500)));
        assert_eq!(rig.request_count(), 1, "retries are the model's own business");
        let sent = rig.next_prompt_works().await;
        assert_eq!(sent, ["user: hello | [The turn above failed: fake: it went wrong] | and now?"]);
    }
}

#[tokio::test(start_paused = true)]
async fn text_that_was_shown_before_a_failure_is_kept() {
    for delivery in [TextDelivery::Streamed, TextDelivery::Whole] {
        let settings = Settings { delivery, ..settings() };
        let mut rig = Setup { settings, ..Setup::default() }.open().await;
        let prompt = rig.submit("hello");
        let exchange = rig.exchange().await;
        exchange.text("The answer is");
        exchange.fail(ModelErrorKind::BrokenStream);
        assert_eq!(rig.stop_of(prompt).await, StopReason::Error);
        assert_lines(&rig.work_of(prompt), &["text: The answer is"]);
        let sent = rig.next_prompt_works().await;
        assert_eq!(
            sent,
            [
                "user: hello",
                "assistant: The answer is",
                "user: [The turn above failed: fake: it went wrong] | and now?"
            ]
        );
    }
}

/// A stream that ends without a word about its end, before and after it said something.
#[tokio::test(start_paused = true)]
async fn a_stream_that_just_ends_is_broken() {
    for text in ["", "half"] {
        let mut rig = Setup::default().open().await;
        let prompt = rig.submit("hello");
        let exchange = rig.exchange().await;
        if !text.is_empty() {
            exchange.text(text);
        }
        drop(exchange);
        let PromptOutcome::Ended { failure, .. } = rig.ended(prompt).await else { panic!("it ran") };
        assert_eq!(failure.unwrap().kind, "model_stream_broken");
        rig.next_prompt_works().await;
    }
}

/// Calls that a broken response announced are not run.
#[tokio::test(start_paused = true)]
async fn calls_of_a_response_that_broke_off_never_run() {
    let mut rig = Setup::with_tools([reading("read", Does::Works)]).open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.text("I look.");
    exchange.call("c1", "read", json!({}));
    exchange.fail(ModelErrorKind::BrokenStream);
    rig.ended(prompt).await;
    assert_lines(&rig.work_of(prompt), &["text: I look."]);
    rig.next_prompt_works().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_a_tool_keeps_what_the_tool_did() {
    let mut rig = Setup::with_tools([reading("read", Does::Works)]).open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.call("c1", "read", json!({}));
    exchange.finish();
    rig.exchange().await.fail(ModelErrorKind::RateLimited);
    assert_eq!(rig.stop_of(prompt).await, StopReason::Error);
    assert_lines(&rig.work_of(prompt), &["row c1: read in_progress", "row c1: completed: read done"]);
    let sent = rig.next_prompt_works().await;
    assert_eq!(
        sent,
        [
            "user: hello",
            "assistant:  [c1 read {}]",
            "result c1: read done",
            "user: [The turn above failed: fake: it went wrong] | and now?"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_model_that_panics_costs_its_turn_and_keeps_its_text() {
    let mut rig = Setup::default().open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.text("I was about to");
    exchange.panic();
    assert_eq!(rig.stop_of(prompt).await, StopReason::Error);
    assert_lines(
        &rig.lines_of(prompt)[3..],
        &["text: I was about to", "idle: error internal", "ended: error internal"],
    );
    rig.next_prompt_works().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_be_found_fails_the_turn_alone() {
    let mut rig = Setup::default().open().await;
    rig.agent.next(Resolving::Fails(Failure::new("misconfigured", "No agent is configured.")));
    let prompt = rig.submit("hello");
    assert_eq!(rig.stop_of(prompt).await, StopReason::Error);
    assert_lines(
        &rig.lines(),
        &["user: hello", "running", "idle: error misconfigured", "ended: error misconfigured"],
    );
    rig.agent.next(Resolving::Ready { announcement: None });
    let sent = rig.next_prompt_works().await;
    assert_eq!(sent, ["user: hello | [The turn above failed: No agent is configured.] | and now?"]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_source_that_panics_costs_its_turn() {
    let mut rig = Setup::default().open().await;
    rig.agent.next(Resolving::Panics);
    let prompt = rig.submit("hello");
    assert_eq!(rig.stop_of(prompt).await, StopReason::Error);
    assert_lines(&rig.lines(), &["user: hello", "running", "idle: error internal", "ended: error internal"]);
    rig.agent.next(Resolving::Ready { announcement: None });
    rig.next_prompt_works().await;
    rig.conversation.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_cannot_be_provisioned_does_not_open_and_leaves_no_session() {
    let failure = Failure::new("config_broken", "The config cannot be read.");
    let setup = Setup { provision_fails: Some(failure.clone()), ..Setup::default() };
    let Err(error) = setup.try_open().await else { panic!("it opened") };
    assert_eq!(error, OpenError::Failed(failure));
}

#[tokio::test(start_paused = true)]
async fn a_new_session_is_stored_before_its_first_turn() {
    let rig = Setup::default().open().await;
    assert_eq!(rig.store.created(), [rig.conversation.session()]);
}

/// A turn that takes too long is an error, not a cancel: nobody cancelled it.
#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_too_long_fails() {
    let limit = std::time::Duration::from_mins(1);
    let settings =
        Settings { turn_time_limit: Some(limit), permissions: PermissionMode::SkipAll, ..settings() };
    let gate = crate::fakes::gate::Gate::shut();
    let tools = vec![reading("read", Does::WaitsFor(gate))];
    let mut rig = Setup { settings, tools, ..Setup::default() }.open().await;
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.text("half");
    assert_eq!(rig.stop_of(prompt).await, StopReason::Error);
    assert!(exchange.is_dropped());
    assert_lines(&rig.lines_of(prompt)[3..4], &["text: half"]);
    let prompt = rig.submit("hello");
    let exchange = rig.exchange().await;
    exchange.call("c1", "read", json!({}));
    exchange.finish();
    let PromptOutcome::Ended { failure, .. } = rig.ended(prompt).await else { panic!("it ran") };
    assert_eq!(failure.unwrap().kind, "turn_timed_out");
    assert_eq!(rig.work_of(prompt).len(), 2, "the row is closed");
    rig.next_prompt_works().await;
}
