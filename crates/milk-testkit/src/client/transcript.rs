//! What went over the wire, in both directions and in order, and the questions tests ask about it.

use std::fmt::Write as _;
use std::panic::Location;
use std::time::Instant;

use serde_json::Value;

use super::matcher::Matcher;
use super::request_id::RequestId;
use super::view::{Message, ToolRow};
use crate::server::give_up;

/// Which way a line went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The test's client wrote it.
    ToAgent,
    /// The agent wrote it.
    FromAgent,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When it was read or handed to the writer.
    pub at: Instant,
    /// Which way it went.
    pub direction: Direction,
    /// The line as it was, without its end.
    pub raw: Vec<u8>,
    /// The line as JSON; null where it is none.
    pub json: Value,
}

/// All lines so far.
///
/// ```
/// use milk_testkit::client::{Direction, Matcher, Transcript};
///
/// let mut transcript = Transcript::default();
/// transcript.record(Direction::ToAgent, br#"{"jsonrpc":"2.0","id":1,"method":"session/list"}"#.to_vec());
/// transcript.record(Direction::FromAgent, br#"{"jsonrpc":"2.0","id":1,"result":{"sessions":[]}}"#.to_vec());
/// transcript.assert_order(&[Matcher::sent("session/list"), Matcher::response(1)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// The lines, oldest first.
    pub entries: Vec<Entry>,
    /// What the agent did that no agent may: lines that are no JSON-RPC 2.0 object.
    pub violations: Vec<String>,
}

/// Lines and characters shown when a test fails.
const SHOWN_LINES: usize = 300;
const SHOWN_CHARACTERS: usize = 1500;

impl Transcript {
    /// Appends a line; one of the agent's that is no JSON-RPC object is a violation as well.
    pub fn record(&mut self, direction: Direction, raw: Vec<u8>) {
        let json: Value = serde_json::from_slice(&raw).unwrap_or(Value::Null);
        if direction == Direction::FromAgent && json["jsonrpc"] != "2.0" {
            let line = String::from_utf8_lossy(&raw);
            self.violations
                .push(format!("not a JSON-RPC 2.0 object: {:?}", shorten(&line, SHOWN_CHARACTERS)));
        }
        self.entries.push(Entry { at: Instant::now(), direction, raw, json });
    }

    /// The messages of the agent.
    pub fn from_agent(&self) -> impl Iterator<Item = &Value> {
        self.entries.iter().filter(|entry| entry.direction == Direction::FromAgent).map(|entry| &entry.json)
    }

    /// The messages to the agent.
    pub fn to_agent(&self) -> impl Iterator<Item = &Value> {
        self.entries.iter().filter(|entry| entry.direction == Direction::ToAgent).map(|entry| &entry.json)
    }

    /// The protocol version that `initialize` agreed on last; 2 before any (calls before it work as v2).
    pub fn version(&self) -> u16 {
        let sent =
            |entry: &&Entry| entry.direction == Direction::ToAgent && entry.json["method"] == "initialize";
        let ids: Vec<RequestId> =
            self.entries.iter().filter(sent).map(|entry| RequestId::of(&entry.json)).collect();
        let agreed = |message: &Value| {
            let is_answer = ids.iter().any(|id| id.is_answered_by(message));
            is_answer.then(|| message["result"]["protocolVersion"].as_u64()).flatten()
        };
        let last = self.from_agent().filter_map(agreed).last();
        last.and_then(|version| u16::try_from(version).ok()).unwrap_or(2)
    }

    /// The `update` objects of all `session/update` notifications for this session.
    pub fn updates(&self, session: &str) -> Vec<&Value> {
        let of_session = |message: &&Value| {
            message["method"] == "session/update" && message["params"]["sessionId"] == session
        };
        self.from_agent().filter(of_session).map(|message| &message["params"]["update"]).collect()
    }

    /// The update kinds for this session, in order.
    pub fn kinds(&self, session: &str) -> Vec<&str> {
        self.updates(session).iter().filter_map(|update| update["sessionUpdate"].as_str()).collect()
    }

    /// The messages that a client would show for this session: chunks and upserts put together by id.
    pub fn texts(&self, session: &str) -> Vec<Message> {
        super::view::messages(&self.updates(session))
    }

    /// The agent's text in this session, all messages joined, thoughts left out.
    pub fn agent_text(&self, session: &str) -> String {
        super::view::agent_text(&self.texts(session))
    }

    /// The tool rows of this session, patched together by id, in the order of their first sight.
    pub fn tool_rows(&self, session: &str) -> Vec<ToolRow> {
        super::view::tool_rows(&self.updates(session))
    }

    /// The first entry from `start` on that matches.
    pub fn find(&self, start: usize, matcher: &Matcher) -> Option<usize> {
        let tail = self.entries.get(start..)?;
        tail.iter().position(|entry| matcher.matches(entry)).map(|offset| start + offset)
    }

    /// How many entries match.
    pub fn count(&self, matcher: &Matcher) -> usize {
        self.entries.iter().filter(|entry| matcher.matches(entry)).count()
    }

