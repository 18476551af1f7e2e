//! What every chat request must be, whatever the server behind it: the rules that real servers refuse a conversation for.

use std::collections::HashSet;

use serde_json::Value;

use super::record::text_of;

/// All rules that this chat request breaks, one sentence each.
///
/// - at most one system message, and it is first
/// - every assistant message has the key `content`, and text or tool calls
/// - tool call ids are non-empty and unique in the conversation; their `arguments` is a string that parses as JSON
/// - every call is answered, once, before the next assistant or user message, and nothing else is answered
/// - offered tools have unique names that providers accept
pub fn check(body: &Value) -> Vec<String> {
    let mut rules = Rules::default();
    let Some(messages) = body["messages"].as_array() else {
        return vec!["the body has no list of messages".to_owned()];
    };
    if messages.is_empty() {
        rules.broken(0, "the conversation is empty");
    }
    for (at, message) in messages.iter().enumerate() {
        rules.message(at, message);
    }
    rules.all_answered(messages.len(), "the end of the request");
    rules.offered_tools(&body["tools"]);
    rules.found
}

#[derive(Default)]
struct Rules {
    found: Vec<String>,
    ids: HashSet<String>,
    open: Vec<String>,
}

impl Rules {
    fn broken(&mut self, at: usize, what: &str) {
        self.found.push(format!("message {at}: {what}"));
    }

    fn message(&mut self, at: usize, message: &Value) {
        match message["role"].as_str() {
            Some("system" | "developer") if at == 0 => {}
            Some("system" | "developer") => self.broken(at, "a system message that is not first"),
            Some("user") => {
                self.all_answered(at, "a user message");
                if message["content"].is_null() {
                    self.broken(at, "a user message without content");
                }
            }
            Some("assistant") => self.assistant(at, message),
            Some("tool") => self.tool(at, message),
            other => self.broken(at, &format!("unknown role {other:?}")),
        }
    }

    fn assistant(&mut self, at: usize, message: &Value) {
        self.all_answered(at, "an assistant message");
        if message.get("content").is_none() {
            self.broken(at, "an assistant message without the key content");
        }
        let calls = message["tool_calls"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        if calls.is_empty() && text_of(&message["content"]).is_empty() {
            self.broken(at, "an assistant message with neither text nor tool calls");
        }
        for call in calls {
            self.call(at, call);
        }
    }

    fn call(&mut self, at: usize, call: &Value) {
        let id = call["id"].as_str().unwrap_or_default();
        if id.is_empty() {
            self.broken(at, "a tool call without an id");
        } else if !self.ids.insert(id.to_owned()) {
            self.broken(at, &format!("tool call id {id:?} used twice"));
        }
        self.open.push(id.to_owned());
        if call["function"]["name"].as_str().unwrap_or_default().is_empty() {
            self.broken(at, "a tool call without a name");
        }
        match &call["function"]["arguments"] {
            Value::String(text) if serde_json::from_str::<Value>(text).is_ok() => {}
            Value::String(text) => self.broken(at, &format!("arguments that do not parse: {text:.200}")),
            other => self.broken(at, &format!("arguments that are no string: {other}")),
        }
    }

    fn tool(&mut self, at: usize, message: &Value) {
        let id = message["tool_call_id"].as_str().unwrap_or_default();
        if let Some(position) = self.open.iter().position(|open| open == id) {
            self.open.remove(position);
        } else {
            self.broken(at, &format!("a tool message for {id:?}, which is no open call"));
        }
        if message["content"].is_null() {
            self.broken(at, "a tool message without content");
        }
    }

    fn all_answered(&mut self, at: usize, before: &str) {
        for id in std::mem::take(&mut self.open) {
            self.broken(at, &format!("tool call {id:?} has no answer before {before}"));
        }
    }

    fn offered_tools(&mut self, tools: &Value) {
        let mut names = HashSet::new();
        for tool in tools.as_array().map_or(&[] as &[Value], Vec::as_slice) {
            let name = tool["function"]["name"].as_str().unwrap_or_default();
            let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() || name.len() > 64 || !name.chars().all(legal) {
                self.found.push(format!("tools: providers refuse the name {name:?}"));
            }
            if !names.insert(name) {
                self.found.push(format!("tools: {name:?} is offered twice"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    fn call(id: &str) -> Value {
        json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})
    }

    fn broken(messages: &Value) -> Vec<String> {
        check(&json!({ "messages": messages }))
    }

    #[test]
    fn a_sound_conversation_breaks_nothing() {
        let sound = json!([
            {"role": "system", "content": "be good"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b")]},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "tool", "tool_call_id": "a", "content": ""},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "more"},
        ]);
        assert_eq!(broken(&sound), Vec::<String>::new());
    }

    #[test]
    fn each_rule_is_seen() {
        let user = json!({"role": "user", "content": "hi"});
        let cases = [
            (json!([user, {"role": "system", "content": "x"}]), "not first"),
            (json!([{"role": "system", "content": "x"}, {"role": "system", "content": "y"}]), "not first"),
            (
                json!([user, {"role": "assistant", "tool_calls": [call("a")]},
                {"role": "tool", "tool_call_id": "a", "content": "x"}]),
                "without the key content",
            ),
            (json!([user, {"role": "assistant", "content": null}]), "neither text nor tool calls"),
            (
                json!([user, {"role": "assistant", "content": "", "tool_calls": [call("")]},
                {"role": "tool", "tool_call_id": "", "content": "x"}]),
                "without an id",
            ),
            (
                json!([user, {"role": "assistant", "content": "", "tool_calls": [call("a"), call("a")]},
                {"role": "tool", "tool_call_id": "a", "content": "x"},
                {"role": "tool", "tool_call_id": "a", "content": "x"}]),
                "used twice",
            ),
            (
                json!([user, {"role": "assistant", "content": "", "tool_calls": [call("a")]}, user]),
                "before a user",
            ),
            (
                json!([user, {"role": "assistant", "content": "", "tool_calls": [call("a")]}]),
                "before the end",
            ),
            (json!([user, {"role": "tool", "tool_call_id": "z", "content": "x"}]), "no open call"),
            (
                json!([user, {"role": "assistant", "content": "", "tool_calls": [
                {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]},
                {"role": "tool", "tool_call_id": "a", "content": "x"}]),
                "no string",
            ),
            (
                json!([user, {"role": "assistant", "content": "", "tool_calls": [
                {"id": "a", "function": {"name": "f", "arguments": "{"}}]},
                {"role": "tool", "tool_call_id": "a", "content": "x"}]),
                "do not parse",
            ),
            (json!([]), "empty"),
        ];
        for (messages, expected) in cases {
            let found = broken(&messages);
            assert_eq!(found.len(), 1, "{found:?} for {messages}");
            assert!(found[0].contains(expected), "{found:?} for {messages}");
        }
        let tools = json!({"messages": [user], "tools": [
            {"function": {"name": "a.b"}}, {"function": {"name": "c"}}, {"function": {"name": "c"}}]});
        assert_eq!(check(&tools).len(), 2);
    }
}
