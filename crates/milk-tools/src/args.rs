//! Arguments of tools: declared once, for the schema that the model gets and for reading what it sends. Models send the
//! right value in the wrong type often enough (`"2"`, `"true"`, `7` for a path) that this is not worth a turn.

use milk_core::JsonObject;
use milk_core::tool::ToolError;
use serde_json::{Value, json};

/// One parameter of a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) need: Need,
    /// For the model.
    pub(crate) about: &'static str,
    /// Another name that models use for it.
    pub(crate) alias: Option<&'static str>,
}

/// What values a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A short text: a path, a pattern, a command.
    Text,
    /// A text that may be a document; JSON sent as such becomes its text.
    Document,
    /// A whole number, not negative.
    Count,
    /// Yes or no.
    Switch,
    /// Texts by name.
    Fields,
}

/// Whether a call must have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
}

impl Param {
    pub(crate) const fn required(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, shape, need: Need::Required, about, alias: None }
    }

    pub(crate) const fn optional(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, shape, need: Need::Optional, about, alias: None }
    }

    pub(crate) const fn or_named(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }
}

/// The JSON Schema of an arguments object.
pub(crate) fn schema(params: &[Param]) -> Value {
    let property = |param: &Param| {
        let mut schema = match param.shape {
            Shape::Text | Shape::Document => json!({"type": "string"}),
            Shape::Count => json!({"type": "integer", "minimum": 0}),
            Shape::Switch => json!({"type": "boolean"}),
            Shape::Fields => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        };
        schema["description"] = param.about.into();
        (param.name.to_owned(), schema)
    };
    let required = params.iter().filter(|param| param.need == Need::Required).map(|param| param.name);
    json!({
        "type": "object",
        "properties": params.iter().map(property).collect::<JsonObject>(),
        "required": required.collect::<Vec<_>>(),
    })
}

/// The arguments of one call. Unknown ones are ignored.
#[derive(Debug, Clone)]
pub(crate) struct Args {
    params: &'static [Param],
    values: JsonObject,
}

impl Args {
    pub(crate) fn new(params: &'static [Param], values: &JsonObject) -> Self {
        Self { params, values: values.clone() }
    }

    /// A text that must be there.
    pub(crate) fn text(&self, name: &str) -> Result<String, ToolError> {
        self.text_or(name)?.ok_or_else(|| self.missing(name))
    }

    /// A text that must be there and say something.
    pub(crate) fn filled(&self, name: &str) -> Result<String, ToolError> {
        let text = self.text(name)?;
        if text.trim().is_empty() {
            return Err(ToolError::new(format!("`{name}` must not be empty")));
        }
        Ok(text)
    }

    pub(crate) fn text_or(&self, name: &str) -> Result<Option<String>, ToolError> {
        let document = self.params.iter().any(|p| p.name == name && p.shape == Shape::Document);
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
            Some(value) if document => Ok(Some(format!("{value:#}"))),
            Some(value) => Err(wrong(name, "a text", value)),
        }
    }

    pub(crate) fn count_or(&self, name: &str) -> Result<Option<u64>, ToolError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let read = match value {
            Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
            Value::String(text) => {
                let text = text.trim();
                text.parse().ok().or_else(|| text.parse().ok().and_then(whole))
            }
            _ => None,
        };
        read.map(Some).ok_or_else(|| wrong(name, "a whole number, not negative", value))
    }

    pub(crate) fn switch_or(&self, name: &str) -> Result<Option<bool>, ToolError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let read = match value {
            Value::Bool(switch) => Some(*switch),
            Value::Number(number) => match number.as_u64() {
                Some(0) => Some(false),
                Some(1) => Some(true),
                _ => None,
            },
            Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Some(true),
                "false" | "no" | "off" | "0" | "" => Some(false),
                _ => None,
            },
            _ => None,
        };
        read.map(Some).ok_or_else(|| wrong(name, "true or false", value))
    }

    /// Names and texts, also where the whole object came as a text.
    pub(crate) fn fields(&self, name: &str) -> Result<Vec<(String, String)>, ToolError> {
        let Some(value) = self.value(name) else { return Ok(Vec::new()) };
        let shape = "an object of texts";
        let parsed;
        let object = match value {
            Value::Object(object) => object,
            Value::String(text) if text.trim().is_empty() => return Ok(Vec::new()),
            Value::String(text) => {
                parsed = serde_json::from_str::<JsonObject>(text).map_err(|_| wrong(name, shape, value))?;
                &parsed
            }
            _ => return Err(wrong(name, shape, value)),
        };
        let field = |(field, value): (&String, &Value)| match value {
            Value::String(text) => Ok((field.clone(), text.clone())),
            Value::Number(_) | Value::Bool(_) => Ok((field.clone(), value.to_string())),
            _ => Err(wrong(&format!("{name}.{field}"), "a text", value)),
        };
        object.iter().map(field).collect()
    }

    /// The value under its name or its other name; null counts as left out.
    fn value(&self, name: &str) -> Option<&Value> {
        let alias = self.params.iter().find(|param| param.name == name).and_then(|param| param.alias);
        let given = |name: &str| self.values.get(name).filter(|value| !value.is_null());
        given(name).or_else(|| given(alias?))
    }

    fn missing(&self, name: &str) -> ToolError {
        let required = self.params.iter().filter(|p| p.need == Need::Required).map(|p| p.name);
        let required = required.collect::<Vec<_>>().join("`, `");
        ToolError::new(format!("the argument `{name}` is missing; required: `{required}`"))
    }
}

