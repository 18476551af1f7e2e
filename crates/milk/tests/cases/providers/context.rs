//! Requests that are too long for the model, and failures that only sound like it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Plan, Rig, answered, assert_has, assert_has_any, ended, failed};
use milk_testkit::{Reply, Script};
use serde_json::{Value, json};

// ---- 095, 096: context overflow

const WINDOW: usize = 8192;

/// What a server counts as tokens: characters through four.
fn tokens(body: &[u8]) -> usize {
    String::from_utf8_lossy(body).chars().count() / 4
}

fn llama_refusal(size: usize) -> Value {
    json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": size, "n_ctx": WINDOW,
        "message": "the request exceeds the available context size, try increasing it"}})
}

fn openai_refusal(size: usize) -> Value {
    json!({"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "param": "messages",
        "message": format!("This model's maximum context length is {WINDOW} tokens. However, your messages resulted in {size} tokens.")}})
}

/// A session whose history is over the window.
async fn long_session(script: Script) -> Rig {
    let rig = Plan::new(script).root("local_context_budget_chars", 400_000).start().await;
    for number in 0..12 {
        ended(&rig.turn(&format!("number {number}: {}", "word ".repeat(800))).await, "end_turn");
    }
    let request = rig.server.request(11).await;
    assert!(tokens(&request.raw_body) > WINDOW, "the history is over the window");
    rig
}

#[tokio::test]
async fn case_095_an_overflow_is_trimmed_with_the_servers_number() {
    for refusal in [llama_refusal, openai_refusal] {
        let strict = StrictSwitch::new();
        let rig = long_session(strict.script(refusal)).await;
        strict.on();
        let turn = rig.turn("the newest question").await;
        answered(&turn, "fine");
        let tries = rig.server.count() - 12;
        assert!(tries <= 3, "at most two trims: {tries} requests");
        let last = rig.server.request(rig.server.count() - 1).await;
        assert_has(&last.last_user(), "the newest question");
        assert_eq!(last.system(), rig.server.request(0).await.system(), "the system prompt stays");
    }
}

#[tokio::test]
async fn case_095_an_overflow_that_never_fits_ends() {
    let strict = StrictSwitch::new();
    let rig = long_session(strict.script_never(llama_refusal)).await;
    strict.on();
    let turn = rig.turn("the newest question").await;
    let error = failed(&turn);
    assert_has_any(&error.to_string(), &["context"]);
    let tries = rig.server.count() - 12;
    assert!(tries <= 4, "bounded: {tries} requests");
    strict.off();
    answered(&rig.turn("and now").await, "fine");
    let last = rig.server.request(rig.server.count() - 1).await;
    let all = last.body["messages"].to_string();
    for number in 0..12 {
        assert_has(&all, &format!("number {number}: "));
    }
}

/// Turned on by the test between turns.
#[derive(Clone)]
struct StrictSwitch(Arc<AtomicBool>);

impl StrictSwitch {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn on(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn off(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// While on, a request over the window is refused.
    fn script(&self, refusal: fn(usize) -> Value) -> Script {
        let switch = self.clone();
        Script::respond(move |request| {
            let size = tokens(&request.raw_body);
            if switch.is_on() && size >= WINDOW {
                Reply::json(400, &refusal(size))
            } else {
                Reply::text("fine")
            }
        })
    }

    /// While on, every request is refused.
    fn script_never(&self, refusal: fn(usize) -> Value) -> Script {
        let switch = self.clone();
        Script::respond(move |request| {
            if switch.is_on() {
                Reply::json(400, &refusal(tokens(&request.raw_body) + WINDOW))
            } else {
                Reply::text("fine")
            }
        })
    }
}

#[tokio::test]
async fn case_096_other_failures_are_no_overflow() {
    let failures = [
        (
            500,
            json!({"error": "model requires more system memory (9 GiB) than is available; context deadline"}),
        ),
        (404, json!({"error": {"message": "model not found", "type": "not_found"}})),
        (400, json!({"error": {"message": "unsupported parameter: context"}})),
    ];
    for (status, body) in failures {
        let rig = Plan::replies([
            Reply::text("first answer"),
            Reply::text("second answer"),
            Reply::json(status, &body),
            Reply::text("fine"),
        ])
        .no_retries()
        .start()
        .await;
        rig.turn("first question").await;
        rig.turn("second question").await;
        let error = failed(&rig.turn("third question").await);
        assert_has(&error.to_string(), &status.to_string());
        assert_eq!(rig.server.count(), 3, "no second try with less: {status}");
        answered(&rig.turn("fourth question").await, "fine");
        let (refused, next) = (rig.server.request(2).await, rig.server.request(3).await);
        assert_eq!(
            next.messages()[..refused.messages().len() - 1],
            refused.messages()[..refused.messages().len() - 1]
        );
        for text in ["first question", "first answer", "second question", "second answer"] {
            assert_has(&next.body["messages"].to_string(), text);
        }
    }
}
