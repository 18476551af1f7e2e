//! A tool call that is being written as text: collected until it ends, then read or given back as text.

use milk_core::model::StreamedCall;
use milk_core::tool::ToolSpec;

use super::opening::Frame;
use crate::chat::format::balance::Balance;
use crate::chat::format::markup;

/// The longest call that is written as text, in bytes. What is longer is shown as text.
const LONGEST: usize = 4 << 20;

/// Where it must be clear by then what a block holds, in bytes behind its mark.
const CLEAR: usize = 512;

/// How many ends are tried: the text of a call may hold its own end mark (a file about tool calls).
const TRIES: usize = 8;

/// The call so far.
#[derive(Debug)]
pub(super) struct Block {
    frame: Frame,
    raw: String,
    /// Where the text between the marks begins.
    body: usize,
    /// Up to where an end has been looked for.
    searched: usize,
    /// The ends that were found and did not end a readable call.
    false_ends: Vec<usize>,
    clarity: Clarity,
    json: Option<Json>,
}

/// The JSON value of a block that ends with it.
#[derive(Debug)]
struct Json {
    name: String,
    start: usize,
    balance: Balance,
}

/// What became of a block.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// It goes on.
    Open,
    /// It was this long, with these calls in it.
    Calls { length: usize, calls: Vec<StreamedCall> },
    /// It is text after all.
    Text,
}

impl Block {
    /// A block that begins with a mark of this length, at the start of what will be fed.
    pub(super) fn new(frame: Frame, mark: usize) -> Self {
        let body = if frame == Frame::Function { 0 } else { mark };
        Self {
            frame,
            raw: String::new(),
            body,
            searched: mark,
            false_ends: Vec::new(),
            clarity: Clarity::Open,
            json: None,
        }
    }

    /// All text of it, marks included.
    pub(super) fn into_raw(self) -> String {
        self.raw
    }

    /// Whether only its content says that it is a call, so that text behind it makes it an example.
    pub(super) fn is_unmarked(&self) -> bool {
        matches!(self.frame, Frame::BareJson | Frame::Fenced)
    }

    /// Adds text; what stands behind the end stays in `raw` for the caller to cut off.
    pub(super) fn feed(&mut self, text: &str, tools: &[ToolSpec]) -> Outcome {
        self.raw.push_str(text);
        let outcome = match self.frame {
            Frame::Until(end) => self.until(end, tools),
            Frame::Function => self.until("</function>", tools),
            Frame::Fenced => self.until("\n```", tools),
            Frame::MarkedJson | Frame::BareJson => self.until_balanced(tools),
        };
        if outcome == Outcome::Open && self.raw.len() > LONGEST { Outcome::Text } else { outcome }
    }

    /// The stream is over: a call that lacks nothing but its end mark is still a call.
    pub(super) fn finish(&mut self, tools: &[ToolSpec]) -> Outcome {
        let body = self.raw.get(self.body..).unwrap_or_default();
        let end = match self.frame {
            Frame::Until(end) => end,
            Frame::Fenced => "\n```",
            Frame::Function | Frame::MarkedJson | Frame::BareJson => "",
        };
        let begun = (1..end.len()).rev().find(|length| body.ends_with(&end[..*length])).unwrap_or(0);
        let body = &body[..body.len() - begun];
        let whole = match self.frame {
            Frame::Until(_) | Frame::Fenced => self.read_unended(body, tools),
            Frame::Function | Frame::MarkedJson | Frame::BareJson => None,
        };
        let length = self.raw.len();
        if let Some(calls) = whole {
            return Outcome::Calls { length, calls };
        }
        let first_end = self.false_ends.first().copied();
        let broken = first_end
            .filter(|_| !self.is_unmarked())
            .and_then(|at| markup::unreadable(&self.raw[self.body..at]));
        match (broken, first_end) {
            (Some(call), Some(at)) => Outcome::Calls { length: at + end.len(), calls: vec![call] },
            _ => Outcome::Text,
        }
    }

    /// Reads a body whose end mark never came: here missing brackets are missing text.
    fn read_unended(&self, body: &str, tools: &[ToolSpec]) -> Option<Vec<StreamedCall>> {
        let is_whole = !is_json(body) || serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok();
        if is_whole { self.read_body(body, tools) } else { None }
    }

    /// Reads what stands between the marks. Without marks it must surely be meant as a call.
    fn read_body(&self, body: &str, tools: &[ToolSpec]) -> Option<Vec<StreamedCall>> {
        if !self.is_unmarked() {
            return markup::read(body, tools);
        }
        let is_known = |call: &StreamedCall| tools.iter().any(|tool| tool.name == call.name);
        let is_sure = !is_json(body) || markup::is_surely_a_call(body, tools);
        if is_sure { markup::read(body, tools).filter(|calls| calls.iter().all(is_known)) } else { None }
    }

