//! What the server got: requests as they came, and what became of their connections.

use std::collections::VecDeque;
use std::time::Instant;

use serde_json::Value;

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Which chat request it was, from 0; `None` for other paths.
    pub chat_index: Option<usize>,
    /// `POST`, …
    pub method: String,
    /// The path with its query, as sent.
    pub path: String,
    /// Header names in lower case, in the order sent.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; null where it is not JSON.
    pub body: Value,
    /// The body as bytes.
    pub raw_body: Vec<u8>,
    /// When the last byte of it had been read.
    pub at: Instant,
    /// Which connection it came on, from 0.
    pub connection: usize,
    /// When the client closed that connection, if it has.
    pub connection_closed: Option<Instant>,
    /// What became of the reply, once it is over.
    pub outcome: Option<Outcome>,
}

/// How a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every step was played.
    Played,
    /// A step closed or reset the connection.
    Cut,
    /// The client went before the reply was over.
    Abandoned,
}

impl RecordedRequest {
    /// The first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The conversation that was sent.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The messages with this role.
    pub fn with_role(&self, role: &str) -> Vec<&Value> {
        self.messages().iter().filter(|message| message["role"] == role).collect()
    }

    /// The text of the system message, or nothing.
    pub fn system(&self) -> String {
        self.with_role("system").first().map_or_else(String::new, |message| text_of(&message["content"]))
    }

    /// The text of the newest user message, or nothing.
    pub fn last_user(&self) -> String {
        self.with_role("user").last().map_or_else(String::new, |message| text_of(&message["content"]))
    }

    /// All tool results, as call id and text.
    pub fn tool_results(&self) -> Vec<(String, String)> {
        let pair = |message: &&Value| (text_of(&message["tool_call_id"]), text_of(&message["content"]));
        self.with_role("tool").iter().map(pair).collect()
    }

    /// The names of the tools on offer.
    pub fn tool_names(&self) -> Vec<String> {
        let tools = self.body["tools"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).map(str::to_owned).collect()
    }

    /// The model asked for.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }
}

/// The text in a message's content: a string, or the text parts of a list.
pub fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// How much a server remembers: the newest requests, as long as both limits hold (one is always kept).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) requests: usize,
    /// Bytes of bodies, all together.
    pub(crate) bytes: usize,
}

/// The bounded log of a server: the newest requests, by number and by bytes.
#[derive(Debug)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    bytes: usize,
    chats: usize,
    keep: Keep,
    pub(crate) violations: Vec<String>,
    pub(crate) connections: usize,
}

#[derive(Debug)]
struct Entry {
    request: RecordedRequest,
    sent: Vec<Instant>,
}

/// Violations kept at most; the first ones tell.
const KEPT_VIOLATIONS: usize = 100;

impl Log {
    pub(crate) fn new(keep: Keep) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, chats: 0, keep, violations: Vec::new(), connections: 0 }
    }

    /// Keeps a request and gives it back with its chat index.
    pub(crate) fn push(&mut self, mut request: RecordedRequest, is_chat: bool) -> RecordedRequest {
        if is_chat {
            request.chat_index = Some(self.chats);
            self.chats += 1;
        }
        self.bytes += request.raw_body.len();
        self.entries.push_back(Entry { request: request.clone(), sent: Vec::new() });
        while self.entries.len() > self.keep.requests
            || (self.bytes > self.keep.bytes && self.entries.len() > 1)
        {
            if let Some(old) = self.entries.pop_front() {
                self.bytes -= old.request.raw_body.len();
            }
        }
        request
    }

    pub(crate) fn violation(&mut self, text: String) {
        if self.violations.len() < KEPT_VIOLATIONS {
            self.violations.push(text);
        }
    }

    pub(crate) fn chats(&self) -> usize {
        self.chats
    }

    pub(crate) fn chat(&self, index: usize) -> Option<&RecordedRequest> {
        self.entry(index).map(|entry| &entry.request)
    }

    pub(crate) fn sent(&self, index: usize) -> Vec<Instant> {
        self.entry(index).map_or_else(Vec::new, |entry| entry.sent.clone())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &RecordedRequest> {
        self.entries.iter().map(|entry| &entry.request)
    }

    pub(crate) fn finish(&mut self, index: usize, outcome: Outcome, sent: Vec<Instant>) {
        let found = self.entries.iter_mut().rev().find(|entry| entry.request.chat_index == Some(index));
        if let Some(entry) = found {
            entry.request.outcome = Some(outcome);
            entry.sent = sent;
        }
    }

    pub(crate) fn client_closed(&mut self, connection: usize) {
        let now = Instant::now();
        let of_it = self.entries.iter_mut().filter(|entry| entry.request.connection == connection);
        of_it.for_each(|entry| entry.request.connection_closed = Some(now));
    }

    fn entry(&self, index: usize) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.request.chat_index == Some(index))
    }

    /// One line for each request, for failure messages.
    pub(crate) fn summary(&self) -> String {
        let line = |request: &RecordedRequest| {
            let newest = request.messages().last().map(Value::to_string).unwrap_or_default();
            let newest: String = newest.chars().take(300).collect();
            let end = match (request.outcome, request.connection_closed) {
                (Some(outcome), _) => format!("{outcome:?}"),
                (None, Some(_)) => "client closed".to_owned(),
                (None, None) => "open".to_owned(),
            };
            let number = request.chat_index.map_or_else(|| "-".to_owned(), |index| index.to_string());
            format!("  [{number}] {} {} ({end}) newest message: {newest}", request.method, request.path)
        };
        let lines: Vec<String> = self.all().map(line).collect();
        if lines.is_empty() { "  no request came".to_owned() } else { lines.join("\n") }
    }
}
