//! What a view and the handlers need of their connection: the way out, the open calls, and tasks with an owner.

use std::future::Future;
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::peer::{self, Calls, RawId};
use crate::rpc_error::RpcError;
use crate::wire::Version;
use crate::writer::{Outgoing, Writer};

/// Tasks that may be under way; far more than a client that waits for answers makes.
const TASKS: usize = 10_000;

/// One connection, as seen from inside.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) writer: Writer,
    pub(crate) calls: Calls,
    runtime: tokio::runtime::Handle,
    tasks: TaskTracker,
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
            tasks: TaskTracker::new(),
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
        self.tasks.len() >= TASKS
    }

    /// Starts a task that ends with the connection at the latest.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let over = self.over.clone();
        let task = async move { over.run_until_cancelled_owned(task).await.unwrap_or_default() };
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// The runtime of this connection's tasks.
    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        &self.runtime
    }

    /// Resolves when every task has ended by itself; none may be started any more by then.
    pub(crate) async fn settled(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends the tasks and the open calls.
    pub(crate) async fn end(&self) {
        self.calls.close();
        self.over.cancel();
        self.settled().await;
    }
}
