//! The reasoning fields of a reply, collected so that they can go back with the next request (bug case 110).

use milk_core::JsonObject;
use serde_json::Value;

/// The fields in which servers give reasoning, and want it back.
const FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

/// What a reply gave under each field.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    content: String,
    plain: String,
    details: Vec<Value>,
}

impl Reasoning {
    /// Takes the reasoning of one delta and gives the text to show: servers that fill several fields say the same in
    /// each, so the first one counts.
    pub(super) fn take(
        &mut self,
        content: Option<String>,
        plain: Option<String>,
        details: Option<Vec<Value>>,
    ) -> Option<String> {
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (content, plain, details) = (some(content), some(plain), details.unwrap_or_default());
        let told: String = details.iter().filter_map(text_of).collect();
        self.content.push_str(content.as_deref().unwrap_or_default());
        self.plain.push_str(plain.as_deref().unwrap_or_default());
        for detail in details {
            self.take_detail(detail);
        }
        content.or(plain).or_else(|| some(Some(told)))
    }

    /// Pieces of one block are joined; everything else of a block (signatures, ids) is kept as it came.
    fn take_detail(&mut self, detail: Value) {
        let Value::Object(detail) = detail else { return };
        match self.details.last_mut().and_then(Value::as_object_mut) {
            Some(last) if is_same_block(last, &detail) => {
                for (key, value) in detail {
                    match (last.get_mut(&key), value) {
                        (_, Value::Null) => {}
                        (Some(Value::String(text)), Value::String(more)) if TEXTS.contains(&key.as_str()) => {
                            text.push_str(&more);
                        }
                        (_, value) => drop(last.insert(key, value)),
                    }
                }
            }
            _ => self.details.push(Value::Object(detail)),
        }
    }

    /// What the next request needs; nothing if the server gave no reasoning.
    pub(super) fn into_notes(self) -> Option<Value> {
        let mut notes = JsonObject::new();
        let mut add = |name: &str, value: Value| drop(notes.insert(name.to_owned(), value));
        // Details hold all that the plain field says.
        match (self.content.is_empty(), self.details.is_empty(), self.plain.is_empty()) {
            (false, _, _) => add(FIELDS[0], self.content.into()),
            (true, true, false) => add(FIELDS[1], self.plain.into()),
            _ => {}
        }
        if !self.details.is_empty() {
            add(FIELDS[2], self.details.into());
        }
        Some(Value::Object(notes)).filter(|notes| notes.as_object().is_some_and(|notes| !notes.is_empty()))
    }
}

/// Keys whose text comes in pieces.
const TEXTS: [&str; 3] = ["text", "summary", "data"];

fn is_same_block(last: &JsonObject, next: &JsonObject) -> bool {
    let same = |key: &str| last.get(key).unwrap_or(&Value::Null) == next.get(key).unwrap_or(&Value::Null);
    next.contains_key("index") && same("index") && same("type")
}

fn text_of(detail: &Value) -> Option<&str> {
    detail.get("text").or_else(|| detail.get("summary"))?.as_str()
}

/// The reasoning fields in the notes of a message. Anything else in them is not this module's.
pub(super) fn fields_in(notes: &Value) -> Vec<(&'static str, &Value)> {
    FIELDS.iter().filter_map(|name| Some((*name, notes.get(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn case_110_the_field_that_the_server_used_is_noted() {
        let mut reasoning = Reasoning::default();
        assert_eq!(reasoning.take(Some("a".to_owned()), None, None), Some("a".to_owned()));
        assert_eq!(reasoning.take(Some("b".to_owned()), Some("b".to_owned()), None), Some("b".to_owned()));
        assert_eq!(reasoning.take(Some(String::new()), None, None), None);
        assert_eq!(reasoning.into_notes(), Some(json!({"reasoning_content": "ab"})));
        let mut reasoning = Reasoning::default();
        assert_eq!(reasoning.take(None, Some("c".to_owned()), None), Some("c".to_owned()));
        assert_eq!(reasoning.into_notes(), Some(json!({"reasoning": "c"})));
        assert_eq!(Reasoning::default().into_notes(), None);
    }

    #[test]
    fn details_are_joined_block_by_block_and_shown_once() {
        let mut reasoning = Reasoning::default();
        let detail = |value: Value| Some(vec![value]);
        let first = json!({"type": "reasoning.text", "index": 0, "text": "a", "signature": null});
        assert_eq!(reasoning.take(None, Some("a".to_owned()), detail(first)), Some("a".to_owned()));
        let second = json!({"type": "reasoning.text", "index": 0, "text": "b"});
        assert_eq!(reasoning.take(None, None, detail(second)), Some("b".to_owned()));
        let signature = json!({"type": "reasoning.text", "index": 0, "signature": "s"});
        assert_eq!(reasoning.take(None, None, detail(signature)), None);
        reasoning.take(None, None, detail(json!({"type": "reasoning.encrypted", "index": 1, "data": "x"})));
        reasoning.take(None, None, detail(json!("nonsense")));
        let expected = json!({"reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"},
            {"type": "reasoning.encrypted", "index": 1, "data": "x"},
        ]});
        assert_eq!(reasoning.into_notes(), Some(expected));
    }
}
