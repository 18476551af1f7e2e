//! Stored sessions as lists show them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::SessionId;
use crate::record::Logged;

/// What is known about a session without reading its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Which.
    pub id: SessionId,
    /// Its directory, absolute.
    pub cwd: PathBuf,
    /// The name that the user gave it.
    pub name: Option<String>,
    /// First user text, one line, at most 61 characters; `None` before the first turn.
    pub first_prompt: Option<String>,
    /// Prompts that a model was to answer so far; slash commands do not count (R23).
    pub turns: u64,
    /// Entries of its history so far (see [`EntryNumber`](crate::record::EntryNumber)).
    pub entries: u64,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Last use, in milliseconds since the Unix epoch.
    pub last_used_ms: u64,
}

impl SessionSummary {
    /// What a list shows: the name, else the first user text (contract: session/list).
    pub fn title(&self) -> Option<&str> {
        self.name.as_deref().or(self.first_prompt.as_deref())
    }
}

/// Which stored sessions a list is to hold, and which part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Only those of this directory, however it is spelled (R21); `None` for all.
    pub cwd: Option<PathBuf>,
    /// Which of them are worth a row.
    pub worth: Worth,
    /// How many to pass over.
    pub offset: usize,
    /// How many to give at most.
    pub limit: usize,
}

/// Which sessions are worth a row (R23).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Worth {
    /// Every one.
    #[default]
    Any,
    /// Those with a turn or a name, and these, which are open.
    Used {
        /// Listed whatever they hold.
        open: Vec<SessionId>,
    },
}

/// A part of a list, last use first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionPage {
    /// The rows.
    pub sessions: Vec<SessionSummary>,
    /// Whether there are more behind them.
    pub more: bool,
}

/// The beginning and the end of a history.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryWindow {
    /// The first entries, in order; all of them where nothing is left out. Results of the last call in it follow, so that
    /// each call has its own.
    pub head: Vec<Logged>,
    /// How many entries are left out after the head.
    pub omitted: u64,
    /// The last entries, in order.
    pub tail: Vec<Logged>,
}

/// Longest title cut from a prompt, in characters, before the ellipsis.
pub const TITLE_LIMIT: usize = 60;

/// A one-line title from a prompt's text: white space collapsed, control characters gone, at most
/// [`TITLE_LIMIT`] characters and an ellipsis. `None` where nothing is left.
pub fn title_from(text: &str) -> Option<String> {
    // Bounded before it is collapsed: a prompt may be megabytes.
    let head: String = text.chars().take(TITLE_LIMIT * 40).collect();
    let clean: String = head.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect();
    let line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return None;
    }
    let mut title: String = line.chars().take(TITLE_LIMIT).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    Some(title)
}

/// Control characters and direction overrides, which could repaint a list.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_bounded_line() {
        assert_eq!(title_from("fix   the\n thing").as_deref(), Some("fix the thing"));
        let long = title_from(&"é".repeat(10_000)).unwrap();
        assert_eq!(long.chars().count(), TITLE_LIMIT + 1);
        assert!(long.ends_with('…'));
        assert_eq!(title_from("a\u{1b}[2Jb\u{202e}c").as_deref(), Some("a [2Jb c"));
        assert_eq!(title_from(" \n\t "), None);
        assert!(title_from(&"👨‍👩‍👧".repeat(400)).unwrap().chars().count() <= TITLE_LIMIT + 1);
    }
}
