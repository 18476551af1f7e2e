//! Work that waits for the disk runs on threads that may wait. Without a runtime it runs where it is.

use std::time::Duration;

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

/// The same, a while later. No thread waits for it. The runtime must have timers.
pub(super) fn in_background_after(delay: Duration, work: impl FnOnce() + Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(async move {
            tokio::time::sleep(delay).await;
            blocking(work).await;
        })),
        Err(_) => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn without_a_runtime_work_is_done_at_once() {
        static DONE: AtomicU32 = AtomicU32::new(0);
        in_background(|| DONE.store(1, Ordering::SeqCst));
        let answer =
            pin!(blocking(|| DONE.load(Ordering::SeqCst))).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(answer, Poll::Ready(1));
    }

    #[test]
    fn a_panic_in_work_is_a_panic_of_who_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let waits = std::panic::AssertUnwindSafe(|| runtime.block_on(blocking(|| panic!("as wanted"))));
        assert!(std::panic::catch_unwind(waits).is_err());
    }
}
