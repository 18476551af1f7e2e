//! One piece of a reply as it stands on the wire. The common chunk is read straight into these types; whatever does not
//! fit is read again through a JSON tree, with every field allowed to be odd.

use serde::Deserialize;
use serde_json::Value;

use milk_core::model::Usage;

/// A chunk: `chat.completion.chunk`, or a whole `chat.completion`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    pub(super) choices: Option<Vec<Choice>>,
    #[serde(default)]
    pub(super) usage: Option<Value>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

/// An answer in it; milk asks for one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Choice {
    #[serde(default, alias = "message")]
    pub(super) delta: Option<Delta>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

/// What is new.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    #[serde(default)]
    pub(super) content: Option<String>,
    #[serde(default)]
    pub(super) reasoning_content: Option<String>,
    #[serde(default)]
    pub(super) reasoning: Option<String>,
    #[serde(default)]
    pub(super) reasoning_details: Option<Vec<Value>>,
    #[serde(default)]
    pub(super) refusal: Option<String>,
    #[serde(default)]
    pub(super) tool_calls: Option<Vec<CallDelta>>,
    #[serde(default)]
    pub(super) function_call: Option<FunctionDelta>,
}

/// A piece of a tool call.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CallDelta {
    #[serde(default)]
    pub(super) index: Option<i64>,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) function: Option<FunctionDelta>,
}

/// The function of it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionDelta {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<Value>,
}

impl Chunk {
    /// Reads a chunk; an error only if this is no JSON.
    pub(super) fn read(text: &str) -> serde_json::Result<Self> {
        match serde_json::from_str::<Self>(text) {
            Ok(chunk) if chunk.choices.is_some() || chunk.error.is_some() || chunk.usage.is_some() => {
                Ok(chunk)
            }
            _ => Ok(Self::lenient(serde_json::from_str(text)?)),
        }
    }

    fn lenient(value: Value) -> Self {
        let Value::Object(mut object) = value else { return Self::default() };
        let choices = match object.remove("choices") {
            Some(Value::Array(choices)) => Some(choices.into_iter().map(Choice::lenient).collect()),
            Some(choice @ Value::Object(_)) => Some(vec![Choice::lenient(choice)]),
            _ => None,
        };
        let usage = object.remove("usage");
        // Errors have no envelope of their own everywhere: `{"object":"error", …}`, `{"detail": …}`.
        let is_error = choices.is_none()
            && (object.get("object").is_some_and(|kind| kind == "error")
                || object.get("type").is_some_and(|kind| kind == "error")
                || ["message", "detail"].iter().any(|key| object.get(*key).is_some_and(Value::is_string)));
        let error = match object.get("error") {
            None | Some(Value::Null | Value::Bool(false)) if !is_error => None,
            _ => Some(Value::Object(object)),
        };
        Self { choices, usage, error }
    }
}

impl Choice {
    fn lenient(value: Value) -> Self {
        let Value::Object(mut object) = value else { return Self::default() };
        let delta = object.remove("delta").filter(Value::is_object).or_else(|| object.remove("message"));
        let finish_reason = match object.remove("finish_reason") {
            Some(Value::String(reason)) => Some(reason),
            _ => None,
        };
        let error = object.remove("error").filter(|error| !error.is_null());
        Self { delta: delta.map(Delta::lenient), finish_reason, error }
    }
}

impl Delta {
    /// Whether it brings any of the answer.
    pub(super) fn says_something(&self) -> bool {
        let texts = [&self.content, &self.reasoning_content, &self.reasoning, &self.refusal];
        texts.into_iter().flatten().any(|text| !text.is_empty())
            || self.function_call.is_some()
            || self.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
            || self.reasoning_details.as_ref().is_some_and(|details| !details.is_empty())
    }

    fn lenient(value: Value) -> Self {
        let Value::Object(mut object) = value else { return Self::default() };
        let mut text = |key: &str| object.remove(key).and_then(text_in);
        let (mut reasoning_content, reasoning, refusal) =
            (text("reasoning_content"), text("reasoning"), text("refusal"));
        let content = object.remove("content").and_then(|content| match content {
            Value::Array(parts) => {
                let (answer, thought) = split_parts(parts);
                reasoning_content = reasoning_content.take().or(thought);
                answer
            }
            other => text_in(other),
        });
        let reasoning_details = match object.remove("reasoning_details") {
            Some(Value::Array(details)) => Some(details),
            _ => None,
        };
        let tool_calls = match object.remove("tool_calls") {
            Some(Value::Array(calls)) => Some(calls.into_iter().map(CallDelta::lenient).collect()),
            Some(call @ Value::Object(_)) => Some(vec![CallDelta::lenient(call)]),
            _ => None,
        };
        let function_call =
            object.remove("function_call").filter(Value::is_object).map(FunctionDelta::lenient);
        Self { content, reasoning_content, reasoning, reasoning_details, refusal, tool_calls, function_call }
    }
}

