//! Values that are given to a name that says "secret": `OPENAI_API_KEY=…`, `"api_key": "…"`, `?access_token=…`.

use super::shapes::Found;
use super::tokens::{blanks, looks_random};

/// Endings of names that hold secrets, in lower case without `-` and `_`.
const SECRET_NAMES: &[&str] = &[
    "accesskey",
    "accesstoken",
    "accountkey",
    "apikey",
    "apitoken",
    "authtoken",
    "bottoken",
    "clientsecret",
    "encryptionkey",
    "passwd",
    "password",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretkey",
    "secretaccesskey",
    "signingkey",
];

/// Longest name that is looked at, in bytes.
const LONGEST_NAME: usize = 48;
/// Shortest value that is taken for a secret, in bytes.
const SHORTEST_VALUE: usize = 12;

/// The value behind a `=` or `:` at this place, if a name for secrets stands before it.
pub(super) fn after_separator(bytes: &[u8], at: usize) -> Option<Found> {
    let name = name_before(bytes, at)?;
    if !is_secret_name(name) {
        return None;
    }
    let start = separator(bytes, at)?;
    let body = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_+/~".contains(byte);
    let mut end = start + bytes[start..].iter().take_while(body).count();
    let value = &bytes[start..end];
    // Code calls, indexes and reaches into things behind a name: that is no value.
    let is_code = bytes.get(end).is_some_and(|byte| b".([:$".contains(byte)) && !sentence_ends(bytes, end);
    if value.len() < SHORTEST_VALUE || !looks_random(value) || is_code {
        return None;
    }
    end += bytes[end..].iter().take(2).take_while(|byte| **byte == b'=').count();
    Some(Found { start, end })
}

/// Whether a field's text is to be masked for the field's name. What is short, has blanks, or is a mere word is no key.
pub(super) fn is_secret_value(name: &str, value: &str) -> bool {
    is_secret_name(name.as_bytes())
        && value.len() >= SHORTEST_VALUE
        && !value.contains(char::is_whitespace)
        && looks_random(value.as_bytes())
}

/// Past the separator that begins here, with the quotes and blanks around it; `None` where there is none.
pub(super) fn separator(bytes: &[u8], at: usize) -> Option<usize> {
    let at = past_quote(bytes, at);
    let at = blanks(bytes, at);
    if !matches!(bytes.get(at), Some(b':' | b'=')) {
        return None;
    }
    Some(past_quote(bytes, blanks(bytes, at + 1)))
}

/// Past a quote, which may itself stand escaped in a string.
fn past_quote(bytes: &[u8], at: usize) -> usize {
    let at = if bytes.get(at) == Some(&b'\\') && bytes.get(at + 1) == Some(&b'"') { at + 1 } else { at };
    if matches!(bytes.get(at), Some(b'"' | b'\'' | b'`')) { at + 1 } else { at }
}

/// The name that ends before this place, with a quote and blanks between.
fn name_before(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let mut end = at;
    while end > 0 && at - end < 4 && matches!(bytes[end - 1], b' ' | b'"' | b'\'' | b'\\' | b'`') {
        end -= 1;
    }
    let length = bytes[..end]
        .iter()
        .rev()
        .take(LONGEST_NAME)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        .count();
    (length > 0).then(|| &bytes[end - length..end])
}

fn is_secret_name(name: &[u8]) -> bool {
    let plain: Vec<u8> =
        name.iter().filter(|byte| !matches!(byte, b'-' | b'_')).map(u8::to_ascii_lowercase).collect();
    SECRET_NAMES.iter().any(|ending| plain.ends_with(ending.as_bytes()))
}

/// A full stop, not a reach into something.
fn sentence_ends(bytes: &[u8], at: usize) -> bool {
    bytes[at] == b'.' && bytes.get(at + 1).is_none_or(u8::is_ascii_whitespace)
}
