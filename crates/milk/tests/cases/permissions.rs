//! Nothing side-effecting runs without a clear yes (contract: Tool permissions; R28, R30).
//!
//! Cases that need more than stands:
//!
//! | case | needs |
//! |---|---|
//! | 049 background agents must be able to ask | background agents |
//! | 052, its part on `/skip-permissions` | the command |
//! | 053, its part on patterns in a grant | grants that are patterns |
//! | 056, its part on Telegram | remote oversight |
//! | 059 editor and remote answer race | remote oversight |

use std::io::Write as _;
use std::process::{Command, Stdio};

use milk_testkit::client::ToolRow;
use milk_testkit::{Answer, Matcher, ModelServer, Policy, Reply, Script, TestHome, ToolCall};
use serde_json::{Value, json};

use crate::support::{
    Plan, Rig, answered, assert_has, assert_has_any, assert_lacks, ended, patched, question_in, results,
    subject, words,
};

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
    let entries = std::fs::read_dir(rig.home.workspace()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

// ---- what is asked

#[tokio::test]
async fn a_question_has_the_contracts_shape() {
    let rig = Plan::obedient().start().await;
    let prompt = rig.begin("bash", json!({"command": "touch made"}));
    let question = rig.agent.expect_request("session/request_permission").await;
    rig.agent.sync().await;
    let params = &question["params"];
    assert_eq!(params["sessionId"], rig.session.as_str());
    assert_eq!(params["title"], "Allow bash?");
    assert_has(params["description"].as_str().unwrap_or_default(), "touch made");
    assert_eq!(params["subject"]["type"], "tool_call");
    assert_eq!(options(&question), OPTIONS);
    // The row that the question is about is there, and is waiting (R30).
    let rows = rig.agent.transcript().tool_rows(&rig.session);
    assert_eq!((rows.len(), rows[0].id.clone()), (1, subject(&question)));
    assert_eq!(rows[0].statuses, ["pending"]);
    assert_eq!(rows[0].fields["rawInput"], json!({"command": "touch made"}));
    assert!(!rig.home.exists("made"));
    rig.agent.select(&question, "allow");
    rig.agent.response(prompt).await.unwrap();
    let row = &rig.agent.transcript().tool_rows(&rig.session)[0];
    assert_eq!(row.statuses, ["pending", "in_progress", "completed"]);
    assert!(rig.home.exists("made"));
}

#[tokio::test]
async fn a_question_to_a_v1_client_has_v1s_shape() {
    let rig = Plan::obedient().version(1).start().await;
    let prompt = rig.begin("bash", json!({"command": "touch made"}));
    let question = rig.agent.expect_request("session/request_permission").await;
    rig.agent.sync().await;
    let call = &question["params"]["toolCall"];
    assert_has(call["title"].as_str().unwrap_or_default(), "bash");
    assert_has(call["title"].as_str().unwrap_or_default(), "touch made");
    assert!(question["params"].get("subject").is_none(), "v1 knows no subject: {question}");
    assert_eq!(options(&question), OPTIONS);
    let rows = rig.agent.transcript().tool_rows(&rig.session);
    assert_eq!((rows.len(), rows[0].id.clone()), (1, subject(&question)));
    assert_eq!((rows[0].first_update.as_str(), rows[0].status()), ("tool_call", "pending"));
    rig.agent.select(&question, "deny");
    rig.agent.response(prompt).await.unwrap();
    assert!(!rig.home.exists("made"));
}

/// R28.
const OPTIONS: [(&str, &str); 3] =
    [("allow", "allow_once"), ("allow_always", "allow_always"), ("deny", "reject_once")];

fn options(question: &Value) -> Vec<(&str, &str)> {
    let options = question["params"]["options"].as_array().unwrap();
    options
        .iter()
        .map(|option| (option["optionId"].as_str().unwrap(), option["kind"].as_str().unwrap()))
        .collect()
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

// ---- 053: what a yes covers (R28)

#[tokio::test]
async fn case_053_a_yes_to_one_command_is_no_yes_to_another() {
    let rig = Plan::obedient().policy(Policy::Option("allow".to_owned())).start().await;
    rig.call("bash", json!({"command": "ls"})).await.asked(1);
    rig.agent.set_policy(Policy::Deny);
    rig.call("bash", json!({"command": "touch other"})).await.asked(1);
    rig.call("bash", json!({"command": "ls; touch other"})).await.asked(1);
    rig.call("bash", json!({"command": "ls ."})).await.asked(1);
    rig.call("write_file", json!({"path": "other", "content": "x"})).await.asked(1);
    assert!(!rig.home.exists("other"));
    // The exact command was said yes to, for as long as the session is open.
    rig.call("bash", json!({"command": "ls"})).await.asked(0);
}

#[tokio::test]
async fn case_053_a_yes_to_a_tool_covers_that_tool_in_that_session() {
    let rig = Plan::obedient().policy(Policy::Option("allow".to_owned())).start().await;
    rig.call("write_file", json!({"path": "a.txt", "content": "1"})).await.asked(1);
    rig.agent.set_policy(Policy::Deny);
    rig.call("write_file", json!({"path": "b.txt", "content": "2"})).await.asked(0);
    assert_eq!(rig.home.read("b.txt"), "2");
    rig.call("edit_file", json!({"path": "a.txt", "old_string": "1", "new_string": "2"})).await.asked(1);
    rig.call("delete_file", json!({"path": "a.txt"})).await.asked(1);
    // A session beside it has its own grants, and after a close they are gone.
    let beside = rig.session_in(rig.home.workspace()).await;
    rig.call_in(&beside, "write_file", json!({"path": "c.txt", "content": "3"})).await.asked(1);
    let close = json!({"sessionId": rig.session});
    rig.agent.request("session/close", close).await.unwrap();
    let after = rig.session_in(rig.home.workspace()).await;
    rig.call_in(&after, "write_file", json!({"path": "c.txt", "content": "3"})).await.asked(1);
    assert!(!rig.home.exists("c.txt"));
}

#[tokio::test]
async fn a_yes_in_this_process_is_not_a_yes_in_the_next() {
    let rig = Plan::obedient().policy(Policy::Option("allow".to_owned())).start().await;
    rig.call("write_file", json!({"path": "a.txt", "content": "1"})).await.asked(1);
    rig.call("bash", json!({"command": "true"})).await.asked(1);
    let rig = rig.restarted().await;
    rig.agent.set_policy(Policy::Deny);
    rig.call("write_file", json!({"path": "b.txt", "content": "2"})).await.asked(1);
    rig.call("bash", json!({"command": "true"})).await.asked(1);
}

// ---- allow_always: stored for the directory (R28)

#[tokio::test]
async fn always_lasts_for_the_tool_in_that_directory() {
    let rig = Plan::obedient().policy(Policy::Kind("allow_always".to_owned())).start().await;
    rig.call("write_file", json!({"path": "a.txt", "content": "1"})).await.asked(1);
    let rig = rig.restarted().await;
    rig.agent.set_policy(Policy::Deny);
    rig.call("write_file", json!({"path": "b.txt", "content": "2"})).await.asked(0);
    assert_eq!(rig.home.read("b.txt"), "2");
    rig.call("edit_file", json!({"path": "b.txt", "old_string": "2", "new_string": "3"})).await.asked(1);
    let other = rig.home.another_workspace("other");
    let elsewhere = rig.session_in(&other).await;
    let called = rig.call_in(&elsewhere, "write_file", json!({"path": "c.txt", "content": "3"})).await;
    called.asked(1);
    assert!(!other.join("c.txt").exists());
}

#[tokio::test]
async fn always_lasts_for_the_exact_command_in_that_directory() {
    let rig = Plan::obedient().policy(Policy::Kind("allow_always".to_owned())).start().await;
    let called = rig.call("bash", json!({"command": "echo kept > kept.txt"})).await;
    called.asked(1);
    // The label says what is stored.
    let options = called.questions[0]["params"]["options"].as_array().unwrap();
    let label = options.iter().find(|option| option["kind"] == "allow_always").unwrap()["name"].clone();
    assert_has(label.as_str().unwrap(), "echo kept > kept.txt");
    let rig = rig.restarted().await;
    rig.agent.set_policy(Policy::Deny);
    rig.call("bash", json!({"command": "echo kept > kept.txt"})).await.asked(0);
    rig.call("bash", json!({"command": "echo kept > kept.txt; true"})).await.asked(1);
    rig.call("bash", json!({"command": "echo kept"})).await.asked(1);
    let elsewhere = rig.session_in(rig.home.another_workspace("other")).await;
    rig.call_in(&elsewhere, "bash", json!({"command": "echo kept > kept.txt"})).await.asked(1);
}

/// Two processes on one home: a grant stored by one does not lose the other's.
#[tokio::test]
async fn always_of_two_processes_is_kept_for_both() {
    let rig = Plan::obedient().policy(Policy::Kind("allow_always".to_owned())).start().await;
    let second = Second::beside(&rig).await;
    rig.call("write_file", json!({"path": "a.txt", "content": "1"})).await.asked(1);
    second.call(&rig, "bash", json!({"command": "true"})).await;
    rig.call("bash", json!({"command": "echo one"})).await.asked(1);
    drop(second);
    let rig = rig.restarted().await;
    rig.agent.set_policy(Policy::Deny);
    rig.call("write_file", json!({"path": "b.txt", "content": "2"})).await.asked(0);
    rig.call("bash", json!({"command": "true"})).await.asked(0);
    rig.call("bash", json!({"command": "echo one"})).await.asked(0);
}

/// Grants of earlier versions of milk: `permissions/<md5 of the directory>.json`. Those for whole tools count, but for the
/// shell, which is told once (R28).
#[tokio::test]
async fn grants_of_earlier_versions_count_except_for_the_shell() {
    let home = TestHome::new();
    let name = md5(home.workspace().to_str().unwrap());
    let old = json!({"allowed_tools": ["bash", "write_file"]}).to_string();
    home.write(home.milk_home().join(format!("permissions/{name}.json")), old);
    let rig = Plan::obedient().policy(Policy::Deny).start_in(home).await;
    rig.call("write_file", json!({"path": "w.txt", "content": "x"})).await.asked(0);
    assert_eq!(rig.home.read("w.txt"), "x");
    rig.call("bash", json!({"command": "touch made"})).await.asked(1);
    rig.call("bash", json!({"command": "touch made"})).await.asked(1);
    assert!(!rig.home.exists("made"));
    rig.call("edit_file", json!({"path": "w.txt", "old_string": "x", "new_string": "y"})).await.asked(1);
    let told = rig.notices().join("\n") + &rig.agent.stderr();
    let lines = told.lines().filter(|line| line.contains("bash") || line.contains("shell")).count();
    assert_eq!(lines, 1, "told once: {told}");
}

fn md5(text: &str) -> String {
    let mut program = Command::new("md5sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    program.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = program.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

/// Another milk in the same home, with a session in the same workspace.
struct Second {
    agent: milk_testkit::AgentProcess,
    session: String,
}

impl Second {
    async fn beside(rig: &Rig) -> Self {
        let agent = rig.home.spawn_milk(crate::support::MILK, &["serve", "--acp"]);
        agent.set_policy(Policy::Kind("allow_always".to_owned()));
        agent.initialize(2).await;
        let session = agent.new_session(rig.home.workspace()).await;
        Self { agent, session }
    }

    async fn call(&self, rig: &Rig, tool: &str, arguments: Value) {
        let before = rig.server.count();
        let order = format!("Please make these calls: {}", json!([[tool, arguments]]));
        let turn = self.agent.turn(&self.session, &order).await;
        ended(&turn, "end_turn");
        assert_eq!(rig.server.count(), before + 2);
    }
}

// ---- 055: the diff comes before the question, and what was shown is what is done

const BEFORE: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\ntwo\nten\n";
const AFTER: &str = "one\nTWO\nthree\nfour\nfive\nsix\nseven\neight\nnine\nTWO\nten\n";

fn edits() -> [(&'static str, Value); 2] {
    [
        (
            "edit_file",
            json!({"path": "a.txt", "old_string": "two", "new_string": "TWO", "replace_all": true}),
        ),
        ("write_file", json!({"path": "a.txt", "content": AFTER})),
    ]
}

fn diffs(row: &ToolRow) -> Vec<&Value> {
    let content = row.fields["content"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    content.iter().filter(|part| part["type"] == "diff").collect()
}

#[tokio::test]
async fn case_055_the_whole_diff_is_there_before_the_question() {
    for (tool, arguments) in edits() {
        let rig = Plan::obedient().start().await;
        let path = rig.home.write("a.txt", BEFORE);
        let prompt = rig.begin(tool, arguments);
        let question = rig.agent.expect_request("session/request_permission").await;
        // The question is the newest line but for the state; what came before it has the diff.
        let row = rig.agent.transcript().tool_rows(&rig.session).remove(0);
        let [diff] = diffs(&row)[..] else { panic!("{tool}: a diff before the question: {row:#?}") };
        let change = &diff["changes"][0];
        assert_eq!((change["operation"].as_str(), change["path"].as_str()), (Some("modify"), path.to_str()));
        assert_eq!(diff["patch"]["format"], "git_patch");
        assert_eq!(patched(BEFORE, diff["patch"]["text"].as_str().unwrap()), AFTER, "{tool}: all hunks");
        assert_eq!(rig.home.read("a.txt"), BEFORE);
        rig.agent.select(&question, "allow");
        rig.agent.response(prompt).await.unwrap();
        assert_eq!(rig.home.read("a.txt"), AFTER, "{tool}");
    }
}

#[tokio::test]
async fn case_055_the_diff_for_v1_has_both_texts() {
    for (tool, arguments) in edits() {
        let rig = Plan::obedient().version(1).start().await;
        let path = rig.home.write("a.txt", BEFORE);
        let prompt = rig.begin(tool, arguments);
        let question = rig.agent.expect_request("session/request_permission").await;
        let row = rig.agent.transcript().tool_rows(&rig.session).remove(0);
        let [diff] = diffs(&row)[..] else { panic!("{tool}: a diff before the question: {row:#?}") };
        assert_eq!(diff["path"], path.to_str().unwrap());
        assert_eq!(
            (diff["oldText"].as_str(), diff["newText"].as_str()),
            (Some(BEFORE), Some(AFTER)),
            "{tool}"
        );
        rig.agent.select(&question, "allow");
        rig.agent.response(prompt).await.unwrap();
        assert_eq!(rig.home.read("a.txt"), AFTER, "{tool}");
    }
}

#[tokio::test]
async fn case_055_a_new_file_is_shown_as_added() {
    for version in [1, 2] {
        let rig = Plan::obedient().version(version).start().await;
        let prompt = rig.begin("write_file", json!({"path": "sub/new.txt", "content": "a\nb"}));
        let question = rig.agent.expect_request("session/request_permission").await;
        let path = rig.home.workspace().join("sub/new.txt");
        let row = rig.agent.transcript().tool_rows(&rig.session).remove(0);
        let [diff] = diffs(&row)[..] else { panic!("a diff before the question: {row:#?}") };
        if version == 1 {
            assert_eq!(diff["path"], path.to_str().unwrap());
            assert!(diff["oldText"].is_null(), "a new file has no old text: {diff}");
            assert_eq!(diff["newText"], "a\nb");
        } else {
            let change = &diff["changes"][0];
            assert_eq!((change["operation"].as_str(), change["path"].as_str()), (Some("add"), path.to_str()));
            assert_eq!(patched("", diff["patch"]["text"].as_str().unwrap()), "a\nb");
        }
        assert!(!rig.home.exists("sub"), "nothing is made before the yes");
        rig.agent.select(&question, "allow");
        rig.agent.response(prompt).await.unwrap();
        assert_eq!(rig.home.read("sub/new.txt"), "a\nb");
    }
}

/// The user saves the file while the question is open: their text is never lost to a diff that they did not see.
#[tokio::test]
async fn case_055_a_file_that_changed_under_the_question_is_not_overwritten() {
    for (tool, arguments) in edits() {
        let rig = Plan::obedient().start().await;
        rig.home.write("a.txt", BEFORE);
        let prompt = rig.begin(tool, arguments);
        let question = rig.agent.expect_request("session/request_permission").await;
        rig.home.write("a.txt", "the user's own words, with two in them\n");
        rig.agent.select(&question, "allow");
        rig.agent.response(prompt).await.unwrap();
        assert_eq!(rig.home.read("a.txt"), "the user's own words, with two in them\n", "{tool}");
        assert_eq!(rig.agent.transcript().tool_rows(&rig.session)[0].status(), "failed", "{tool}");
    }
}

// ---- 056: a crafted text cannot repaint the question

fn repaints(text: &str) -> bool {
    let is_bidi =
        |c: char| matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}');
    text.chars().any(|c| c.is_control() || is_bidi(c))
}

async fn nothing_repaints(version: u16) {
    let rig = Plan::obedient().version(version).policy(Policy::Deny).start().await;
    let nasty = [
        "rm -rf build\r\u{1b}[2Kls -la",
        "echo \u{202e}txt.exe",
        "echo a\u{0}b",
        "echo \u{1b}]52;c;cm0gLXJmIC8=\u{7}",
        "echo \u{9b}2K",
        "echo \u{2066}hidden\u{2069}",
    ];
    let calls = nasty.iter().flat_map(|text| {
        [
            ("bash", json!({"command": text})),
            ("write_file", json!({"path": format!("{text}.txt"), "content": "x"})),
            ("http_get", json!({"url": format!("http://127.0.0.1:9/{text}")})),
        ]
    });
    for (tool, arguments) in calls {
        let called = rig.call(tool, arguments.clone()).await;
        assert!(called.questions.len() <= 1, "{called:#?}");
        for question in &called.questions {
            assert!(!repaints(&words(question)), "{tool} {arguments}: {question}");
            for option in question["params"]["options"].as_array().unwrap() {
                assert!(!repaints(option["name"].as_str().unwrap()), "{tool} {arguments}: {question}");
            }
        }
        assert!(!repaints(called.row().title()), "{tool} {arguments}: {:#?}", called.row());
        assert_eq!(called.row().fields["rawInput"], arguments, "what runs is there exactly");
        // A command that no shell can take may be refused without a question.
        if tool == "bash" && !arguments.to_string().contains("\\u0000") {
            called.asked(1);
        }
    }
}

#[tokio::test]
async fn case_056_control_characters_cannot_repaint_a_question() {
    nothing_repaints(2).await;
}

#[tokio::test]
async fn case_056_control_characters_cannot_repaint_a_question_for_v1() {
    nothing_repaints(1).await;
}

// ---- 058: answers out of order

/// Three calls in one reply; each decision reaches its own call, and results go back in the calls' order.
#[tokio::test]
async fn case_058_answers_out_of_order_reach_their_own_calls() {
    let calls = [
        ToolCall::new("write_file", json!({"path": "first.txt", "content": "1"})).id("c1"),
        ToolCall::new("bash", json!({"command": "touch second.txt"})).id("c2"),
        ToolCall::new("delete_file", json!({"path": "third.txt"})).id("c3"),
    ];
    let rig = Plan::replies([Reply::tools(calls), Reply::text("done")]).start().await;
    rig.home.write("third.txt", "x");
    let prompt = rig.agent.prompt(&rig.session, "go");
    let mut left = 3;
    while left > 0 {
        let question = rig.agent.expect_request("session/request_permission").await;
        rig.agent.sync().await;
        // All that are open by now: the newest is answered first.
        let mut open = rig.agent.held();
        assert!(open.contains(&question));
        open.reverse();
        left -= open.len();
        for question in open {
            let asked = words(&question);
            rig.agent.select(&question, if asked.contains("write_file") { "deny" } else { "allow" });
        }
    }
    rig.agent.response(prompt).await.unwrap();
    assert!(!rig.home.exists("first.txt"), "denied");
    assert!(rig.home.exists("second.txt"), "allowed");
    assert!(!rig.home.exists("third.txt"), "its deletion was allowed");
    let rows = rig.agent.transcript().tool_rows(&rig.session);
    assert_eq!(rows.iter().map(ToolRow::status).collect::<Vec<_>>(), ["failed", "completed", "completed"]);
    // Each question is about a row of its own.
    let subjects: Vec<String> = rig.questions().iter().map(subject).collect();
    assert_eq!(subjects, rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>());
    let request = rig.server.request(1).await;
    let ids: Vec<String> = request.tool_results().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["c1", "c2", "c3"]);
    assert_has_any(&results(&request)[0], &["denied"]);
    rig.server.assert_played();
}

/// A question of a turn that was cancelled is withdrawn, and a late yes does nothing.
#[tokio::test]
async fn a_late_yes_after_a_cancel_does_nothing() {
    let rig = Plan::obedient().start().await;
    let prompt = rig.begin("write_file", json!({"path": "w.txt", "content": "x"}));
    let question = rig.agent.expect_request("session/request_permission").await;
    rig.agent.cancel(&rig.session);
    rig.agent.response(prompt).await.unwrap();
    assert_eq!(rig.agent.until_idle(&rig.session).await, "cancelled");
    rig.agent.select(&question, "allow");
    rig.agent.sync().await;
    let called = rig.call_in(&rig.session, "read_file", json!({"path": "w.txt"})).await;
    answered(&called.turn, "done");
    assert!(!rig.home.exists("w.txt"));
    let withdrawn = Matcher::method("$/cancel_request").field("/params/requestId", question["id"].clone());
    rig.agent.transcript().assert_order(&[question_in(&rig.session), withdrawn]);
    // The late yes is no grant either.
    rig.agent.set_policy(Policy::Deny);
    rig.call("write_file", json!({"path": "w.txt", "content": "x"})).await.asked(1);
}

/// A denied call says so to the model and does not stop the calls beside it.
#[tokio::test]
async fn a_no_stops_only_its_own_call() {
    let rig = Plan::obedient().policy(Policy::Deny).start().await;
    rig.home.write("a.txt", "content of a\n");
    let called = rig
        .calls(&[
            ("write_file", json!({"path": "w.txt", "content": "x"})),
            ("read_file", json!({"path": "a.txt"})),
        ])
        .await;
    called.asked(1);
    assert_has_any(&called.results[0], &["denied"]);
    assert_has(&called.results[1], "content of a");
    assert_lacks(&called.results[1], "denied");
    assert_eq!(called.rows.iter().map(ToolRow::status).collect::<Vec<_>>(), ["failed", "completed"]);
}
