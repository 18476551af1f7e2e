//! What a line is (R18).

use std::fmt;

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{CallError, RawId};

/// One message of the other side.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// Wants an answer with this id, whatever else is wrong with it.
    Request { id: RawId, method: String, params: Option<&'a RawValue> },
    /// Wants none.
    Notification { method: String, params: Option<&'a RawValue> },
    /// Answers one of milk's calls.
    Response { id: RawId, outcome: Result<&'a RawValue, CallError> },
    /// Has a `method` that is not a text, and an id to say so to.
    NoMethod { id: RawId },
}

/// Reads a line. `None` for what is to be dropped: no JSON, no object (arrays included), no method and no id.
pub(crate) fn classify(line: &[u8]) -> Option<Incoming<'_>> {
    let Envelope { id, method, params, result, error } = serde_json::from_slice(line).ok()?;
    let id = id.map(RawId::new);
    let Some(method) = method else {
        let outcome = match error.filter(|error| error.get() != "null") {
            Some(error) => Err(read_error(error)),
            None => Ok(result.unwrap_or(RawValue::NULL)),
        };
        return Some(Incoming::Response { id: id?, outcome });
    };
    match (serde_json::from_str::<String>(method.get()), id) {
        (Ok(method), Some(id)) => Some(Incoming::Request { id, method, params }),
        (Ok(method), None) => Some(Incoming::Notification { method, params }),
        (Err(_), Some(id)) => Some(Incoming::NoMethod { id }),
        (Err(_), None) => None,
    }
}

/// An error in any shape is an error: the caller must not take it for an answer.
fn read_error(error: &RawValue) -> CallError {
    serde_json::from_str(error.get()).unwrap_or_else(|_| CallError {
        code: 0,
        message: error.get().chars().take(200).collect(),
        data: None,
    })
}

/// The members of a message, each raw. Present and null is not absent; of a repeated member the last one counts.
#[derive(Default)]
struct Envelope<'a> {
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Member {
    Id,
    Method,
    Params,
    Result,
    Error,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON-RPC message")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
                let mut envelope = Envelope::default();
                while let Some(member) = map.next_key()? {
                    let place = match member {
                        Member::Id => &mut envelope.id,
                        Member::Method => &mut envelope.method,
                        Member::Params => &mut envelope.params,
                        Member::Result => &mut envelope.result,
                        Member::Error => &mut envelope.error,
                        Member::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    *place = Some(map.next_value()?);
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// One word for what a line is, with what matters of it.
    fn told(line: &[u8]) -> String {
        let raw = |id: RawId| serde_json::to_string(&id).unwrap();
        let params = |params: Option<&RawValue>| params.map_or("none".to_owned(), |p| p.get().to_owned());
        match classify(line) {
            None => "dropped".to_owned(),
            Some(Incoming::Request { id, method, params: p }) => {
                format!("request {} {method} {}", raw(id), params(p))
            }
            Some(Incoming::Notification { method, params: p }) => {
                format!("notification {method} {}", params(p))
            }
            Some(Incoming::Response { id, outcome: Ok(result) }) => {
                format!("result {} {}", raw(id), result.get())
            }
            Some(Incoming::Response { id, outcome: Err(e) }) => {
                format!("error {} {} {}", raw(id), e.code, e.message)
            }
            Some(Incoming::NoMethod { id }) => format!("no method {}", raw(id)),
        }
    }

    #[test]
    fn a_line_is_told_by_its_members() {
        let cases: &[(&str, &str)] = &[
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1}}"#, r#"request 1 a {"x":1}"#),
            (r#"{"id":null,"method":"a"}"#, "request null a none"),
            (r#"{"method":"a","params":null}"#, "notification a null"),
            (r#"{"method":"a","id":{"k":[1]}}"#, r#"request {"k":[1]} a none"#),
            (r#"{"id":1,"id":2,"method":"a","method":"b"}"#, "request 2 b none"),
            (r#"{"id":1,"method":5}"#, "no method 1"),
            (r#"{"method":5}"#, "dropped"),
            (r#"{"method":null,"id":"x"}"#, r#"no method "x""#),
            (r#"{"id":"7","result":{}}"#, r#"result "7" {}"#),
            (r#"{"id":7}"#, "result 7 null"),
            (r#"{"id":7,"result":1,"error":{"code":-1,"message":"no"}}"#, "error 7 -1 no"),
            (r#"{"id":7,"result":1,"error":null}"#, "result 7 1"),
            (r#"{"id":7,"error":"no"}"#, r#"error 7 0 "no""#),
            (r#"{"id":7,"error":{"code":"x"}}"#, r#"error 7 0 {"code":"x"}"#),
            (r#"{"result":1}"#, "dropped"),
            ("{}", "dropped"),
            (r#"[{"id":1,"method":"a"}]"#, "dropped"),
            ("[]", "dropped"),
            (r#""text""#, "dropped"),
            ("42", "dropped"),
            ("null", "dropped"),
            ("hello there", "dropped"),
            (r#"{"jsonrpc":"#, "dropped"),
            (r#"{"id":1,"method":"a"} x"#, "dropped"),
            (r#" {"id":1,"method":"\u0061"} "#, "request 1 a none"),
        ];
        for (line, expected) in cases {
            assert_eq!(told(line.as_bytes()), *expected, "{line}");
        }
        assert_eq!(told(b"\xFF\xFE"), "dropped");
        assert_eq!(told(b"{\"id\":1,\"method\":\"\xFF\"}"), "dropped");
    }

    #[test]
    fn deep_nesting_neither_overflows_nor_hides_the_request() {
        let deep =
            format!(r#"{{"id":1,"method":"a","params":{}{}}}"#, "[".repeat(1 << 20), "]".repeat(1 << 20));
        assert!(matches!(classify(deep.as_bytes()), Some(Incoming::Request { .. })));
    }
}
