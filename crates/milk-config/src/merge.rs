//! Layers laid over each other, and which one each value came from.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::check::same_name;
use crate::key::{self, Kind};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// No file sets it.
    Default,
    /// The global file.
    Global,
    /// The project's file.
    Local,
}

/// Lays `over` on `base`: objects field by field, entries of `agents` and `mcp_servers` by name and then field by field,
/// anything else (lists too) whole. False, 0 and empty values count like any other.
pub(crate) fn overlay(base: &mut Map<String, Value>, over: &Map<String, Value>) {
    overlay_at(base, over, "");
}

fn overlay_at(base: &mut Map<String, Value>, over: &Map<String, Value>, path: &str) {
    for (name, value) in over {
        let path = key::child(path, name);
        match (base.get_mut(name), value) {
            (Some(Value::Array(below)), Value::Array(above)) if is_entries(&path) => {
                overlay_entries(below, above, &format!("{path}[]"));
            }
            (Some(Value::Object(below)), Value::Object(above)) => overlay_at(below, above, &path),
            _ => drop(base.insert(name.clone(), value.clone())),
        }
    }
}

fn overlay_entries(below: &mut Vec<Value>, above: &[Value], path: &str) {
    for entry in above {
        let (Some(over), Some(name)) = (entry.as_object(), name_of(entry)) else { continue };
        let known = below.iter_mut().find(|base| name_of(base).is_some_and(|own| same_name(own, name)));
        match known.and_then(Value::as_object_mut) {
            Some(base) => {
                // The first spelling of the name stays.
                let own = base.get("name").cloned();
                overlay_at(base, over, path);
                if let Some(own) = own {
                    base.insert("name".to_owned(), own);
                }
            }
            None => below.push(entry.clone()),
        }
    }
}

fn is_entries(path: &str) -> bool {
    key::find(path).is_some_and(|key| key.kind == Kind::Entries)
}

fn name_of(entry: &Value) -> Option<&str> {
    entry.get("name").and_then(Value::as_str)
}

/// The origin of every value that a file sets, by path (`agents[fast].model`, in lower case).
#[derive(Debug, Clone, Default)]
pub(crate) struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Notes that `layer` sets what it holds; a layer noted later lies above.
    pub(crate) fn note(&mut self, layer: &Map<String, Value>, origin: Origin) {
        self.note_at(layer, "", origin);
    }

    fn note_at(&mut self, object: &Map<String, Value>, shown: &str, origin: Origin) {
        for (name, value) in object {
            let shown = key::child(shown, name);
            match value {
                Value::Object(inner) if !inner.is_empty() => self.note_at(inner, &shown, origin),
                Value::Array(items) if is_entries(&shown) => {
                    for item in items {
                        if let (Some(inner), Some(name)) = (item.as_object(), name_of(item)) {
                            self.note_at(inner, &format!("{shown}[{}]", name.trim()), origin);
                        }
                    }
                }
                _ => drop(self.0.insert(shown.to_lowercase(), origin)),
            }
        }
    }

    pub(crate) fn of(&self, path: &str) -> Origin {
        self.0.get(&path.to_lowercase()).copied().unwrap_or(Origin::Default)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn layers_are_laid_over_each_other() {
        for (base, over, merged) in [
            // C2: false and 0 of the upper layer count.
            (
                json!({"acp_resume": true, "retry_limit": 4}),
                json!({"acp_resume": false, "retry_limit": 0}),
                json!({"acp_resume": false, "retry_limit": 0}),
            ),
            (json!({"agent": "a"}), json!({"agent": ""}), json!({"agent": ""})),
            // C5: nested objects field by field, unknown ones too.
            (
                json!({"rules": {"a": 1, "b": 2}}),
                json!({"rules": {"b": 3}}),
                json!({"rules": {"a": 1, "b": 3}}),
            ),
            (
                json!({"x": {"y": {"z": 1}}}),
                json!({"x": {"y": {"w": 2}}}),
                json!({"x": {"y": {"z": 1, "w": 2}}}),
            ),
            // Lists whole.
            (
                json!({"bash_allowed_patterns": ["a"]}),
                json!({"bash_allowed_patterns": []}),
                json!({"bash_allowed_patterns": []}),
            ),
            // Entries by name, in any case, field by field.
            (
                json!({"agents": [{"name": "One", "url": "u", "limits": {"a": 1}}, {"name": "two"}]}),
                json!({"agents": [{"name": "three"}, {"name": "one", "model": "m", "limits": {"b": 2}}]}),
                json!({"agents": [{"name": "One", "url": "u", "limits": {"a": 1, "b": 2}, "model": "m"}, {"name": "two"}, {"name": "three"}]}),
            ),
            (
                json!({"mcp_servers": [{"name": "s", "url": "u"}]}),
                json!({"mcp_servers": [{"name": "s", "enabled": false}]}),
                json!({"mcp_servers": [{"name": "s", "url": "u", "enabled": false}]}),
            ),
            // Another list of objects is no list of entries.
            (
                json!({"agent_tools": [{"name": "a", "x": 1}]}),
                json!({"agent_tools": [{"name": "a"}]}),
                json!({"agent_tools": [{"name": "a"}]}),
            ),
            (json!({}), json!({"agents": [{"name": "a"}]}), json!({"agents": [{"name": "a"}]})),
        ] {
            let mut result = base.clone();
            overlay(result.as_object_mut().unwrap(), over.as_object().unwrap());
            assert_eq!(result, merged, "{over} over {base}");
        }
    }

    #[test]
    fn order_is_the_authors() {
        let mut base = json!({"z": 1, "a": 2});
        overlay(base.as_object_mut().unwrap(), json!({"m": 3, "z": 4}).as_object().unwrap());
        assert_eq!(base.to_string(), r#"{"z":4,"a":2,"m":3}"#);
    }

    #[test]
    fn each_value_has_an_origin() {
        let mut origins = Origins::default();
        let global = json!({"agent": "a", "rules": {"x": 1, "y": 1}, "agents": [{"name": "Fast", "url": "u", "model": "m"}]});
        let local = json!({"rules": {"y": 2}, "agents": [{"name": "fast", "model": "n", "headers": {}}]});
        origins.note(global.as_object().unwrap(), Origin::Global);
        origins.note(local.as_object().unwrap(), Origin::Local);
        for (path, origin) in [
            ("agent", Origin::Global),
            ("rules.x", Origin::Global),
            ("rules.y", Origin::Local),
            ("agents[fast].url", Origin::Global),
            ("agents[Fast].model", Origin::Local),
            ("agents[fast].headers", Origin::Local),
            ("show_reasoning", Origin::Default),
        ] {
            assert_eq!(origins.of(path), origin, "{path}");
        }
    }
}
