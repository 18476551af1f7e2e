//! The same laws with real threads: prompts and cancels come from everywhere at once.

use std::sync::Arc;
use std::time::Duration;

use milk_core::event::PromptOutcome;
use milk_core::id::PromptId;
use milk_engine::next_prompt_id;

use crate::fakes::tool::{Does, reading};
use crate::rig::{Rig, Setup};

/// Far longer than the test takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

const THREADS: usize = 4;
const PROMPTS: usize = 50;

/// Answers every request: first with a call, then in text.
async fn answer_everything(rig: &mut Rig, done: Arc<tokio::sync::Notify>) {
    let mut calls = 0;
    loop {
        let exchange = tokio::select! {
            () = done.notified() => return,
            exchange = rig.exchange() => exchange,
        };
        exchange.text("hm");
        calls += 1;
        if calls % 2 == 0 {
            exchange.call("", "look", serde_json::json!({}));
        }
        exchange.finish();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn prompts_and_cancels_from_many_threads_are_all_answered() {
    let mut rig = Setup::with_tools([reading("look", Does::Works)]).open().await;
    let submitting: Vec<_> = (0..THREADS)
        .map(|thread| {
            let conversation = rig.conversation.clone();
            std::thread::spawn(move || {
                let submit = |index: usize| {
                    let id = next_prompt_id();
                    conversation.submit(id, vec![milk_core::content::ContentBlock::text("hello")]);
                    if index % 5 == thread {
                        conversation.cancel();
                    } else if index % 7 == thread {
                        conversation.cancel_prompt(id);
                    }
                    id
                };
                (0..PROMPTS).map(submit).collect::<Vec<PromptId>>()
            })
        })
        .collect();
    let done = Arc::new(tokio::sync::Notify::new());
    let finished = Arc::clone(&done);
    let journal = rig.journal.clone();
    let waiting = tokio::spawn(async move {
        let prompts: Vec<PromptId> =
            submitting.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let all = prompts.len();
        let answered = journal.until(|entries| {
            let outcomes = prompts.iter().filter_map(|prompt| crate::rig::outcome_of(entries, *prompt));
            let outcomes: Vec<PromptOutcome> = outcomes.collect();
            (outcomes.len() == all).then_some(outcomes)
        });
        let outcomes = tokio::time::timeout(PATIENCE, answered).await;
        finished.notify_one();
        outcomes.expect("every prompt is answered")
    });
    answer_everything(&mut rig, done).await;
    let outcomes = waiting.await.unwrap();
    assert_eq!(outcomes.len(), THREADS * PROMPTS);
    assert!(!outcomes.iter().any(|outcome| matches!(outcome, PromptOutcome::Rejected(_))));
    rig.conversation.close().await;
}
