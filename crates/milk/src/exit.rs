//! Signals, and an end within two seconds whatever still runs (contract: Launching it).

use std::sync::Arc;
use std::time::Duration;

use milk_tools::process::ProcessGroups;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long an orderly end may take before the process ends anyway.
const ORDERLY: Duration = Duration::from_millis(1_300);
/// How long the children's end is waited for; their supervisors finish the work after that.
const CHILDREN: Duration = Duration::from_millis(500);

/// Trips the token on SIGINT, SIGTERM or SIGHUP.
pub(crate) fn on_signal(stop: CancellationToken) -> std::io::Result<()> {
    let mut signals =
        [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
    tokio::spawn(async move {
        let [interrupt, terminate, hangup] = &mut signals;
        tokio::select! {
            () = received(interrupt) => {}
            () = received(terminate) => {}
            () = received(hangup) => {}
        }
        stop.cancel();
    });
    Ok(())
}

async fn received(signal: &mut Signal) {
    signal.recv().await;
}

/// From the stop on, gives the process a bounded time to end by itself; then ends it, children first.
pub(crate) fn end_soon_after(stop: CancellationToken, commands: Arc<ProcessGroups>) {
    tokio::spawn(async move {
        stop.cancelled().await;
        // A thread, so that a runtime with every worker busy cannot keep it from its work.
        std::thread::spawn(move || {
            std::thread::sleep(ORDERLY);
            end_children(&commands);
            std::process::exit(0);
        });
    });
}

/// Ends every command that still runs, with its whole tree.
pub(crate) fn end_children(commands: &ProcessGroups) {
    commands.kill_all(CHILDREN);
}
