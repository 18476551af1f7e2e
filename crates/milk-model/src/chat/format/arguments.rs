//! From what a model wrote as arguments to an object, or to the honest statement that it is none.

use milk_core::JsonObject;
use milk_core::model::ToolArguments;
use serde_json::Value;

/// How often arguments may be wrapped in a text (bug case 104).
const WRAPPINGS: usize = 2;

/// Reads the whole text of a call's arguments. Nothing at all is no arguments; anything that is not surely one object
/// is [`ToolArguments::Unparsable`] and never guessed at (bug case 079).
pub(super) fn read(text: &str) -> ToolArguments {
    match object_in(text, WRAPPINGS) {
        Some(object) => ToolArguments::Object(object),
        None => ToolArguments::Unparsable(text.to_owned()),
    }
}

/// Reads arguments that came as JSON.
pub(super) fn from_value(value: Value) -> ToolArguments {
    match value {
        Value::Object(object) => ToolArguments::Object(object),
        Value::String(text) => read(&text),
        Value::Null => ToolArguments::Object(JsonObject::new()),
        other => ToolArguments::Unparsable(other.to_string()),
    }
}

fn object_in(text: &str, wrappings: usize) -> Option<JsonObject> {
    let text = text.trim();
    if text.is_empty() {
        return Some(JsonObject::new());
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let first = values.next()?.ok()?;
    let rest = text.get(values.byte_offset()..)?.trim();
    match first {
        Value::Object(object) if is_noise(rest, &object) => Some(object),
        Value::String(inner) if rest.is_empty() && wrappings > 0 => object_in(&inner, wrappings - 1),
        Value::Null if rest.is_empty() => Some(JsonObject::new()),
        _ => None,
    }
}

/// What may stand behind a whole object without changing what was meant: brackets too many, or the same again.
fn is_noise(rest: &str, object: &JsonObject) -> bool {
    rest.chars().all(|c| matches!(c, '}' | ']') || c.is_whitespace())
        || serde_json::from_str::<JsonObject>(rest).is_ok_and(|again| again == *object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn case_104_objects_are_found_under_their_wrappings() {
        let expected = from_value(json!({"path": "1"}));
        for text in [
            r#"{"path":"1"}"#,
            r#" {"path": "1"} "#,
            r#""{\"path\":\"1\"}""#,
            r#"{"path":"1"}}"#,
            r#"{"path":"1"}{"path":"1"}"#,
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn case_079_what_is_no_object_is_never_run() {
        for text in [
            r#"{"path":"a.txt","content":"x"#,
            "{path: a}",
            r#"{"path":"1""#,
            r#"{"path":"1"}{"path":"2"}"#,
            "[1]",
            "7",
            "x",
            r#"{"path":"1"} and more"#,
            "\"text\"",
        ] {
            assert_eq!(read(text), ToolArguments::Unparsable(text.to_owned()), "{text}");
        }
        for text in ["", "  ", "null", "{}", "\"\""] {
            assert_eq!(read(text), ToolArguments::Object(JsonObject::new()), "{text}");
        }
    }
}
