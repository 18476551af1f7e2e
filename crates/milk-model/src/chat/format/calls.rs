//! Puts tool calls together from the pieces in which servers send them (bug cases 100 to 105).
//!
//! The protocol says that a piece belongs to the call of its `index`. Servers leave the index out, give every call the
//! same one, let it drift, or repeat ids. So a piece continues a call unless something says that it begins another:
//! an id or a name where the call it would continue is already whole, or has another name.

use milk_core::model::{StreamedCall, ToolArguments};
use serde_json::Value;

use super::arguments;
use super::balance::Balance;
use super::chunk::CallDelta;

/// The calls of one reply so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<OpenCall>,
}

/// A call that may still grow.
#[derive(Debug, Default)]
struct OpenCall {
    index: Option<i64>,
    id: String,
    name: String,
    arguments: String,
    /// How far the arguments have come.
    balance: Balance,
    origin: Origin,
}

/// In what form arguments came: text behind an empty object takes its place.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Origin {
    #[default]
    Text,
    Object,
}

/// More calls than this in one reply are a fault of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyCalls;

/// The most calls in one reply.
const MOST: usize = 256;

impl Calls {
    /// Takes a piece.
    pub(super) fn take(&mut self, delta: CallDelta) -> Result<(), TooManyCalls> {
        let function = delta.function.unwrap_or_default();
        let id = delta.id.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let target = match self.target(delta.index, &id, &name) {
            Some(target) => target,
            None if self.open.len() >= MOST => return Err(TooManyCalls),
            None => {
                self.open.push(OpenCall { index: delta.index, ..OpenCall::default() });
                self.open.len() - 1
            }
        };
        if let Some(call) = self.open.get_mut(target) {
            call.grow(id, name, function.arguments);
        }
        Ok(())
    }

    /// The call that a piece continues.
    fn target(&self, index: Option<i64>, id: &str, name: &str) -> Option<usize> {
        let last = |test: &dyn Fn(&OpenCall) -> bool| self.open.iter().rposition(test);
        let by_index = index.and_then(|index| last(&|call| call.index == Some(index)));
        let by_id = || if id.is_empty() { None } else { last(&|call| call.id == id) };
        let candidate = match (index, by_index) {
            // The same index: the newest call that has it.
            (Some(_), Some(found)) => found,
            // An index not seen yet begins a call, unless the piece has nothing that a beginning has: then it drifted.
            (Some(_), None) if name.is_empty() => {
                by_id().or_else(|| self.newest().filter(|_| id.is_empty()))?
            }
            (Some(_), None) => return None,
            // No index: by id, else whatever came last.
            (None, _) => by_id().or_else(|| self.newest())?,
        };
        self.open[candidate].is_continued_by(id, name).then_some(candidate)
    }

    fn newest(&self) -> Option<usize> {
        self.open.len().checked_sub(1)
    }

    /// All calls, in order. Those without a name and without arguments were nothing.
    pub(super) fn finish(self) -> Vec<StreamedCall> {
        let is_something = |call: &OpenCall| !(call.name.is_empty() && call.arguments.trim().is_empty());
        self.open.into_iter().filter(is_something).map(OpenCall::finish).collect()
    }
}

impl OpenCall {
    fn is_continued_by(&self, id: &str, name: &str) -> bool {
        let is_other = |said: &str, known: &str| !said.is_empty() && !known.is_empty() && said != known;
        if name.is_empty() {
            // Some servers give each piece an id of its own; only a whole call is not continued by another id.
            return !(is_other(id, &self.id) && self.balance.is_closed());
        }
        let begins_again = !self.name.is_empty() && self.balance.is_closed();
        !(is_other(id, &self.id) || is_other(name, &self.name) || begins_again)
    }

    fn grow(&mut self, id: String, name: String, piece: Option<Value>) {
        if self.id.is_empty() {
            self.id = id;
        }
        if self.name.is_empty() {
            self.name = name;
        }
        match piece {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => {
                if self.origin == Origin::Object && self.arguments == "{}" {
                    self.arguments.clear();
                    self.balance = Balance::default();
                }
                self.add(&text);
            }
            Some(value) => {
                self.origin = Origin::Object;
                self.add(&value.to_string());
            }
        }
    }

