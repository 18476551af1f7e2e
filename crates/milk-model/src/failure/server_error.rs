//! What servers say when they refuse: the many shapes of an error body, and the kinds of failure behind them.

use milk_core::model::ModelErrorKind;
use serde_json::Value;

/// An error as a server wrote it, in a body or in the stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServerError {
    message: Option<String>,
    code: Option<String>,
    kind: Option<String>,
    /// The whole of it, in lower case, to look for names in.
    text: String,
    context_size: Option<u64>,
    request_size: Option<u64>,
}

/// Codes and types that mean: the request does not fit into the context.
const CONTEXT_CODES: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "context_window_exceeded",
    "model_context_window_exceeded",
    "prompt_too_long",
];

/// Sentences that mean it, in lower case, where the status is one of a refused request. Each is long enough that no
/// other complaint holds it: "context" alone says nothing (bug case 096).
const CONTEXT_SENTENCES: &[&str] = &[
    "maximum context length",
    "maximum prompt length",
    "context length exceeded",
    "context length of only",
    "context window exceeded",
    "exceeds the context",
    "exceeds context",
    "exceed the context",
    "exceeds the available context",
    "exceeds the model's context",
    "exceeds the model's maximum context",
    "exceeds the maximum context",
    "exceeds the maximum number of tokens",
    "exceeds model context",
    "exceeds the max_model_len",
    "larger than the context",
    "longer than the context",
    "longer than the maximum model length",
    "longer than the model's context",
    "greater than the context length",
    "context the overflows",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input too long",
    "too many input tokens",
    "reduce the length of the messages",
    "reduce the length of the input",
    "prompt token count",
];

/// Codes of failures that no repetition cures, though their status says "later".
const PERMANENT_CODES: &[&str] = &["insufficient_quota", "billing_hard_limit_reached", "access_terminated"];

impl ServerError {
    /// From a body with an error status.
    pub(crate) fn from_body(body: &[u8], content_type: Option<&str>) -> Self {
        let text = String::from_utf8_lossy(body);
        match serde_json::from_str(&text) {
            Ok(value) => Self::from_value(&value),
            Err(_) if looks_like_html(&text, content_type) => Self::from_text(&html_summary(&text)),
            Err(_) => Self::from_text(text.trim()),
        }
    }

    /// From a JSON value: a whole body, or what stood under `error`.
    pub(crate) fn from_value(value: &Value) -> Self {
        let inner = match value.get("error") {
            Some(inner @ (Value::Object(_) | Value::String(_))) => inner,
            _ => value,
        };
        let text_under = |key: &str| inner.get(key).or_else(|| value.get(key)).and_then(scalar);
        let number_under = |key: &str| inner.get(key).and_then(Value::as_u64);
        Self {
            message: message_in(inner).or_else(|| message_in(value)),
            code: text_under("code").or_else(|| text_under("status_code")),
            kind: text_under("type"),
            text: value.to_string().to_lowercase(),
            context_size: number_under("n_ctx"),
            request_size: number_under("n_prompt_tokens"),
        }
    }

    /// From text that is no JSON.
    pub(crate) fn from_text(text: &str) -> Self {
        let message = Some(text.to_owned()).filter(|text| !text.is_empty());
        Self { message, text: text.to_lowercase(), ..Self::default() }
    }

    pub(crate) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// The HTTP status that the error's code stands for, if it is one.
    pub(crate) fn status(&self) -> Option<u16> {
        self.code.as_ref()?.parse().ok().filter(|code| (400..600).contains(code))
    }

    /// The size of the context and of the request in tokens, where the server said them.
    pub(crate) fn context_numbers(&self) -> Option<(u64, Option<u64>)> {
        Some((self.context_size?, self.request_size))
    }

    /// Whether the error complains that it does not know this field. A complaint that the field is missing is none.
    pub(crate) fn rejects_field(&self, field: &str) -> bool {
        let wants_it =
            ["missing", "must be provided", "is required", "must include", "must have", "must be passed"];
        self.text.contains(field) && !wants_it.iter().any(|word| self.text.contains(word))
    }