    fn until(&mut self, end: &str, tools: &[ToolSpec]) -> Outcome {
        while let Some(found) = self.raw.get(self.searched..).and_then(|rest| rest.find(end)) {
            let at = self.searched + found;
            let length = at + end.len();
            let body =
                if self.frame == Frame::Function { &self.raw[..length] } else { &self.raw[self.body..at] };
            if let Some(calls) = self.read_body(body, tools) {
                return Outcome::Calls { length, calls };
            }
            self.false_ends.push(at);
            self.searched = length;
            if self.false_ends.len() >= TRIES {
                return Outcome::Text;
            }
        }
        // An end may be cut by the end of the text: that much is looked at again.
        let mut again = self.raw.len().saturating_sub(end.len() - 1).max(self.searched);
        while !self.raw.is_char_boundary(again) {
            again -= 1;
        }
        self.searched = again.max(self.searched);
        let beginning = self.raw.get(self.body..).unwrap_or_default();
        if self.clarity == Clarity::Open {
            self.clarity = clarity(beginning);
        }
        match self.clarity {
            Clarity::Calls => Outcome::Open,
            Clarity::Open if beginning.len() < CLEAR => Outcome::Open,
            Clarity::Open | Clarity::Other => Outcome::Text,
        }
    }

    fn until_balanced(&mut self, tools: &[ToolSpec]) -> Outcome {
        if self.json.is_none() {
            let body = self.raw.get(self.body..).unwrap_or_default();
            match Prelude::read(body) {
                Prelude::TooShort if body.len() < CLEAR => return Outcome::Open,
                Prelude::TooShort | Prelude::Other => return Outcome::Text,
                Prelude::Json { name, start } => {
                    let (name, start) = (name.to_owned(), self.body + start);
                    self.searched = start;
                    self.json = Some(Json { name, start, balance: Balance::default() });
                }
            }
        }
        let Some(json) = &mut self.json else { return Outcome::Text };
        let Some(found) = json.balance.read(&self.raw[self.searched..]) else {
            self.searched = self.raw.len();
            return Outcome::Open;
        };
        let length = self.searched + found;
        let text = &self.raw[json.start..length];
        let calls = match json.name.as_str() {
            "" => self.read_body(text, tools),
            name => Some(vec![markup::named(name, text)]),
        };
        calls.map_or(Outcome::Text, |calls| Outcome::Calls { length, calls })
    }
}

fn is_json(body: &str) -> bool {
    body.trim_start().starts_with(['{', '['])
}

/// Whether the text between marks is going to be calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clarity {
    /// Too little has come.
    Open,
    /// It begins like calls.
    Calls,
    /// It does not.
    Other,
}

/// Judges a text by how it begins.
fn clarity(body: &str) -> Clarity {
    let body = body.trim_start();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    match body.chars().next() {
        None => Clarity::Open,
        Some('{' | '[' | '<') => Clarity::Calls,
        Some(c) if c.is_ascii_alphabetic() => {
            match body.trim_start_matches(is_name).trim_start().chars().next() {
                None => Clarity::Open,
                Some('{' | '<') => Clarity::Calls,
                Some(_) => Clarity::Other,
            }
        }
        Some(_) => Clarity::Other,
    }
}

/// What stands between a mark and its JSON: nothing, a tool's name, or name and id with marks of their own.
enum Prelude<'a> {
    Json { name: &'a str, start: usize },
    TooShort,
    Other,
}

impl<'a> Prelude<'a> {
    fn read(body: &'a str) -> Self {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let mut rest = body.trim_start();
        let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let name = &rest[..length];
        rest = rest[length..].trim_start();
        if let Some(behind) = rest.strip_prefix("[CALL_ID]") {
            rest = behind.trim_start_matches(is_name);
        }
        rest = rest.strip_prefix("[ARGS]").unwrap_or(rest).trim_start();
        match rest.chars().next() {
            _ if name.len() > 64 => Self::Other,
            None => Self::TooShort,
            Some('{') => Self::Json { name, start: body.len() - rest.len() },
            Some('[') if name.is_empty() => Self::Json { name, start: body.len() - rest.len() },
            Some('[') if ["[CALL_ID]", "[ARGS]"].iter().any(|mark| mark.starts_with(rest)) => Self::TooShort,
            Some(_) => Self::Other,
        }
    }
}
