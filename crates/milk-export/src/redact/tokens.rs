//! Tokens whose prefix says what they are.

use super::shapes::Found;

/// One kind of token: a prefix, and how long what follows it is at least.
struct Kind {
    prefix: &'static [u8],
    least: usize,
    body: Body,
}

/// What stands behind a prefix.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Letters, digits, `-` and `_`. Among the first 64 is a digit, which sets a key apart from a hyphenated name.
    WithDigit,
    /// Letters, digits, `-` and `_`.
    Any,
    /// Capital letters and digits only, exactly as many as said.
    Capitals,
}

/// The prefixes that providers document for their keys.
const KINDS: &[Kind] = &[
    // OpenAI, Anthropic, OpenRouter, DeepSeek and many that follow them.
    Kind { prefix: b"sk-", least: 16, body: Body::WithDigit },
    // Stripe.
    Kind { prefix: b"sk_live_", least: 16, body: Body::Any },
    Kind { prefix: b"sk_test_", least: 16, body: Body::Any },
    Kind { prefix: b"rk_live_", least: 16, body: Body::Any },
    Kind { prefix: b"whsec_", least: 16, body: Body::WithDigit },
    // GitHub and GitLab.
    Kind { prefix: b"ghp_", least: 20, body: Body::Any },
    Kind { prefix: b"gho_", least: 20, body: Body::Any },
    Kind { prefix: b"ghu_", least: 20, body: Body::Any },
    Kind { prefix: b"ghs_", least: 20, body: Body::Any },
    Kind { prefix: b"ghr_", least: 20, body: Body::Any },
    Kind { prefix: b"github_pat_", least: 20, body: Body::Any },
    Kind { prefix: b"glpat-", least: 20, body: Body::Any },
    // Slack.
    Kind { prefix: b"xoxa-", least: 10, body: Body::WithDigit },
    Kind { prefix: b"xoxb-", least: 10, body: Body::WithDigit },
    Kind { prefix: b"xoxc-", least: 10, body: Body::WithDigit },
    Kind { prefix: b"xoxd-", least: 10, body: Body::WithDigit },
    Kind { prefix: b"xoxe-", least: 10, body: Body::WithDigit },
    Kind { prefix: b"xoxo-", least: 10, body: Body::WithDigit },
    Kind { prefix: b"xoxp-", least: 10, body: Body::WithDigit },
    Kind { prefix: b"xoxr-", least: 10, body: Body::WithDigit },
    Kind { prefix: b"xoxs-", least: 10, body: Body::WithDigit },
    Kind { prefix: b"xapp-", least: 10, body: Body::WithDigit },
    // Amazon's key ids.
    Kind { prefix: b"AKIA", least: 16, body: Body::Capitals },
    Kind { prefix: b"ASIA", least: 16, body: Body::Capitals },
    // Google, Hugging Face, Groq, xAI, Perplexity, NVIDIA, npm, PyPI, DigitalOcean, SendGrid.
    Kind { prefix: b"AIza", least: 35, body: Body::Any },
    Kind { prefix: b"ya29.", least: 20, body: Body::Any },
    Kind { prefix: b"hf_", least: 30, body: Body::Any },
    Kind { prefix: b"gsk_", least: 30, body: Body::Any },
    Kind { prefix: b"xai-", least: 30, body: Body::WithDigit },
    Kind { prefix: b"pplx-", least: 30, body: Body::WithDigit },
    Kind { prefix: b"nvapi-", least: 30, body: Body::WithDigit },
    Kind { prefix: b"npm_", least: 36, body: Body::Any },
    Kind { prefix: b"pypi-", least: 50, body: Body::Any },
    Kind { prefix: b"dop_v1_", least: 40, body: Body::Any },
    Kind { prefix: b"SG.", least: 20, body: Body::Any },
];

/// A token that begins here.
pub(super) fn token(bytes: &[u8], at: usize, runs: &mut Runs) -> Option<Found> {
    match bytes[at] {
        b'e' => web_token(bytes, at, runs),
        b'0'..=b'9' => bot_token(bytes, at, runs),
        _ => prefixed(bytes, at, runs),
    }
    .map(|end| Found { start: at, end })
}

fn prefixed(bytes: &[u8], at: usize, runs: &mut Runs) -> Option<usize> {
    let rest = &bytes[at..];
    let kind = KINDS.iter().find(|kind| kind.prefix[0] == rest[0] && rest.starts_with(kind.prefix))?;
    let start = at + kind.prefix.len();
    let end = runs.end(bytes, start);
    let body = &bytes[start..end];
    let fits = body.len() >= kind.least
        && match kind.body {
            Body::Any => true,
            Body::WithDigit => body.iter().take(64).any(u8::is_ascii_digit),
            Body::Capitals => {
                body.len() == kind.least
                    && body.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
            }
        };
    if !fits {
        return None;
    }
    // SendGrid's have a second part.
    Some(if kind.prefix == b"SG." && bytes.get(end) == Some(&b'.') { runs.end(bytes, end + 1) } else { end })
}

/// A JSON web token: three parts between dots, of which the first two are JSON objects in base64.
fn web_token(bytes: &[u8], at: usize, runs: &mut Runs) -> Option<usize> {
    if !bytes[at..].starts_with(b"eyJ") {
        return None;
    }
    let first = runs.end(bytes, at);
    if !bytes[first..].starts_with(b".eyJ") {
        return None;
    }
    let second = runs.end(bytes, first + 1);
    Some(if bytes.get(second) == Some(&b'.') { runs.end(bytes, second + 1) } else { second })
}

/// A Telegram bot's token: its number, a colon, 35 characters.
fn bot_token(bytes: &[u8], at: usize, runs: &mut Runs) -> Option<usize> {
    let digits = bytes[at..].iter().take(12).take_while(|byte| byte.is_ascii_digit()).count();
    let colon = at + digits;
    if !(8..=11).contains(&digits) || bytes.get(colon) != Some(&b':') {
        return None;
    }
    let end = runs.end(bytes, colon + 1);
    (end - colon - 1 == 35).then_some(end)
}

/// Ends of runs of letters, digits, `-` and `_`; the last one is remembered, since a text may try many tokens in one run.
#[derive(Debug, Default)]
pub(super) struct Runs {
    start: usize,
    end: usize,
}

impl Runs {
    /// Where the run that holds `at` ends; `at` itself where there is none.
    fn end(&mut self, bytes: &[u8], at: usize) -> usize {
        if !(self.start..self.end).contains(&at) {
            let run = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            self.start = at;
            self.end = at + bytes[at.min(bytes.len())..].iter().take_while(run).count();
        }
        self.end
    }
}

/// Where a word ends that stands here in any case; `None` where another one does.
pub(super) fn word(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let end = at + word.len();
    let here = bytes.get(at..end)?;
    let whole = bytes.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    (here.eq_ignore_ascii_case(word) && whole).then_some(end)
}

/// Past blanks, a few at most.
pub(super) fn blanks(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take(4).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Whether a text mixes letters and digits, as keys do and words do not.
pub(super) fn looks_random(text: &[u8]) -> bool {
    let head = &text[..text.len().min(64)];
    head.iter().any(u8::is_ascii_digit) && head.iter().any(u8::is_ascii_alphabetic)
}
