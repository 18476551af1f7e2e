//! Tool calls that a model wrote as text: what stands between the marks, in each of the notations in use.
//!
//! | notation | example |
//! |---|---|
//! | JSON | `{"name": "f", "arguments": {"a": 1}}`, also in a list or several in a row |
//! | functions | `<function=f><parameter=a>1</parameter></function>` |
//! | keys and values | `f<arg_key>a</arg_key><arg_value>1</arg_value>` |
//! | call | `call:f{a:<\|"\|>1<\|"\|>}` |

use milk_core::JsonObject;
use milk_core::model::{StreamedCall, ToolArguments};
use milk_core::tool::ToolSpec;
use serde_json::Value;

use super::arguments;

/// Brackets that a small model may forget at the end of a call that is closed by its mark.
const FORGOTTEN: [&str; 3] = ["", "}", "}}"];

/// All calls in the text between two marks, if it is nothing but calls.
pub(super) fn read(body: &str, tools: &[ToolSpec]) -> Option<Vec<StreamedCall>> {
    let body = body.trim();
    let calls = match body.chars().next()? {
        '{' | '[' => FORGOTTEN.iter().find_map(|missing| json_calls(&format!("{body}{missing}")))?,
        '<' if body.starts_with(WRAPPER.0) => wrapped_calls(body, tools)?,
        '<' => function_calls(body, tools)?,
        _ if body.starts_with("call:") => vec![colon_call(body)?],
        _ => vec![key_value_call(body, tools)?],
    };
    Some(calls).filter(|calls| !calls.is_empty())
}

/// The marks that may stand around a call inside of a fence.
const WRAPPER: (&str, &str) = ("<tool_call>", "</tool_call>");

fn wrapped_calls(body: &str, tools: &[ToolSpec]) -> Option<Vec<StreamedCall>> {
    let bodies = body.split(WRAPPER.1).map(str::trim).filter(|part| !part.is_empty());
    let calls = bodies.map(|part| {
        let inside = part.strip_prefix(WRAPPER.0)?.trim();
        if inside.starts_with(WRAPPER.0) { None } else { read(inside, tools) }
    });
    Some(calls.collect::<Option<Vec<_>>>()?.concat())
}

/// A call of this tool with arguments written as JSON text.
pub(super) fn named(name: &str, json: &str) -> StreamedCall {
    StreamedCall { id: None, name: name.to_owned(), arguments: arguments::read(json) }
}

/// A call that is marked and named, but whose text cannot be read: it is reported to the model, never run.
pub(super) fn unreadable(body: &str) -> Option<StreamedCall> {
    let (_, behind) = body.split_once("\"name\"")?;
    let name = behind.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?.split('"').next()?;
    let is_a_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let arguments = ToolArguments::Unparsable(body.trim().to_owned());
    is_a_name.then(|| StreamedCall { id: None, name: name.to_owned(), arguments })
}

/// Whether a JSON text is surely meant as a call, though nothing marks it as one: a tool on offer, with arguments, and
/// nothing else.
pub(super) fn is_surely_a_call(body: &str, tools: &[ToolSpec]) -> bool {
    const KEYS: [&str; 7] = ["name", "type", "id", "function", "arguments", "parameters", "args"];
    let is_call = |value: &Value| {
        let Some(object) = value.as_object() else { return false };
        let inner = object.get("function").and_then(Value::as_object).unwrap_or(object);
        let has_arguments = ARGUMENTS.iter().any(|key| inner.contains_key(*key));
        let name = inner.get("name").and_then(Value::as_str).unwrap_or_default();
        has_arguments
            && tools.iter().any(|tool| tool.name == name)
            && object.keys().chain(inner.keys()).all(|key| KEYS.contains(&key.as_str()))
    };
    match serde_json::from_str::<Value>(body.trim()) {
        Ok(Value::Array(list)) => !list.is_empty() && list.iter().all(is_call),
        Ok(value) => is_call(&value),
        Err(_) => false,
    }
}

/// Keys under which arguments stand.
const ARGUMENTS: [&str; 4] = ["arguments", "parameters", "args", "input"];

fn json_calls(text: &str) -> Option<Vec<StreamedCall>> {
    let mut calls = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value.ok()? {
            Value::Array(list) => calls.extend(list.into_iter().map(json_call).collect::<Option<Vec<_>>>()?),
            value => calls.push(json_call(value)?),
        }
    }
    Some(calls)
}

fn json_call(value: Value) -> Option<StreamedCall> {
    let Value::Object(mut object) = value else { return None };
    let id = object.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned);
    let mut inner = match object.remove("function") {
        Some(Value::Object(inner)) => inner,
        Some(Value::String(name)) => {
            object.insert("name".to_owned(), Value::String(name));
            object
        }
        _ => object,
    };
    let name = ["name", "tool_name", "tool"].iter().find_map(|key| inner.get(*key)?.as_str())?.to_owned();
    let arguments = ARGUMENTS.iter().find_map(|key| inner.remove(*key)).unwrap_or(Value::Null);
    Some(StreamedCall { id, name, arguments: arguments::from_value(arguments) })
}

