//! Directive mode: a model server for people who test a client and have no model (`milk mock`).
//!
//! The newest user message says what happens. Directives stand anywhere in its text and are carried out in order:
//!
//! | directive | effect |
//! |---|---|
//! | `[[say N tokens R rate]]` | N text deltas `w0 w1 …` at R a second; a rate of 0 sends them all at once |
//! | `[[think TEXT]]` | TEXT as reasoning, word by word |
//! | `[[tool NAME {json}]]` | a call of the tool NAME with these arguments; several are called one after another, and after the last result a short text comes |
//! | `[[fail STATUS]]` | this HTTP status with an error body; `[[fail 429 2]]` also says `Retry-After: 2` |
//! | `[[hang]]` | what came before it, then silence until the client goes |
//!
//! Any other message is answered with a short text that repeats the start of it.
//! Requests without `"stream": true` get the same answer in one JSON object.
//!
//! ```
//! use milk_testkit::server::directive::{parse, Directive};
//!
//! let found = parse(r#"Please [[tool bash {"command": "echo ]]"}]] now"#);
//! assert!(matches!(&found[..], [Directive::Tool { name, .. }] if name == "bash"));
//! ```

use std::time::Duration;

use serde_json::{Value, json};

use super::record::{RecordedRequest, text_of};
use super::reply::{Cut, Reply, Step, ToolCall};

/// One directive of a user message.
#[derive(Clone, Debug, PartialEq)]
pub enum Directive {
    /// Deltas at a rate (per second; 0 for all at once).
    Say {
        /// How many, at most [`MOST_TOKENS`].
        tokens: u32,
        /// How many a second.
        rate: f64,
    },
    /// Reasoning.
    Think(String),
    /// A tool call.
    Tool {
        /// The tool's name.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
    /// An HTTP failure.
    Fail {
        /// The status, 400 to 599.
        status: u16,
        /// Seconds for `Retry-After`.
        retry_after: Option<u32>,
    },
    /// Silence until the client goes.
    Hang,
    /// Something in double brackets that begins like a directive and cannot be read; the text says why.
    Unreadable(String),
}

/// The most deltas that one `say` sends.
pub const MOST_TOKENS: u32 = 200_000;
/// Characters of a message or a tool result that are repeated in an answer.
const REPEATED: usize = 200;

/// The reply to a chat request.
pub fn reply(request: &RecordedRequest) -> Reply {
    let answer = Answer::to(request);
    if let Some((status, retry_after)) = answer.failure {
        let failure = Reply::status(status);
        return match retry_after {
            Some(seconds) => failure.header("retry-after", seconds.to_string()),
            None => failure,
        };
    }
    if request.body["stream"] == true { answer.streamed() } else { answer.whole(request.model()) }
}

/// All directives in a text, in order.
pub fn parse(text: &str) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("[[") {
        rest = &rest[start + 2..];
        if let Some((directive, after)) = parse_one(rest) {
            found.push(directive);
            rest = after;
        }
    }
    found
}

/// The directive that begins here (after the brackets), and the text behind it; `None` for brackets of another kind.
fn parse_one(text: &str) -> Option<(Directive, &str)> {
    let (word, rest) = split_word(text.trim_start());
    if word == "tool" {
        return Some(parse_tool(rest));
    }
    let (inside, after) = rest.split_once("]]")?;
    let words: Vec<&str> = inside.split_whitespace().collect();
    let unreadable =
        |wanted: &str| Directive::Unreadable(format!("cannot read [[{word}{inside}]]: write {wanted}"));
    let directive = match (word, &words[..]) {
        ("say", [tokens, "tokens", rate, "rate"]) => match (tokens.parse(), rate.parse::<f64>()) {
            (Ok(tokens), Ok(rate)) if rate >= 0.0 && rate.is_finite() => {
                Directive::Say { tokens: MOST_TOKENS.min(tokens), rate }
            }
            _ => unreadable("[[say N tokens R rate]]"),
        },
        ("say", _) => unreadable("[[say N tokens R rate]]"),
        ("think", _) => Directive::Think(inside.trim().to_owned()),
        ("fail", [status, retry @ ..]) => {
            let retry_after = retry.first().map(|seconds| seconds.parse());
            match (status.parse(), retry_after.transpose()) {
                (Ok(status @ 400..=599), Ok(retry_after)) => Directive::Fail { status, retry_after },
                _ => unreadable("[[fail STATUS]], 400 to 599"),
            }
        }
        ("fail", _) => unreadable("[[fail STATUS]], 400 to 599"),
        ("hang", []) => Directive::Hang,
        _ => return None,
    };
    Some((directive, after))
}

