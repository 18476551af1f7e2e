//! Probes of servers.

use std::time::Duration;

use milk_model::discover::{Found, Target, probe, probe_all};
use milk_model::{Credential, HttpClients};
use milk_testkit::fault::RefusedPort;
use milk_testkit::{ModelServer, Reply, Script};
use pretty_assertions::assert_eq;
use serde_json::json;

/// Generous: only the test of the limit comes near it.
const LIMIT: Duration = Duration::from_secs(20);

async fn found_at(path_reply: Reply) -> Found {
    let server = ModelServer::start(Script::replies([]).route("/v1/models", path_reply)).await;
    probe(&HttpClients::default(), &Target::open("x", server.url()), LIMIT).await.found
}

#[tokio::test]
async fn servers_are_told_apart() {
    let models = json!({"object": "list", "data": [{"id": "nomic-embed-text"}, {"id": "qwen3"}]});
    let names = vec!["nomic-embed-text".to_owned(), "qwen3".to_owned()];
    assert_eq!(found_at(Reply::json(200, &models)).await, Found::Models(names));
    assert_eq!(found_at(Reply::json(200, &json!({"object": "list", "data": null}))).await, Found::NoModels);
    assert_eq!(found_at(Reply::status(401)).await, Found::Unauthorized);
    assert_eq!(found_at(Reply::status(403)).await, Found::Unauthorized);
    let loading = json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}});
    assert_eq!(found_at(Reply::json(503, &loading)).await, Found::Loading);
    assert_eq!(found_at(Reply::status(500)).await, Found::Failed("status 500: scripted failure 500".into()));
    let page = Reply::body(200, "text/html", "<title>Jenkins</title>");
    assert_eq!(found_at(page).await, Found::NotAModelServer("a web page titled “Jenkins”".into()));
    assert_eq!(
        found_at(Reply::status(404)).await,
        Found::NotAModelServer("status 404: scripted failure 404".into())
    );
    assert!(matches!(found_at(Reply::broken()).await, Found::Unreachable(_)));
}

#[tokio::test]
async fn many_are_probed_together_and_in_order() {
    let server = ModelServer::start(Script::replies([]).models(["a"])).await;
    let silent = ModelServer::start(Script::replies([]).route("/v1/models", Reply::silence())).await;
    let port = RefusedPort::take().unwrap();
    let targets = [
        Target::open("refused", port.url()),
        Target::open("silent", silent.url()),
        Target::open("good", format!("{}/v1/", server.url())),
        Target::open("bad", "nonsense://x"),
    ];
    let start = std::time::Instant::now();
    let probes = probe_all(&HttpClients::default(), &targets, Duration::from_secs(2)).await;
    assert!(start.elapsed() < Duration::from_secs(10));
    let found: Vec<&Found> = probes.iter().map(|probe| &probe.found).collect();
    assert_eq!(found[..3], [&Found::Refused, &Found::TimedOut, &Found::Models(vec!["a".into()])]);
    assert!(matches!(found[3], Found::Misconfigured(_)));
    assert_eq!(
        (probes[2].name.as_str(), probes[2].is_usable(), probes[2].first_chat_model()),
        ("good", true, Some("a"))
    );
}

#[tokio::test]
async fn a_credential_is_shown_and_not_told() {
    let reply = Reply::json(500, &json!({"error": "no: sk-SECRET-123"}));
    let server = ModelServer::start(Script::replies([]).route("/v1/models", reply)).await;
    let credential = Credential::Key("sk-SECRET-123".into());
    let target = Target { credential, ..Target::open("x", server.url()) };
    let probe = probe(&HttpClients::default(), &target, LIMIT).await;
    assert_eq!(server.all_requests()[0].header("authorization"), Some("Bearer sk-SECRET-123"));
    assert!(!format!("{probe:?} {target:?}").contains("SECRET"), "{probe:?}");
}

#[tokio::test]
async fn an_endless_list_is_not_read_to_its_end() {
    let reply = Reply::json(200, &json!({"data": ["x".repeat(5 << 20)]}));
    assert!(matches!(found_at(reply).await, Found::Failed(_)));
}
