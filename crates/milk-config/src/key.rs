//! The one table of keys: what can be set, of which type, with which default, and whether a project's own file may set it
//! before its directory is trusted (R38). The loader, the documentation and `milk config` are made from it.

mod table;

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use serde_json::{Map, Value};

pub use table::KEYS;

/// One key that milk knows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// The path from the root of the file, with `[]` for each entry of a list: `agents[].limits.tool_timeout_secs`.
    pub path: &'static str,
    /// Which values it takes.
    pub kind: Kind,
    /// What counts when no file sets it.
    pub default: Default,
    /// What a project's own file may do with it before the directory is trusted.
    pub project: Project,
    /// One line for a person.
    pub help: &'static str,
}

impl Key {
    /// The value that counts when no file says anything, here or at the key that this one follows.
    pub fn standard(&self) -> Option<Value> {
        match self.default {
            Default::SameAs(other) => find(other)?.default.value(),
            default => default.value(),
        }
    }

    /// Whether 0 means none at all. For other limits that would be absurd, and 0 stands for the default.
    pub fn zero_is_none(&self) -> bool {
        self.path.ends_with("retry_limit")
    }
}

/// Which values a key takes.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number in this range, ends included.
    Int(i64, i64),
    /// Any number from 0 to 1.
    Share,
    /// Any text.
    Text,
    /// A text that can go on a command line as a value: no leading dash, no control characters.
    Word,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A text that is never shown. `${NAME}` in it stands for an environment variable.
    Secret,
    /// A list of texts.
    TextList,
    /// An object of texts that may be secret (HTTP headers). `${NAME}` as in [`Kind::Secret`].
    SecretMap,
    /// An object that milk passes on or that another part reads.
    Object,
    /// A list of such objects.
    ObjectList,
    /// An object whose keys are in this table.
    Section,
    /// A list of objects with a `name`, whose keys are in this table; merged by name.
    Entries,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("true or false"),
            Self::Int(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::Share => f.write_str("a number from 0 to 1"),
            Self::Text | Self::Secret => f.write_str("a text"),
            Self::Word => f.write_str("a text without a leading dash or control characters"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::TextList => f.write_str("a list of texts"),
            Self::SecretMap => f.write_str("an object of texts"),
            Self::Object | Self::Section => f.write_str("an object"),
            Self::ObjectList => f.write_str("a list of objects"),
            Self::Entries => f.write_str("a list of objects with a name"),
        }
    }
}

impl Kind {
    /// The value in the form that milk uses, or `None` if it is not of this kind. Sections and entries are accepted by
    /// their outer shape.
    pub fn accept(self, value: &Value) -> Option<Value> {
        let ok = match (self, value) {
            (Self::Bool, Value::Bool(_))
            | (Self::Text | Self::Secret, Value::String(_))
            | (Self::Object | Self::Section, Value::Object(_))
            | (Self::Entries, Value::Array(_)) => true,
            (Self::Int(min, max), Value::Number(_)) => {
                let number = whole(value).filter(|n| (min..=max).contains(n))?;
                return Some(Value::from(number));
            }
            (Self::Share, Value::Number(number)) => number.as_f64().is_some_and(|n| (0.0..=1.0).contains(&n)),
            (Self::Word, Value::String(text)) => !text.starts_with('-') && !text.contains(char::is_control),
            (Self::Choice(words), Value::String(text)) => words.contains(&text.as_str()),
            (Self::TextList, Value::Array(items)) => items.iter().all(Value::is_string),
            (Self::ObjectList, Value::Array(items)) => items.iter().all(Value::is_object),
            (Self::SecretMap, Value::Object(map)) => map.values().all(Value::is_string),
            _ => false,
        };
        ok.then(|| value.clone())
    }
}

/// A number without a fraction, also when it is written with one (`50.0`).
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let float = value.as_f64()?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "no fraction, and in the range where floats are exact"
        )]
        (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
    })
}

/// What counts when no file sets a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// Nothing: milk derives the value, or goes without.
    None,
    /// This truth value.
    Bool(bool),
    /// This number.
    Int(i64),
    /// This share.
    Share(f64),
    /// This text.
    Text(&'static str),
    /// These texts.
    List(&'static [&'static str]),
    /// Whatever this other key says.
    SameAs(&'static str),
}

