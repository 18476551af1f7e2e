//! Messages as lines, without their newline.

use serde::Serialize;

use super::RawId;

#[derive(Serialize)]
struct Message<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Id<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a P>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Id<'a> {
    Theirs(&'a RawId),
    Ours(u64),
}

impl<P> Default for Message<'_, P> {
    fn default() -> Self {
        Self { jsonrpc: "2.0", id: None, method: None, params: None, result: None, error: None }
    }
}

/// A notification.
pub(crate) fn notification<P: Serialize>(method: &str, params: &P) -> Vec<u8> {
    line(&Message { method: Some(method), params: Some(params), ..Message::default() })
}

/// A call of milk's own.
pub(crate) fn call<P: Serialize>(id: u64, method: &str, params: &P) -> Vec<u8> {
    line(&Message {
        id: Some(Id::Ours(id)),
        method: Some(method),
        params: Some(params),
        ..Message::default()
    })
}

/// The answer to a request.
pub(crate) fn response<R: Serialize>(id: &RawId, result: &R) -> Vec<u8> {
    line(&Message { id: Some(Id::Theirs(id)), result: Some(result), ..Message::default() })
}

/// The refusal of a request.
pub(crate) fn failure<E: Serialize>(id: &RawId, error: &E) -> Vec<u8> {
    line(&Message { id: Some(Id::Theirs(id)), error: Some(error), ..Message::default() })
}

fn line<P: Serialize>(message: &Message<'_, P>) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_else(|error| {
        // Only a path that is no text could get here, and `wire` lets none through. The peer is owed an answer all the same.
        tracing::error!(%error, method = message.method, "a message cannot be written");
        let stand_in = Message {
            id: message.id.as_ref().map(|id| match id {
                Id::Theirs(id) => Id::Theirs(id),
                Id::Ours(id) => Id::Ours(*id),
            }),
            method: message.method,
            error: message.method.is_none().then_some(&UNWRITABLE),
            ..Message::default()
        };
        serde_json::to_vec(&stand_in).unwrap_or_default()
    })
}

#[derive(Serialize)]
struct Unwritable {
    code: i32,
    message: &'static str,
}

const UNWRITABLE: Unwritable = Unwritable { code: -32603, message: "the answer cannot be written as JSON" };

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn messages_are_one_line_of_the_right_members() {
        let text = |line: Vec<u8>| String::from_utf8(line).unwrap();
        let id = RawId::new(RawValue::NULL);
        assert_eq!(
            text(notification("a", &json!({"t": "x\ny"}))),
            r#"{"jsonrpc":"2.0","method":"a","params":{"t":"x\ny"}}"#
        );
        assert_eq!(text(call(7, "a", &json!({}))), r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{}}"#);
        assert_eq!(text(response(&id, &json!({}))), r#"{"jsonrpc":"2.0","id":null,"result":{}}"#);
        assert_eq!(text(response(&id, &())), r#"{"jsonrpc":"2.0","id":null,"result":null}"#);
        assert_eq!(
            text(failure(&id, &json!({"code": 1}))),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#
        );
    }

    #[test]
    fn what_cannot_be_written_is_still_answered() {
        use std::os::unix::ffi::OsStrExt;
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(b"\xFF"));
        let line = response(&RawId::new(RawValue::TRUE), &path);
        let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(line["id"], json!(true));
        assert_eq!(line["error"]["code"], json!(-32603));
    }
}
