//! Streams that end too early, or whose connection does not end.

use std::fs;
use std::time::{Duration, Instant};

use milk_testkit::server::Framing;
use milk_testkit::{Policy, Reply, ToolCall};
use serde_json::{Value, json};

use super::{all_answer, chunk, three};
use crate::support::{Plan, answered, assert_has_any, failed, within};

// ---- 088: the stream ends early

/// Text has been shown: no retry, an error that says so, and the text once.
async fn broke_after_text(reply: Reply) {
    let rig = Plan::replies([reply, Reply::text("fine")]).start().await;
    let turn = rig.turn("go").await;
    let error = failed(&turn);
    assert_eq!(turn.text.matches("one two three").count(), 1, "the text that came stays, once: {turn:#?}");
    assert_has_any(&error.to_string(), &["stream", "connection", "broke", "ended", "closed"]);
    assert_eq!(rig.server.count(), 1, "no retry once text has been shown");
    answered(&rig.turn("again").await, "fine");
}

#[tokio::test]
async fn case_088_stream_ends_early_a_after_text() {
    broke_after_text(three().close()).await;
}

#[tokio::test]
async fn case_088_stream_ends_early_a_after_text_in_good_form() {
    broke_after_text(three()).await;
    broke_after_text(three().framing(Framing::UntilClose)).await;
}

#[tokio::test]
async fn case_088_stream_ends_early_c_reset() {
    broke_after_text(three().reset()).await;
}

#[tokio::test]
async fn case_088_stream_ends_early_b_half_a_tool_call_is_never_run() {
    let half = || {
        let call = r#"{"path":"w.txt","content":"half of it"#;
        let head = json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
            "function": {"name": "write_file", "arguments": call}}]});
        Reply::stream().role().delta(head)
    };
    // The last is complete JSON by chance, and yet the server had not finished.
    let whole = || {
        Reply::stream()
            .role()
            .call(ToolCall::new("write_file", json!({"path": "w.txt", "content": "x"})).pieces(3))
    };
    for cut in [half().close(), half().reset(), half(), whole().close(), whole().reset()] {
        let mut first = Some(cut);
        let rig = Plan::respond(move |_| first.take().unwrap_or_else(|| Reply::text("fine")))
            .policy(Policy::Allow)
            .start()
            .await;
        let turn = rig.turn("go").await;
        assert!(!rig.home.exists("w.txt"), "half a call was run: {turn:#?}");
        assert_eq!(rig.questions().len(), 0, "half a call was asked about: {turn:#?}");
        match &turn.response {
            Ok(_) => answered(&turn, "fine"),
            Err(_) => drop(failed(&turn)),
        }
        rig.assert_rows_ended();
        answered(&rig.turn("again").await, "fine");
    }
}

/// What becomes of a stream that ends at this byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Broken,
    Either,
    Whole,
}

/// Cuts a text and a call at every third byte: what came before is a prefix, the cut is an error, half a call is
/// never run, and a reply that has its finish reason is whole.
async fn cut_everywhere(framing: Framing, judge: fn(usize, &[usize; 2]) -> Cut) {
    let event = |choice: Value| format!("data: {}\n\n", chunk(choice));
    let call = json!({"index": 0, "id": "c", "function": {"name": "bash", "arguments": "{\"command\":\"touch ran\"}"}});
    let before_finish = event(json!({"index": 0, "delta": {"content": "naïve "}}))
        + &event(json!({"index": 0, "delta": {"content": "漢字"}}))
        + &event(json!({"index": 0, "delta": {"tool_calls": [call]}}));
    let finish = event(json!({"index": 0, "delta": {}, "finish_reason": "tool_calls"}));
    let whole = before_finish.clone() + &finish + "data: [DONE]\n\n";
    let complete = [before_finish.len() + finish.trim_end().len(), before_finish.len() + finish.len()];
    let cuts = || (0..whole.len()).step_by(3);
    let mut bodies: Vec<Vec<u8>> = cuts().map(|cut| whole.as_bytes()[..cut].to_vec()).rev().collect();
    let mut rig = Plan::respond(move |request| match request.messages().last() {
        Some(newest) if newest["role"] == "tool" => Reply::text(" done"),
        _ => Reply::stream().framing(framing).bytes(bodies.pop().expect("a cut")).close(),
    })
    .no_retries()
    .root("dangerously_skip_permissions", true)
    .start()
    .await;
    for (round, cut) in cuts().enumerate() {
        if round % 20 == 0 {
            rig.session = rig.session_in(rig.home.workspace()).await;
        }
        let turn = rig.turn("go").await;
        let expected = judge(cut, &complete);
        if expected == Cut::Broken || (expected == Cut::Either && turn.response.is_err()) {
            failed(&turn);
            assert!(!rig.home.exists("ran"), "cut at {cut}: half a call was run");
            assert!("naïve 漢字".starts_with(&turn.text), "cut at {cut}: {}", turn.text);
        } else {
            answered(&turn, "naïve 漢字 done");
            fs::remove_file(rig.home.workspace().join("ran")).unwrap();
        }
    }
}

