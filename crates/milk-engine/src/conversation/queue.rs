//! The work of a conversation: one current prompt, others waiting in arrival order, and what is asked of it between turns.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use milk_core::content::ContentBlock;
use milk_core::id::PromptId;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::control::Control;

/// How many prompts may wait. Far more than any person types; a bound all the same.
const WAITING_LIMIT: usize = 1_000;

/// A prompt on its way to its turn.
#[derive(Debug)]
pub(crate) struct QueuedPrompt {
    pub(crate) id: PromptId,
    pub(crate) content: Vec<ContentBlock>,
    pub(crate) cancel: CancellationToken,
}

/// What became of a submitted prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Submitted {
    Queued,
    Closed,
    Full,
}

#[derive(Debug, Default)]
pub(super) struct PromptQueue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The prompt whose turn runs, or is about to: a prompt that finds nothing before it is current from the instant of its
    /// submission, so that a cancel in the very next line ends a turn and not a wait (R12).
    current: Option<Current>,
    waiting: VecDeque<QueuedPrompt>,
    /// Met before the next prompt is.
    controls: VecDeque<Control>,
    closed: bool,
}

/// What a conversation's task does next.
#[derive(Debug)]
pub(super) enum Work {
    Prompt(QueuedPrompt),
    Control(Control),
}

#[derive(Debug)]
struct Current {
    id: PromptId,
    cancel: CancellationToken,
    /// Still here until the conversation's task takes it.
    prompt: Option<QueuedPrompt>,
}

impl From<QueuedPrompt> for Current {
    fn from(prompt: QueuedPrompt) -> Self {
        Self { id: prompt.id, cancel: prompt.cancel.clone(), prompt: Some(prompt) }
    }
}

impl PromptQueue {
    pub(super) fn submit(&self, id: PromptId, content: Vec<ContentBlock>) -> Submitted {
        let mut state = self.lock();
        if state.closed {
            return Submitted::Closed;
        }
        if state.waiting.len() >= WAITING_LIMIT {
            return Submitted::Full;
        }
        let prompt = QueuedPrompt { id, content, cancel: CancellationToken::new() };
        if state.current.is_none() {
            state.current = Some(prompt.into());
        } else {
            state.waiting.push_back(prompt);
        }
        drop(state);
        self.changed.notify_one();
        Submitted::Queued
    }

    /// Cancels the current prompt's turn and removes every waiting one; returns the removed ones.
    pub(super) fn cancel_all(&self) -> Vec<PromptId> {
        let mut state = self.lock();
        if let Some(current) = &state.current {
            current.cancel.cancel();
        }
        state.waiting.drain(..).map(|prompt| prompt.id).collect()
    }

    /// Hands a request over; it is dropped where the queue is closed.
    pub(super) fn control(&self, control: Control) {
        let mut state = self.lock();
        if !state.closed {
            state.controls.push_back(control);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Cancels the current prompt's turn and leaves what waits.
    pub(super) fn cancel_current(&self) {
        if let Some(current) = &self.lock().current {
            current.cancel.cancel();
        }
    }

    /// Cancels one prompt; `true` if it was waiting and is removed now.
    pub(super) fn cancel_one(&self, id: PromptId) -> bool {
        let mut state = self.lock();
        if let Some(current) = state.current.as_ref().filter(|current| current.id == id) {
            current.cancel.cancel();
            return false;
        }
        let before = state.waiting.len();
        state.waiting.retain(|prompt| prompt.id != id);
        state.waiting.len() < before
    }

    /// Takes no more prompts and cancels what is there; returns the prompts that will never run.
    pub(super) fn close(&self) -> Vec<PromptId> {
        {
            let mut state = self.lock();
            state.closed = true;
            state.controls.clear(); // whoever waits for one learns that it will not be met
        }
        let removed = self.cancel_all();
        self.changed.notify_one();
        removed
    }

    /// What to do next; `None` when the queue is closed and the current prompt has ended.
    pub(super) async fn next(&self) -> Option<Work> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.lock();
                if let Some(control) = state.controls.pop_front() {
                    return Some(Work::Control(control));
                }
                if let Some(prompt) = state.current.as_mut().and_then(|current| current.prompt.take()) {
                    return Some(Work::Prompt(prompt));
                }
                if state.closed {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// This prompt's turn is over: the oldest waiting one becomes current. No effect if that was said before.
    pub(super) fn finish(&self, id: PromptId) {
        let mut state = self.lock();
        if state.current.as_ref().is_some_and(|current| current.id == id) {
            state.current = state.waiting.pop_front().map(Into::into);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Vec<ContentBlock> {
        vec![ContentBlock::text("x")]
    }

    async fn next_prompt(queue: &PromptQueue) -> QueuedPrompt {
        match queue.next().await {
            Some(Work::Prompt(prompt)) => prompt,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_control_comes_before_the_next_prompt_and_a_closed_queue_drops_it() {
        let queue = PromptQueue::default();
        let (done, met) = tokio::sync::oneshot::channel();
        queue.submit(PromptId(1), text());
        queue.control(Control::Abandon { session: "s".into(), done });
        let Some(Work::Control(Control::Abandon { done, .. })) = queue.next().await else { panic!() };
        done.send(()).unwrap();
        met.await.unwrap();
        assert_eq!(next_prompt(&queue).await.id, PromptId(1));
        let (done, met) = tokio::sync::oneshot::channel();
        queue.control(Control::Abandon { session: "s".into(), done });
        queue.close();
        assert!(met.await.is_err());
    }

    #[tokio::test]
    async fn a_cancel_right_after_the_first_prompt_ends_its_turn() {
        let queue = PromptQueue::default();
        queue.submit(PromptId(1), text());
        queue.submit(PromptId(2), text());
        assert_eq!(queue.cancel_all(), [PromptId(2)]);
        queue.submit(PromptId(3), text());
        let first = next_prompt(&queue).await;
        assert_eq!(first.id, PromptId(1));
        assert!(first.cancel.is_cancelled());
        queue.finish(PromptId(1));
        let third = next_prompt(&queue).await;
        assert_eq!(third.id, PromptId(3));
        assert!(!third.cancel.is_cancelled(), "a cancel never touches a later prompt");
    }

    #[tokio::test]
    async fn a_closed_queue_runs_its_current_prompt_to_the_end_and_then_ends() {
        let queue = PromptQueue::default();
        queue.submit(PromptId(1), text());
        queue.submit(PromptId(2), text());
        assert_eq!(queue.close(), [PromptId(2)]);
        assert_eq!(queue.submit(PromptId(3), text()), Submitted::Closed);
        assert!(next_prompt(&queue).await.cancel.is_cancelled());
        queue.finish(PromptId(1));
        queue.finish(PromptId(1));
        assert!(queue.next().await.is_none());
    }

    #[test]
    fn one_prompt_is_cancelled_alone() {
        let queue = PromptQueue::default();
        for id in 1..=3 {
            queue.submit(PromptId(id), text());
        }
        assert!(queue.cancel_one(PromptId(2)));
        assert!(!queue.cancel_one(PromptId(2)));
        assert!(!queue.cancel_one(PromptId(1)), "the current one ends through its turn");
        assert!(queue.lock().current.as_ref().unwrap().cancel.is_cancelled());
    }

    #[test]
    fn the_queue_is_bounded() {
        let queue = PromptQueue::default();
        for id in 0..=WAITING_LIMIT as u64 {
            assert_eq!(queue.submit(PromptId(id), text()), Submitted::Queued);
        }
        assert_eq!(queue.submit(PromptId(9_999), text()), Submitted::Full);
    }
}
