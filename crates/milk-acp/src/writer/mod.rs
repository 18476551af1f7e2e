//! The one way out: a queue that is bounded by what producers wait for, and one thread that writes it.
//!
//! Responses travel in the same queue as updates, so what was pushed first is written first. Deltas of one message merge
//! while they wait, so that a fast model cannot flood a slow client and a fast client gets each delta at once (R9).

mod queue;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use milk_core::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::queue::Queue;
use crate::wire::Handle;
use crate::wire::delta::Delta;

/// Bytes that may wait, or be under way, before producers are asked to wait.
const ROOM: usize = 256 << 10;

/// Bytes that may wait before no further line of the client's is read: answers are not refused for want of room, so a
/// client that asks without reading must be slowed down at its own end.
const FLOOD: usize = 16 << 20;

/// Room of the write buffer that is kept between writes.
const KEEP: usize = 256 << 10;

/// Something to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outgoing {
    /// A message, ready but for its newline.
    Line {
        /// The session that it is about, so that deltas do not merge across it.
        of: Option<Handle>,
        /// The message.
        line: Vec<u8>,
    },
    /// A piece that may merge with the one before it.
    Delta(Delta),
}

/// The queue's end to push to. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the writer thread.
    wake: Condvar,
    /// Wakes who waits for room.
    room: Notify,
    /// Wakes the reader that holds back.
    eased: Condvar,
    /// The thread has ended: everything is written, or the other side is gone.
    ended: CancellationToken,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    /// Bytes of the write that is under way.
    in_flight: usize,
    phase: Phase,
    thread: Thread,
}

/// What the writer's thread does: waking one that is awake costs a system call for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    Awake,
    Waiting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// What is queued is still written.
    Finishing,
    /// Nothing is written any more; what is pushed is dropped.
    Ended,
}

