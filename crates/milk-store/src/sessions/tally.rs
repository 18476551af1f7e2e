//! What a list says about a session, kept while its records go by.

use std::io;

use milk_core::content::{ContentBlock, plain_text};
use milk_core::record::{EntryNumber, Record, TurnWork};
use milk_core::session::title_from;
use serde::Deserialize;

use super::line::Peek;
use super::source::{Line, Source};

/// Counts over the beginning of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Prompts for a model.
    pub(super) turns: u64,
    /// The number that the next entry gets.
    pub(super) entries: u64,
    /// The first user text, as a title.
    pub(super) first_prompt: Option<String>,
    /// When a turn last began or ended, in milliseconds since the Unix epoch; 0 before the first.
    pub(super) last_turn_ms: u64,
    /// Lines that cannot be read.
    pub(super) broken: u64,
}

impl Tally {
    /// Takes a record in.
    pub(super) fn note(&mut self, at_ms: u64, entry: Option<EntryNumber>, record: &Record) {
        if let Some(entry) = entry {
            self.entries = self.entries.max(entry.0.saturating_add(1));
        }
        match record {
            Record::TurnStarted { work: TurnWork::Prompt, content, .. } => {
                self.turns += 1;
                self.title(content);
                self.used(at_ms);
            }
            Record::TurnStarted { .. } | Record::TurnEnded { .. } => self.used(at_ms),
            _ => {}
        }
    }

    /// Takes the whole lines of a log from `offset` on in. Returns where the last one ends.
    pub(super) fn scan(&mut self, source: &Source, offset: u64) -> io::Result<u64> {
        let mut lines = source.lines(offset);
        let mut end = offset;
        while let Some(line) = lines.next()? {
            end = line.end;
            self.line(&line);
        }
        Ok(end)
    }

    fn line(&mut self, line: &Line) {
        let Some(text) = &line.text else {
            self.broken += 1;
            return;
        };
        let Some(peek) = Peek::at(text) else {
            self.broken += 1;
            return;
        };
        if let Some(entry) = peek.entry {
            self.entries = self.entries.max(entry.saturating_add(1));
        }
        if peek.begins_prompt() {
            self.turns += 1;
            if self.first_prompt.is_none()
                && let Ok(Prompt { content }) = serde_json::from_slice(text)
            {
                self.title(&content);
            }
        }
        if peek.begins_turn() || peek.ends_turn() {
            self.used(peek.at_ms().unwrap_or_default());
        }
    }

    fn title(&mut self, content: &[ContentBlock]) {
        if self.first_prompt.is_none() {
            self.first_prompt = title_from(&plain_text(content));
        }
    }

    fn used(&mut self, at_ms: u64) {
        // A clock that was set back does not make a session older.
        self.last_turn_ms = self.last_turn_ms.max(at_ms);
    }
}

#[derive(Deserialize)]
struct Prompt {
    #[serde(default)]
    content: Vec<ContentBlock>,
}