fn split_word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_whitespace() || c == ']').unwrap_or(text.len());
    text.split_at(end)
}

/// `NAME {json}]]`: the JSON may hold brackets of its own, so it is read as JSON and not up to the next `]]`.
fn parse_tool(text: &str) -> (Directive, &str) {
    let (name, rest) = split_word(text.trim_start());
    let unreadable =
        |why: &str, rest| (Directive::Unreadable(format!("cannot read [[tool {name} …]]: {why}")), rest);
    if name.is_empty() {
        return unreadable("write [[tool NAME {json}]]", rest);
    }
    if let Some(after) = rest.trim_start().strip_prefix("]]") {
        return (Directive::Tool { name: name.to_owned(), arguments: json!({}) }, after);
    }
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    match values.next() {
        Some(Ok(arguments)) => {
            let after = &rest[values.byte_offset()..];
            match after.trim_start().strip_prefix("]]") {
                Some(after) => (Directive::Tool { name: name.to_owned(), arguments }, after),
                None => unreadable("no ]] after the arguments", after),
            }
        }
        Some(Err(error)) => unreadable(&format!("the arguments are no JSON: {error}"), rest),
        None => unreadable("no ]] at the end", rest),
    }
}

/// What will be answered, in either form.
#[derive(Debug, Default)]
struct Answer {
    failure: Option<(u16, Option<u32>)>,
    parts: Vec<Part>,
    prompt_tokens: u64,
}

#[derive(Debug)]
enum Part {
    Thought(String),
    Text(String),
    Say { tokens: u32, rate: f64 },
    Call { name: String, arguments: Value },
    Hang,
}

