//! What a yes covers, and for how long (R28).

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use milk_testkit::{Policy, TestHome};
use serde_json::{Value, json};

use crate::support::{MILK, Plan, Rig, assert_has, assert_has_any, ended};

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
        let agent = rig.home.spawn_milk(MILK, &["serve", "--acp"]);
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

/// A yes that cannot be stored is a yes all the same, and the user is told that it will not last.
#[tokio::test]
async fn always_that_cannot_be_stored_is_told() {
    let home = TestHome::new();
    home.write(home.milk_home().join("permissions"), "a file where the folder should be");
    let rig = Plan::obedient().policy(Policy::Kind("allow_always".to_owned())).start_in(home).await;
    let called = rig.call("write_file", json!({"path": "w.txt", "content": "x"})).await;
    called.asked(1);
    assert_eq!(rig.home.read("w.txt"), "x");
    ended(&called.turn, "end_turn");
    let told = rig.notices().join("\n") + &rig.agent.stderr();
    assert_has_any(&told, &["permission", "grant", "store", "remember"]);
}

/// Grants that cannot be read are none.
#[tokio::test]
async fn grants_that_cannot_be_read_are_no_grants() {
    for garbage in
        ["", "{", "[]", "null", "{\"allowed_tools\": \"write_file\"}", "{\"tools\": {\"write_file\": true}}"]
    {
        let rig = Plan::obedient().policy(Policy::Kind("allow_always".to_owned())).start().await;
        rig.call("write_file", json!({"path": "a.txt", "content": "1"})).await.asked(1);
        let folder = rig.home.milk_home().join("permissions");
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            if entry.metadata().unwrap().len() > 0 {
                fs::write(entry.path(), garbage).unwrap();
            }
        }
        let rig = rig.restarted().await;
        rig.agent.set_policy(Policy::Deny);
        rig.call("write_file", json!({"path": "b.txt", "content": "2"})).await.asked(1);
        assert!(!rig.home.exists("b.txt"));
    }
}
