//! Addresses, proxies and redirects (bug case 097).

use std::net::{Ipv6Addr, SocketAddr};
use std::process::Command;

use milk_core::model::ModelErrorKind;
use milk_model::{ChatConfig, ChatModel, Credential, HttpClients};
use milk_testkit::fault::RefusedPort;
use milk_testkit::{ModelServer, Reply, Script};
use pretty_assertions::assert_eq;

use crate::support::*;

#[tokio::test]
async fn case_097_every_form_of_a_base_address() {
    let server = ModelServer::respond(|_| Reply::text("ok")).await;
    let port = server.address().port();
    let forms = [
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}/v1"),
        format!("http://127.0.0.1:{port}/v1/"),
        format!("http://localhost:{port}/v1"),
        format!("localhost:{port}"),
    ];
    for (index, url) in forms.into_iter().enumerate() {
        assert_eq!(say(&model(config(url.clone())), "hi").await.success(), "ok", "{url}");
        assert_eq!(server.request(index).await.path, "/v1/chat/completions", "{url}");
    }
    let custom = ChatConfig { chat_path: Some("/api/chat?api-version=1".into()), ..config(server.url()) };
    let served = ModelServer::start(Script::replies([]).route("/api/chat", Reply::text("ok"))).await;
    let custom = ChatConfig { url: served.url(), ..custom };
    assert_eq!(say(&model(custom), "hi").await.success(), "ok");
    assert_eq!(served.all_requests()[0].path, "/api/chat?api-version=1");
}

#[tokio::test]
async fn case_097_ipv6_loopback() {
    let script = Script::respond(|_| Reply::text("ok")).bind(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)));
    // Some machines have no IPv6 at all.
    let Ok(server) = ModelServer::try_start(script).await else { return };
    assert_eq!(say(&on(&server), "hi").await.success(), "ok");
}

/// The environment belongs to the process, so the case runs in one of its own: this test, started again.
#[test]
fn case_097_proxy_variables_do_not_catch_loopback() {
    let closed = RefusedPort::take().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "network::behind_a_closed_proxy", "--ignored", "--nocapture"])
        .envs(
            ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"]
                .map(|name| (name, closed.url())),
        )
        .env("NO_PROXY", "model.invalid")
        .env_remove("no_proxy")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&status.stdout);
    assert!(status.status.success() && output.contains("1 passed"), "{output}");
}

#[tokio::test]
#[ignore = "started by case_097_proxy_variables_do_not_catch_loopback, with its environment"]
async fn behind_a_closed_proxy() {
    case_097_every_form_of_a_base_address_here().await;
    let failure = |url: &'static str| async move {
        let mut config = config(url);
        config.retry.tries = 1;
        say(&model(config), "hi").await.failure().clone()
    };
    // A remote name goes to the proxy, which refuses; one in NO_PROXY is looked up instead.
    let proxied = failure("http://elsewhere.invalid").await;
    assert!(proxied.details.contains("refused"), "{proxied}");
    let direct = failure("http://model.invalid").await;
    assert!(!direct.details.contains("refused"), "{direct}");
    assert_eq!((proxied.kind, direct.kind), (ModelErrorKind::Unreachable, ModelErrorKind::Unreachable));
}

async fn case_097_every_form_of_a_base_address_here() {
    let server = ModelServer::respond(|_| Reply::text("ok")).await;
    let port = server.address().port();
    for url in [format!("http://127.0.0.1:{port}/v1"), format!("http://localhost:{port}/v1/")] {
        assert_eq!(say(&model(config(url)), "hi").await.success(), "ok");
    }
}

#[tokio::test]
async fn a_redirect_to_another_host_is_told_and_not_followed() {
    let other = ModelServer::start(Script::respond(|_| Reply::text("stolen")).unchecked()).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("{}/v1/chat/completions?token=sk-SECRET-123", other.url());
        let server = ModelServer::script([Reply::status(status).header("location", location)]).await;
        let config =
            ChatConfig { credential: Credential::Key("sk-SECRET-123".into()), ..config(server.url()) };
        let outcome = say(&model(config), "hi").await;
        let failure = outcome.failure();
        assert_eq!(failure.kind, ModelErrorKind::Misconfigured, "{failure}");
        assert!(failure.details.contains(&other.url()) && !failure.details.contains("SECRET"), "{failure}");
    }
    assert_eq!(other.all_requests().len(), 0);
}

#[tokio::test]
async fn a_redirect_on_the_same_host_keeps_the_request() {
    let moved = Reply::status(308).header("location", "/v1/chat/completions");
    let server = ModelServer::start(Script::replies([Reply::text("ok")]).route("/old", moved)).await;
    let key = Credential::Key("a-private-key".into());
    let config = ChatConfig { chat_path: Some("/old".into()), credential: key, ..config(server.url()) };
    assert_eq!(say(&model(config), "hi").await.success(), "ok");
    assert_eq!(server.request(0).await.header("authorization"), Some("Bearer a-private-key"));
}

#[tokio::test]
async fn an_address_that_cannot_work_is_said_at_once() {
    for url in ["", "ftp://h", "http://h:x"] {
        let error = ChatModel::new(config(url), HttpClients::default()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Misconfigured, "{url}");
        assert!(error.details.contains("`coder`"), "{error}");
    }
}

#[tokio::test]
async fn clients_are_shared_between_models() {
    let server = ModelServer::respond(|_| Reply::text("ok")).await;
    let http = HttpClients::default();
    for _ in 0..3 {
        let model = ChatModel::new(config(server.url()), http.clone()).unwrap();
        assert_eq!(say(&model, "hi").await.success(), "ok");
    }
    assert_eq!(server.connections(), 1);
}
