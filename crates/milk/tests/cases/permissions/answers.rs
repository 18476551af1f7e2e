//! What counts as a yes, and what needs one.

use std::fs;

use crate::support::{Plan, Rig, answered, assert_has, assert_has_any, ended, words};
use milk_testkit::{Answer, ModelServer, Policy, Reply, Script};
use serde_json::{Value, json};

// ---- 050: anything but a clear yes is a no

/// Everything that a client may answer and that is no clear yes.
fn no_clear_yes() -> Vec<Answer> {
    let outcomes = [
        json!({"outcome": {"outcome": "selected", "optionId": "nope"}}),
        json!({"outcome": {"outcome": "selected", "optionId": "Allow"}}),
        json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}}),
        json!({"outcome": {"outcome": "selected", "optionId": " allow"}}),
        json!({"outcome": {"outcome": "selected", "optionId": ["allow"]}}),
        json!({"outcome": {"outcome": "selected", "optionId": true}}),
        json!({"outcome": {"outcome": "selected", "optionId": null}}),
        json!({"outcome": {"outcome": "selected"}}),
        json!({"outcome": {"outcome": "_later"}}),
        json!({"outcome": {"outcome": "_later", "optionId": "allow"}}),
        json!({"outcome": {"outcome": "cancelled"}}),
        json!({"outcome": {"outcome": "cancelled", "optionId": "allow"}}),
        json!({"outcome": {"optionId": "allow"}}),
        json!({"outcome": "selected"}),
        json!({"outcome": "allow"}),
        json!({"outcome": null}),
        json!({"optionId": "allow"}),
        json!({}),
        json!([]),
        json!("allow"),
        json!(true),
        Value::Null,
        json!({"outcome": {"outcome": "selected", "optionId": "deny"}}),
    ];
    outcomes.into_iter().map(Answer::Result).collect()
}

async fn every_odd_answer_is_a_no(version: u16) {
    let rig = Plan::obedient().version(version).start().await;
    for (number, answer) in no_clear_yes().into_iter().enumerate() {
        rig.agent.set_policy(Policy::script({
            let answer = answer.clone();
            move |_| answer.clone()
        }));
        let path = format!("written-{number}.txt");
        let called = rig.call("write_file", json!({"path": path, "content": "x"})).await;
        called.asked(1);
        assert!(!rig.home.exists(&path), "{answer:?} let the write through");
        assert_has_any(called.result(), &["denied"]);
        assert_eq!(called.row().status(), "failed", "the row of a denied call: {:#?}", called.row());
        ended(&called.turn, "end_turn");
        assert_has(&called.turn.text, "done");
    }
}

#[tokio::test]
async fn case_050_anything_but_a_clear_yes_is_a_no() {
    every_odd_answer_is_a_no(2).await;
}

#[tokio::test]
async fn case_050_anything_but_a_clear_yes_is_a_no_for_v1() {
    every_odd_answer_is_a_no(1).await;
}

/// A client that cannot answer is named as the cause (contract: Tool permissions).
#[tokio::test]
async fn case_050_an_error_is_a_no_that_names_its_cause() {
    let rig = Plan::obedient().start().await;
    let errors = [
        (-32601, "this editor has no such dialog"),
        (-32800, "the dialog was withdrawn"),
        (-32000, "the window is gone"),
    ];
    for (code, message) in errors {
        rig.agent.set_policy(Policy::script(move |_| Answer::error(code, message)));
        let called = rig.call("write_file", json!({"path": "w.txt", "content": "x"})).await;
        called.asked(1);
        assert!(!rig.home.exists("w.txt"), "error {code} let the write through");
        assert_has_any(called.result(), &["denied"]);
        ended(&called.turn, "end_turn");
        assert_has(&called.turn.text, "done");
        let said = rig.text();
        assert_has(&said, message);
        assert_has(&said, "write_file");
    }
}

#[tokio::test]
async fn case_050_a_yes_after_all_those_still_counts() {
    let rig = Plan::obedient().start().await;
    rig.agent.set_policy(Policy::script(|_| Answer::not_found()));
    rig.call("write_file", json!({"path": "w.txt", "content": "x"})).await.asked(1);
    rig.agent.set_policy(Policy::Option("allow".to_owned()));
    rig.call("write_file", json!({"path": "w.txt", "content": "x"})).await.asked(1);
    assert_eq!(rig.home.read("w.txt"), "x");
}

// ---- 051: everything with a side effect asks, before it has any