impl Default {
    /// The value as it would stand in a file.
    pub fn value(self) -> Option<Value> {
        match self {
            Self::None | Self::SameAs(_) => None,
            Self::Bool(value) => Some(value.into()),
            Self::Int(value) => Some(value.into()),
            Self::Share(value) => Some(value.into()),
            Self::Text(value) => Some(value.into()),
            Self::List(values) => Some(values.into()),
        }
    }
}

/// What a project's own file may do with a key before the directory is trusted (R38): it may add, never loosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Project {
    /// Set it: no value switches permissions off, adds an allowed pattern, changes where keys are sent or names a command.
    Harmless,
    /// Nothing.
    NeedsTrust,
    /// Set it to this truth value, which is the careful one.
    OnlyBool(bool),
    /// Set it to this text, which is the careful one.
    OnlyText(&'static str),
    /// Lower the number. A negative one counts as no limit, 0 as the default.
    AtMost,
    /// Add to the list.
    Added,
    /// Keep a part of the list. No list counts as all there is.
    Narrowed,
    /// Name an agent of the user's that has no more rights than any other.
    PlainAgent,
    /// Each key inside has its own rule.
    Inside,
}

static BY_PATH: LazyLock<HashMap<&'static str, &'static Key>> =
    LazyLock::new(|| KEYS.iter().map(|key| (key.path, key)).collect());

/// The key at a path of the table (`agents[].model`).
pub fn find(path: &str) -> Option<&'static Key> {
    BY_PATH.get(path).copied()
}

/// The path of a name inside another path; the root is the empty path.
pub(crate) fn child(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// A known key of the same object whose name is nearly `name`: what a typing error probably meant.
pub(crate) fn similar(parent: &str, name: &str) -> Option<&'static str> {
    let siblings = KEYS.iter().filter_map(|key| {
        let (of, last) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        (of == parent).then_some(last)
    });
    let allowed = match name.chars().count() {
        0..=3 => 0,
        4..=6 => 1,
        7..=64 => 2,
        _ => return None,
    };
    siblings
        .map(|known| (distance(name, known), known))
        .filter(|(d, _)| *d <= allowed)
        .min()
        .map(|(_, known)| known)
}

/// Edits (insert, delete, change) between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Adds the default of every key that is not inside a list and that `map` does not set.
pub(crate) fn fill_defaults(map: &mut Map<String, Value>) {
    for key in KEYS.iter().filter(|key| !key.path.contains("[]")) {
        let Some(value) = key.default.value() else { continue };
        insert_missing(map, key.path, value);
    }
}

fn insert_missing(object: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        Some((section, rest)) => {
            let inner = object.entry(section).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert_missing(inner, rest, value);
            }
        }
        None => drop(object.entry(path).or_insert(value)),
    }
}

/// The whole table as Markdown, for the documentation.
pub fn reference() -> String {
    let mut text = String::from(
        "| key | value | default | project file, before trust | meaning |\n|---|---|---|---|---|\n",
    );
    for key in KEYS {
        let default = match key.default {
            Default::SameAs(other) => format!("as `{other}`"),
            other => other.value().map_or_else(String::new, |value| format!("`{value}`")),
        };
        let project = match key.project {
            Project::Harmless => "yes".to_owned(),
            Project::NeedsTrust => "no".to_owned(),
            Project::OnlyBool(value) => format!("only `{value}`"),
            Project::OnlyText(value) => format!("only `{value}`"),
            Project::AtMost => "only lower".to_owned(),
            Project::Added => "only more".to_owned(),
            Project::Narrowed => "only fewer".to_owned(),
            Project::PlainAgent => "only an agent of yours without special rights".to_owned(),
            Project::Inside => "each key".to_owned(),
        };
        let row =
            [&format!("`{}`", key.path), &key.kind.to_string(), &default, &project, &key.help.to_owned()];
        for cell in row {
            text.push_str("| ");
            text.push_str(&cell.replace('|', "\\|"));
            text.push(' ');
        }
        text.push_str("|\n");
    }
    text
}

#[cfg(test)]
mod tests;
