//! Request ids, kept as raw text so that they go back byte for byte (R19).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// An id exactly as the other side wrote it.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct RawId(Box<RawValue>);

/// What an id means, for finding the request that it names again: spelling apart, `"7"` and `7` are two ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RequestKey(String);

impl RawId {
    pub(crate) fn new(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }

    pub(crate) fn key(&self) -> RequestKey {
        RequestKey::of(&self.0)
    }

    /// The number that this id means, whether it was sent as a number or as a text: how answers to milk's own calls are
    /// matched.
    pub(crate) fn number(&self) -> Option<u64> {
        match serde_json::from_str(self.0.get()).ok()? {
            Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) => text.parse().ok(),
            _ => None,
        }
    }
}

impl RequestKey {
    pub(crate) fn of(raw: &RawValue) -> Self {
        let text = raw.get();
        // Escapes in a text are spelling, the digits of a number are not: they may not fit any number type.
        let meaning = String::deserialize(&mut serde_json::Deserializer::from_str(text));
        Self(meaning.map_or_else(|_| format!("={text}"), |text| format!("\"{text}")))
    }
}

fn whole(number: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    (number >= 0.0 && number.fract() == 0.0 && number < 9.0e15).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> RawId {
        RawId(RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn an_id_goes_back_byte_for_byte() {
        for text in [
            "7",
            "\"7\"",
            "0",
            "-0",
            "null",
            "9007199254740993",
            "123456789012345678901234567890",
            "1.50",
            "1e3",
            "\"init-α\"",
            r#""\u0041\n""#,
            r#"{"a":[1, 2]}"#,
            "true",
        ] {
            assert_eq!(serde_json::to_string(&id(text)).unwrap(), text);
        }
    }

    #[test]
    fn the_key_tells_types_apart_and_spellings_not() {
        assert_ne!(id("7").key(), id("\"7\"").key());
        assert_eq!(id("\"a\"").key(), id(r#""\u0061""#).key());
        assert_ne!(id("null").key(), id("\"null\"").key());
        assert_ne!(id("9007199254740993").key(), id("9007199254740992").key());
    }

    #[test]
    fn answers_match_by_value() {
        for (text, number) in [
            ("7", Some(7)),
            ("\"7\"", Some(7)),
            ("7.0", Some(7)),
            ("\"x\"", None),
            ("null", None),
            ("-1", None),
            ("1.5", None),
            ("[7]", None),
            ("18446744073709551616", None),
        ] {
            assert_eq!(id(text).number(), number, "{text}");
        }
    }
}
