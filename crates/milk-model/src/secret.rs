//! Values that must not be seen: keys, tokens, header values.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A key, a token or the value of a private header. It cannot be printed: `Debug` masks it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

/// What stands where a secret stood.
const MASK: &str = "***";

impl Secret {
    /// The value itself, for the wire only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl<T: Into<Arc<str>>> From<T> for Secret {
    fn from(value: T) -> Self {
        Self(value.into())
    }
}

/// Takes secrets out of texts that others wrote (error bodies, error chains), before a person sees them.
#[derive(Debug, Default)]
pub(crate) struct Masker {
    secrets: Vec<Secret>,
    /// The newest tokens that a command made.
    tokens: Mutex<VecDeque<Secret>>,
}

impl Masker {
    /// Shorter values are left alone: they occur in ordinary words.
    const SHORTEST: usize = 6;

    /// Beginnings by which a credential shows itself whoever it belongs to; the word behind them goes.
    const MARKS: [&str; 4] = ["sk-", "Bearer ", "ghp_", "xox"];

    pub(crate) fn add(&mut self, secret: &Secret) {
        if secret.reveal().len() >= Self::SHORTEST && !self.secrets.contains(secret) {
            self.secrets.push(secret.clone());
        }
    }

    /// Adds a token that became known only now; those before the last few are forgotten.
    pub(crate) fn add_token(&self, token: &Secret) {
        const KEPT: usize = 4;
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if token.reveal().len() >= Self::SHORTEST && !tokens.contains(token) {
            tokens.truncate(KEPT - 1);
            tokens.push_front(token.clone());
        }
    }

    /// The text without any secret.
    pub(crate) fn mask(&self, text: &str) -> String {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let secrets = self.secrets.iter().chain(tokens.iter());
        let known = secrets.fold(text.to_owned(), |text, secret| text.replace(secret.reveal(), MASK));
        Self::MARKS.iter().fold(known, |text, mark| without_marked(&text, mark))
    }
}

/// Masks each word that begins with this mark.
fn without_marked(text: &str, mark: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*' | '/' | '+' | '=');
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(mark) {
        let after = &rest[start + mark.len()..];
        let length = after.find(|c| !is_part(c)).unwrap_or(after.len());
        let is_inside_a_word = rest[..start].ends_with(|c: char| c.is_ascii_alphanumeric());
        let (word, end) = (&after[..length], start + mark.len() + length);
        masked.push_str(&rest[..start]);
        if is_inside_a_word || word.len() < Masker::SHORTEST {
            masked.push_str(&rest[start..end]);
        } else {
            masked.push_str(mark);
            masked.push_str(MASK);
        }
        rest = &rest[end..];
    }
    masked.push_str(rest);
    masked
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn case_137_a_secret_does_not_print() {
        let secret = Secret::from("sk-SECRET-123");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "Secret(***) Some(Secret(***))");
    }

    #[test]
    fn case_137_texts_of_others_are_masked() {
        let mut masker = Masker::default();
        masker.add(&Secret::from("a-private-value"));
        masker.add(&Secret::from("1"));
        let cases = [
            ("the value a-private-value is 1", "the value *** is 1"),
            ("Incorrect API key: sk-abc***xyz1. See docs", "Incorrect API key: sk-***. See docs"),
            ("got 'Bearer abcdef123' there", "got 'Bearer ***' there"),
            ("task-oriented risk-averse sk- sk-a é", "task-oriented risk-averse sk- sk-a é"),
            ("sk-firstkey sk-secondkey", "sk-*** sk-***"),
        ];
        for (text, masked) in cases {
            let word = masked.strip_suffix(". See docs").unwrap_or(masked);
            assert!(masker.mask(text).starts_with(word), "{} for {text}", masker.mask(text));
        }
    }
}
