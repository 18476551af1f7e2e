//! What a view and the handlers need of their connection: the way out, the open calls, and tasks with an owner.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::peer::{self, Calls, RawId};
use crate::rpc_error::RpcError;
use crate::wire::Version;
use crate::writer::{Outgoing, Writer};

/// Answers that may be under way; far more than a client that waits for answers makes.
const ANSWERS: usize = 10_000;

/// One connection, as seen from inside.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) writer: Writer,
    pub(crate) calls: Calls,
    runtime: tokio::runtime::Handle,
    /// Tasks that owe an answer.
    answers: TaskTracker,
    /// Tasks that wait for a moment to do something.
    timers: TaskTracker,
    /// Ends the tasks.
    over: CancellationToken,
}

impl Link {
    /// A link whose tasks run on the current runtime.
    pub(crate) fn new(writer: Writer) -> Arc<Self> {
        Arc::new(Self {
            writer,
            calls: Calls::new(),
            runtime: tokio::runtime::Handle::current(),
            answers: TaskTracker::new(),
            timers: TaskTracker::new(),
            over: CancellationToken::new(),
        })
    }

    /// Answers a request.
    pub(crate) fn answer(&self, id: &RawId, version: Version, answer: Result<&RawValue, &RpcError>) {
        let line = match answer {
            Ok(result) => peer::response(id, &result),
            Err(error) => peer::failure(id, &error.object(version)),
        };
        self.writer.push(Outgoing::Line { of: None, line });
    }

    /// Whether so much is under way that no more should be taken on.
    pub(crate) fn is_crowded(&self) -> bool {
        self.answers.len() >= ANSWERS
    }

    /// Starts a task that owes an answer. It ends with the connection at the latest.
    pub(crate) fn spawn_answer(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_on(&self.answers, task);
    }

    /// Does something after a while, unless the connection ends before.
    pub(crate) fn after(&self, wait: Duration, then: impl FnOnce() + Send + 'static) {
        self.spawn_on(&self.timers, async move {
            tokio::time::sleep(wait).await;
            then();
        });
    }

    fn spawn_on(&self, owner: &TaskTracker, task: impl Future<Output = ()> + Send + 'static) {
        let over = self.over.clone();
        let task = async move { over.run_until_cancelled_owned(task).await.unwrap_or_default() };
        owner.spawn_on(task, &self.runtime);
    }

    /// The runtime of this connection's tasks.
    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        &self.runtime
    }

    /// Resolves when everything that was asked is answered, turns apart. Nothing may be asked any more by then.
    pub(crate) async fn settled(&self) {
        self.answers.close();
        self.answers.wait().await;
    }

    /// Ends the tasks and the open calls.
    pub(crate) async fn end(&self) {
        self.calls.close();
        self.over.cancel();
        self.settled().await;
        self.timers.close();
        self.timers.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_waits_for_answers_and_not_for_timers() {
        let link = Link::new(Writer::start(std::io::sink()).unwrap());
        let began = Instant::now();
        let rang = Arc::new(AtomicBool::new(false));
        let rings = Arc::clone(&rang);
        link.after(Duration::from_secs(10), move || rings.store(true, Ordering::Relaxed));
        link.spawn_answer(tokio::time::sleep(Duration::from_secs(1)));
        link.settled().await;
        link.end().await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(!rang.load(Ordering::Relaxed));
    }
}
