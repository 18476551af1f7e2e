//! Credentials on the wire, and nowhere else (bug case 137).

use milk_core::model::ModelErrorKind;
use milk_core::ports::Model as _;
use milk_model::{ChatConfig, Credential, HttpClients, Secret};
use milk_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn keys_and_headers_are_sent() {
    let server = ModelServer::respond(|_| Reply::text("ok")).await;
    let headers = vec![("X-Team".to_owned(), Secret::from("blue"))];
    let credential = Credential::Key("sk-SECRET-123".into());
    let with_both = ChatConfig { headers, credential, ..config(server.url()) };
    say(&model(with_both.clone()), "hi").await.success();
    let own = ("authorization".to_owned(), Secret::from("Basic abc"));
    say(&model(ChatConfig { headers: vec![own], ..with_both }), "hi").await.success();
    say(&on(&server), "hi").await.success();
    let sent = |request: milk_testkit::RecordedRequest| request.header("authorization").map(str::to_owned);
    assert_eq!(server.request(0).await.header("x-team"), Some("blue"));
    assert_eq!(sent(server.request(0).await).as_deref(), Some("Bearer sk-SECRET-123"));
    assert_eq!(sent(server.request(1).await).as_deref(), Some("Basic abc"));
    assert_eq!(sent(server.request(2).await), None);
}

#[tokio::test]
async fn a_token_is_made_again_when_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("runs");
    let line = format!("echo x >> '{0}'; echo token-$(wc -l < '{0}' | tr -d ' ')", log.display());
    let server = ModelServer::respond(|request| match request.header("authorization") {
        Some("Bearer token-2") => Reply::text("ok"),
        _ => Reply::status(401),
    })
    .await;
    let model = model(ChatConfig { credential: Credential::Command(line), ..config(server.url()) });
    for count in [2, 3] {
        assert_eq!(say(&model, "hi").await.success(), "ok");
        assert_eq!(server.count(), count, "the new token is kept");
    }
}

#[tokio::test]
async fn a_token_that_stays_refused_ends_after_one_more_try() {
    let server = ModelServer::respond(|_| Reply::json(403, &json!({"error": "no token-abc here"}))).await;
    let credential = Credential::Command("echo token-abc".into());
    let outcome = say(&model(ChatConfig { credential, ..config(server.url()) }), "hi").await;
    assert_eq!((outcome.failure().kind, server.count()), (ModelErrorKind::Unauthorized, 2));
    assert!(outcome.failure().details.contains("no *** here"), "{outcome:?}");
    let credential = Credential::Command("echo 'please log in' >&2; exit 1".into());
    let outcome = say(&model(ChatConfig { credential, ..config(server.url()) }), "hi").await;
    assert_eq!(
        (outcome.failure().kind, server.count()),
        (ModelErrorKind::Unauthorized, 2),
        "nothing is sent without a token"
    );
    assert!(outcome.failure().details.contains("please log in"), "{outcome:?}");
}

#[tokio::test]
async fn case_137_no_error_and_no_debug_form_holds_a_secret() {
    let key = "sk-SECRET-123";
    let echo = |status| {
        ModelServer::respond(move |request| {
            let everything = format!("{:?} {}", request.headers, request.path);
            Reply::json(status, &json!({ "error": { "message": everything } }))
        })
    };
    let refused = milk_testkit::fault::RefusedPort::take().unwrap();
    let mut urls = vec![refused.url().replace("http://", "http://user:pass-SECRET-123@")];
    let servers = [echo(400).await, echo(401).await, echo(500).await];
    urls.extend(servers.iter().map(|server| format!("{}/v1?key=url-SECRET-123", server.url())));
    for url in urls {
        let headers = vec![("x-private".to_owned(), Secret::from("header-SECRET-123"))];
        let config = ChatConfig { credential: Credential::Key(key.into()), headers, ..config(url) };
        let model = model(config);
        let outcome = say(&model, "hi").await;
        let told = format!("{outcome:?} {}", outcome.failure());
        assert!(!told.contains("SECRET"), "{told}");
        let debug = format!("{model:?} {:?}", model.info());
        assert!(!debug.contains("SECRET"), "{debug}");
    }
}

#[tokio::test]
async fn a_missing_credential_is_told_apart_from_a_refused_one() {
    let server = ModelServer::respond(|_| Reply::status(401)).await;
    let without = say(&on(&server), "hi").await;
    assert!(without.failure().details.contains("wants a credential"), "{without:?}");
    let credential = Credential::Key("a-private-key".into());
    let with = say(&model(ChatConfig { credential, ..config(server.url()) }), "hi").await;
    assert!(with.failure().details.contains("refused the credential"), "{with:?}");
}

#[tokio::test]
async fn values_that_cannot_stand_in_a_header_are_said_by_name() {
    let server = ModelServer::respond(|_| Reply::text("ok")).await;
    let headers = vec![("x-bad".to_owned(), Secret::from("a\nSECRET"))];
    let error =
        milk_model::ChatModel::new(ChatConfig { headers, ..config(server.url()) }, HttpClients::default())
            .unwrap_err();
    assert!(error.details.contains("`x-bad`") && !error.details.contains("SECRET"), "{error}");
    let credential = Credential::Key("a\nSECRET".into());
    let outcome = say(&model(ChatConfig { credential, ..config(server.url()) }), "hi").await;
    assert_eq!(outcome.failure().kind, ModelErrorKind::Misconfigured);
    assert!(!outcome.failure().details.contains("SECRET"), "{outcome:?}");
}