fn whole(number: f64) -> Option<u64> {
    let fits = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number in range"
    )]
    fits.then_some(number as u64)
}

/// Longest piece of a wrong value that is quoted back.
const QUOTED: usize = 60;

fn wrong(name: &str, shape: &str, value: &Value) -> ToolError {
    let mut got: String = value.to_string().chars().take(QUOTED + 1).collect();
    if got.chars().count() > QUOTED {
        got.pop();
        got.push('…');
    }
    ToolError::new(format!("`{name}` must be {shape}, not {got}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &[Param] = &[
        Param::required("path", Shape::Text, "p").or_named("file_path"),
        Param::required("content", Shape::Document, "c"),
        Param::optional("limit", Shape::Count, "l"),
        Param::optional("all", Shape::Switch, "a"),
        Param::optional("headers", Shape::Fields, "h"),
    ];

    fn args(value: Value) -> Args {
        let Value::Object(values) = value else { panic!("not an object") };
        Args::new(PARAMS, &values)
    }

    #[test]
    fn texts_080() {
        for (given, expected) in [
            (json!({"path": "a"}), Ok("a")),
            (json!({"path": 7}), Ok("7")),
            (json!({"path": true}), Ok("true")),
            (json!({"file_path": "a"}), Ok("a")),
            (json!({"path": null, "file_path": "a"}), Ok("a")),
            (json!({"path": "a", "surplus": [1]}), Ok("a")),
            (json!({}), Err("the argument `path` is missing; required: `path`, `content`")),
            (json!({"path": null}), Err("the argument `path` is missing; required: `path`, `content`")),
            (json!({"path": ["a"]}), Err(r#"`path` must be a text, not ["a"]"#)),
            (json!({"path": {"a": 1}}), Err(r#"`path` must be a text, not {"a":1}"#)),
        ] {
            let got = args(given.clone()).text("path").map_err(|error| error.message);
            assert_eq!(got.as_deref().map_err(String::as_str), expected, "{given}");
        }
        assert_eq!(
            args(json!({"path": " "})).filled("path").unwrap_err().message,
            "`path` must not be empty"
        );
    }

    #[test]
    fn json_for_a_document_is_its_text() {
        assert_eq!(args(json!({"content": {"a": 1}})).text("content").unwrap(), "{\n  \"a\": 1\n}");
        assert_eq!(args(json!({"content": ""})).text("content").unwrap(), "");
    }

    #[test]
    fn counts_080() {
        for (given, expected) in [
            (json!(2), Some(2)),
            (json!("2"), Some(2)),
            (json!(" 2 "), Some(2)),
            (json!(2.0), Some(2)),
            (json!("2.0"), Some(2)),
            (json!(0), Some(0)),
            (json!("abc"), None),
            (json!(""), None),
            (json!(-1), None),
            (json!("-1"), None),
            (json!(1.5), None),
            (json!(1e300), None),
            (json!(true), None),
            (json!([2]), None),
        ] {
            let got = args(json!({"limit": given})).count_or("limit");
            if let Some(number) = expected {
                assert_eq!(got, Ok(Some(number)), "{given}");
                continue;
            }
            let message = got.unwrap_err().message;
            assert!(message.starts_with("`limit` must be a whole number"), "{given}: {message}");
            assert!(message.ends_with(&given.to_string()), "{given}: {message}");
        }
        assert_eq!(args(json!({})).count_or("limit"), Ok(None));
        assert_eq!(args(json!({"limit": null})).count_or("limit"), Ok(None));
    }

    #[test]
    fn switches_080() {
        for (given, expected) in [
            (json!(true), Some(true)),
            (json!("true"), Some(true)),
            (json!("True"), Some(true)),
            (json!("yes"), Some(true)),
            (json!(1), Some(true)),
            (json!(false), Some(false)),
            (json!("false"), Some(false)),
            (json!(0), Some(false)),
            (json!(2), None),
            (json!("maybe"), None),
            (json!({}), None),
        ] {
            let got = args(json!({"all": given}));
            assert_eq!(got.switch_or("all").ok().flatten(), expected, "{given}");
            assert_eq!(got.switch_or("all").is_err(), expected.is_none(), "{given}");
        }
    }

    #[test]
    fn fields_as_object_or_text() {
        let expected = vec![("A".to_owned(), "b".to_owned()), ("N".to_owned(), "1".to_owned())];
        assert_eq!(args(json!({"headers": {"A": "b", "N": 1}})).fields("headers").unwrap(), expected);
        assert_eq!(args(json!({"headers": r#"{"A":"b","N":1}"#})).fields("headers").unwrap(), expected);
        assert_eq!(args(json!({"headers": ""})).fields("headers").unwrap(), []);
        assert_eq!(args(json!({})).fields("headers").unwrap(), []);
        for bad in [json!("A: b"), json!([1]), json!({"A": []}), json!(3)] {
            assert!(args(json!({"headers": bad})).fields("headers").is_err(), "{bad}");
        }
    }

    #[test]
    fn a_long_wrong_value_is_quoted_in_part() {
        let message = args(json!({"path": ["é".repeat(5000)]})).text("path").unwrap_err().message;
        assert!(message.len() < 250 && message.ends_with('…'), "{message}");
    }

    #[test]
    fn the_schema_says_what_is_read() {
        let schema = schema(PARAMS);
        assert_eq!(schema["required"], json!(["path", "content"]));
        assert_eq!(
            schema["properties"]["limit"],
            json!({"type": "integer", "minimum": 0, "description": "l"})
        );
        assert_eq!(schema["properties"]["headers"]["additionalProperties"], json!({"type": "string"}));
    }
}