    /// Whether no repetition can help, whatever the status says.
    pub(crate) fn is_permanent(&self) -> bool {
        [&self.code, &self.kind].into_iter().flatten().any(|code| PERMANENT_CODES.contains(&code.as_str()))
    }

    /// The kind of failure, with the status that came with it or stands in it.
    pub(crate) fn kind_for(&self, status: Option<u16>) -> ModelErrorKind {
        if self.is_about_context(status) {
            return ModelErrorKind::ContextTooLong;
        }
        match status {
            Some(401 | 403 | 407) => ModelErrorKind::Unauthorized,
            Some(404 | 405 | 410) => ModelErrorKind::NotFound,
            Some(408) => ModelErrorKind::TimedOut,
            Some(429) => ModelErrorKind::RateLimited,
            Some(300..=399) => ModelErrorKind::Misconfigured,
            Some(400..=499) => ModelErrorKind::BadRequest,
            Some(_) => ModelErrorKind::ServerFailed,
            None => self.kind_by_name(),
        }
    }

    fn is_about_context(&self, status: Option<u16>) -> bool {
        let refused = matches!(status, None | Some(400 | 413 | 422));
        let codes = [&self.code, &self.kind];
        let by_code = codes.into_iter().flatten().any(|code| CONTEXT_CODES.contains(&code.as_str()));
        let message = self.message.as_deref().unwrap_or_default().to_lowercase();
        let by_sentence = CONTEXT_SENTENCES.iter().any(|sentence| message.contains(sentence));
        status == Some(413) || (refused && (by_code || by_sentence))
    }

    fn kind_by_name(&self) -> ModelErrorKind {
        let names = [self.code.as_deref(), self.kind.as_deref()].map(Option::unwrap_or_default);
        let is = |part: &str| names.iter().any(|name| name.contains(part));
        if is("rate_limit") || is("too_many_requests") {
            ModelErrorKind::RateLimited
        } else if is("authentication") || is("invalid_api_key") || is("permission") {
            ModelErrorKind::Unauthorized
        } else if is("invalid_request") {
            ModelErrorKind::BadRequest
        } else if is("not_found") {
            ModelErrorKind::NotFound
        } else {
            ModelErrorKind::ServerFailed
        }
    }
}

/// The message in one of the places where servers put it, with what a gateway's own provider said behind it.
fn message_in(value: &Value) -> Option<String> {
    let found = match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(_) => ["message", "msg", "detail", "details", "error_description", "title", "reason"]
            .iter()
            .find_map(|key| told(value.get(*key)?)),
        _ => None,
    };
    let upstream = value.pointer("/metadata/raw").and_then(told);
    let text = match (found.filter(|text| !text.trim().is_empty()), upstream) {
        (Some(text), Some(upstream)) if !text.contains(&upstream) => format!("{text}: {upstream}"),
        (text, upstream) => text.or(upstream)?,
    };
    Some(text)
}

/// A text, the message of an object, or those of a list (validation errors name the field in `loc`).
fn told(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(_) => {
            let message = message_in(value)?;
            let place =
                value.get("loc").and_then(Value::as_array).map(|loc| loc.iter().filter_map(scalar).collect());
            Some(match place.map(|loc: Vec<String>| loc.join(".")) {
                Some(place) if !place.is_empty() => format!("{place}: {message}"),
                _ => message,
            })
        }
        Value::Array(list) => {
            let all: Vec<String> = list.iter().take(3).filter_map(told).collect();
            Some(all.join("; ")).filter(|text| !text.is_empty())
        }
        _ => None,
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn looks_like_html(text: &str, content_type: Option<&str>) -> bool {
    let start = text.trim_start();
    content_type.is_some_and(|kind| kind.contains("html")) || start.starts_with('<')
}

/// A page in a few words: its title.
pub(crate) fn html_summary(page: &str) -> String {
    // ASCII only, so that positions in both texts are the same.
    let lower = page.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|start| {
        let from = start + lower[start..].find('>')? + 1;
        let length = lower[from..].find('<')?;
        Some(super::one_line(&page[from..from + length])).filter(|title| !title.is_empty())
    });
    title.map_or_else(|| "a web page".to_owned(), |title| format!("a web page titled “{title}”"))
}