    fn add(&mut self, text: &str) {
        self.balance.read(text);
        self.arguments.push_str(text);
    }

    fn finish(self) -> StreamedCall {
        let id = Some(self.id).filter(|id| !id.trim().is_empty());
        StreamedCall { id, name: self.name.trim().to_owned(), arguments: arguments::read(&self.arguments) }
    }
}

/// Whether two calls ask for the same thing.
pub(super) fn are_alike(one: &StreamedCall, other: &StreamedCall) -> bool {
    let is_object = |call: &StreamedCall| matches!(call.arguments, ToolArguments::Object(_));
    one.name == other.name && is_object(one) && one.arguments == other.arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    /// The calls made of these pieces, as `id name arguments`.
    fn assembled(pieces: &Value) -> Vec<String> {
        let mut calls = Calls::default();
        for piece in pieces.as_array().unwrap() {
            calls.take(serde_json::from_value(piece.clone()).unwrap()).unwrap();
        }
        let told = |call: StreamedCall| {
            let arguments = match call.arguments {
                ToolArguments::Object(object) => Value::Object(object).to_string(),
                ToolArguments::Unparsable(text) => format!("unparsable {text}"),
            };
            format!("{} {} {arguments}", call.id.as_deref().unwrap_or("-"), call.name)
        };
        calls.finish().into_iter().map(told).collect()
    }

    fn piece(index: Option<i64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
        let mut function = json!({ "arguments": arguments });
        if let Some(name) = name {
            function["name"] = name.into();
        }
        let mut piece = json!({ "function": function });
        if let Some(index) = index {
            piece["index"] = index.into();
        }
        if let Some(id) = id {
            piece["id"] = id.into();
        }
        piece
    }

    const ONE: &str = r#"{"path":"1"}"#;
    const TWO: &str = r#"{"path":"2"}"#;

    #[test]
    fn the_ordinary_stream() {
        let pieces = json!([
            piece(Some(0), Some("a"), Some("f"), ""),
            piece(Some(0), None, None, r#"{"path":"#),
            piece(Some(0), None, None, r#""1"}"#),
            piece(Some(1), Some("b"), Some("g"), TWO),
        ]);
        assert_eq!(assembled(&pieces), [r#"a f {"path":"1"}"#, r#"b g {"path":"2"}"#]);
    }

    #[test]
    fn case_100_no_index() {
        let expected = [r#"a read_file {"path":"1"}"#, r#"b read_file {"path":"2"}"#];
        let split = json!([
            piece(None, Some("a"), Some("read_file"), r#"{"path":"#),
            piece(None, None, None, r#""1"}"#),
            piece(None, Some("b"), Some("read_file"), TWO),
        ]);
        assert_eq!(assembled(&split), expected);
        let whole = json!([
            piece(None, Some("a"), Some("read_file"), ONE),
            piece(None, Some("b"), Some("read_file"), TWO)
        ]);
        assert_eq!(assembled(&whole), expected);
        let mixed = json!([
            piece(Some(0), Some("a"), Some("read_file"), ONE),
            piece(None, Some("b"), Some("read_file"), TWO)
        ]);
        assert_eq!(assembled(&mixed), expected);
    }

    #[test]
    fn case_101_every_call_has_index_0() {
        let all =
            json!([piece(Some(0), Some("a"), Some("f"), ONE), piece(Some(0), Some("b"), Some("f"), TWO)]);
        assert_eq!(assembled(&all), [r#"a f {"path":"1"}"#, r#"b f {"path":"2"}"#]);
        let without_ids = json!([piece(Some(0), None, Some("f"), ONE), piece(Some(0), None, Some("f"), TWO)]);
        assert_eq!(assembled(&without_ids), [r#"- f {"path":"1"}"#, r#"- f {"path":"2"}"#]);
        let ordinary = json!([
            piece(Some(0), Some("a"), Some("f"), r#"{"path":"#),
            piece(Some(0), None, None, r#""1"}"#)
        ]);
        assert_eq!(assembled(&ordinary), [r#"a f {"path":"1"}"#]);
        let repeated = json!([
            piece(Some(0), Some("a"), Some("f"), r#"{"path":"#),
            piece(Some(0), Some("a"), Some("f"), r#""1"}"#)
        ]);
        assert_eq!(assembled(&repeated), [r#"a f {"path":"1"}"#]);
    }

    #[test]
    fn case_102_interleaved_and_drifting() {
        let interleaved = json!([
            piece(Some(0), Some("a"), Some("f"), ""),
            piece(Some(1), Some("b"), Some("f"), ""),
            piece(Some(0), None, None, r#"{"path":"#),
            piece(Some(1), None, None, r#"{"path":"#),
            piece(Some(0), None, None, r#""1"}"#),
            piece(Some(1), None, None, r#""2"}"#),
        ]);
        assert_eq!(assembled(&interleaved), [r#"a f {"path":"1"}"#, r#"b f {"path":"2"}"#]);
        let drifting = json!([
            piece(Some(0), Some("a"), Some("f"), ""),
            piece(Some(1), None, None, r#"{"path":"#),
            piece(Some(1), None, None, r#""1"}"#),
        ]);
        assert_eq!(assembled(&drifting), [r#"a f {"path":"1"}"#]);
    }

    #[test]
    fn case_104_arguments_as_an_object() {
        let object = json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": {"path": "1"}}}]);
        assert_eq!(assembled(&object), [r#"a f {"path":"1"}"#]);
        let empty_then_text = json!([
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": {}}}, piece(Some(0), None, None, ONE)
        ]);
        assert_eq!(assembled(&empty_then_text), [r#"a f {"path":"1"}"#]);
    }

    #[test]
    fn case_105_empty_and_repeated_ids() {
        for id in [Some(""), None] {
            let pieces = json!([piece(Some(0), id, Some("f"), ONE), piece(Some(1), id, Some("f"), TWO)]);
            assert_eq!(assembled(&pieces), [r#"- f {"path":"1"}"#, r#"- f {"path":"2"}"#], "{id:?}");
            let pieces = json!([piece(None, id, Some("f"), ONE), piece(None, id, Some("f"), TWO)]);
            assert_eq!(assembled(&pieces), [r#"- f {"path":"1"}"#, r#"- f {"path":"2"}"#], "{id:?}");
        }
        for index in [[Some(0), Some(1)], [None, None], [Some(0), Some(0)]] {
            let id = Some("call_1");
            let pieces = json!([piece(index[0], id, Some("f"), ONE), piece(index[1], id, Some("f"), TWO)]);
            assert_eq!(
                assembled(&pieces),
                [r#"call_1 f {"path":"1"}"#, r#"call_1 f {"path":"2"}"#],
                "{index:?}"
            );
        }
    }

    #[test]
    fn odd_orders_still_make_one_call() {
        let orphans_first = json!([
            piece(Some(0), None, None, r#"{"path":"#),
            piece(Some(0), Some("a"), Some("f"), r#""1"}"#)
        ]);
        assert_eq!(assembled(&orphans_first), [r#"a f {"path":"1"}"#]);
        let name_before_id =
            json!([piece(Some(0), None, Some("f"), ""), piece(Some(0), Some("a"), None, ONE)]);
        assert_eq!(assembled(&name_before_id), [r#"a f {"path":"1"}"#]);
        let an_id_for_each_piece = json!([
            piece(Some(0), Some("x1"), Some("f"), r#"{"path":"#),
            piece(Some(0), Some("x2"), None, r#""1"}"#)
        ]);
        assert_eq!(assembled(&an_id_for_each_piece), [r#"x1 f {"path":"1"}"#]);
        assert_eq!(assembled(&json!([{}, piece(Some(3), None, None, " ")])), [""; 0]);
        assert_eq!(assembled(&json!([piece(Some(0), Some("a"), Some("f"), "")])), ["a f {}"]);
    }

    #[test]
    fn the_number_of_calls_is_bounded() {
        let mut calls = Calls::default();
        let mut take =
            |index: i64| calls.take(serde_json::from_value(piece(Some(index), None, Some("f"), "")).unwrap());
        assert!((0..256).all(|index| take(index).is_ok()));
        assert_eq!(take(256), Err(TooManyCalls));
    }
}