#[tokio::test]
async fn case_088_stream_ends_early_wherever_the_body_ends() {
    let judge = |cut, [finish, _]: &[usize; 2]| if cut < *finish { Cut::Broken } else { Cut::Whole };
    cut_everywhere(Framing::UntilClose, judge).await;
}

/// The connection breaks in the middle of the body: once the event with the finish reason is whole, so is the reply.
#[tokio::test]
async fn case_088_stream_ends_early_wherever_the_connection_breaks() {
    let judge = |cut, [finish, whole]: &[usize; 2]| match cut {
        cut if cut < *finish => Cut::Broken,
        cut if cut < *whole => Cut::Either,
        _ => Cut::Whole,
    };
    cut_everywhere(Framing::Chunked, judge).await;
}

#[tokio::test]
async fn case_088_stream_ends_early_d_without_done() {
    all_answer(
        "one two three",
        [
            three().finish("stop"),
            three().finish("stop").framing(Framing::UntilClose),
            three().finish("stop").usage(1, 1),
        ],
    )
    .await;
}

#[tokio::test]
async fn case_088_stream_ends_early_e_without_the_last_blank_line() {
    let last = json!({"choices": [{"index": 0, "delta": {"content": "three"}, "finish_reason": "stop"}]});
    let head = || Reply::stream().role().say("one ").say("two ");
    all_answer(
        "one two three",
        [
            head().bytes(format!("data: {last}\n")),
            head().bytes(format!("data: {last}")),
            head().bytes(format!("data: {last}\n\ndata: [DONE]\n")),
            head().bytes(format!("data: {last}\n\ndata: [DONE]")),
        ],
    )
    .await;
}

// ---- 089: the server keeps the socket

#[tokio::test]
async fn case_089_the_socket_stays_open_after_done() {
    let rig = Plan::replies([three().end().hang(), Reply::text("fine")]).start().await;
    let turn = rig.turn("go").await;
    answered(&turn, "one two three");
    let idle = rig.agent.with_transcript(|transcript| {
        let entry = transcript.entries.iter().rfind(|entry| entry.json["id"] == *turn.id.as_json());
        entry.unwrap().at
    });
    // Known to be over on the server's side once milk has let go of it.
    rig.server.replied(0).await;
    let sent = *rig.server.sent(0).last().unwrap();
    within(idle.saturating_duration_since(sent), Duration::from_secs(1), "the end after [DONE]");
    answered(&rig.turn("again").await, "fine");
}

#[tokio::test]
async fn case_089_the_socket_stays_open_with_no_done() {
    let rig = Plan::replies([three().finish("stop").hang(), Reply::text("fine")])
        .agent("idle_timeout_secs", 1)
        .start()
        .await;
    let began = Instant::now();
    answered(&rig.turn("go").await, "one two three");
    within(began.elapsed(), Duration::from_secs(4), "the idle limit");
    assert_eq!(rig.server.count(), 1);
    answered(&rig.turn("again").await, "fine");
}
