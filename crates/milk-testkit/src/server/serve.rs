//! The server's thread: takes connections, reads requests, plays replies, notes what became of them.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

use super::http::{self, HttpRequest};
use super::invariants;
use super::play::{After, Player};
use super::record::{Log, Outcome, RecordedRequest};
use super::reply::Reply;
use super::script::{Script, Source};
use crate::watched::Watched;

/// Connections served at the same time; more wait in the kernel's queue.
const CONNECTIONS: usize = 1024;

/// What the server's thread and the test share.
pub(crate) struct Shared {
    pub(crate) log: Watched<Log>,
    source: Mutex<Source>,
    models: Vec<String>,
    routes: Vec<(String, Reply)>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("models", &self.models).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            log: Watched::new(Log::new(script.keep)),
            source: Mutex::new(script.source),
            models: script.models,
            routes: script.routes,
        }
    }

    pub(crate) fn with_source<R>(&self, with: impl FnOnce(&mut Source) -> R) -> R {
        with(&mut self.source.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a request and decides its reply.
    fn receive(&self, request: HttpRequest, connection: usize) -> (RecordedRequest, Reply) {
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        let route = self.routes.iter().find(|(known, _)| *known == path).map(|(_, reply)| reply.clone());
        let is_chat = route.is_none() && request.method == "POST" && path.ends_with("/chat/completions");
        let record = RecordedRequest {
            chat_index: None,
            method: request.method,
            path: request.path,
            headers: request.headers,
            body: serde_json::from_slice(&request.body).unwrap_or(Value::Null),
            raw_body: request.body,
            at: Instant::now(),
            connection,
            connection_closed: None,
            outcome: None,
        };
        let record = self.log.update(|log| {
            let record = log.push(record, is_chat);
            if let Some(index) = record.chat_index {
                for rule in invariants::check(&record.body) {
                    log.violation(format!("request {index}, {rule}"));
                }
            }
            record
        });
        let reply = match route {
            Some(reply) => reply,
            None if is_chat => self.next_reply(&record),
            None => self.default_reply(&record.method, &path),
        };
        (record, reply)
    }

    fn next_reply(&self, request: &RecordedRequest) -> Reply {
        // A responder may assert; its panic must reach the test, not end the connection in silence.
        let next = catch_unwind(AssertUnwindSafe(|| self.with_source(|source| source.next(request))));
        let complaint = match next {
            Ok(Some(reply)) => return reply,
            Ok(None) => "the script has no reply left",
            Err(_) => "the responder panicked",
        };
        let number = request.chat_index.unwrap_or_default();
        self.log.update(|log| log.violation(format!("request {number}: {complaint}")));
        Reply::json(400, &json!({"error": {"message": complaint, "type": "scripted"}}))
    }

    fn default_reply(&self, method: &str, path: &str) -> Reply {
        if method == "GET" && path.ends_with("/models") {
            let entry =
                |id: &String| json!({"id": id, "object": "model", "created": 0, "owned_by": "milk-testkit"});
            let models: Vec<Value> = self.models.iter().map(entry).collect();
            Reply::json(200, &json!({"object": "list", "data": models}))
        } else if method == "GET" && path.ends_with("/health") {
            Reply::json(200, &json!({"status": "ok"}))
        } else {
            Reply::status(404)
        }
    }
}

/// Serves until `stopped`; tells `ready` once connections are accepted.
pub(crate) fn run(
    shared: &Arc<Shared>,
    listener: TcpListener,
    stopped: oneshot::Receiver<()>,
    ready: oneshot::Sender<io::Result<()>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error))),
    };
    runtime.block_on(async {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let _ = ready.send(Ok(()));
        tokio::select! {
            _ = stopped => {}
            () = accept(shared, &listener) => {}
        }
    });
    // Dropping the runtime drops every connection with it.
}

async fn accept(shared: &Arc<Shared>, listener: &tokio::net::TcpListener) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        // An error here concerns a connection that is already gone, or a passing lack of descriptors.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            serve(&shared, stream).await;
            drop(permit);
        });
    }
}

/// Serves one connection to its end.
async fn serve(shared: &Shared, mut stream: TcpStream) {
    // Each write leaves at once: what a test cuts must not be glued together again.
    let _ = stream.set_nodelay(true);
    let connection = shared.log.update(|log| {
        log.connections += 1;
        log.connections - 1
    });
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    let end = loop {
        match http::read_request(&mut reader, &mut writer).await {
            Ok(Some(request)) => {
                match exchange(shared, connection, request, &mut reader, &mut writer).await {
                    Ok(After::KeepAlive) => {}
                    Ok(after) => break after,
                    Err(_) => {
                        shared.log.update(|log| log.client_closed(connection));
                        break After::Finished;
                    }
                }
            }
            Ok(None) => {
                shared.log.update(|log| log.client_closed(connection));
                break After::Finished;
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let body = json!({"error": {"message": error.to_string(), "type": "scripted"}});
                let reply = Reply::json(400, &body).close_after();
                let _ = Player::new(&mut writer, &reply, 0, "").play(true).await;
                break After::Finished;
            }
            Err(_) => {
                shared.log.update(|log| log.client_closed(connection));
                break After::Finished;
            }
        }
    };
    if end == After::Reset {
        let _ = stream.set_zero_linger();
    }
}

/// One request and its reply; an error when the client went before the end.
async fn exchange<R, W>(
    shared: &Shared,
    connection: usize,
    request: HttpRequest,
    reader: &mut R,
    writer: &mut W,
) -> io::Result<After>
where
    R: AsyncBufRead + Unpin,
    W: tokio::io::AsyncWrite + Unpin,
{
    let client_closes = request.wants_close();
    let (record, reply) = shared.receive(request, connection);
    let number = record.chat_index.unwrap_or_default();
    let mut player = Player::new(writer, &reply, number, record.model());
    let result = tokio::select! {
        biased;
        result = player.play(client_closes) => result,
        () = gone(reader) => Err(io::ErrorKind::ConnectionAborted.into()),
    };
    if let Some(index) = record.chat_index {
        let outcome = match result {
            Ok(After::KeepAlive | After::Finished) => Outcome::Played,
            Ok(After::Cut | After::Reset) => Outcome::Cut,
            Err(_) => Outcome::Abandoned,
        };
        let sent = std::mem::take(&mut player.sent);
        shared.log.update(|log| log.finish(index, outcome, sent));
    }
    result
}

/// Returns when the client has closed its side. A request sent ahead is left where it is.
async fn gone<R: AsyncBufRead + Unpin>(reader: &mut R) {
    if reader.fill_buf().await.is_ok_and(|bytes| !bytes.is_empty()) {
        std::future::pending::<()>().await;
    }
}
