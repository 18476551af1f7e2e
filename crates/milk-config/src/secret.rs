//! Secrets (R37): a type that cannot be printed by accident, and masking them in text from elsewhere.

use std::borrow::Cow;
use std::fmt;

/// What stands where a secret was.
pub const MASK: &str = "***";

/// Shorter values are not masked in text: they would be found in ordinary words.
const MIN_MASKED: usize = 6;

/// Values that people put where a local server wants any key at all. Masking them would only garble text.
const PLACEHOLDERS: &[&str] = &[
    "ollama",
    "lm-studio",
    "lmstudio",
    "llama.cpp",
    "local",
    "localhost",
    "not-needed",
    "notneeded",
    "no-key",
    "no-key-required",
    "nokey",
    "dummy",
    "placeholder",
    "unused",
    "secret",
    "api-key",
    "apikey",
    "bearer",
];

/// A value that must not be printed, logged, echoed or forwarded. `Debug` shows a mask, and there is no `Display`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret(String);

impl Secret {
    /// Marks a value as secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether finding this value in a text means that the secret got there.
    pub(crate) fn is_telling(&self) -> bool {
        self.0.len() >= MIN_MASKED && !PLACEHOLDERS.iter().any(|word| self.0.eq_ignore_ascii_case(word))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Masks every occurrence of the secrets in a text from elsewhere: an error message, a log line, a server's answer. Their
/// percent-encoded and JSON-escaped forms are masked too. Secrets under 6 bytes and the usual placeholders are let be.
pub fn redact<'a>(text: &'a str, secrets: &[Secret]) -> Cow<'a, str> {
    let mut forms: Vec<String> = secrets.iter().filter(|s| s.is_telling()).flat_map(forms_of).collect();
    // The longest first: one secret can be a part of another.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    let mut masked = Cow::Borrowed(text);
    for form in forms {
        if masked.contains(&form) {
            masked = Cow::Owned(masked.replace(&form, MASK));
        }
    }
    masked
}

/// The spellings in which a secret turns up.
fn forms_of(secret: &Secret) -> Vec<String> {
    let plain = secret.expose();
    let escaped = serde_json::Value::from(plain).to_string();
    let mut forms = vec![plain.to_owned(), escaped[1..escaped.len() - 1].to_owned(), percent_encoded(plain)];
    forms.dedup();
    forms
}

fn percent_encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        let secret = Secret::new("sk-SECRET-123");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "Secret(***) Some(Secret(***))");
        assert_eq!(secret.expose(), "sk-SECRET-123");
    }

    #[test]
    fn text_from_elsewhere_is_masked() {
        let secrets: Vec<_> = ["sk-SECRET-123", "sk-SECRET-123-more", "a/b c+\"d\"", "key", "ollama", ""]
            .map(Secret::new)
            .into();
        for (text, masked) in [
            ("no secret", "no secret"),
            ("401 for sk-SECRET-123.", "401 for ***."),
            ("sk-SECRET-123sk-SECRET-123", "******"),
            ("sk-SECRET-123-more", "***"),
            ("https://h/?k=a%2Fb%20c%2B%22d%22", "https://h/?k=***"),
            (r#"{"k":"a/b c+\"d\""}"#, r#"{"k":"***"}"#),
            ("the key of ollama", "the key of ollama"),
        ] {
            assert_eq!(redact(text, &secrets), masked);
        }
    }

    #[test]
    fn text_without_secrets_is_not_copied() {
        assert!(matches!(redact("text", &[Secret::new("sk-SECRET-123")]), Cow::Borrowed("text")));
    }
}
