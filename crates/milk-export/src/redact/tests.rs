use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn redactor() -> Redactor {
    Redactor::new(Arc::new(|text| text.replace("hunter2-known", "***")))
}

fn clean(text: &str) -> String {
    redactor().clean(text)
}

#[test]
fn what_the_caller_knows_is_masked() {
    assert_eq!(clean("it is hunter2-known, really"), "it is ***, really");
}

#[test]
fn credentials_are_masked_by_their_shape() {
    let cases = [
        ("Authorization: Bearer abc", "Authorization: Bearer ***"),
        ("authorization:bearer a.b-c_d/e+f==;", "authorization:bearer ***;"),
        ("-H 'Authorization: Basic dXNlcjpwYXNz'", "-H 'Authorization: Basic ***'"),
        (r#"{"Authorization": "Bearer abc123"}"#, r#"{"Authorization": "Bearer ***"}"#),
        (r#""{\"Authorization\":\"token xyz\"}""#, r#""{\"Authorization\":\"token ***\"}""#),
        ("Authorization: 0123456789abcdef0123", "Authorization: ***"),
        ("sent Bearer 0123456789abcdef0123 along", "sent Bearer *** along"),
        ("key sk-proj-abcdefghijkl_mnop1234, then", "key ***, then"),
        ("sk-ant-api03-AbCdEf-123456_7890", "***"),
        ("(ghp_0123456789abcdefghijABCDEFGHIJ012345)", "(***)"),
        ("github_pat_11ABCDEFG0123456789_abcdefghij", "***"),
        ("xoxb-123456789012-abcdef", "***"),
        ("AKIAIOSFODNN7EXAMPLE.", "***."),
        ("AIzaSyA0123456789abcdefghijklmnopqrstuv", "***"),
        ("hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "***"),
        ("jwt eyJhbGciOi.eyJzdWIiOiIx.sig-nature_1 end", "jwt *** end"),
        ("bot 1234567890:AAFAKEabcdefghijklmnopqrstuvwxyz123", "bot ***"),
        ("https://me:pass@example.org/x", "https://***@example.org/x"),
        ("https://me:***@example.org/", "https://me:***@example.org/"),
        ("ghp_0123456789abcdefghij-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", "******"),
        ("s://:-----BEGIN PRIVATE KEY-----@", "s://:***@"),
        ("postgres://app:p@ss@db:5432/x", "postgres://***@db:5432/x"),
        ("OPENAI_API_KEY=abcdef0123456789", "OPENAI_API_KEY=***"),
        (
            "export AWS_SECRET_ACCESS_KEY=\"wJalrXUtnFEMI/K7MDENG/bPxRfiCY\"",
            "export AWS_SECRET_ACCESS_KEY=\"***\"",
        ),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG==", "aws_secret_access_key = ***"),
        ("GET /v1?access_token=abc123abc123abc&x=1", "GET /v1?access_token=***&x=1"),
        (r#"{"api_key": "abc123abc123abc"}"#, r#"{"api_key": "***"}"#),
        ("x-api-key: abc123abc123abc", "x-api-key: ***"),
        (
            "a\n-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE+/=\n-----END RSA PRIVATE KEY-----\nb",
            "a\n***\nb",
        ),
        ("-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----\\n", "***\\n"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz", "***"),
    ];
    for (text, wanted) in cases {
        assert_eq!(clean(text), wanted, "{text}");
        assert_eq!(clean(wanted), wanted, "a second time");
    }
}

#[test]
fn ordinary_text_is_left_alone() {
    let texts = [
        "The Authorization: header is required; a bearer of bad news. Bearer authentication-middleware.",
        "Authorization: Bearer <token> or Authorization: Bearer $TOKEN",
        "the disk-0123456789abcdef01234567 task-12345678901234567890 risk-0123456789abcdef",
        "sk-learn-is-a-hyphenated-name sk-1",
        "9fceb02d0ae598e95dc970b74767f19372d61af8 d41d8cd98f00b204e9800998ecf8427e",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "AKIA is a prefix; AKIAIOSFODNN7EXAMPLEX is longer than a key id",
        "https://example.org:8443/a@b and git@github.com:owner/repo.git, mailto:a@b.org, http://user@host/",
        "let api_key = config.openai_v1_settings.api_key; password: String, secret = load_secret2(path)",
        "max_tokens=4096 token_count: 123456789012 monkey=abcdef0123456789 page=0123456789abcdef",
        "API_KEY=$OPENAI_API_KEY_V2 API_KEY=changeme password: hunter2",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----",
        "123e4567-e89b-12d3-a456-426614174000 at 12:30:45, 1234567890:short",
        "eyJust a word, eyJ.eyX",
        "naïve 日本語 https://пример:8080 ── ⚙",
    ];
    for text in texts {
        assert_eq!(clean(text), text);
    }
}

#[test]
fn values_are_cleaned_in_depth() {
    let value =
        json!({"headers": {"X-Api-Key": "abcd1234efgh5678"}, "list": ["hunter2-known", 1, null, true]});
    assert_eq!(
        redactor().value(&value),
        json!({"headers": {"X-Api-Key": "***"}, "list": ["***", 1, null, true]})
    );
    assert_eq!(redactor().value(&json!({"hunter2-known": 1})), json!({"***": 1}));
    assert_eq!(redactor().value(&json!({"password": "short"})), json!({"password": "short"}));
}

#[test]
fn the_cost_is_linear() {
    let pieces = [
        "eyJ-AKIA0000000000000000-",
        "sk-",
        "eyJa.",
        "eyJ-",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "://",
        "a://:",
        "a:b@",
        "=",
        "secret=",
        "secret='",
        "Authorization: ",
        "bearer ",
        "12345678:",
        "AKIA",
        "-",
        "x",
    ];
    for piece in pieces {
        let text = piece.repeat((1 << 20) / piece.len());
        let started = Instant::now();
        clean(&text);
        // Quadratic would be hours; the limit is wide for a busy machine.
        assert!(started.elapsed() < Duration::from_secs(20), "{piece:?} took {:?}", started.elapsed());
    }
}

proptest! {
    #[test]
    fn masking_twice_is_masking_once(text in any_text()) {
        let once = clean(&text);
        prop_assert_eq!(clean(&once), once);
    }

    #[test]
    fn a_key_is_masked_in_any_surrounding(before in any_text(), after in any_text()) {
        let key = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        let text = format!("{before} {key} {after}");
        prop_assert!(!clean(&text).contains(key));
    }
}

/// Texts made of what the scanner looks for, and of anything.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just("sk-".to_owned()),
        Just("eyJ".to_owned()),
        Just(".".to_owned()),
        Just("-----BEGIN PRIVATE KEY-----".to_owned()),
        Just("-----END PRIVATE KEY-----".to_owned()),
        Just("://".to_owned()),
        Just("@".to_owned()),
        Just(":".to_owned()),
        Just("=".to_owned()),
        Just("secret".to_owned()),
        Just("api_key".to_owned()),
        Just("Authorization".to_owned()),
        Just("Bearer ".to_owned()),
        Just("\"".to_owned()),
        Just("***".to_owned()),
        Just("-".to_owned()),
        Just("0123456789abcdefABCDEF".to_owned()),
        "\\PC{0,6}",
        "[a-z0-9]{1,20}",
    ];
    proptest::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}