impl CallDelta {
    fn lenient(value: Value) -> Self {
        let Value::Object(mut object) = value else { return Self::default() };
        let index = match object.get("index") {
            Some(Value::Number(index)) => index.as_i64(),
            Some(Value::String(index)) => index.parse().ok(),
            _ => None,
        };
        let id = object.remove("id").and_then(text_in);
        let function = match object.remove("function") {
            Some(function @ Value::Object(_)) => function,
            // Some servers leave the inner object out.
            _ => Value::Object(object),
        };
        Self { index, id, function: Some(FunctionDelta::lenient(function)) }
    }
}

impl FunctionDelta {
    fn lenient(value: Value) -> Self {
        let Value::Object(mut object) = value else { return Self::default() };
        let name = object.remove("name").and_then(text_in);
        Self { name, arguments: object.remove("arguments").filter(|arguments| !arguments.is_null()) }
    }
}

/// A text, or a number where a text belongs.
fn text_in(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Content in typed parts: the texts, and the thoughts among them.
fn split_parts(parts: Vec<Value>) -> (Option<String>, Option<String>) {
    let (mut answer, mut thought) = (String::new(), String::new());
    for part in parts {
        let is_thought = matches!(part["type"].as_str(), Some("thinking" | "reasoning"));
        let text = match &part {
            Value::String(text) => text.clone(),
            Value::Object(part) => ["text", "thinking", "reasoning"]
                .iter()
                .find_map(|key| match part.get(*key)? {
                    Value::String(text) => Some(text.clone()),
                    Value::Array(inner) => {
                        Some(inner.iter().filter_map(|piece| piece["text"].as_str()).collect())
                    }
                    _ => None,
                })
                .unwrap_or_default(),
            _ => String::new(),
        };
        if is_thought { thought.push_str(&text) } else { answer.push_str(&text) }
    }
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    (some(answer), some(thought))
}

/// Token counts, if there are any: all zero says nothing (bug case 116).
pub(super) fn usage(value: &Value) -> Option<Usage> {
    let number = |value: &Value| value.as_u64().or_else(|| value.as_f64().filter(|n| *n >= 0.0).map(whole));
    let first = |pointers: &[&str]| pointers.iter().find_map(|pointer| number(value.pointer(pointer)?));
    let cached = ["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"];
    let usage = Usage {
        input: first(&["/prompt_tokens", "/input_tokens"]).unwrap_or_default(),
        cached: first(&cached).unwrap_or_default(),
        output: first(&["/completion_tokens", "/output_tokens"]).unwrap_or_default(),
    };
    Some(usage).filter(|usage| *usage != Usage::default())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is right here"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn delta(value: &Value) -> Delta {
        let chunk = Chunk::read(&json!({"choices": [{ "delta": value }]}).to_string()).unwrap();
        chunk.choices.unwrap().remove(0).delta.unwrap()
    }

    #[test]
    fn odd_types_are_read_as_what_they_mean() {
        assert_eq!(delta(&json!({"content": 7})).content.as_deref(), Some("7"));
        assert_eq!(delta(&json!({"content": {}, "reasoning": "r"})).reasoning.as_deref(), Some("r"));
        let parts = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}, {"type": "text", "text": "a"}, 1]);
        let read = delta(&json!({ "content": parts }));
        assert_eq!((read.content.as_deref(), read.reasoning_content.as_deref()), (Some("a"), Some("t")));
        let call = delta(&json!({"tool_calls": {"index": "1", "id": 5, "name": "f", "arguments": "{}"}}));
        let call = &call.tool_calls.unwrap()[0];
        assert_eq!((call.index, call.id.as_deref()), (Some(1), Some("5")));
        assert_eq!(call.function.as_ref().unwrap().name.as_deref(), Some("f"));
        assert_eq!(delta(&json!({"content": "x", "tool_calls": "no"})).content.as_deref(), Some("x"));
    }

    #[test]
    fn errors_are_found_without_their_envelope() {
        for text in [
            r#"{"error":"x"}"#,
            r#"{"object":"error","message":"x"}"#,
            r#"{"detail":"x"}"#,
            r#"{"type":"error","error":{}}"#,
        ] {
            assert!(Chunk::read(text).unwrap().error.is_some(), "{text}");
        }
        for text in [r#"{"error":null,"choices":[]}"#, r#"{"error":null}"#, "{}", "[]", "3", r#"{"id":"x"}"#]
        {
            assert!(Chunk::read(text).unwrap().error.is_none(), "{text}");
        }
        assert!(Chunk::read("{").is_err());
    }

    #[test]
    fn case_116_usage_in_every_form() {
        let read = |value: Value| usage(&value);
        let expected = Some(Usage { input: 10, cached: 4, output: 5 });
        let details = json!({"cached_tokens": 4});
        assert_eq!(
            read(json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": details})),
            expected
        );
        assert_eq!(
            read(json!({"prompt_tokens": 10.0, "completion_tokens": 5, "prompt_cache_hit_tokens": 4})),
            expected
        );
        for nothing in [
            json!({}),
            json!(null),
            json!({"prompt_tokens": 0, "completion_tokens": 0}),
            json!([1]),
            json!({"prompt_tokens": -3, "completion_tokens": "x"}),
        ] {
            assert_eq!(read(nothing.clone()), None, "{nothing}");
        }
    }
}
