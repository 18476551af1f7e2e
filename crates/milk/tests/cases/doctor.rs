//! `milk doctor`: what is configured, whether it answers, a cure for each fault, and an exit status that says whether a
//! prompt would work(R37).

use std::process::Output;
use std::time::{Duration, Instant};

use milk_testkit::fault::RefusedPort;
use milk_testkit::{ModelServer, Reply, Script, TestHome};
use serde_json::{Value, json};

use crate::support::{MILK, assert_has, assert_has_any, assert_lacks, within};

const KEY: &str = "sk-SECRET-doctor";

/// Runs it in a home with this config.
fn examined(config: &Value) -> (Output, String) {
    let home = TestHome::new();
    home.config(config);
    run(&home)
}

fn run(home: &TestHome) -> (Output, String) {
    let output = home.run(MILK, &["doctor"], "");
    let said = text(&output);
    (output, said)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn one_agent(url: &str, extra: &Value) -> Value {
    let mut agent =
        json!({"name": "mine", "provider": "local", "url": url, "model": "test-model", "api_key": KEY});
    agent.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"agent": "mine", "agents": [agent], "discovery": false})
}

#[tokio::test]
async fn a_server_that_answers_is_fine() {
    let server = ModelServer::script([]).await;
    let (output, said) = examined(&one_agent(&server.url(), &json!({})));
    assert!(output.status.success(), "{said}");
    for word in ["mine", "test-model", &server.address().to_string()] {
        assert_has(&said, word);
    }
    assert_lacks(&said, KEY);
    assert!(said.lines().count() < 40, "a short table: {said}");
    assert!(!said.contains('\u{1b}'), "no colours where nobody sees them: {said:?}");
}

#[tokio::test]
async fn a_dead_server_is_a_fault_with_a_cure() {
    let refused = RefusedPort::take().unwrap();
    let (output, said) = examined(&one_agent(&refused.url(), &json!({})));
    assert!(!output.status.success(), "a prompt would not work: {said}");
    assert_has(&said, "mine");
    assert_has(&said, &refused.address().to_string());
    assert_has_any(&said, &["start", "running"]);
    assert_lacks(&said, KEY);
}

#[tokio::test]
async fn a_missing_model_is_a_fault_that_names_those_there_are() {
    let refusal = json!({"error": {"message": "model 'test-model' not found", "type": "not_found_error"}});
    let script = Script::respond(move |_| Reply::json(404, &refusal)).models(["llama-one", "qwen-two"]);
    let server = ModelServer::start(script.unchecked()).await;
    let (output, said) = examined(&one_agent(&server.url(), &json!({})));
    for word in ["test-model", "llama-one", "qwen-two"] {
        assert_has(&said, word);
    }
    assert!(!output.status.success(), "a prompt would not work: {said}");
}

/// llama.cpp's server has one model, lists it by its file and takes any name for it.
#[tokio::test]
async fn a_server_of_one_model_takes_any_name_for_it() {
    let models = json!({"object": "list", "data": [
        {"id": "/models/qwen2.5-coder-7b.gguf", "object": "model", "created": 1, "owned_by": "llamacpp", "meta": {}}]});
    let script = Script::respond(|_| Reply::text("fine")).route("/v1/models", Reply::json(200, &models));
    let server = ModelServer::start(script.unchecked()).await;
    for extra in [json!({}), json!({"provider": "llama.cpp"})] {
        let (output, said) = examined(&one_agent(&server.url(), &extra));
        assert!(output.status.success(), "a prompt would work: {said}");
    }
}

#[tokio::test]
async fn a_refused_key_is_a_fault_that_names_the_key_and_not_its_value() {
    for status in [401, 403] {
        let refusal =
            Reply::json(status, &json!({"error": {"message": format!("Incorrect API key provided: {KEY}")}}));
        let routes = ["/v1/models", "/models", "/health", "/v1/chat/completions"];
        let script =
            routes.iter().fold(Script::replies([]).unchecked(), |s, path| s.route(path, refusal.clone()));
        let server = ModelServer::start(script).await;
        let (output, said) = examined(&one_agent(&server.url(), &json!({})));
        assert!(!output.status.success(), "a prompt would not work: {said}");
        assert_has_any(&said, &["unauthorized", "refuse", "401", "403"]);
        assert_has(&said, "api_key");
        assert_lacks(&said, "Start the server");
        assert_lacks(&said, KEY);
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_a_fault_soon() {
    let script = ["/v1/models", "/models", "/health"]
        .iter()
        .fold(Script::replies([]).unchecked(), |script, path| script.route(path, Reply::silence()));
    let server = ModelServer::start(script).await;
    let began = Instant::now();
    let (output, said) = examined(&one_agent(&server.url(), &json!({"first_byte_timeout_secs": 1})));
    within(began.elapsed(), Duration::from_secs(15), &said);
    assert!(!output.status.success(), "nobody knows whether a prompt would work: {said}");
    assert_has(&said, "mine");
}

/// A server that has no list of models may still answer prompts.
#[tokio::test]
async fn a_server_without_a_list_of_models_is_no_fault() {
    let script = Script::respond(|_| Reply::text("fine")).unchecked().route("/v1/models", Reply::status(404));
    let server = ModelServer::start(script).await;
    let (output, said) = examined(&one_agent(&server.url(), &json!({})));
    assert!(output.status.success(), "{said}");
}

/// The demo agent answers on a fresh machine, so a prompt works; how to get a model is said.
#[tokio::test]
async fn with_nothing_configured_the_demo_works() {
    let (output, said) = examined(&json!({"discovery": false}));
    assert!(output.status.success(), "{said}");
    assert_has(&said.to_lowercase(), "demo");
    assert_has(&said, "config.json");
}

#[tokio::test]
async fn a_config_that_does_not_parse_is_told() {
    let home = TestHome::new();
    home.write(home.milk_home().join("config.json"), "{\"agents\": [");
    let (_, said) = run(&home);
    assert_has(&said, "config.json");
}

#[tokio::test]
async fn an_agent_that_does_not_exist_is_a_fault() {
    let server = ModelServer::script([]).await;
    let mut config = one_agent(&server.url(), &json!({}));
    config["agent"] = "nobody".into();
    let (output, said) = examined(&config);
    assert_has(&said, "nobody");
    // Whether milk falls back to the one agent there is: the status must say what a prompt would do.
    let home = TestHome::new();
    home.config(&config);
    let chat = {
        server.push(Reply::text("fell back"));
        home.run(MILK, &["chat", "hello"], "")
    };
    assert_eq!(output.status.success(), chat.status.success(), "doctor: {said}\nchat: {}", text(&chat));
}

#[tokio::test]
async fn several_agents_are_all_examined() {
    let server = ModelServer::script([]).await;
    let refused = RefusedPort::take().unwrap();
    let mut config = one_agent(&server.url(), &json!({}));
    let other = json!({"name": "other", "provider": "local", "url": refused.url(), "model": "test-model"});
    config["agents"].as_array_mut().unwrap().push(other);
    let (output, said) = examined(&config);
    assert_has(&said, "mine");
    assert_has(&said, "other");
    assert_has(&said, &refused.address().to_string());
    assert!(output.status.success(), "the primary agent answers prompts: {said}");
}