impl Writer {
    /// Starts the thread that writes to `out`. Fails when the system has no thread to give.
    pub(crate) fn start(out: impl Write + Send + 'static) -> std::io::Result<Self> {
        let state =
            State { queue: Queue::default(), in_flight: 0, phase: Phase::Open, thread: Thread::Awake };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            wake: Condvar::new(),
            room: Notify::new(),
            eased: Condvar::new(),
            ended: CancellationToken::new(),
        });
        let thread = Arc::clone(&shared);
        std::thread::Builder::new().name("acp-writer".to_owned()).spawn(move || thread.run(out))?;
        Ok(Self { shared })
    }

    /// Queues a message. Never waits; after the end it is dropped.
    pub(crate) fn push(&self, message: Outgoing) {
        let mut state = self.shared.lock();
        if state.phase == Phase::Ended {
            return;
        }
        state.queue.push(message);
        let waiting = std::mem::replace(&mut state.thread, Thread::Awake) == Thread::Waiting;
        drop(state);
        if waiting {
            self.shared.wake.notify_one();
        }
    }

    /// `None` while there is room, else a future that resolves when there is.
    pub(crate) fn room(&self) -> Option<BoxFuture<'_, ()>> {
        if self.shared.has_room() {
            return None;
        }
        Some(Box::pin(async {
            loop {
                let freed = self.shared.room.notified();
                let mut freed = std::pin::pin!(freed);
                // Listening before looking: a write that ends in between is not missed.
                freed.as_mut().enable();
                if self.shared.has_room() {
                    return;
                }
                freed.await;
            }
        }))
    }

    /// Waits, as long as the client leaves a flood of answers unread.
    pub(crate) fn hold_back(&self) {
        let mut state = self.shared.lock();
        while state.phase == Phase::Open && state.queue.weight() + state.in_flight >= FLOOD {
            state = self.shared.eased.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Resolves when the writer has ended, by itself only when the other side is gone.
    pub(crate) async fn ended(&self) {
        self.shared.ended.cancelled().await;
    }

    /// Writes what is queued and ends. Whether that was done within `limit`; a reader that does not read costs no more.
    pub(crate) async fn finish(&self, limit: Duration) -> bool {
        self.shared.take_no_more();
        tokio::time::timeout(limit, self.ended()).await.is_ok()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_no_more(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Finishing;
        }
        drop(state);
        self.wake.notify_one();
        self.eased.notify_all();
    }

    fn has_room(&self) -> bool {
        let state = self.lock();
        state.phase == Phase::Ended || state.queue.weight() + state.in_flight < ROOM
    }

    fn run(&self, mut out: impl Write) {
        // A writer that panics is a writer that is gone.
        let result = catch_unwind(AssertUnwindSafe(|| self.write_all(&mut out)));
        if let Ok(Err(error)) = result {
            tracing::debug!(%error, "the client is gone");
        }
        let mut state = self.lock();
        state.phase = Phase::Ended;
        state.queue = Queue::default();
        state.in_flight = 0;
        drop(state);
        self.room.notify_waiters();
        self.eased.notify_all();
        self.ended.cancel();
    }

    fn write_all(&self, out: &mut impl Write) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        while let Some(batch) = self.next_batch() {
            for message in batch {
                match message {
                    Outgoing::Line { line, .. } => bytes.extend_from_slice(&line),
                    Outgoing::Delta(delta) => bytes.append(&mut delta.into_line()),
                }
                bytes.push(b'\n');
            }
            out.write_all(&bytes)?;
            out.flush()?;
            bytes.clear();
            bytes.shrink_to(KEEP);
            self.lock().in_flight = 0;
            self.room.notify_waiters();
            self.eased.notify_all();
        }
        Ok(())
    }

    /// Everything that is queued, once there is something. `None` when nothing will come any more.
    fn next_batch(&self) -> Option<impl Iterator<Item = Outgoing> + use<>> {
        let mut state = self.lock();
        loop {
            if let Some(batch) = state.queue.take() {
                state.in_flight = batch.weight;
                return Some(batch.messages.into_iter());
            }
            if state.phase != Phase::Open {
                return None;
            }
            state.thread = Thread::Waiting;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.thread = Thread::Awake;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc;

    use serde_json::Value;

    use super::*;
    use crate::wire::Version;
    use crate::wire::delta::Shape;

    /// A client that takes one write at a time, when the test lets it.
    struct SlowReader {
        started: mpsc::Sender<Vec<u8>>,
        go: mpsc::Receiver<io::Result<()>>,
    }

    impl Write for SlowReader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.started.send(bytes.to_vec()).unwrap();
            self.go.recv().unwrap_or(Ok(())).map(|()| bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Writer, mpsc::Receiver<Vec<u8>>, mpsc::Sender<io::Result<()>>) {
        let (started, writes) = mpsc::channel();
        let (allow, go) = mpsc::channel();
        (Writer::start(SlowReader { started, go }).unwrap(), writes, allow)
    }

    fn delta(of: &str, id: &str, text: &str) -> Outgoing {
        let shape = Shape::Text(Version::V2);
        Outgoing::Delta(Delta { of: Handle::new(of), shape, id: id.into(), text: text.to_owned() })
    }

    fn line(of: Option<&str>, text: &str) -> Outgoing {
        Outgoing::Line { of: of.map(Handle::new), line: text.as_bytes().to_vec() }
    }

    /// What was written, one word a line: plain lines as they are, deltas as `session/message:text`.
    fn words(bytes: &[u8]) -> Vec<String> {
        assert_eq!(bytes.last(), Some(&b'\n'));
        let lines = std::str::from_utf8(bytes).unwrap().lines();
        lines
            .map(|line| match serde_json::from_str::<Value>(line) {
                Ok(message) => {
                    let params = &message["params"];
                    let text = params["update"]["content"]["text"].as_str().unwrap();
                    let id = params["update"]["messageId"].as_str().unwrap();
                    format!("{}/{id}:{text}", params["sessionId"].as_str().unwrap())
                }
                Err(_) => line.to_owned(),
            })
            .collect()
    }

    #[test]
    fn what_waits_behind_a_slow_reader_keeps_its_order_and_its_deltas_merge() {
        let (writer, writes, allow) = slow();
        writer.push(delta("a", "m", "1"));
        assert_eq!(words(&writes.recv().unwrap()), ["a/m:1"]);

        for message in [
            delta("a", "m", "2"),
            delta("b", "n", "x"),
            delta("a", "m", "3"),
            delta("b", "n", "y"),
            line(Some("a"), "row of a"),
            delta("a", "m", "4"),
            line(None, "response"),
            delta("a", "m", "5"),
            delta("a", "o", "6"),
            delta("b", "n", "z"),
        ] {
            writer.push(message);
        }
        allow.send(Ok(())).unwrap();
        assert_eq!(
            words(&writes.recv().unwrap()),
            ["a/m:23", "b/n:xyz", "row of a", "a/m:45", "response", "a/o:6"]
        );
    }

    #[tokio::test]
    async fn room_comes_back_when_the_reader_reads() {
        let (writer, writes, allow) = slow();
        assert!(writer.room().is_none());
        writer.push(line(None, "first"));
        writes.recv().unwrap();
        writer.push(line(None, &"x".repeat(ROOM)));
        let room = writer.room().expect("no room behind a reader that does not read");
        let mut room = std::pin::pin!(room);
        assert!(futures_util::poll!(room.as_mut()).is_pending());
        allow.send(Ok(())).unwrap();
        writes.recv().unwrap();
        assert!(futures_util::poll!(room.as_mut()).is_pending(), "what is under way counts");
        allow.send(Ok(())).unwrap();
        room.await;
    }

    #[test]
    fn a_flood_of_answers_that_nobody_reads_holds_the_reader_back() {
        let (writer, writes, allow) = slow();
        writer.push(line(None, &"x".repeat(FLOOD)));
        writes.recv().unwrap();
        let (told, passed) = mpsc::channel();
        let holding = writer.clone();
        let reader = std::thread::spawn(move || {
            told.send("waits").unwrap();
            holding.hold_back();
            told.send("goes on").unwrap();
        });
        assert_eq!(passed.recv().unwrap(), "waits");
        assert!(passed.try_recv().is_err());
        allow.send(Ok(())).unwrap();
        assert_eq!(passed.recv().unwrap(), "goes on");
        reader.join().unwrap();
    }

    #[tokio::test]
    async fn a_dead_reader_ends_the_writer_and_holds_nobody_up() {
        let (writer, writes, allow) = slow();
        writer.push(line(None, "first"));
        writes.recv().unwrap();
        writer.push(line(None, &"x".repeat(2 * ROOM)));
        let room = writer.room().expect("full");
        allow.send(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
        room.await;
        writer.ended().await;
        writer.push(line(None, "dropped"));
        assert!(writer.room().is_none());
        assert!(writer.finish(Duration::from_secs(1)).await);
    }

    #[tokio::test]
    async fn finishing_writes_what_is_queued() {
        let (writer, writes, allow) = slow();
        writer.push(line(None, "first"));
        writes.recv().unwrap();
        writer.push(line(None, "last"));
        for _ in 0..2 {
            allow.send(Ok(())).unwrap();
        }
        assert!(writer.finish(Duration::from_secs(10)).await);
        assert_eq!(words(&writes.recv().unwrap()), ["last"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_never_reads_costs_the_limit_only() {
        let (writer, writes, _allow) = slow();
        writer.push(line(None, "stuck"));
        writes.recv().unwrap();
        assert!(!writer.finish(Duration::from_millis(300)).await);
    }
}
