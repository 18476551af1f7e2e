//! The config as it may be shown: every secret masked (R37).

use serde_json::{Map, Value};

use crate::agent::header_secrets;
use crate::key::{self, Kind};
use crate::reference::is_reference;
use crate::secret::{MASK, Secret, redact};

/// A copy with secrets masked: values of keys that the table calls secret, of unknown keys that sound so, and every known
/// secret wherever it turns up. A value that is nothing but `${NAME}` is shown.
pub(crate) fn masked(map: &Map<String, Value>, secrets: &[Secret]) -> Map<String, Value> {
    object(map, "", secrets)
}

fn object(map: &Map<String, Value>, path: &str, secrets: &[Secret]) -> Map<String, Value> {
    map.iter()
        .map(|(name, value)| (name.clone(), field(name, value, &key::child(path, name), secrets)))
        .collect()
}

fn field(name: &str, value: &Value, path: &str, secrets: &[Secret]) -> Value {
    match (secrecy(name, path), value) {
        (_, Value::Null | Value::Bool(_)) => value.clone(),
        (_, Value::String(text)) if is_reference(text) => value.clone(),
        (Secrecy::All, Value::String(text)) if text.is_empty() => value.clone(),
        (Secrecy::All, _) => MASK.into(),
        (Secrecy::Headers, Value::Object(map)) => {
            let mask = |(name, value): (&String, &Value)| {
                let text = value.as_str().unwrap_or_default();
                let shown = header_secrets(name, text).is_empty() || is_reference(text);
                (name.clone(), if shown { value.clone() } else { MASK.into() })
            };
            Value::Object(map.iter().map(mask).collect())
        }
        (_, Value::Object(map)) => Value::Object(object(map, path, secrets)),
        (_, Value::Array(items)) => {
            let path = format!("{path}[]");
            Value::Array(items.iter().map(|item| element(item, &path, secrets)).collect())
        }
        (_, Value::String(text)) => redact(text, secrets).into(),
        (_, Value::Number(_)) => value.clone(),
    }
}

fn element(item: &Value, path: &str, secrets: &[Secret]) -> Value {
    match item {
        Value::Object(map) => Value::Object(object(map, path, secrets)),
        Value::String(text) => redact(text, secrets).into(),
        Value::Array(items) => Value::Array(items.iter().map(|item| element(item, path, secrets)).collect()),
        other => other.clone(),
    }
}

enum Secrecy {
    All,
    Headers,
    Nothing,
}

fn secrecy(name: &str, path: &str) -> Secrecy {
    match key::find(path).map(|key| key.kind) {
        Some(Kind::Secret) => Secrecy::All,
        Some(Kind::SecretMap) => Secrecy::Headers,
        None if sounds_secret(name) => Secrecy::All,
        Some(_) | None => Secrecy::Nothing,
    }
}

/// Whether the name of an unknown key sounds like a secret: a mistyped `apikey` is one all the same.
fn sounds_secret(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    ["apikey", "secret", "password", "passwd", "credential", "authorization", "privatekey"]
        .iter()
        .any(|word| name.contains(word))
        || name.ends_with("token")
        || name.ends_with("key")
}

/// Every secret that a raw layer holds, by the same rules.
pub(crate) fn secrets_in(map: &Map<String, Value>) -> Vec<Secret> {
    let mut found = Vec::new();
    collect(map, "", &mut found);
    found
}

fn collect(map: &Map<String, Value>, path: &str, found: &mut Vec<Secret>) {
    for (name, value) in map {
        let path = key::child(path, name);
        match (secrecy(name, &path), value) {
            (Secrecy::All, Value::String(text)) if !is_reference(text) => {
                found.push(Secret::new(text.trim()));
            }
            (Secrecy::Headers, Value::Object(map)) => {
                for (name, value) in map {
                    found.extend(value.as_str().into_iter().flat_map(|text| header_secrets(name, text)));
                }
            }
            (_, Value::Object(inner)) => collect(inner, &path, found),
            (_, Value::Array(items)) => {
                let path = format!("{path}[]");
                items.iter().filter_map(Value::as_object).for_each(|inner| collect(inner, &path, found));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn no_secret_is_shown() {
        let config = json!({
            "agents": [{
                "name": "a", "api_key": "sk-SECRET-123", "aws_secret": "${AWS}", "apiKey": "sk-TYPO-4567",
                "url": "https://h/?key=sk-SECRET-123", "token_cmd": "echo sk-SECRET-123",
                "headers": {"Authorization": "Bearer tok-SECRET-9", "X-Title": "milk", "X-Ref": "${REF}"},
                "extra_args": ["--key", "sk-SECRET-123"], "request_overrides": {"user": "sk-SECRET-123", "seed": 1},
            }],
            "remote_oversight": {"telegram": {"token": "123456:AAFAKE", "chat_id": 7}},
            "mcp_servers": [{"name": "m", "env": {"GITHUB": "ghp-SECRET"}, "oauth_client_secret": ""}],
            "unknown": {"password": 7, "max_tokens": 5, "list": [["sk-SECRET-123"]]},
        });
        let map = config.as_object().unwrap();
        let secrets = secrets_in(map);
        for value in ["sk-SECRET-123", "sk-TYPO-4567", "tok-SECRET-9", "123456:AAFAKE", "ghp-SECRET"] {
            assert!(secrets.contains(&Secret::new(value)), "{value}");
        }
        assert_eq!(
            Value::Object(masked(map, &secrets)),
            json!({
                "agents": [{
                    "name": "a", "api_key": "***", "aws_secret": "${AWS}", "apiKey": "***",
                    "url": "https://h/?key=***", "token_cmd": "echo ***",
                    "headers": {"Authorization": "***", "X-Title": "milk", "X-Ref": "${REF}"},
                    "extra_args": ["--key", "***"], "request_overrides": {"user": "***", "seed": 1},
                }],
                "remote_oversight": {"telegram": {"token": "***", "chat_id": 7}},
                "mcp_servers": [{"name": "m", "env": {"GITHUB": "***"}, "oauth_client_secret": ""}],
                "unknown": {"password": "***", "max_tokens": 5, "list": [["***"]]},
            })
        );
    }
}
