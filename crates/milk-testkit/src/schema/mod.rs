//! The official JSON schemas of the Agent Client Protocol as an oracle for every message (feature `schema`).
//!
//! `data/schema-v1.json` and `data/schema-v2.json` are the published schemas, generated from the official schema crate
//! 1.20.0. Fields beyond the schema and methods that begin with `_` are legal. Since v2's enums are open, a message
//! may be valid and still say a word that no client knows: those are violations here as well, as are v1 updates that
//! need a capability which the client did not announce.
//!
//! ```
//! use milk_testkit::client::Direction;
//! use milk_testkit::schema::SchemaOracle;
//! use serde_json::json;
//!
//! let update = |kind: &str| json!({"jsonrpc": "2.0", "method": "session/update",
//!     "params": {"sessionId": "s", "update": {"sessionUpdate": kind, "state": "running"}}});
//! let oracle = SchemaOracle::v2();
//! assert!(oracle.check_message(Direction::FromAgent, &update("state_update"), None).is_empty());
//! assert!(!oracle.check_message(Direction::FromAgent, &update("state_updated"), None).is_empty());
//! assert!(!SchemaOracle::v1().check_message(Direction::FromAgent, &update("state_update"), None).is_empty());
//! ```

mod capabilities;
mod explain;
mod transcript;
mod unknown;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::{Draft, Registry, Validator};
use serde_json::{Value, json};

use crate::client::Direction;

/// One thing that is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer into the message.
    pub pointer: String,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", if self.pointer.is_empty() { "/" } else { &self.pointer }, self.what)
    }
}

fn violation(pointer: impl Into<String>, what: impl Into<String>) -> Violation {
    Violation { pointer: pointer.into(), what: what.into() }
}

/// The schema of one protocol version, with a validator for each definition that was needed so far.
pub struct SchemaOracle {
    root: &'static Value,
    registry: Registry<'static>,
    methods: HashMap<(&'static str, &'static str, Part), &'static str>,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

/// Which part of an exchange a definition describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Request,
    Notification,
    Result,
}

impl fmt::Debug for SchemaOracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchemaOracle").field("methods", &self.methods.len()).finish_non_exhaustive()
    }
}

/// The URI under which the whole schema is known to the validators.
const ROOT: &str = "urn:acp:schema";

/// Methods of the protocol level, which the schemas leave out: name and the params that must be there.
const PROTOCOL_METHODS: [(&str, &str); 1] = [("$/cancel_request", "requestId")];

static ROOT_V1: LazyLock<Value> = LazyLock::new(|| parse(include_str!("../../data/schema-v1.json")));
static ROOT_V2: LazyLock<Value> = LazyLock::new(|| parse(include_str!("../../data/schema-v2.json")));
static V1: LazyLock<SchemaOracle> = LazyLock::new(|| SchemaOracle::new(&ROOT_V1));
static V2: LazyLock<SchemaOracle> = LazyLock::new(|| SchemaOracle::new(&ROOT_V2));

#[expect(clippy::expect_used, reason = "the schemas are part of the crate")]
fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the schema is JSON")
}

