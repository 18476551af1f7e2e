//! What others ask of a conversation beside prompts: to go to another session.

use milk_core::id::SessionId;
use tokio::sync::oneshot;

use crate::engine::OpenError;

/// A request to a conversation's task. It is met between turns, before the prompts that wait.
#[derive(Debug)]
pub(crate) enum Control {
    /// Go to this stored session and show its history (contract: session/resume(X) resolution, 2).
    Rebind { to: SessionId, done: oneshot::Sender<Result<(), OpenError>> },
    /// The session is to be deleted: go on with a fresh one and say so.
    Abandon { session: SessionId, done: oneshot::Sender<()> },
}
