//! What no document may say: the secrets that milk knows, and credentials that are known by their shape.

mod assigned;
mod shapes;
mod tokens;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

/// What stands where a secret stood.
const MASK: &str = "***";

/// Masks texts on their way into a document.
#[derive(Clone)]
pub(crate) struct Redactor {
    known: Arc<dyn Fn(&str) -> String + Send + Sync>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Redactor {
    pub(crate) fn new(known: Arc<dyn Fn(&str) -> String + Send + Sync>) -> Self {
        Self { known }
    }

    /// The text without secrets.
    pub(crate) fn clean(&self, text: &str) -> String {
        let known = (self.known)(text);
        shapes::mask(&known).unwrap_or(known)
    }

    /// The path as text, without secrets.
    pub(crate) fn path(&self, path: &Path) -> String {
        self.clean(&path.to_string_lossy())
    }

    /// Whether there is nothing to mask. For what would be broken by a mask, such as a picture's bytes.
    pub(crate) fn passes(&self, text: &str) -> bool {
        self.clean(text) == text
    }

    /// The value with every text in it cleaned, the keys of objects too. As deep as the parser of JSON lets it be.
    pub(crate) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.clean(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| (self.clean(key), self.field(key, value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// A field whose name says that it holds a secret is masked whatever it looks like.
    fn field(&self, key: &str, value: &Value) -> Value {
        match value {
            Value::String(text) if assigned::is_secret_value(key, text) => Value::String(MASK.to_owned()),
            _ => self.value(value),
        }
    }
}

#[cfg(test)]
mod tests;
