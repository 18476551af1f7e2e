//! Work that waits for the disk runs on threads that may wait. Without a runtime it runs where it is.

use tokio::runtime::Handle;

/// Runs `work` where it may wait, and gives what it gives.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match Handle::try_current() {
        Ok(runtime) => match runtime.spawn_blocking(work).await {
            Ok(done) => done,
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down: nobody will look at an answer.
                Err(_) => std::future::pending().await,
            },
        },
        Err(_) => work(),
    }
}

/// Runs `work` some time soon.
pub(super) fn in_background(work: impl FnOnce() + Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}