impl SchemaOracle {
    /// The oracle for protocol version 1.
    pub fn v1() -> &'static Self {
        &V1
    }

    /// The oracle for protocol version 2.
    pub fn v2() -> &'static Self {
        &V2
    }

    /// The oracle for the version that `initialize` agreed on.
    pub fn of_version(version: u16) -> &'static Self {
        if version == 1 { Self::v1() } else { Self::v2() }
    }

    #[expect(clippy::expect_used, reason = "the schemas are part of the crate")]
    fn new(root: &'static Value) -> Self {
        let registry = Registry::new().draft(Draft::Draft202012).add(ROOT, root);
        let registry =
            registry.and_then(jsonschema::RegistryBuilder::prepare).expect("the schema is a schema");
        let mut methods = HashMap::new();
        for (name, definition) in root["$defs"].as_object().into_iter().flatten() {
            if let (Some(side), Some(method)) =
                (definition["x-side"].as_str(), definition["x-method"].as_str())
            {
                let part = match name {
                    name if name.ends_with("Response") => Part::Result,
                    name if name.ends_with("Notification") => Part::Notification,
                    _ => Part::Request,
                };
                methods.insert((side, method, part), name.as_str());
            }
        }
        Self { root, registry, methods, validators: Mutex::default() }
    }

    /// Everything that is wrong with one message. A response needs the method of its request to be checked whole.
    pub fn check_message(
        &self,
        direction: Direction,
        message: &Value,
        method_of_request: Option<&str>,
    ) -> Vec<Violation> {
        let Some(members) = message.as_object() else {
            return vec![violation("", "not an object")];
        };
        let mut found = Vec::new();
        if message["jsonrpc"] != "2.0" {
            found.push(violation("/jsonrpc", "must be \"2.0\""));
        }
        let known = ["jsonrpc", "id", "method", "params", "result", "error"];
        let strangers = members.keys().filter(|name| !known.contains(&name.as_str()));
        found.extend(strangers.map(|name| violation(format!("/{name}"), "no member of JSON-RPC")));
        match members.get("method") {
            Some(Value::String(method)) => found.extend(self.check_call(direction, message, method)),
            Some(_) => found.push(violation("/method", "must be a string")),
            None => found.extend(self.check_response(direction, message, method_of_request)),
        }
        found
    }

    fn check_call(&self, direction: Direction, message: &Value, method: &str) -> Vec<Violation> {
        let mut found = Vec::new();
        if message.get("result").is_some() || message.get("error").is_some() {
            found.push(violation("", "a call with a result or an error"));
        }
        let id = message.get("id");
        if id.is_some_and(|id| !id.is_string() && !id.is_i64() && !id.is_u64()) {
            found.push(violation("/id", "a request id must be a string or an integer"));
        }
        if let Some((_, needed)) = PROTOCOL_METHODS.iter().find(|(known, _)| *known == method) {
            if message["params"].get(needed).is_none() {
                found.push(violation("/params", format!("{needed:?} is missing")));
            }
            return found;
        }
        let side = if direction == Direction::FromAgent { "client" } else { "agent" };
        let is = if id.is_some() { Part::Request } else { Part::Notification };
        let other = if id.is_some() { Part::Notification } else { Part::Request };
        let params = message.get("params").unwrap_or(&Value::Null);
        if let Some(definition) = self.methods.get(&(side, method, is)) {
            found.extend(self.check_definition(definition, params, "/params"));
        } else if self.methods.contains_key(&(side, method, other)) {
            found.push(violation("", format!("{method} is a {other:?}")));
        } else if !method.starts_with('_') {
            found.push(violation("/method", format!("no such method of the {side}: {method}")));
        }
        found
    }

    fn check_response(
        &self,
        direction: Direction,
        message: &Value,
        method_of_request: Option<&str>,
    ) -> Vec<Violation> {
        let mut found = Vec::new();
        if message.get("id").is_none() {
            found.push(violation("/id", "missing"));
        }
        match (message.get("result"), message.get("error")) {
            (Some(_), Some(_)) | (None, None) => {
                found.push(violation("", "a response has either a result or an error"));
            }
            (None, Some(error)) => found.extend(self.check_definition("Error", error, "/error")),
            (Some(result), None) => {
                let side = if direction == Direction::FromAgent { "agent" } else { "client" };
                let definition =
                    method_of_request.map(|method| (method, self.methods.get(&(side, method, Part::Result))));
                match definition {
                    Some((_, Some(definition))) => {
                        found.extend(self.check_definition(definition, result, "/result"));
                    }
                    Some((method, None)) if !method.starts_with('_') => {
                        found
                            .push(violation("/result", format!("a result for {method}, which is no method")));
                    }
                    _ => {}
                }
            }
        }
        found
    }

    /// Everything that is wrong with a value that should be `definition`; pointers begin with `base`.
    pub fn check_definition(&self, definition: &str, value: &Value, base: &str) -> Vec<Violation> {
        let validator = self.validator(definition);
        let mut found: Vec<Violation> = Vec::new();
        for error in validator.iter_errors(value) {
            let (pointer, what) = explain::leaf(&error);
            let violation = violation(format!("{base}{pointer}"), format!("{what} [{definition}]"));
            if !found.contains(&violation) {
                found.push(violation);
            }
        }
        if found.is_empty() {
            let reference = json!({"$ref": format!("#/$defs/{definition}")});
            unknown::find(self.root, &reference, value, base, &mut found);
        }
        found
    }

    #[expect(clippy::expect_used, reason = "the schemas are part of the crate")]
    fn validator(&self, definition: &str) -> Arc<Validator> {
        let mut validators = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        let compile = || {
            let schema = json!({"$ref": format!("{ROOT}#/$defs/{definition}")});
            let options = jsonschema::options().with_draft(Draft::Draft202012).with_registry(&self.registry);
            Arc::new(options.build(&schema).expect("the definition is in the schema"))
        };
        Arc::clone(validators.entry(definition.to_owned()).or_insert_with(compile))
    }
}
