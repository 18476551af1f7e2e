//! What models get wrong: unknown names, arguments that do not parse or are of the wrong type.

use milk_testkit::{Reply, ToolCall};
use serde_json::json;

use super::{allow, permissive};
use crate::support::{Plan, answered, assert_has, assert_has_any, assert_lacks, results};

// ---- 078 to 080: what models get wrong

#[tokio::test]
async fn case_078_an_unknown_tool_is_named_with_those_there_are() {
    let rig = Plan::obedient().start().await;
    for name in ["search_files", "Bash", "read_file ", "functions.read_file", "ﬁle"] {
        let called = rig.call(name, json!({"query": "x"})).await;
        called.asked(0);
        if called.row().status() == "completed" {
            // A near miss may be understood; then it is the tool that it meant.
            continue;
        }
        assert_eq!(called.row().status(), "failed");
        answered(&called.turn, "done");
    }
    let called = rig.call("search_files", json!({"query": "x"})).await;
    assert_has_any(called.result(), &["unknown tool", "no tool", "does not exist"]);
    assert_has(called.result(), "search_files");
    for there in ["read_file", "grep", "bash"] {
        assert_has(called.result(), there);
    }
}

#[tokio::test]
async fn case_079_arguments_that_do_not_parse_run_nothing() {
    let broken = [
        (r#"{"path":"a.txt","content":"x"#, "write_file"),
        ("{path: a}", "write_file"),
        ("", "write_file"),
        ("null", "write_file"),
        ("[]", "write_file"),
        ("\"a.txt\"", "write_file"),
        ("", "bash"),
        ("{}", "bash"),
        (r#"{"command":"touch a.txt"#, "bash"),
    ];
    let rig = Plan::respond({
        let mut calls = broken.into_iter();
        move |request| {
            if request.messages().last().is_some_and(|newest| newest["role"] == "tool") {
                return Reply::text("done");
            }
            let (arguments, tool) = calls.next().expect("one more case");
            Reply::tools([ToolCall::new(tool, json!({})).raw_arguments(arguments)])
        }
    })
    .policy(allow())
    .start()
    .await;
    for (arguments, tool) in broken {
        let turn = rig.turn("go").await;
        answered(&turn, "done");
        assert_eq!(rig.questions().len(), 0, "nothing is asked about broken arguments: {tool} {arguments:?}");
        assert!(!rig.home.exists("a.txt"), "{tool} ran with {arguments:?}");
        let told = results(&rig.server.request(rig.server.count() - 1).await);
        assert_has_any(told.last().unwrap(), &["argument", "parse", "missing", "required", "JSON"]);
    }
    for row in rig.agent.transcript().tool_rows(&rig.session) {
        assert_eq!(row.status(), "failed", "{row:#?}");
    }
}

/// Empty arguments are fine for a tool that needs none.
#[tokio::test]
async fn case_079_empty_arguments_run_a_tool_that_needs_none() {
    let rig = Plan::respond(|request| match request.messages().last() {
        Some(newest) if newest["role"] == "tool" => Reply::text("done"),
        _ => Reply::tools([ToolCall::new("list_dir", json!({})).raw_arguments("")]),
    })
    .start()
    .await;
    rig.home.write("here.txt", "x");
    answered(&rig.turn("go").await, "done");
    let request = rig.server.request(1).await;
    let offered = request.body["tools"].as_array().unwrap().iter();
    let list_dir = offered.map(|tool| &tool["function"]).find(|tool| tool["name"] == "list_dir").unwrap();
    let needs_none = list_dir["parameters"]["required"].as_array().is_none_or(Vec::is_empty);
    let told = results(&request).remove(0);
    if needs_none {
        assert_has(&told, "here.txt");
    } else {
        assert_has_any(&told, &["path", "argument", "required"]);
    }
}

#[tokio::test]
async fn case_080_the_right_value_in_the_wrong_type() {
    let rig = permissive().await;
    rig.home.write("a", "l1\nl2\nl3\nl4\nl5\nl6\n");
    let typed = rig.call("read_file", json!({"path": "a", "offset": 2, "limit": 3})).await;
    let texts = rig.call("read_file", json!({"path": "a", "offset": "2", "limit": "3"})).await;
    assert_eq!(texts.result(), typed.result());
    assert_lacks(typed.result(), "l6");
    assert_eq!(texts.row().status(), "completed");

    rig.home.write("b", "x x x\n");
    let edit = json!({"path": "b", "old_string": "x", "new_string": "y", "replace_all": "true"});
    assert_eq!(rig.call("edit_file", edit).await.row().status(), "completed");
    assert_eq!(rig.home.read("b"), "y y y\n");

    let called = rig.call("bash", json!({"command": "touch ran", "timeout_seconds": "abc"})).await;
    assert_eq!(called.row().status(), "failed");
    assert_has(called.result(), "timeout_seconds");
    assert!(!rig.home.exists("ran"));
    let called = rig.call("bash", json!({"command": "echo fine", "timeout_seconds": "30"})).await;
    assert_has(called.result(), "fine");

    rig.home.write("7", "seven\n");
    let called = rig.call("read_file", json!({"path": 7})).await;
    if called.row().status() == "completed" {
        assert_has(called.result(), "seven");
    } else {
        assert_has(called.result(), "path");
    }
    for path in [json!(null), json!(["a"]), json!({"a": 1}), json!(true)] {
        let called = rig.call("read_file", json!({ "path": path })).await;
        assert_eq!(called.row().status(), "failed", "{called:#?}");
        assert_has_any(called.result(), &["path", "true"]);
        answered(&called.turn, "done");
    }
}

/// Numbers far outside of sense neither panic nor wait.
#[tokio::test]
async fn case_080_numbers_outside_of_sense() {
    let rig = permissive().await;
    rig.home.write("a", "l1\nl2\n");
    for (tool, arguments) in [
        ("read_file", json!({"path": "a", "offset": u64::MAX, "limit": u64::MAX})),
        ("read_file", json!({"path": "a", "offset": -1, "limit": 0})),
        ("read_file", json!({"path": "a", "offset": 1e300, "limit": 2.5})),
        ("bash", json!({"command": "true", "timeout_seconds": u64::MAX})),
        ("bash", json!({"command": "true", "timeout_seconds": -5})),
        ("bash", json!({"command": "true", "timeout_seconds": 1e300})),
        ("bash", json!({"command": "true", "timeout_seconds": 0})),
        ("read_file", json!({"path": "a".repeat(100_000)})),
        ("read_file", json!({"path": "a\u{0}b"})),
        ("grep", json!({"path": ".", "pattern": "("})),
        ("grep", json!({"path": ".", "pattern": "a".repeat(100_000)})),
        ("find_files", json!({"path": ".", "pattern": "[".repeat(1000)})),
    ] {
        let called = rig.call(tool, arguments).await;
        answered(&called.turn, "done");
    }
}
