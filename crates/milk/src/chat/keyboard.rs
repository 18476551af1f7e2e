//! Lines that a person types, and Ctrl-C.

use std::io::{self, BufRead};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Longest line that is read, in bytes.
const LINE_LIMIT: u64 = 1024 * 1024;

/// Typed lines. Read only as they are wanted, so that a script may pipe many.
#[derive(Debug)]
pub(super) struct Keyboard {
    lines: mpsc::Receiver<String>,
}

impl Keyboard {
    /// Starts to read standard input, on a thread of its own: a blocked read can be left behind.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(1);
        std::thread::Builder::new().name("keyboard".to_owned()).spawn(move || {
            while let Some(line) = read_line() {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { lines })
    }

    /// The next line without its end; `None` at the end of the input.
    pub(super) async fn line(&mut self) -> Option<String> {
        self.lines.recv().await
    }
}

fn read_line() -> Option<String> {
    let mut bytes = Vec::new();
    let read = io::Read::take(io::stdin().lock(), LINE_LIMIT).read_until(b'\n', &mut bytes).ok()?;
    (read > 0).then(|| String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned())
}

/// Counts Ctrl-C. SIGTERM and SIGHUP trip the token.
pub(super) fn interrupts(stop: CancellationToken) -> io::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel(4);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => { let _ = sender.try_send(()); } // more presses than are waiting add nothing
                _ = terminate.recv() => break,
                _ = hangup.recv() => break,
            }
        }
        stop.cancel();
        let _ = sender.send(()).await;
    });
    Ok(receiver)
}
