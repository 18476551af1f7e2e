//! Takes out of a layer what cannot be used, key by key, so that one mistake costs one key.

use serde_json::{Map, Value};

use crate::key::{self, Kind};
use crate::warning::{Report, printable_name};

/// The usable part of a layer: values of the wrong kind are left out with a warning, null counts as not set, unknown keys
/// are kept (with a word about those that are nearly a known one).
pub(crate) fn usable(raw: &Map<String, Value>, report: &mut Report<'_>) -> Map<String, Value> {
    object(raw, Place { path: "", shown: "" }, report)
}

/// Where in the file: as the table names it, and as a person would.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    shown: &'a str,
}

fn object(raw: &Map<String, Value>, at: Place<'_>, report: &mut Report<'_>) -> Map<String, Value> {
    let mut kept = Map::new();
    for (name, value) in raw {
        let path = key::child(at.path, name);
        let shown = key::child(at.shown, &printable_name(name));
        let Some(key) = key::find(&path) else {
            if let Some(meant) = key::similar(at.path, name) {
                report.add(format!("unknown key {shown}; is {meant} meant?"));
            }
            kept.insert(name.clone(), value.clone());
            continue;
        };
        if value.is_null() {
            continue;
        }
        let here = Place { path: &path, shown: &shown };
        let value = match (key.kind, value) {
            (Kind::Section, Value::Object(inner)) => Some(Value::Object(object(inner, here, report))),
            (Kind::Entries, Value::Array(items)) => Some(Value::Array(entries(items, here, report))),
            (kind, value) => kind.accept(value),
        };
        match value {
            Some(value) => drop(kept.insert(name.clone(), value)),
            None => report.add(format!("{shown} is ignored: it has to be {}", key.kind)),
        }
    }
    kept
}

fn entries(items: &[Value], at: Place<'_>, report: &mut Report<'_>) -> Vec<Value> {
    let path = format!("{}[]", at.path);
    let mut kept: Vec<Value> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let number = index + 1;
        let Some(raw) = item.as_object() else {
            report.add(format!("entry {number} of {} is ignored: it has to be an object", at.shown));
            continue;
        };
        let Some(name) = raw.get("name").and_then(Value::as_str).filter(|name| !name.trim().is_empty())
        else {
            report.add(format!("entry {number} of {} is ignored: it has no name", at.shown));
            continue;
        };
        if kept.iter().any(|other| is_named(other, name)) {
            let name = printable_name(name);
            report.add(format!("entry {number} of {} is ignored: {name} is there already", at.shown));
            continue;
        }
        let shown = entry_path(at.shown, name);
        kept.push(Value::Object(object(raw, Place { path: &path, shown: &shown }, report)));
    }
    kept
}

/// How an entry of a list is named to a person: `agents[fast]`.
pub(crate) fn entry_path(list: &str, name: &str) -> String {
    format!("{list}[{}]", printable_name(name))
}

/// Whether an entry has this name, in any case.
pub(crate) fn is_named(entry: &Value, name: &str) -> bool {
    entry.get("name").and_then(Value::as_str).is_some_and(|own| same_name(own, name))
}

/// Whether two names mean one entry: case makes no difference.
pub(crate) fn same_name(a: &str, b: &str) -> bool {
    a.trim().to_lowercase() == b.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn check(raw: &Value) -> (Value, Vec<String>) {
        let mut warnings = Vec::new();
        let kept = usable(raw.as_object().unwrap(), &mut Report::new(Path::new("f"), &mut warnings));
        (Value::Object(kept), warnings.into_iter().map(|warning| warning.text).collect())
    }

    #[test]
    fn one_mistake_costs_one_key() {
        for (raw, kept, warning) in [
            (
                json!({"show_reasoning": "SECRET"}),
                json!({}),
                "show_reasoning is ignored: it has to be true or false",
            ),
            (
                json!({"retry_limit": 1, "sandbox": "SECRET"}),
                json!({"retry_limit": 1}),
                "sandbox is ignored: it has to be one of auto, on, off",
            ),
            (json!({"rules": []}), json!({}), "rules is ignored: it has to be an object"),
            (
                json!({"rules": {"local_threshold": "x", "path_ref_weight": 1}}),
                json!({"rules": {"path_ref_weight": 1}}),
                "rules.local_threshold is ignored: it has to be a whole number from -1000 to 1000",
            ),
            (
                json!({"agents": {}}),
                json!({}),
                "agents is ignored: it has to be a list of objects with a name",
            ),
            (
                json!({"agents": [{"name": "a", "model": 7, "url": "u"}]}),
                json!({"agents": [{"name": "a", "url": "u"}]}),
                "agents[a].model is ignored: it has to be a text without a leading dash or control characters",
            ),
            (
                json!({"agents": [{"name": "a", "limits": {"tool_timeout_secs": "SECRET"}}]}),
                json!({"agents": [{"name": "a", "limits": {}}]}),
                "agents[a].limits.tool_timeout_secs is ignored: it has to be a whole number from -1 to 86400",
            ),
            (
                json!({"agents": [{"name": "a"}, "SECRET", {"name": "b"}]}),
                json!({"agents": [{"name": "a"}, {"name": "b"}]}),
                "entry 2 of agents is ignored: it has to be an object",
            ),
            (
                json!({"agents": [{"model": "m"}, {"name": "b"}]}),
                json!({"agents": [{"name": "b"}]}),
                "entry 1 of agents is ignored: it has no name",
            ),
            (
                json!({"agents": [{"name": "a", "model": "1"}, {"name": "A", "model": "2"}]}),
                json!({"agents": [{"name": "a", "model": "1"}]}),
                "entry 2 of agents is ignored: A is there already",
            ),
            (
                json!({"mcp_servers": [{"name": " "}]}),
                json!({"mcp_servers": []}),
                "entry 1 of mcp_servers is ignored: it has no name",
            ),
        ] {
            assert_eq!(check(&raw), (kept, vec![warning.to_owned()]), "{raw}");
        }
    }

    #[test]
    fn unknown_keys_are_kept_and_guessed_at() {
        let raw =
            json!({"default_route": "local", "agets": [], "agents": [{"name": "a", "smolagent_bin": 1}]});
        assert_eq!(check(&raw), (raw, vec!["unknown key agets; is agents meant?".to_owned()]));
    }

    #[test]
    fn null_is_not_set() {
        let raw = json!({"agent": null, "agents": [{"name": "a", "url": null, "request_overrides": {"seed": null}}]});
        let kept = json!({"agents": [{"name": "a", "request_overrides": {"seed": null}}]});
        assert_eq!(check(&raw), (kept, vec![]));
    }

    #[test]
    fn the_name_of_an_entry_cannot_paint_the_screen() {
        let (_, warnings) = check(&json!({"agents": [{"name": "\u{1b}[2J", "url": 1}]}));
        assert_eq!(warnings, ["agents[\u{fffd}[2J].url is ignored: it has to be a text"]);
    }
}
