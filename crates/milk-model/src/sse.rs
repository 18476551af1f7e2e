//! Server-sent events, parsed as bytes come in (WHATWG HTML, "Server-sent events", section 9.2.6).
//!
//! Three things go beyond the standard, because model servers need them: an event whose blank line never came is still
//! given at the end ([`Decoder::finish`]), bytes that are not UTF-8 become U+FFFD in the field that holds them, and an
//! event has a largest size.

use std::collections::VecDeque;

/// The largest event and the longest line that a [`Decoder`] takes, in bytes, unless told otherwise: 16 MiB.
pub const EVENT_LIMIT: usize = 16 << 20;

/// The bytes of U+FEFF, which one stream may begin with.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty for the default, `message`.
    pub name: String,
    /// The `data` lines, joined by a line feed.
    pub data: String,
    /// The newest `id` field so far; empty if there was none.
    pub id: String,
}

/// An event or a line is longer than the limit. Nothing more is read from this stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event in the stream is longer than {limit} bytes")]
pub struct EventTooLarge {
    /// The limit that was passed.
    pub limit: usize,
}

/// A push parser: bytes in, in pieces of any size, events out. Never panics and holds at most one unfinished event.
///
/// ```
/// let mut decoder = milk_model::sse::Decoder::new();
/// decoder.push(b": ping\r\ndata: one\r\n\r\nda")?;
/// decoder.push(b"ta:two")?;
/// decoder.finish();
/// let events: Vec<String> = std::iter::from_fn(|| decoder.next_event()).map(|event| event.data).collect();
/// assert_eq!(events, ["one", "two"]);
/// # Ok::<(), milk_model::sse::EventTooLarge>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    place: Place,
    name: String,
    data: Data,
    last_id: String,
    retry_ms: Option<u64>,
    ready: VecDeque<Event>,
    failed: Option<EventTooLarge>,
}

/// Where in the stream the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the first line, which may begin with a byte order mark.
    FirstLine,
    /// Directly behind a carriage return: a line feed here belongs to it.
    AfterReturn,
    /// Anywhere else.
    Later,
}

/// The data of the event that is being read; no line of it is not the same as one empty line.
#[derive(Debug, Default)]
struct Data {
    text: Vec<u8>,
    lines: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the start of a stream, with [`EVENT_LIMIT`].
    pub fn new() -> Self {
        Self::with_limit(EVENT_LIMIT)
    }

    /// A decoder with another limit, in bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            place: Place::FirstLine,
            name: String::new(),
            data: Data::default(),
            last_id: String::new(),
            retry_ms: None,
            ready: VecDeque::new(),
            failed: None,
        }
    }

    /// Reads the next bytes. Events that stood before one that is too large can still be taken.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if let Some(failed) = self.failed {
                return Err(failed);
            }
            if self.place == Place::AfterReturn {
                self.place = Place::Later;
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.keep(rest);
            };
            self.end_line(&rest[..end], rest[end] == b'\r')?;
            rest = &rest[end + 1..];
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Says that the stream is over: an event whose blank line, or whose last line end, never came is given too.
    pub fn finish(&mut self) {
        if self.failed.is_none() {
            let line = std::mem::take(&mut self.line);
            if !line.is_empty() {
                self.field(self.without_mark(&line));
            }
            self.dispatch();
        }
    }

    /// The next event that is complete.
    pub fn next_event(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    /// The newest `retry` field: how long to wait before connecting again, in milliseconds.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), EventTooLarge> {
        self.check(self.line.len() + part.len())?;
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn check(&mut self, length: usize) -> Result<(), EventTooLarge> {
        if length <= self.limit {
            return Ok(());
        }
        let failed = EventTooLarge { limit: self.limit };
        self.failed = Some(failed);
        (self.line, self.data) = (Vec::new(), Data::default());
        Err(failed)
    }

    fn end_line(&mut self, part: &[u8], by_return: bool) -> Result<(), EventTooLarge> {
        self.check(self.line.len() + part.len())?;
        if self.line.is_empty() {
            self.take_line(self.without_mark(part));
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(part);
            self.take_line(self.without_mark(&line));
            line.clear();
            self.line = line;
        }
        self.place = if by_return { Place::AfterReturn } else { Place::Later };
        self.check(self.data.text.len())
    }

    fn without_mark<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        match self.place {
            Place::FirstLine => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
            Place::AfterReturn | Place::Later => line,
        }
    }

    fn take_line(&mut self, line: &[u8]) {
        if line.is_empty() { self.dispatch() } else { self.field(line) }
    }

    fn field(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = (&line[..colon], line.get(colon + 1..).unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => self.data.push(value),
            b"event" => self.name = text(value.to_vec()),
            b"id" if !value.contains(&0) => self.last_id = text(value.to_vec()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.retry_ms = text(value.to_vec()).parse().ok();
            }
            // A comment has an empty name; other fields mean nothing.
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        if data.lines > 0 {
            self.ready.push_back(Event { name, data: text(data.text), id: self.last_id.clone() });
        }
    }
}

impl Data {
    fn push(&mut self, line: &[u8]) {
        if self.lines > 0 {
            self.text.push(b'\n');
        }
        self.text.extend_from_slice(line);
        self.lines += 1;
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
