//! A gate that lets through as many as the test says, and no more.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Shut until the test opens it; every clone is the same gate.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    /// A gate that lets nobody through yet.
    pub(crate) fn shut() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets one more through.
    pub(crate) fn let_one_through(&self) {
        self.0.add_permits(1);
    }

    /// Waits to be let through.
    pub(crate) async fn passed(&self) {
        self.0.acquire().await.expect("the gate is never closed").forget();
    }
}