fn function_calls(body: &str, tools: &[ToolSpec]) -> Option<Vec<StreamedCall>> {
    let mut calls = Vec::new();
    let mut rest = body;
    while !rest.trim().is_empty() {
        let (name, behind) = rest.trim_start().strip_prefix("<function=")?.split_once('>')?;
        // Without its end a function may be cut off, and half a call is never run.
        let (inside, after) =
            behind.rsplit_once("</function>").filter(|_| !behind.contains("<function=")).or_else(|| {
                let next = behind.find("<function=")?;
                let (inside, _) = behind[..next].rsplit_once("</function>")?;
                Some((inside, &behind[next..]))
            })?;
        let name = name.trim().trim_matches('"');
        calls.push(if inside.trim_start().starts_with('{') {
            named(name, inside)
        } else {
            StreamedCall { id: None, name: name.to_owned(), arguments: parameters(inside, name, tools)? }
        });
        rest = after;
    }
    Some(calls)
}

fn parameters(inside: &str, tool: &str, tools: &[ToolSpec]) -> Option<ToolArguments> {
    let mut object = JsonObject::new();
    let mut rest = inside;
    while !rest.trim().is_empty() {
        let (key, behind) = rest.trim_start().strip_prefix("<parameter=")?.split_once('>')?;
        let next = behind.find("<parameter=").unwrap_or(behind.len());
        let (value, after) = match behind[..next].rsplit_once("</parameter>") {
            Some((value, after)) if after.trim().is_empty() => (value, &behind[next..]),
            Some(_) => return None,
            None => (&behind[..next], &behind[next..]),
        };
        let key = key.trim().trim_matches('"');
        object.insert(key.to_owned(), typed(value, key, tool, tools));
        rest = after;
    }
    Some(ToolArguments::Object(object))
}

fn key_value_call(body: &str, tools: &[ToolSpec]) -> Option<StreamedCall> {
    let start = body.find("<arg_key>")?;
    let name = body[..start].trim();
    let mut object = JsonObject::new();
    let mut rest = &body[start..];
    while !rest.trim().is_empty() {
        let (key, behind) = rest.trim_start().strip_prefix("<arg_key>")?.split_once("</arg_key>")?;
        let (value, after) = behind.trim_start().strip_prefix("<arg_value>")?.split_once("</arg_value>")?;
        object.insert(key.trim().to_owned(), typed(value, key.trim(), name, tools));
        rest = after;
    }
    Some(StreamedCall { id: None, name: name.to_owned(), arguments: ToolArguments::Object(object) })
}

/// A value written as bare text, as the type that the tool's schema gives it.
fn typed(text: &str, key: &str, tool: &str, tools: &[ToolSpec]) -> Value {
    let schema =
        tools.iter().find(|spec| spec.name == tool).map(|spec| &spec.input_schema["properties"][key]["type"]);
    let is_text = schema.is_none_or(|kind| kind.is_null() || kind == "string");
    // One line end on either side belongs to the notation.
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let read = if is_text { None } else { serde_json::from_str(text.trim()).ok() };
    read.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// How deep values may nest in the `call:` notation.
const DEPTH: usize = 32;

fn colon_call(body: &str) -> Option<StreamedCall> {
    let (name, _) = body.strip_prefix("call:")?.split_once('{')?;
    let mut reader = Colon { rest: &body["call:".len() + name.len()..] };
    let Value::Object(arguments) = reader.value(DEPTH)? else { return None };
    let is_over = reader.rest.trim().is_empty();
    is_over.then(|| StreamedCall {
        id: None,
        name: name.trim().to_owned(),
        arguments: ToolArguments::Object(arguments),
    })
}

/// Reads `{key:value,…}` with bare keys and texts between special marks.
struct Colon<'a> {
    rest: &'a str,
}

impl<'a> Colon<'a> {
    /// The marks of a text.
    const QUOTES: [&'static str; 3] = ["<|\"|>", "<escape>", "\""];

    fn value(&mut self, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        if self.take("{") {
            let mut object = JsonObject::new();
            while !self.take("}") {
                let key = self.text().or_else(|| self.until(&[':']))?;
                self.take(":").then_some(())?;
                let value = self.value(depth)?;
                object.insert(key.to_owned(), value);
                self.take(",");
            }
            return Some(Value::Object(object));
        }
        if self.take("[") {
            let mut list = Vec::new();
            while !self.take("]") {
                list.push(self.value(depth)?);
                self.take(",");
            }
            return Some(Value::Array(list));
        }
        if let Some(text) = self.text() {
            return Some(Value::String(text.to_owned()));
        }
        let bare = self.until(&[',', '}', ']'])?;
        Some(serde_json::from_str(bare).unwrap_or_else(|_| Value::String(bare.to_owned())))
    }

    fn text(&mut self) -> Option<&'a str> {
        let quote = Self::QUOTES.into_iter().find(|quote| self.take(quote))?;
        let (text, rest) = self.rest.split_once(quote)?;
        self.rest = rest;
        Some(text)
    }

