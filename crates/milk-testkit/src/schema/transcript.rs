//! A whole transcript against the schema of the version that it agreed on.

use std::panic::Location;

use serde_json::Value;

use super::{SchemaOracle, capabilities};
use crate::client::{Direction, Entry, RequestId, Transcript};
use crate::server::give_up;

impl Transcript {
    /// Everything that is wrong with what the agent wrote, by the schema of this version, one sentence each.
    pub fn validate(&self, version: u16) -> Vec<String> {
        let oracle = SchemaOracle::of_version(version);
        let announced = self.client_capabilities();
        let mut found = Vec::new();
        let mut open: Vec<(RequestId, &str)> = Vec::new();
        for (place, entry) in self.entries.iter().enumerate() {
            let message = &entry.json;
            if entry.direction == Direction::ToAgent {
                if let (Some(method), Some(_)) = (message["method"].as_str(), message.get("id")) {
                    open.push((RequestId::of(message), method));
                }
                continue;
            }
            let answered = open.iter().position(|(id, _)| id.is_answered_by(message));
            let method = answered.map(|position| open.remove(position).1);
            let mut wrong = oracle.check_message(entry.direction, message, method);
            if version == 1 {
                wrong.extend(capabilities::check_v1(message, announced));
            }
            found.extend(
                wrong.iter().map(|violation| format!("line {place} {}{violation}", named(entry, method))),
            );
        }
        found
    }

    /// Fails if anything that the agent wrote is not valid in the version that `initialize` agreed on.
    ///
    /// # Panics
    /// Then.
    #[track_caller]
    pub fn assert_valid(&self) {
        let version = self.version();
        let found = self.validate(version);
        if !found.is_empty() {
            let complaint = format!("not valid in ACP v{version}:\n  {}", found.join("\n  "));
            give_up(Location::caller(), &complaint, &self.render());
        }
    }

    /// What the client announced in its last `initialize`; null when there was none.
    fn client_capabilities(&self) -> &Value {
        let last = self.to_agent().filter(|message| message["method"] == "initialize").last();
        let params = last.map_or(&Value::Null, |message| &message["params"]);
        if params["clientCapabilities"].is_object() {
            &params["clientCapabilities"]
        } else {
            &params["capabilities"]
        }
    }
}

/// The method of a message, or of the request that it answers.
fn named(entry: &Entry, method_of_request: Option<&str>) -> String {
    match (entry.json["method"].as_str(), method_of_request) {
        (Some(method), _) => format!("({method}) "),
        (None, Some(method)) => format!("(response to {method}) "),
        (None, None) => "(response) ".to_owned(),
    }
}