    /// Asserts that entries matching these come in this order (others may lie between), and gives their places.
    ///
    /// # Panics
    /// When one is missing behind the match of the one before it.
    #[track_caller]
    pub fn assert_order(&self, matchers: &[Matcher]) -> Vec<usize> {
        let mut places = Vec::new();
        for matcher in matchers {
            let start = places.last().map_or(0, |last| last + 1);
            match self.find(start, matcher) {
                Some(place) => places.push(place),
                None => self.fail(&format!("no {matcher} from line {start} on")),
            }
        }
        places
    }

    /// Asserts that nothing matches.
    ///
    /// # Panics
    /// When something does.
    #[track_caller]
    pub fn assert_never(&self, matcher: &Matcher) {
        if let Some(place) = self.find(0, matcher) {
            self.fail(&format!("line {place} is a {matcher}, which must not come"));
        }
    }

    /// Asserts that nothing matching `what` comes behind the first match of `end`.
    ///
    /// # Panics
    /// When something does, or when `end` never comes.
    #[track_caller]
    pub fn assert_none_after(&self, end: &Matcher, what: &Matcher) {
        let Some(place) = self.find(0, end) else {
            self.fail(&format!("no {end}"));
        };
        if let Some(late) = self.find(place + 1, what) {
            self.fail(&format!("line {late} is a {what} behind the {end} in line {place}"));
        }
    }

    /// Asserts that every line of the agent's was JSON-RPC.
    ///
    /// # Panics
    /// When one was not.
    #[track_caller]
    pub fn assert_pure(&self) {
        if !self.violations.is_empty() {
            self.fail(&format!("stdout had lines that are no protocol:\n  {}", self.violations.join("\n  ")));
        }
    }

    #[track_caller]
    fn fail(&self, complaint: &str) -> ! {
        give_up(Location::caller(), complaint, &self.render())
    }

    /// The newest lines for a person to read: `→` to the agent, `←` from it.
    pub fn render(&self) -> String {
        let hidden = self.entries.len().saturating_sub(SHOWN_LINES);
        let mut text = String::from("transcript:\n");
        if hidden > 0 {
            let _ = writeln!(text, "  … {hidden} lines before");
        }
        let start = self.entries.first().map(|entry| entry.at);
        for (place, entry) in self.entries.iter().enumerate().skip(hidden) {
            let arrow = if entry.direction == Direction::ToAgent { '→' } else { '←' };
            let line = String::from_utf8_lossy(&entry.raw);
            let time = start.map_or(0, |start| entry.at.duration_since(start).as_millis());
            let _ = writeln!(text, "  {place:>4} {time:>6} ms {arrow} {}", shorten(&line, SHOWN_CHARACTERS));
        }
        text
    }
}

fn shorten(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Direction, Transcript};
    use crate::client::Matcher;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn fails(check: &dyn Fn()) -> bool {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err()
    }

    fn transcript() -> Transcript {
        let mut transcript = Transcript::default();
        let update = |kind: &str| {
            json!({"jsonrpc": "2.0", "method": "session/update",
            "params": {"sessionId": "s", "update": {"sessionUpdate": kind}}})
        };
        transcript
            .record(Direction::ToAgent, br#"{"jsonrpc":"2.0","id":7,"method":"session/prompt"}"#.to_vec());
        transcript.record(Direction::FromAgent, update("first").to_string().into_bytes());
        transcript.record(Direction::FromAgent, update("second").to_string().into_bytes());
        transcript.record(Direction::FromAgent, br#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_vec());
        transcript
    }

    #[test]
    fn order_is_by_place_not_by_presence() {
        let transcript = transcript();
        let (first, second) = (Matcher::update("first"), Matcher::update("second"));
        let places =
            transcript.assert_order(&[Matcher::sent("session/prompt"), first.clone(), Matcher::response(7)]);
        assert_eq!(places, vec![0, 1, 3]);
        assert!(fails(&|| drop(transcript.assert_order(&[second.clone(), first.clone()]))));
    }

    #[test]
    fn late_and_forbidden_lines_are_found() {
        let transcript = transcript();
        transcript.assert_never(&Matcher::update("third"));
        transcript.assert_none_after(&Matcher::response(7), &Matcher::update("second"));
        assert!(fails(&|| transcript.assert_never(&Matcher::update("second"))));
        assert!(fails(
            &|| transcript.assert_none_after(&Matcher::update("first"), &Matcher::update("second"))
        ));
        assert!(fails(&|| transcript.assert_none_after(&Matcher::response(8), &Matcher::update("second"))));
    }

    #[test]
    fn lines_that_are_no_protocol_are_violations() {
        let mut transcript = transcript();
        transcript.assert_pure();
        for line in ["hello", "", "[]", "42", r#"{"id":1}"#, r#"{"jsonrpc":"1.0"}"#] {
            transcript.record(Direction::FromAgent, line.as_bytes().to_vec());
        }
        transcript.record(Direction::ToAgent, b"junk of the test's own".to_vec());
        assert_eq!(transcript.violations.len(), 6);
    }
}