#[tokio::test]
async fn case_051_every_tool_with_a_side_effect_asks_first() {
    let elsewhere = ModelServer::start(Script::replies([]).unchecked()).await;
    let rig = Plan::obedient().policy(Policy::Deny).start().await;
    rig.home.write("a.txt", "one\n");
    let calls = [
        ("write_file", json!({"path": "new.txt", "content": "x"})),
        ("write_file", json!({"path": "a.txt", "content": "x"})),
        ("edit_file", json!({"path": "a.txt", "old_string": "one", "new_string": "two"})),
        ("bash", json!({"command": "touch touched"})),
        ("delete_file", json!({"path": "a.txt"})),
        ("move_file", json!({"source": "a.txt", "destination": "b.txt"})),
        ("http_get", json!({"url": format!("{}/get", elsewhere.url())})),
        ("http_request", json!({"url": format!("{}/post", elsewhere.url()), "method": "POST", "body": "x"})),
    ];
    for (tool, arguments) in calls {
        let called = rig.call(tool, arguments).await;
        called.asked(1);
        assert_has_any(called.result(), &["denied"]);
        answered(&called.turn, "done");
        let files = files_in(&rig);
        assert_eq!(files, ["a.txt"], "{tool} had an effect without a yes");
        assert_eq!(rig.home.read("a.txt"), "one\n", "{tool} had an effect without a yes");
        assert_eq!(elsewhere.connections(), 0, "{tool} reached the network without a yes");
    }
}

#[tokio::test]
async fn case_051_reading_does_not_ask() {
    let rig = Plan::obedient().policy(Policy::Deny).start().await;
    rig.home.write("a.txt", "one\n");
    let calls = [
        ("read_file", json!({"path": "a.txt"})),
        ("list_dir", json!({"path": "."})),
        ("find_files", json!({"path": ".", "pattern": "*.txt"})),
        ("grep", json!({"path": ".", "pattern": "one"})),
    ];
    for (tool, arguments) in calls {
        let called = rig.call(tool, arguments).await;
        called.asked(0);
        assert_eq!(called.row().status(), "completed", "{tool}: {called:#?}");
    }
}

/// While the question is open nothing is sent; after the yes it is.
#[tokio::test]
async fn http_tools_send_nothing_before_the_yes() {
    let elsewhere = ModelServer::start(
        Script::replies([]).route("/get", Reply::body(200, "text/plain", "found")).unchecked(),
    )
    .await;
    let rig = Plan::obedient().start().await;
    for (tool, extra) in [("http_get", json!({})), ("http_request", json!({"method": "PUT", "body": "x"}))] {
        let mut arguments = json!({"url": format!("{}/get", elsewhere.url())});
        arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let (before, connections) = (elsewhere.all_requests().len(), elsewhere.connections());
        let prompt = rig.begin(tool, arguments);
        let question = rig.agent.expect_request("session/request_permission").await;
        assert_has(&words(&question), &elsewhere.url());
        rig.agent.sync().await;
        assert_eq!(elsewhere.connections(), connections, "{tool} reached the network before the yes");
        rig.agent.select(&question, "allow");
        rig.agent.response(prompt).await.unwrap();
        assert_eq!(elsewhere.all_requests().len(), before + 1, "{tool}");
    }
    let [get, put] = &elsewhere.all_requests()[..] else { panic!("two requests") };
    assert_eq!((get.method.as_str(), put.method.as_str()), ("GET", "PUT"));
    assert_eq!(put.raw_body, b"x");
}

fn files_in(rig: &Rig) -> Vec<String> {
    let entries = fs::read_dir(rig.home.workspace()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

// ---- 052: what the user configured is honoured

#[tokio::test]
async fn case_052_skip_permissions_in_the_config_is_honoured() {
    let rig = Plan::obedient().root("dangerously_skip_permissions", true).start().await;
    rig.call("bash", json!({"command": "touch ran"})).await.asked(0);
    rig.call("write_file", json!({"path": "w.txt", "content": "x"})).await.asked(0);
    assert!(rig.home.exists("ran") && rig.home.exists("w.txt"));
}

#[tokio::test]
async fn case_052_skip_permissions_by_command_is_honoured_until_it_is_off() {
    let rig = Plan::obedient().policy(Policy::Deny).start().await;
    rig.call("bash", json!({"command": "touch asked"})).await.asked(1);
    ended(&rig.turn("/skip-permissions on").await, "end_turn");
    rig.call("bash", json!({"command": "touch ran"})).await.asked(0);
    rig.call("write_file", json!({"path": "w.txt", "content": "x"})).await.asked(0);
    assert!(rig.home.exists("ran") && rig.home.exists("w.txt"));
    // It is this session's switch, not the next one's.
    let beside = rig.session_in(rig.home.workspace()).await;
    rig.call_in(&beside, "bash", json!({"command": "touch beside"})).await.asked(1);
    ended(&rig.turn("/skip-permissions off").await, "end_turn");
    rig.call("bash", json!({"command": "touch again"})).await.asked(1);
    assert!(!["asked", "beside", "again"].iter().any(|name| rig.home.exists(name)));
}

#[tokio::test]
async fn case_052_allowed_patterns_in_the_config_are_honoured() {
    let rig = Plan::obedient()
        .root("bash_allowed_patterns", json!(["echo root"]))
        .agent("bash_allowed_patterns", json!(["echo agent*"]))
        .policy(Policy::Deny)
        .start()
        .await;
    for command in ["echo root", "echo agent", "echo agent smith"] {
        let called = rig.call("bash", json!({"command": command})).await;
        called.asked(0);
        assert_has(called.result(), command.trim_start_matches("echo "));
    }
    for command in ["echo rooted", "echo", "printf agent"] {
        rig.call("bash", json!({"command": command})).await.asked(1);
    }
}
