//! v1 messages that need a capability of the client's: valid, and a break of the protocol when it was not announced.

use serde_json::Value;

use super::{Violation, violation};

/// Update kinds of v1 and the client capability that each needs, as the schema's descriptions say.
const UPDATES: [(&str, &str); 8] = [
    ("plan_update", "/plan"),
    ("plan_removed", "/plan"),
    ("notice", "/session/notices"),
    ("compaction_update", "/session/compaction"),
    ("compaction_summary_chunk", "/session/compaction"),
    ("subagent_update", "/subagents"),
    ("session_message", "/subagents"),
    ("session_message_chunk", "/subagents"),
];

/// Requests of v1 and the client capability that each needs.
const REQUESTS: [(&str, &str); 7] = [
    ("elicitation/create", "/elicitation"),
    ("fs/read_text_file", "/fs/readTextFile"),
    ("fs/write_text_file", "/fs/writeTextFile"),
    ("terminal/create", "/terminal"),
    ("terminal/output", "/terminal"),
    ("terminal/kill", "/terminal"),
    ("terminal/release", "/terminal"),
];

/// What a message of a v1 agent uses and the client did not announce.
pub(super) fn check_v1(message: &Value, capabilities: &Value) -> Vec<Violation> {
    let lacks =
        |pointer: &str| !matches!(capabilities.pointer(pointer), Some(Value::Object(_) | Value::Bool(true)));
    let mut found = Vec::new();
    let mut need = |at: &str, word: &str, table: &[(&str, &str)]| {
        let needed = table.iter().find(|(known, _)| *known == word).map(|(_, pointer)| *pointer);
        if let Some(pointer) = needed.filter(|pointer| lacks(pointer)) {
            found.push(violation(
                at,
                format!("{word:?} needs the client capability {pointer}, which was not announced"),
            ));
        }
    };
    need("/method", message["method"].as_str().unwrap_or_default(), &REQUESTS);
    let update = &message["params"]["update"];
    need("/params/update", update["sessionUpdate"].as_str().unwrap_or_default(), &UPDATES);
    let boolean = "/session/configOptions/boolean";
    for (at, options) in [("/result", &message["result"]), ("/params/update", update)] {
        let options = options["configOptions"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        if options.iter().any(|option| option["type"] == "boolean") && lacks(boolean) {
            let what =
                format!("a boolean option needs the client capability {boolean}, which was not announced");
            found.push(violation(format!("{at}/configOptions"), what));
        }
    }
    found
}
