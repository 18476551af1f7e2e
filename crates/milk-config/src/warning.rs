//! What is wrong with a file, as data: the caller prints it to stderr, never to stdout.

use std::fmt;
use std::path::{Path, PathBuf};

/// How many warnings one file can cause; the rest is counted.
const MAX_PER_FILE: usize = 32;
/// Longest name from a file that is shown, in characters.
const MAX_NAME: usize = 80;

/// One sentence for a person about a file. Never holds a value from it, so never a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The file in question.
    pub file: PathBuf,
    /// Its line, from 1, where known.
    pub line: Option<usize>,
    /// What is wrong and what milk does about it.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.to_string_lossy();
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", printable(&file), self.text),
            None => write!(f, "{}: {}", printable(&file), self.text),
        }
    }
}

/// Collects the warnings about one file, up to a bound.
pub(crate) struct Report<'a> {
    file: &'a Path,
    warnings: &'a mut Vec<Warning>,
    count: usize,
}

impl<'a> Report<'a> {
    pub(crate) fn new(file: &'a Path, warnings: &'a mut Vec<Warning>) -> Self {
        Self { file, warnings, count: 0 }
    }

    pub(crate) fn add(&mut self, text: impl Into<String>) {
        self.add_at(None, text);
    }

    pub(crate) fn add_at(&mut self, line: Option<usize>, text: impl Into<String>) {
        self.count += 1;
        if self.count <= MAX_PER_FILE {
            self.warnings.push(Warning { file: self.file.to_owned(), line, text: text.into() });
        }
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if let Some(more @ 1..) = self.count.checked_sub(MAX_PER_FILE) {
            let text = format!("{more} more problems in this file");
            self.warnings.push(Warning { file: self.file.to_owned(), line: None, text });
        }
    }
}

/// A name out of a file, fit for a terminal: no control characters (a repository must not paint the screen), not endless.
pub(crate) fn printable_name(name: &str) -> String {
    let mut shown: String = printable(name).chars().take(MAX_NAME).collect();
    if name.chars().nth(MAX_NAME).is_some() {
        shown.push('…');
    }
    shown
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_invisible(c) { '\u{fffd}' } else { c }).collect()
}

/// Characters that reorder or hide text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_a_line() {
        let file = PathBuf::from("/h/config.json");
        let warning = Warning { file, line: Some(3), text: "broken".into() };
        assert_eq!(warning.to_string(), "/h/config.json:3: broken");
        assert_eq!(Warning { line: None, ..warning }.to_string(), "/h/config.json: broken");
    }

    #[test]
    fn names_cannot_paint_the_screen() {
        for (name, shown) in
            [("agent", "agent"), ("a\u{1b}[31m\n", "a\u{fffd}[31m\u{fffd}"), ("\u{202e}x", "\u{fffd}x")]
        {
            assert_eq!(printable_name(name), shown);
        }
        assert_eq!(printable_name(&"x".repeat(1000)).chars().count(), MAX_NAME + 1);
    }

    #[test]
    fn one_file_cannot_flood() {
        let mut warnings = Vec::new();
        let mut report = Report::new(Path::new("f"), &mut warnings);
        (0..MAX_PER_FILE + 5).for_each(|n| report.add(n.to_string()));
        drop(report);
        assert_eq!(warnings.len(), MAX_PER_FILE + 1);
        assert_eq!(warnings.last().unwrap().text, "5 more problems in this file");
    }
}
