//! Takes the text of a reply apart as it streams: what is the answer, what is reasoning between tags, what is a tool call
//! that the model wrote down in place of making it (bug cases 106 and 108).
//!
//! Text is held back only while it may still become a mark. Code is left alone: a tag in a fence or in inline code is an
//! example. Reasoning begins at the start of a line; a call that nothing marks as one (bare JSON, a fence) must name
//! a tool on offer and be the last thing of the reply.

mod block;
mod line;
mod opening;

use std::sync::Arc;

use milk_core::model::StreamedCall;
use milk_core::tool::ToolSpec;

use block::{Block, Outcome};
use line::Line;
use opening::{Opening, Place};

/// A piece of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Of the answer.
    Text(String),
    /// Of the reasoning.
    Thought(String),
}

/// Takes a reply apart.
#[derive(Debug)]
pub(super) struct Prose {
    tools: Arc<[ToolSpec]>,
    mode: Mode,
    line: Line,
    /// Text that may still become a mark.
    held: String,
    lead: Lead,
    /// A call that nothing marks, with its text: only an example if the answer goes on.
    unmarked: Option<(String, Vec<StreamedCall>)>,
    calls: Vec<StreamedCall>,
    /// How many blocks looked like calls and were text.
    mistakes: usize,
    pieces: Vec<Piece>,
}

/// After so many blocks that were no calls a reply is a text about marks, and none is looked for any more. (Each block
/// that turns out as text is read again, so this also bounds the work.)
const MISTAKES: usize = 16;

#[derive(Debug)]
enum Mode {
    Answer,
    Thought,
    Call(Block),
}

/// What happens to white space before the next visible character.
#[derive(Debug, PartialEq, Eq)]
enum Lead {
    /// It is shown.
    Shown,
    /// It is shown if text follows it: the start of a reply.
    Kept(String),
    /// It is dropped: it belonged to a tag or a call.
    Dropped,
}

impl Prose {
    pub(super) fn new(tools: Arc<[ToolSpec]>) -> Self {
        Self {
            tools,
            mode: Mode::Answer,
            line: Line::new(),
            held: String::new(),
            lead: Lead::Kept(String::new()),
            unmarked: None,
            calls: Vec::new(),
            mistakes: 0,
            pieces: Vec::new(),
        }
    }

