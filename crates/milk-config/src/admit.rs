//! What counts of a project's own file before the user has trusted its directory (R38): it may add, never loosen.

use serde_json::{Map, Value};

use crate::check::{entry_path, is_named};
use crate::key::{self, Default, Key, Kind, Project};
use crate::provider::ProviderKind;
use crate::warning::printable_name;

/// How many held-back keys are named; a hostile file could have any number.
const MAX_HELD: usize = 32;

/// The part of a project's file that counts, and the keys that were held back.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    pub(crate) layer: Map<String, Value>,
    /// Paths for a person (`agents[evil]`, `bash_allowed_patterns`), at most [`MAX_HELD`] and a word about the rest.
    pub(crate) held: Vec<String>,
}

/// Judges a project's usable layer against the global one. Unknown keys are left out silently: they have no effect.
pub(crate) fn admit(project: &Map<String, Value>, global: &Map<String, Value>) -> Admitted {
    let mut judge = Judge { global, held: Vec::new() };
    let layer = judge.object(project, Some(global), Place { path: "", shown: "" });
    let mut held = judge.held;
    if held.len() > MAX_HELD {
        let more = held.len() - MAX_HELD;
        held.truncate(MAX_HELD);
        held.push(format!("and {more} more"));
    }
    Admitted { layer, held }
}

/// Where in the file: as the table names it, and as a person would.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    shown: &'a str,
}

struct Judge<'a> {
    global: &'a Map<String, Value>,
    held: Vec<String>,
}

impl Judge<'_> {
    fn object(
        &mut self,
        project: &Map<String, Value>,
        base: Option<&Map<String, Value>>,
        at: Place<'_>,
    ) -> Map<String, Value> {
        let mut kept = Map::new();
        for (name, value) in project {
            let path = key::child(at.path, name);
            let shown = key::child(at.shown, &printable_name(name));
            let here = Place { path: &path, shown: &shown };
            let Some(key) = key::find(&path) else { continue };
            let below = base.and_then(|base| base.get(name));
            let value = match (key.kind, value) {
                (Kind::Section, Value::Object(inner)) => {
                    let inner = self.object(inner, below.and_then(Value::as_object), here);
                    (!inner.is_empty()).then_some(Value::Object(inner))
                }
                (Kind::Entries, Value::Array(items)) => {
                    let items = self.entries(items, below, here);
                    (!items.is_empty()).then_some(Value::Array(items))
                }
                _ => self.value(key, value, below, &shown),
            };
            if let Some(value) = value {
                kept.insert(name.clone(), value);
            }
        }
        kept
    }

    fn entries(&mut self, items: &[Value], below: Option<&Value>, at: Place<'_>) -> Vec<Value> {
        let path = format!("{}[]", at.path);
        let known = below.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut kept = Vec::new();
        for item in items {
            let (Some(entry), Some(name)) = (item.as_object(), item.get("name").and_then(Value::as_str))
            else {
                continue;
            };
            let shown = entry_path(at.shown, name);
            // A new entry brings its own destination or command.
            let Some(base) = known.iter().find(|base| is_named(base, name)) else {
                self.held.push(shown);
                continue;
            };
            let mut entry = self.object(entry, base.as_object(), Place { path: &path, shown: &shown });
            if entry.is_empty() {
                continue;
            }
            entry.insert("name".to_owned(), Value::from(name));
            kept.push(Value::Object(entry));
        }
        kept
    }

    /// The value that counts, or `None` if it changes nothing or is held back.
    fn value(&mut self, key: &Key, value: &Value, below: Option<&Value>, shown: &str) -> Option<Value> {
        let current = below.cloned().or_else(|| self.when_not_set(key));
        if current.as_ref() == Some(value) {
            return None;
        }
        let verdict = match key.project {
            Project::Harmless => Some(value.clone()),
            Project::NeedsTrust => None,
            // Names of entries: they decide which entry is meant, and that is all.
            Project::Inside => return None,
            Project::OnlyBool(careful) => (value.as_bool() == Some(careful)).then(|| value.clone()),
            Project::OnlyText(careful) => (value.as_str() == Some(careful)).then(|| value.clone()),
            Project::AtMost => at_most(key, value, current.as_ref()),
            Project::Added => united(value, below),
            Project::Narrowed => narrowed(value, below),
            Project::PlainAgent => self.plain_agent(value),
        };
        if verdict.is_none() {
            self.held.push(shown.to_owned());
        }
        verdict
    }

    fn when_not_set(&self, key: &Key) -> Option<Value> {
        let above = match key.default {
            Default::SameAs(other) => self.global.get(other).cloned(),
            _ => None,
        };
        above.or_else(|| key.standard())
    }

    /// An agent of the user's own that milk asks for as it asks for any other.
    fn plain_agent(&self, value: &Value) -> Option<Value> {
        let name = value.as_str()?;
        let agent = self.global.get("agents")?.as_array()?.iter().find(|agent| is_named(agent, name))?;
        let provider = agent.get("provider").and_then(Value::as_str).unwrap_or_default();
        let set = |key: &str| agent.get(key).is_some_and(|value| !is_blank(value));
        let special = ProviderKind::of(provider).is_external()
            || set("dangerously_skip_permissions")
            || set("bash_allowed_patterns")
            || set("tls_skip_verify");
        (!special).then(|| value.clone())
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn at_most(key: &Key, value: &Value, current: Option<&Value>) -> Option<Value> {
    let standard = builtin(key);
    let new = reach(value.as_i64()?, standard);
    let old = current.and_then(Value::as_i64).map_or(i64::MAX, |now| reach(now, standard));
    (new <= old).then(|| value.clone())
}

/// The number that 0 stands for.
fn builtin(key: &Key) -> i64 {
    match key.standard() {
        Some(Value::Number(number)) if !key.zero_is_none() => number.as_i64().unwrap_or_default(),
        _ => 0,
    }
}

/// How far a limit lets things go.
fn reach(limit: i64, standard: i64) -> i64 {
    match limit {
        0 if standard != 0 => reach(standard, 0),
        ..0 => i64::MAX,
        limit => limit,
    }
}

/// What is below and what is added to it.
fn united(value: &Value, below: Option<&Value>) -> Option<Value> {
    let mut all = below.and_then(Value::as_array).cloned().unwrap_or_default();
    for item in value.as_array()? {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    Some(Value::Array(all))
}

/// What is in both lists; an empty list stands for all there is, so it is never a narrower one.
fn narrowed(value: &Value, below: Option<&Value>) -> Option<Value> {
    let wanted = value.as_array()?;
    let allowed = below.and_then(Value::as_array).filter(|list| !list.is_empty());
    let common: Vec<Value> =
        wanted.iter().filter(|item| allowed.is_none_or(|list| list.contains(item))).cloned().collect();
    (!common.is_empty()).then_some(Value::Array(common))
}

#[cfg(test)]
mod tests;
