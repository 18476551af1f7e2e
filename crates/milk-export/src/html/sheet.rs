//! The only way to write into a page: markup is a text of milk's own, everything else is escaped on the way in.

use std::path::Path;

use crate::cut;
use crate::harmless;
use crate::redact::Redactor;

/// Bytes of pictures in one page, as base64.
const PICTURES_LIMIT: usize = 24 << 20;
/// Steps that all diffs of a page may take together; a diff of n lines takes n² at worst.
const DIFF_STEPS_LIMIT: u64 = 60_000_000;

/// A page, or a part of one.
pub(super) struct Sheet {
    out: String,
    redact: Redactor,
    /// The session's directory, redacted, with a slash behind it.
    cwd: String,
    /// Bytes left for pictures.
    pictures_left: usize,
    /// Steps left for diffs.
    diff_steps_left: u64,
}

impl Sheet {
    pub(super) fn new(redact: Redactor, cwd: &Path) -> Self {
        let cwd = format!("{}/", redact.path(cwd).trim_end_matches('/'));
        Self {
            out: String::new(),
            redact,
            cwd,
            pictures_left: PICTURES_LIMIT,
            diff_steps_left: DIFF_STEPS_LIMIT,
        }
    }

    /// An empty sheet with the same redaction.
    pub(super) fn blank(&self) -> Self {
        Self::new(self.redact.clone(), Path::new(&self.cwd))
    }

    /// A redacted path or `file:` address as people say it: from the session's directory where it is inside.
    pub(super) fn near<'a>(&self, place: &'a str) -> &'a str {
        let path = place.strip_prefix("file://").unwrap_or(place);
        match path.strip_prefix(&self.cwd) {
            Some(inside) if !inside.is_empty() => inside,
            _ => place,
        }
    }

    /// Whether nothing but blanks was written since the page was so long.
    pub(super) fn is_blank_since(&self, length: usize) -> bool {
        self.out.get(length..).is_none_or(|written| written.trim().is_empty())
    }

    /// How long the page is, in bytes.
    pub(super) fn length(&self) -> usize {
        self.out.len()
    }

    /// Puts what another sheet holds before all that this one does, in place: a page may be large.
    pub(super) fn begin_with(&mut self, head: &Self) {
        self.out.insert_str(0, &head.out);
    }

    pub(super) fn into_page(self) -> String {
        self.out
    }

    /// Markup. Only what is written in milk's source can be.
    pub(super) fn raw(&mut self, markup: &'static str) {
        self.out.push_str(markup);
    }

    /// Any text: redacted and escaped, in content and in quoted attributes alike.
    pub(super) fn text(&mut self, text: &str) {
        let clean = self.redact.clean(text);
        self.clean_text(&clean);
    }

    /// A text that was redacted already, or that milk made itself: escaped.
    pub(super) fn clean_text(&mut self, text: &str) {
        let mut kept = 0;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let shown = match c {
                '&' => "&amp;",
                '<' => "&lt;",
                '>' => "&gt;",
                '"' => "&quot;",
                '\'' => "&#39;",
                '\r' if chars.peek().is_some_and(|(_, next)| *next == '\n') => "",
                c => match harmless::stand_in(c) {
                    Some(shown) => shown,
                    None => continue,
                },
            };
            self.out.push_str(&text[kept..at]);
            self.out.push_str(shown);
            kept = at + c.len_utf8();
        }
        self.out.push_str(&text[kept..]);
    }

    /// A text between two pieces of markup.
    pub(super) fn wrapped(&mut self, before: &'static str, text: &str, after: &'static str) {
        self.raw(before);
        self.text(text);
        self.raw(after);
    }

    /// A text of any length in a box of its own, with its middle left out beyond `limit` bytes.
    pub(super) fn bounded(&mut self, text: &str, limit: usize) {
        let clean = self.redact.clean(text);
        match cut::ends(&clean, limit) {
            None => self.clean_text(&clean),
            Some((first, omitted, last)) => {
                self.clean_text(first);
                self.raw("\n<span class=\"cut\">[… ");
                self.number(omitted as u64);
                self.raw(" bytes are left out here …]</span>\n");
                self.clean_text(last);
            }
        }
    }

    /// A number with its thousands apart.
    pub(super) fn number(&mut self, number: u64) {
        let digits = number.to_string();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                self.out.push(',');
            }
            self.out.push(digit);
        }
    }

    /// A number as attributes want it.
    pub(super) fn bare_number(&mut self, number: u64) {
        self.out.push_str(&number.to_string());
    }

    /// The text redacted, as one line of at most `limit` characters.
    pub(super) fn one_line(&self, text: &str, limit: usize) -> String {
        let line = harmless::line(&self.redact.clean(text));
        match cut::head(&line, limit) {
            (head, true) => format!("{head}…"),
            (_, false) => line,
        }
    }

    pub(super) fn redact(&self) -> &Redactor {
        &self.redact
    }

    /// Whether there is room for a picture of so many bytes; takes it if so.
    pub(super) fn take_picture(&mut self, bytes: usize) -> bool {
        let left = self.pictures_left.checked_sub(bytes);
        self.pictures_left = left.unwrap_or(self.pictures_left);
        left.is_some()
    }

    /// Whether a diff may take so many steps; takes them if so.
    pub(super) fn take_diff_steps(&mut self, steps: u64) -> bool {
        let left = self.diff_steps_left.checked_sub(steps);
        self.diff_steps_left = left.unwrap_or(self.diff_steps_left);
        left.is_some()
    }
}
