//! Stored sessions as lists show them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::SessionId;

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
    /// Turns so far.
    pub turns: u64,
    /// Last use, in milliseconds since the Unix epoch.
    pub last_used_ms: u64,
}

impl SessionSummary {
    /// What a list shows: the name, else the first user text (contract: session/list).
    pub fn title(&self) -> Option<&str> {
        self.name.as_deref().or(self.first_prompt.as_deref())
    }
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
