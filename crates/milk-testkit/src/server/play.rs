//! Plays a reply on a socket, byte for byte.

use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::http::reason;
use super::reply::{Cut, Framing, Head, Reply, Step};

/// What the connection is good for after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request may come.
    KeepAlive,
    /// The body is over and so is the connection.
    Finished,
    /// Closed by a step.
    Cut,
    /// To be reset.
    Reset,
}

/// Times of writes kept at most for each reply.
const KEPT_TIMES: usize = 65_536;
/// A burst is written out in pieces of about this size.
const BURST: usize = 64 << 10;

/// A reply on its way out.
pub(crate) struct Player<'a, W> {
    writer: &'a mut W,
    reply: &'a Reply,
    envelope: Envelope,
    pending: Vec<u8>,
    /// When each write was done.
    pub(crate) sent: Vec<Instant>,
}

/// What the kit wraps around deltas: the same in all chunks of one reply.
#[derive(Debug)]
struct Envelope {
    id: String,
    model: String,
    call_prefix: String,
    calls: usize,
}

impl Envelope {
    fn chunk(&self, delta: &Value, finish: &Value) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": 0, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    }

    fn usage(&self, prompt: u64, completion: u64) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": 0, "model": self.model, "choices": [],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}})
    }
}

impl<'a, W: AsyncWrite + Unpin> Player<'a, W> {
    /// `number` makes ids unique in the life of the server.
    pub(crate) fn new(writer: &'a mut W, reply: &'a Reply, number: usize, model: &str) -> Self {
        let envelope = Envelope {
            id: format!("chatcmpl-{number}"),
            model: model.to_owned(),
            call_prefix: format!("call_{number}"),
            calls: 0,
        };
        Self { writer, reply, envelope, pending: Vec::new(), sent: Vec::new() }
    }

    /// Plays the whole reply.
    pub(crate) async fn play(&mut self, client_closes: bool) -> io::Result<After> {
        for step in &self.reply.before_head {
            wait(step, Instant::now()).await;
        }
        self.head(client_closes).await?;
        let start = Instant::now();
        for step in &self.reply.steps {
            match step {
                Step::Close | Step::Reset => {
                    self.flush().await?;
                    return Ok(if matches!(step, Step::Close) { After::Cut } else { After::Reset });
                }
                Step::Wait(_) | Step::Pause(_) | Step::At(_) | Step::Hang => {
                    self.flush().await?;
                    wait(step, start).await;
                }
                Step::Call(call) => {
                    let fresh = format!("{}_{}", self.envelope.call_prefix, self.envelope.calls);
                    let deltas = call.deltas(self.envelope.calls, &fresh);
                    self.envelope.calls += 1;
                    for delta in deltas {
                        let data = event(self.reply, &self.envelope.chunk(&delta, &Value::Null).to_string());
                        self.data(data.as_bytes()).await?;
                    }
                }
                other => {
                    let data = render(self.reply, &self.envelope, other);
                    self.data(&data).await?;
                }
            }
        }
        self.flush().await?;
        self.tail(client_closes).await
    }

    async fn head(&mut self, client_closes: bool) -> io::Result<()> {
        let Head::Http { status, headers } = &self.reply.head else {
            return Ok(());
        };
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(*status));
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        match self.reply.framing {
            Framing::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
            Framing::ContentLength => {
                let _ = write!(head, "content-length: {}\r\n", self.length());
            }
            Framing::UntilClose => {}
        }
        if client_closes || self.reply.close_after || self.reply.framing == Framing::UntilClose {
            head.push_str("connection: close\r\n");
        }
        head.push_str("\r\n");
        self.writer.write_all(head.as_bytes()).await?;
        self.writer.flush().await
    }

    /// The number of bytes in the data of all steps.
    fn length(&self) -> usize {
        let mut calls = 0;
        let length_of = |step: &Step| match step {
            Step::Call(call) => {
                let deltas = call.deltas(calls, &format!("{}_{calls}", self.envelope.call_prefix));
                calls += 1;
                let event_length = |delta: &Value| {
                    event(self.reply, &self.envelope.chunk(delta, &Value::Null).to_string()).len()
                };
                deltas.iter().map(event_length).sum()
            }
            other => render(self.reply, &self.envelope, other).len(),
        };
        self.reply.steps.iter().map(length_of).sum()
    }

    async fn data(&mut self, data: &[u8]) -> io::Result<()> {
        match self.reply.cut {
            Cut::PerStep => self.write(data).await,
            Cut::Every(size) => {
                for piece in data.chunks(size.max(1)) {
                    self.write(piece).await?;
                    // One runtime turn between writes, so that a reader on the other side may come in between.
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
            Cut::Burst => {
                self.pending.extend_from_slice(data);
                if self.pending.len() >= BURST { self.flush().await } else { Ok(()) }
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.write(&pending).await
    }

    async fn write(&mut self, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        if self.is_chunked() {
            let mut framed = format!("{:x}\r\n", data.len()).into_bytes();
            framed.extend_from_slice(data);
            framed.extend_from_slice(b"\r\n");
            self.writer.write_all(&framed).await?;
        } else {
            self.writer.write_all(data).await?;
        }
        self.writer.flush().await?;
        if self.sent.len() < KEPT_TIMES {
            self.sent.push(Instant::now());
        }
        Ok(())
    }

    async fn tail(&mut self, client_closes: bool) -> io::Result<After> {
        if self.is_chunked() {
            self.writer.write_all(b"0\r\n\r\n").await?;
            self.writer.flush().await?;
        }
        let is_framed =
            matches!(self.reply.head, Head::Http { .. }) && self.reply.framing != Framing::UntilClose;
        let keeps = is_framed && !client_closes && !self.reply.close_after;
        Ok(if keeps { After::KeepAlive } else { After::Finished })
    }

    fn is_chunked(&self) -> bool {
        matches!(self.reply.head, Head::Http { .. }) && self.reply.framing == Framing::Chunked
    }
}

async fn wait(step: &Step, start: Instant) {
    match step {
        Step::Wait(gate) => gate.pass().await,
        Step::Pause(time) => tokio::time::sleep(*time).await,
        Step::At(offset) => {
            let left = (start + *offset).saturating_duration_since(Instant::now());
            if left > Duration::ZERO {
                tokio::time::sleep(left).await;
            }
        }
        Step::Hang => std::future::pending().await,
        _ => {}
    }
}

/// The bytes of a step that is data and needs no counting.
fn render(reply: &Reply, envelope: &Envelope, step: &Step) -> Vec<u8> {
    match step {
        Step::Bytes(bytes) => bytes.clone(),
        Step::Event(data) => event(reply, data).into_bytes(),
        Step::Delta(delta) => event(reply, &envelope.chunk(delta, &Value::Null).to_string()).into_bytes(),
        Step::Finish(reason) => {
            event(reply, &envelope.chunk(&json!({}), &json!(reason)).to_string()).into_bytes()
        }
        Step::Usage { prompt, completion } => {
            event(reply, &envelope.usage(*prompt, *completion).to_string()).into_bytes()
        }
        _ => Vec::new(),
    }
}

/// An SSE event; data with line ends in it becomes several data lines, as the standard says.
fn event(reply: &Reply, data: &str) -> String {
    let end = reply.line_end.as_str();
    let mut lines = String::with_capacity(data.len() + 16);
    for line in data.split('\n') {
        lines.push_str(&reply.data_prefix);
        lines.push_str(line);
        lines.push_str(end);
    }
    lines.push_str(end);
    lines
}