    fn until(&mut self, ends: &[char]) -> Option<&'a str> {
        let (text, rest) = self.rest.split_at(self.rest.find(ends)?);
        self.rest = rest;
        Some(text.trim()).filter(|text| !text.is_empty())
    }

    fn take(&mut self, expected: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn tools() -> Vec<ToolSpec> {
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}});
        vec![ToolSpec { name: "read_file".into(), description: String::new(), input_schema: schema }]
    }

    fn told(body: &str) -> Option<Vec<(String, Value)>> {
        let told = |call: StreamedCall| {
            let arguments = match call.arguments {
                ToolArguments::Object(object) => Value::Object(object),
                ToolArguments::Unparsable(text) => Value::String(text),
            };
            (call.name, arguments)
        };
        Some(read(body, &tools())?.into_iter().map(told).collect())
    }

    #[test]
    fn case_106_every_notation_is_read() {
        let bodies = [
            r#"{"name":"read_file","arguments":{"path":"1"}}"#,
            r#" {"name": "read_file", "parameters": {"path": "1"}} "#,
            r#"{"type":"function","function":{"name":"read_file","arguments":"{\"path\":\"1\"}"}}"#,
            r#"{"name":"read_file","arguments":{"path":"1"}"#,
            r#"[{"name":"read_file","arguments":{"path":"1"}}]"#,
            "<function=read_file><parameter=path>1</parameter></function>",
            "<function=read_file>\n<parameter=path>\n1\n</parameter>\n</function>",
            "<function=read_file><parameter=path>1</function>",
            r#"<function=read_file>{"path": "1"}</function>"#,
            "read_file\n<arg_key>path</arg_key>\n<arg_value>1</arg_value>",
            "call:read_file{path:<|\"|>1<|\"|>}",
            "call:read_file{path:<escape>1<escape>}",
        ];
        for body in bodies {
            assert_eq!(told(body), Some(vec![("read_file".to_owned(), json!({"path": "1"}))]), "{body}");
        }
    }

    #[test]
    fn several_calls_and_typed_values() {
        let two = "<function=f>\n<parameter=a>x\ny</parameter>\n<parameter=b>2</parameter></function>\n<function=g></function>";
        assert_eq!(
            told(two),
            Some(vec![("f".into(), json!({"a": "x\ny", "b": "2"})), ("g".into(), json!({}))])
        );
        let typed =
            "<function=read_file><parameter=path>7</parameter><parameter=limit>7</parameter></function>";
        assert_eq!(told(typed), Some(vec![("read_file".into(), json!({"path": "7", "limit": 7}))]));
        let rows = "{\"name\":\"f\",\"arguments\":{}}\n{\"name\":\"g\"}";
        assert_eq!(told(rows), Some(vec![("f".into(), json!({})), ("g".into(), json!({}))]));
        let deep = "call:f{a:[1,true,{b:<|\"|>x, }y<|\"|>}],c:bare text}";
        assert_eq!(
            told(deep),
            Some(vec![("f".into(), json!({"a": [1, true, {"b": "x, }y"}], "c": "bare text"}))])
        );
    }

    #[test]
    fn what_is_no_call_or_half_a_call_is_refused() {
        for body in [
            "",
            "text",
            "{",
            "{}",
            "[]",
            "[1]",
            r#"{"name":5}"#,
            "<function=f>",
            "<function=f><parameter=a>x",
            "<function=f><parameter=a>x</parameter>",
            "<b>x</b>",
            "f<arg_key>a</arg_key>",
            "call:f{a",
            "call:f{a:1} x",
            "<function=f>words</function>",
            r#"{"name":"f","arguments":{"a":"cut"#,
        ] {
            assert_eq!(told(body), None, "{body}");
        }
        assert_eq!(told(&format!("call:f{}", "{a:".repeat(100_000))), None);
    }

    #[test]
    fn an_unreadable_call_keeps_its_name() {
        let body = r#"{"name": "read_file", "arguments": {path: 1}}"#;
        let call = unreadable(body).unwrap();
        assert_eq!(
            (call.name.as_str(), call.arguments),
            ("read_file", ToolArguments::Unparsable(body.into()))
        );
        assert_eq!(unreadable(r#"{"name": "two words"}"#), None);
        assert_eq!(unreadable("x"), None);
    }

    #[test]
    fn only_a_tool_on_offer_with_arguments_and_nothing_else_is_surely_a_call() {
        let sure = |body: &str| is_surely_a_call(body, &tools());
        assert!(sure(r#"{"name":"read_file","arguments":{"path":"1"}}"#));
        assert!(sure(r#"[{"type":"function","function":{"name":"read_file","parameters":{}}}]"#));
        for body in [
            r#"{"name":"read_file"}"#,
            r#"{"name":"other","arguments":{}}"#,
            "[]",
            "x",
            r#"{"name":"read_file","arguments":{},"version":"1.0"}"#,
        ] {
            assert!(!sure(body), "{body}");
        }
    }
}