    /// Takes the next text and gives the pieces that it makes certain.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        if self.held.is_empty() {
            self.read(text, End::Later);
        } else {
            let mut whole = std::mem::take(&mut self.held);
            whole.push_str(text);
            self.read(&whole, End::Later);
        }
        std::mem::take(&mut self.pieces)
    }

    /// The reply is over: gives the rest of the text, and all calls that were written in it.
    pub(super) fn finish(mut self) -> (Vec<Piece>, Vec<StreamedCall>) {
        let mut rest = std::mem::take(&mut self.held);
        loop {
            self.read(&rest, End::Here);
            let Mode::Call(mut block) = std::mem::replace(&mut self.mode, Mode::Answer) else { break };
            let outcome = block.finish(&self.tools);
            rest = self.close(block, outcome);
        }
        if let Some((_, calls)) = self.unmarked.take() {
            self.calls.extend(calls);
        }
        (self.pieces, self.calls)
    }

    fn read(&mut self, text: &str, end: End) {
        let mut rest = text.to_owned();
        while !rest.is_empty() {
            rest = match &mut self.mode {
                Mode::Answer => self.read_answer(&rest, end),
                Mode::Thought => self.read_thought(&rest, end),
                Mode::Call(block) => match block.feed(&rest, &self.tools) {
                    Outcome::Open => String::new(),
                    outcome => match std::mem::replace(&mut self.mode, Mode::Answer) {
                        Mode::Call(block) => self.close(block, outcome),
                        Mode::Answer | Mode::Thought => String::new(),
                    },
                },
            };
        }
    }

    /// Reads the answer up to its end or to where something else begins; gives the rest.
    fn read_answer(&mut self, text: &str, end: End) -> String {
        for (at, c) in text.char_indices() {
            let opening = if self.may_open(c) {
                let place =
                    Place { is_line_start: self.line.is_blank(), follows_calls: !self.calls.is_empty() };
                opening::find(&text[at..], place, &self.tools)
            } else {
                Opening::None
            };
            match opening {
                Opening::Perhaps if end == End::Later => {
                    self.show(&text[..at]);
                    text[at..].clone_into(&mut self.held);
                    return String::new();
                }
                Opening::None | Opening::Perhaps => self.line.pass(c),
                Opening::Thought(length) => {
                    self.show(&text[..at]);
                    self.hide(Mode::Thought);
                    return text[at + length..].to_owned();
                }
                Opening::StrayEnd(length) => {
                    self.show(&text[..at]);
                    self.hide(Mode::Answer);
                    return text[at + length..].to_owned();
                }
                Opening::Call(mark, frame) => {
                    self.show(&text[..at]);
                    self.mode = Mode::Call(Block::new(frame, mark));
                    return text[at..].to_owned();
                }
            }
        }
        self.show(text);
        String::new()
    }

    /// Whether this character can be the first one of a mark here.
    fn may_open(&mut self, c: char) -> bool {
        match c {
            '<' | '[' | '{' => !self.line.is_code(),
            '`' => self.line.is_blank() && !self.line.is_fenced(),
            _ => false,
        }
    }

    fn read_thought(&mut self, text: &str, end: End) -> String {
        for (at, _) in text.match_indices('<') {
            match opening::find_thought_end(&text[at..]) {
                Opening::StrayEnd(length) => {
                    self.think(&text[..at]);
                    self.hide(Mode::Answer);
                    return text[at + length..].to_owned();
                }
                Opening::Perhaps if end == End::Later => {
                    self.think(&text[..at]);
                    text[at..].clone_into(&mut self.held);
                    return String::new();
                }
                _ => {}
            }
        }
        self.think(text);
        String::new()
    }

    /// Goes on behind a mark, or between marks, with text that is not shown.
    fn hide(&mut self, mode: Mode) {
        self.mode = mode;
        self.lead = Lead::Dropped;
        self.line.restart();
    }

    /// Takes a block that is over; gives the text behind it.
    fn close(&mut self, block: Block, outcome: Outcome) -> String {
        self.mode = Mode::Answer;
        let is_unmarked = block.is_unmarked();
        let raw = block.into_raw();
        let (length, calls) = match outcome {
            Outcome::Calls { length, calls } => (length, calls),
            Outcome::Open | Outcome::Text => return self.show_as_text(&raw),
        };
        let (shown, rest) = raw.split_at(length);
        if is_unmarked {
            let (text, known) = self.unmarked.get_or_insert_default();
            text.push_str(shown);
            known.extend(calls);
            self.line.restart();
        } else {
            self.calls.extend(self.unmarked.take().into_iter().flat_map(|(_, calls)| calls));
            self.calls.extend(calls);
            self.hide(Mode::Answer);
        }
        rest.to_owned()
    }

    /// What looked like a call is text: its first character is shown, and what follows is looked at afresh.
    fn show_as_text(&mut self, raw: &str) -> String {
        self.mistakes += 1;
        if self.mistakes >= MISTAKES {
            self.tools = Arc::from([]);
        }
        let first = raw.chars().next().unwrap_or_default();
        // A fence that was no call is an ordinary fence: all of its opening run belongs to it.
        let length = match first {
            '`' => raw.len() - raw.trim_start_matches('`').len(),
            _ => first.len_utf8().min(raw.len()),
        };
        let (shown, rest) = raw.split_at(length);
        shown.chars().for_each(|c| self.line.pass(c));
        self.show(shown);
        rest.to_owned()
    }

    fn show(&mut self, text: &str) {
        if let Some((unmarked, _)) = &mut self.unmarked {
            if text.trim().is_empty() {
                unmarked.push_str(text);
                return;
            }
            // The answer goes on: what looked like a call was an example.
            if let Some((example, _)) = self.unmarked.take() {
                self.add(&example, Piece::Text);
            }
        }
        self.add(text, Piece::Text);
    }

    fn think(&mut self, text: &str) {
        self.add(text, Piece::Thought);
    }

    fn add(&mut self, text: &str, piece: fn(String) -> Piece) {
        let visible = text.trim_start();
        let text = match &mut self.lead {
            Lead::Shown => text.to_owned(),
            Lead::Kept(kept) => {
                kept.push_str(text);
                if visible.is_empty() {
                    return;
                }
                std::mem::take(kept)
            }
            Lead::Dropped => visible.to_owned(),
        };
        if text.is_empty() {
            return;
        }
        self.lead = Lead::Shown;
        match (self.pieces.last_mut(), piece(text)) {
            (Some(Piece::Text(last)), Piece::Text(more))
            | (Some(Piece::Thought(last)), Piece::Thought(more)) => {
                last.push_str(&more);
            }
            (_, next) => self.pieces.push(next),
        }
    }
}

/// Whether more text may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Here,
    Later,
}

/// The calls at the very end of a text, where marks say that they are calls of tools on offer: what a model meant to do
/// when it wrote its calls into its reasoning.
pub(super) fn calls_at_the_end(text: &str, tools: &Arc<[ToolSpec]>) -> Vec<StreamedCall> {
    /// Beginnings that are tried.
    const TRIES: usize = 4;
    let starts = text
        .match_indices('<')
        .filter(|(at, _)| matches!(opening::find(&text[*at..], Place::default(), tools), Opening::Call(..)));
    for (at, _) in starts.take(TRIES) {
        let mut prose = Prose::new(Arc::clone(tools));
        let mut pieces = prose.push(&text[at..]);
        let (rest, calls) = prose.finish();
        pieces.extend(rest);
        let are_known = calls.iter().all(|call| tools.iter().any(|tool| tool.name == call.name));
        if pieces.is_empty() && !calls.is_empty() && are_known {
            return calls;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests;
