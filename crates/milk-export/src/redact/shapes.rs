//! Credentials known by their shape, masked in two passes over a text. Every step either consumes what it read or reads a
//! bounded piece, so that the cost is linear whatever the text.

use super::MASK;
use super::assigned;
use super::tokens::{self, Runs};

/// A piece of the text to be masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Where the mask begins.
    pub(super) start: usize,
    /// Where the text goes on.
    pub(super) end: usize,
}

/// The text with its credentials masked; `None` where there are none.
pub(super) fn mask(text: &str) -> Option<String> {
    // Key blocks first: their dashes would pass for parts of tokens.
    let blocks = replace(text, private_key);
    let mut runs = Runs::default();
    let rest = replace(blocks.as_deref().unwrap_or(text), |bytes, at| credential_at(bytes, at, &mut runs));
    rest.or(blocks)
}

/// The text with a mask for everything that is found; `None` if that is nothing.
fn replace(text: &str, mut find: impl FnMut(&[u8], usize) -> Option<Found>) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut at, mut kept) = (0, 0);
    while at < bytes.len() {
        match find(bytes, at) {
            Some(Found { start, end }) => {
                // All bounds stand beside ASCII characters, so they are boundaries of characters.
                out.push_str(&text[kept..start]);
                out.push_str(MASK);
                (at, kept) = (end, end);
            }
            None => at += 1,
        }
    }
    (kept > 0).then(|| out + &text[kept..])
}

/// What is given away at this place, apart from key blocks.
fn credential_at(bytes: &[u8], at: usize, runs: &mut Runs) -> Option<Found> {
    let begins_word = || at == 0 || !bytes[at - 1].is_ascii_alphanumeric() && bytes[at - 1] != b'_';
    match bytes[at] {
        b':' => password_in_address(bytes, at).or_else(|| assigned::after_separator(bytes, at)),
        b'=' => assigned::after_separator(bytes, at),
        byte if byte.is_ascii_alphanumeric() && begins_word() => {
            tokens::token(bytes, at, runs).or_else(|| authorization(bytes, at))
        }
        _ => None,
    }
}

/// A PEM block, `-----BEGIN … PRIVATE KEY-----` up to its end, or as far as it looks like one.
fn private_key(bytes: &[u8], at: usize) -> Option<Found> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const LONGEST_LABEL: usize = 64;
    if bytes[at] != b'-' || !bytes[at..].starts_with(BEGIN) {
        return None;
    }
    let label = &bytes[at + BEGIN.len()..];
    let label = &label[..label.len().min(LONGEST_LABEL)];
    let label_end = label.iter().position(|byte| *byte == b'-')?;
    if !ends_with_any(&label[..label_end], &[b"PRIVATE KEY", b"PRIVATE KEY BLOCK"]) {
        return None;
    }
    let after = at + BEGIN.len() + label_end;
    let mut end = after + dashes(&bytes[after..]);
    while let Some(&byte) = bytes.get(end) {
        let single_dash = byte == b'-' && bytes.get(end + 1) != Some(&b'-');
        let body = byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"+/=\\:,.".contains(&byte);
        if !body && !single_dash {
            break;
        }
        end += 1;
    }
    if bytes[end..].starts_with(b"-----END ") {
        let tail = &bytes[end + 5..];
        let tail = &tail[..tail.len().min(LONGEST_LABEL + 4)];
        if let Some(closing) = tail.iter().position(|byte| *byte == b'-') {
            end += 5 + closing;
            end += dashes(&bytes[end..]);
        }
    }
    Some(Found { start: at, end })
}

fn dashes(bytes: &[u8]) -> usize {
    bytes.iter().take(5).take_while(|byte| **byte == b'-').count()
}

fn ends_with_any(text: &[u8], endings: &[&[u8]]) -> bool {
    endings.iter().any(|ending| text.ends_with(ending))
}

/// `user:password` in `scheme://user:password@host`; `at` is the scheme's colon.
fn password_in_address(bytes: &[u8], at: usize) -> Option<Found> {
    const LONGEST: usize = 512;
    let rest = bytes[at..].strip_prefix(b"://")?;
    if at == 0 || !bytes[at - 1].is_ascii_alphanumeric() {
        return None;
    }
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'<>`\\|{}".contains(byte);
    let authority = &rest[..rest.len().min(LONGEST)];
    let authority = &authority[..authority.iter().position(ends).unwrap_or(authority.len())];
    let at_sign = authority.iter().rposition(|byte| *byte == b'@')?;
    let colon = authority[..at_sign].iter().position(|byte| *byte == b':')?;
    // What was masked already is not masked again.
    if authority[..at_sign].windows(MASK.len()).any(|piece| piece == MASK.as_bytes()) {
        return None;
    }
    // An empty password is none.
    (colon + 1 < at_sign).then_some(Found { start: at + 3, end: at + 3 + at_sign })
}

/// The credential of an `Authorization` header, or of `Bearer` alone where what follows looks like one.
fn authorization(bytes: &[u8], at: usize) -> Option<Found> {
    const SCHEMES: [&[u8]; 4] = [b"bearer", b"basic", b"token", b"apikey"];
    if let Some(after) = tokens::word(bytes, at, b"authorization") {
        let after = assigned::separator(bytes, after)?;
        let scheme = SCHEMES.iter().find_map(|scheme| tokens::word(bytes, after, scheme));
        return match scheme {
            Some(value) => credential(bytes, tokens::blanks(bytes, value), 1),
            None => credential(bytes, after, 16)
                .filter(|found| tokens::looks_random(&bytes[found.start..found.end])),
        };
    }
    let after = tokens::word(bytes, at, b"bearer")?;
    let value = tokens::blanks(bytes, after);
    credential(bytes, value, 16)
        .filter(|found| value > after && tokens::looks_random(&bytes[found.start..found.end]))
}

/// A credential of at least `least` bytes that begins here.
fn credential(bytes: &[u8], start: usize, least: usize) -> Option<Found> {
    let rest = &bytes[start..];
    let run = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    let length = rest.iter().take_while(run).count();
    (length >= least).then_some(Found { start, end: start + length })
}
