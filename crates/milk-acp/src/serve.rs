//! The agent's side of one connection, on any pair of byte streams: stdin and stdout, or two pipes inside the process.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use milk_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::dispatch::Connection;
use crate::frame::LineReader;
use crate::link::Link;
use crate::map::ReplayIds;
use crate::profile::{ProfileOverrides, SessionLoad};
use crate::writer::Writer;

/// How long answers that are under way may take after the input has ended.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// How long open turns may take to end.
const CLOSING: Duration = Duration::from_millis(900);
/// How long the client may take to read the rest.
const LAST_LINES: Duration = Duration::from_millis(300);

/// What the user has set for clients.
#[derive(Debug, Clone)]
pub struct AcpSettings {
    /// milk's version, told in `initialize`.
    pub version: String,
    /// When `session/prompt` is answered, for clients that do not say (`acp_prompt_response`, R6).
    pub prompt_response: PromptResponse,
    /// Which ids replayed messages have, for clients that do not say (`acp_replay_ids`, R27).
    pub replay_ids: ReplayIds,
    /// Whether v1's `session/load` is offered (`acp_session_load`, R40); `None` leaves it to the client's profile.
    pub session_load: Option<SessionLoad>,
    /// Changes to the table of client profiles (`acp_clients`, R39).
    pub clients: ProfileOverrides,
}

/// When `session/prompt` is answered (R6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PromptResponse {
    /// When the turn has ended (contract).
    #[default]
    Held,
    /// As soon as the turn begins, as upstream's v2 has it.
    Accepted,
}

/// Why [`serve`] has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeEnd {
    /// The client has closed its side.
    InputEnded,
    /// The caller wanted it.
    ShutDown,
    /// The client reads no more.
    OutputGone,
}

/// Serves one client until its input ends, it stops reading, or `shutdown` trips. Every conversation is closed when this
/// returns, within two seconds.
///
/// The reader has a thread of its own, which stays behind in `read` when the input does not end; another thread writes, and
/// nothing else does. Fails when the system has no threads to give.
pub async fn serve(
    reader: impl Read + Send + 'static,
    writer: impl Write + Send + 'static,
    engine: Engine,
    settings: AcpSettings,
    shutdown: CancellationToken,
) -> std::io::Result<ServeEnd> {
    let link = Link::new(Writer::start(writer)?);
    let connection = Connection::new(Arc::clone(&link), engine, settings);
    let input_ended = read_lines(reader, Arc::clone(&connection))?;

    let end = tokio::select! {
        biased;
        () = link.writer.ended() => ServeEnd::OutputGone,
        () = shutdown.cancelled() => ServeEnd::ShutDown,
        () = input_ended.cancelled() => ServeEnd::InputEnded,
    };
    tracing::info!(?end, "a connection ends");

    if end == ServeEnd::InputEnded {
        // What was asked before the end is still answered, if it takes no turn.
        let settled = tokio::time::timeout(LAST_ANSWERS, link.settled()).await;
        tracing::debug!(all = settled.is_ok(), "last answers");
    }
    link.calls.close();
    if tokio::time::timeout(CLOSING, connection.close_all()).await.is_err() {
        tracing::warn!("some turns did not end in time");
    }
    link.end().await;
    if !link.writer.finish(LAST_LINES).await {
        tracing::warn!("the client did not read everything");
    }
    Ok(end)
}

/// Starts the reader's thread. The token trips at the end of the input.
fn read_lines(
    reader: impl Read + Send + 'static,
    connection: Arc<Connection>,
) -> std::io::Result<CancellationToken> {
    let ended = CancellationToken::new();
    let guard = ended.clone().drop_guard();
    let read = move || {
        let _ended = guard;
        let _runtime = connection.link.runtime().enter();
        let mut lines = LineReader::new(reader);
        loop {
            match lines.next_line() {
                Ok(Some(line)) => {
                    connection.receive(line);
                    connection.link.writer.hold_back();
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "the input cannot be read");
                    return;
                }
            }
        }
    };
    std::thread::Builder::new().name("acp-reader".to_owned()).spawn(read)?;
    Ok(ended)
}
