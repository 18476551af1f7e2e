use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::secret::Secret;

fn reporter(url: &str) -> Reporter {
    let mut masker = Masker::default();
    masker.add(&Secret::from("private-key-1"));
    Reporter {
        provider: "local".into(),
        agent: "coder".into(),
        model: "qwen3".into(),
        base: BaseUrl::parse(url).unwrap(),
        masker,
        has_credential: true,
    }
}

fn refused(status: u16, body: &Value) -> Failed {
    let error = ServerError::from_body(body.to_string().as_bytes(), Some("application/json"));
    reporter("http://localhost:11434/v1").refused(StatusCode::from_u16(status).unwrap(), &error, None)
}

fn message(body: &str, content_type: &str) -> Option<String> {
    ServerError::from_body(body.as_bytes(), Some(content_type)).message().map(str::to_owned)
}

#[test]
fn the_message_is_found_in_every_usual_shape() {
    let cases = [
        (r#"{"error":{"message":"m","code":"c"}}"#, "m"),
        (r#"{"error":"m"}"#, "m"),
        (r#"{"message":"m","type":"t"}"#, "m"),
        (r#"{"object":"error","message":"m","code":40301}"#, "m"),
        (r#"{"detail":"m"}"#, "m"),
        (
            r#"{"detail":[{"loc":["body","x"],"msg":"extra"},{"loc":["body","y"],"msg":"bad"}]}"#,
            "body.x: extra; body.y: bad",
        ),
        (r#"{"errors":[],"title":"m"}"#, "m"),
        (
            r#"{"error":{"message":"Provider returned error","metadata":{"raw":"upstream"}}}"#,
            "Provider returned error: upstream",
        ),
        ("plain words\n", "plain words"),
    ];
    for (body, expected) in cases {
        assert_eq!(message(body, "application/json").as_deref(), Some(expected), "{body}");
    }
    assert_eq!(message("", "text/plain"), None);
    assert_eq!(message("{}", "application/json"), None);
}

#[test]
fn a_web_page_becomes_its_title() {
    let page = "<!DOCTYPE html><html><HEAD><Title>\n 502 Bad\nGateway</title></head><body>long</body></html>";
    assert_eq!(message(page, "text/html").as_deref(), Some("a web page titled “502 Bad Gateway”"));
    assert_eq!(message("<html>İ<body>x", "x").as_deref(), Some("a web page"));
    assert_eq!(message("<title", "text/html").as_deref(), Some("a web page"));
}

#[test]
fn case_095_an_overflow_is_recognised_with_the_servers_numbers() {
    let llama = json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_ctx": 8192, "n_prompt_tokens": 9000,
        "message": "the request exceeds the available context size, try increasing it"}});
    let failed = refused(400, &llama);
    assert_eq!((failed.error.kind, failed.again), (ModelErrorKind::ContextTooLong, Again::Never));
    assert!(
        failed.error.details.contains("context of 8192 tokens, request of 9000"),
        "{}",
        failed.error.details
    );
    for body in [
        json!({"error": {"code": "context_length_exceeded", "message": "too long"}}),
        json!({"error": {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000"}}),
        json!({"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
        json!({"error": {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}),
    ] {
        assert_eq!(refused(400, &body).error.kind, ModelErrorKind::ContextTooLong, "{body}");
    }
    assert_eq!(refused(413, &json!({})).error.kind, ModelErrorKind::ContextTooLong);
}

#[test]
fn case_096_other_failures_are_no_overflow() {
    let cases = [
        (
            500,
            "model requires more system memory (9 GiB) than is available; context deadline",
            ModelErrorKind::ServerFailed,
        ),
        (404, "model not found", ModelErrorKind::NotFound),
        (400, "unsupported parameter: context", ModelErrorKind::BadRequest),
        (500, "context deadline exceeded", ModelErrorKind::ServerFailed),
        (
            429,
            "Request too large for model in tokens per min: maximum context length",
            ModelErrorKind::RateLimited,
        ),
        (401, "exceeds the context", ModelErrorKind::Unauthorized),
    ];
    for (status, message, kind) in cases {
        assert_eq!(refused(status, &json!({ "error": message })).error.kind, kind, "{status} {message}");
    }
}

#[test]
fn case_092_what_is_repeated_and_what_is_not() {
    for status in [400, 401, 402, 403, 404, 405, 409, 413, 422, 301] {
        assert_eq!(refused(status, &json!({"error": "x"})).again, Again::Never, "{status}");
    }
    for status in [408, 429, 500, 502, 503, 504, 529] {
        assert_eq!(refused(status, &json!({"error": "x"})).again, Again::Later, "{status}");
    }
    let quota =
        json!({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}});
    assert_eq!(refused(429, &quota).again, Again::Never);
    let error = ServerError::default();
    let asked = Some(Duration::from_secs(2));
    let reporter = reporter("http://h");
    let again = |status| reporter.refused(StatusCode::from_u16(status).unwrap(), &error, asked).again;
    assert_eq!(again(503), Again::Asked(Duration::from_secs(2)));
    assert_eq!(again(400), Again::Never);
}

#[test]
fn errors_in_the_stream_are_judged_by_their_code_or_name() {
    let cases = [
        (json!({"message": "overloaded", "code": 502}), ModelErrorKind::ServerFailed, Again::Later),
        (json!({"message": "slow down", "code": 429}), ModelErrorKind::RateLimited, Again::Later),
        (
            json!({"message": "slow down", "type": "rate_limit_error"}),
            ModelErrorKind::RateLimited,
            Again::Later,
        ),
        (json!({"message": "no", "code": "invalid_api_key"}), ModelErrorKind::Unauthorized, Again::Never),
        (json!({"message": "no", "code": 400}), ModelErrorKind::BadRequest, Again::Never),
        (
            json!({"message": "no", "code": "exceed_context_size_error"}),
            ModelErrorKind::ContextTooLong,
            Again::Never,
        ),
        (json!("it broke"), ModelErrorKind::ServerFailed, Again::Later),
    ];
    for (error, kind, again) in cases {
        let failed = reporter("http://h").in_stream(&ServerError::from_value(&error));
        assert_eq!((failed.error.kind, failed.again), (kind, again), "{error}");
    }
}

#[test]
fn case_137_details_are_one_masked_line_with_a_cure() {
    let failed =
        refused(401, &json!({"error": {"message": "bad\nkey private-key-1 or sk-abcdefgh\u{1b}[31m"}}));
    assert_eq!(
        failed.error.to_string(),
        "local: localhost:11434 refused the credential (401): bad key *** or sk-*** [31m. \
         Check `api_key`, `token_cmd` or `headers` of the agent `coder`"
    );
    let cases = [
        (404, "model 'qwen3' not found", "ollama pull qwen3"),
        (
            400,
            "registry.ollama.ai/library/qwen3 does not support tools",
            "Choose a model that can call tools; `qwen3`",
        ),
        (503, "Loading model", "still loading `qwen3`"),
    ];
    for (status, message, cure) in cases {
        let details = refused(status, &json!({"error": {"message": message}})).error.details;
        assert!(details.contains(cure) && details.contains(message), "{details}");
    }
    let long = refused(400, &json!({"error": "é".repeat(5_000)})).error.details;
    assert!(long.chars().count() <= 501, "{}", long.chars().count());
}

#[test]
fn a_rejected_field_is_not_a_missing_one() {
    let error = |text: &str| ServerError::from_value(&json!({ "error": text }));
    assert!(error("Unrecognized request argument supplied: stream_options").rejects_field("stream_options"));
    assert!(
        !error("Missing `reasoning_content` field in the assistant message")
            .rejects_field("reasoning_content")
    );
    assert!(!error("bad request").rejects_field("stream_options"));
}