impl Answer {
    fn to(request: &RecordedRequest) -> Self {
        let messages = request.messages();
        let newest = messages.iter().rposition(|message| message["role"] == "user");
        let text = newest.map_or_else(String::new, |at| text_of(&messages[at]["content"]));
        let since = newest.map_or(messages, |at| &messages[at + 1..]);
        let results: Vec<String> = since
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| text_of(&message["content"]))
            .collect();
        let prompt_tokens = (request.raw_body.len() / 4) as u64;
        let mut answer = Self { prompt_tokens, ..Self::default() };
        answer.carry_out(&parse(&text), &results);
        if answer.parts.is_empty() && answer.failure.is_none() {
            answer.parts.push(Part::Text(match results.last() {
                Some(result) => format!("The tool answered: {}", start_of(result)),
                None => format!("You said: {}", start_of(&text)),
            }));
        }
        answer
    }

    /// Turns directives into parts. What came before a tool call that has its result was sent before.
    fn carry_out(&mut self, directives: &[Directive], results: &[String]) {
        let mut results_left = results.len();
        for directive in directives {
            match directive {
                Directive::Tool { .. } if results_left > 0 => {
                    results_left -= 1;
                    self.parts.clear();
                }
                Directive::Tool { name, arguments } => {
                    self.parts.push(Part::Call { name: name.clone(), arguments: arguments.clone() });
                    return;
                }
                Directive::Say { tokens, rate } => {
                    self.parts.push(Part::Say { tokens: *tokens, rate: *rate });
                }
                Directive::Think(text) => self.parts.push(Part::Thought(text.clone())),
                Directive::Unreadable(why) => self.parts.push(Part::Text(why.clone())),
                Directive::Fail { status, retry_after } => {
                    self.failure = Some((*status, *retry_after));
                    return;
                }
                Directive::Hang => {
                    self.parts.push(Part::Hang);
                    return;
                }
            }
        }
    }

    fn calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Call { .. }))
    }

    fn finish(&self) -> &'static str {
        if self.calls() { "tool_calls" } else { "stop" }
    }

    fn completion_tokens(&self) -> u64 {
        let of = |part: &Part| match part {
            Part::Thought(text) | Part::Text(text) => words(text).len() as u64,
            Part::Say { tokens, .. } => u64::from(*tokens),
            Part::Call { .. } => 10,
            Part::Hang => 0,
        };
        self.parts.iter().map(of).sum()
    }

    fn streamed(&self) -> Reply {
        let mut reply = Reply::stream().role().cut(Cut::Burst);
        let mut offset = Duration::ZERO;
        for part in &self.parts {
            reply = match part {
                Part::Thought(text) => words(text).into_iter().fold(reply, Reply::think),
                Part::Text(text) => words(text).into_iter().fold(reply.cut(Cut::PerStep), Reply::say),
                Part::Call { name, arguments } => {
                    reply.call(ToolCall::new(name, arguments.clone()).pieces(2))
                }
                Part::Hang => return reply.hang(),
                Part::Say { tokens, rate } => paced(reply, *tokens, *rate, &mut offset),
            };
        }
        reply.finish(self.finish()).usage(self.prompt_tokens, self.completion_tokens()).done()
    }

    fn whole(&self, model: &str) -> Reply {
        let (mut text, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
        for part in &self.parts {
            match part {
                Part::Thought(part) => thought.push_str(part),
                Part::Text(part) => text.push_str(part),
                Part::Say { tokens, .. } => (0..*tokens).for_each(|n| text.push_str(&token(n))),
                Part::Call { name, arguments } => calls
                    .push(json!({"id": format!("call_{}", self.prompt_tokens),
                    "type": "function", "function": {"name": name, "arguments": arguments.to_string()}})),
                Part::Hang => return Reply::silence(),
            }
        }
        let mut message = json!({"role": "assistant", "content": text});
        if !thought.is_empty() {
            message["reasoning_content"] = thought.into();
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        let (prompt, completion) = (self.prompt_tokens, self.completion_tokens());
        Reply::json(
            200,
            &json!({"id": "chatcmpl-mock", "object": "chat.completion", "created": 0, "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish()}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}}),
        )
    }
}

/// Adds `tokens` deltas, the first `offset` after the start of the reply.
fn paced(mut reply: Reply, tokens: u32, rate: f64, offset: &mut Duration) -> Reply {
    for n in 0..tokens {
        if rate > 0.0 {
            reply = reply.step(Step::At(*offset));
            *offset += Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX);
        }
        reply = reply.say(token(n));
    }
    reply
}

fn token(n: u32) -> String {
    format!("w{n} ")
}

/// The words of a text, each with the space behind it.
fn words(text: &str) -> Vec<&str> {
    text.split_inclusive(' ').collect()
}

fn start_of(text: &str) -> String {
    let mut start: String = text.trim().chars().take(REPEATED).collect();
    if text.trim().chars().nth(REPEATED).is_some() {
        start.push('…');
    }
    start
}

#[cfg(test)]
mod tests {
    use super::{Directive, parse};
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn directives_are_read_in_order_and_other_brackets_are_text() {
        let text = "see [[wiki]] [[think deep thought]] [[say 3 tokens 2.5 rate]] [[fail 429 7]] [[hang]] [[";
        let expected = vec![
            Directive::Think("deep thought".to_owned()),
            Directive::Say { tokens: 3, rate: 2.5 },
            Directive::Fail { status: 429, retry_after: Some(7) },
            Directive::Hang,
        ];
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn tool_arguments_may_hold_brackets() {
        let found = parse(r#"[[tool bash {"command":"[[ -f a ]] && ls"}]] [[tool list_dir]]"#);
        let tool = |name: &str, arguments| Directive::Tool { name: name.to_owned(), arguments };
        assert_eq!(
            found,
            vec![tool("bash", json!({"command": "[[ -f a ]] && ls"})), tool("list_dir", json!({}))]
        );
    }

    #[test]
    fn broken_directives_say_how_to_write_them() {
        for text in [
            "[[say 3 words]]",
            "[[say -1 tokens 0 rate]]",
            "[[say 1 tokens inf rate]]",
            "[[fail]]",
            "[[fail 200]]",
            "[[fail 429 x]]",
            "[[tool]]",
            "[[tool bash {]]",
            "[[tool bash {}",
        ] {
            let found = parse(text);
            assert!(
                matches!(&found[..], [Directive::Unreadable(why)] if !why.is_empty()),
                "{text}: {found:?}"
            );
        }
    }
}
