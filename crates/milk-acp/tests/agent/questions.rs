//! Permission questions (contract: Tool permissions; R10, R28, R30).

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::rig::{Rig, picked, words};

#[test]
fn a_yes_runs_the_tool_and_a_no_does_not() {
    for (answer, end) in [(picked("allow"), "completed"), (picked("deny"), "failed")] {
        let mut rig = Rig::new();
        rig.v2();
        let session = rig.session();
        rig.model.call("write", &json!({"path": "a.txt"}));
        let id = rig.prompt(&session, "write");
        let (before, question) = rig.until(|message| message["method"] == "session/request_permission");
        assert_eq!(
            words(&before),
            ["user write", "running", "_milk/route", "tool_call_update pending", "requires_action"]
        );
        let row = &before[3]["params"]["update"];
        assert_eq!(question["params"]["subject"]["toolCall"]["toolCallId"], row["toolCallId"]);
        assert_eq!(question["params"]["title"], "Allow write?");
        assert_eq!(question["params"]["description"], "a.txt");
        assert_eq!(row["content"][0]["changes"][0]["path"], "/work/place/a.txt");

        rig.reply(&question, &answer);
        let (after, _) = rig.until(|message| message["id"] == id);
        let after = words(&after);
        assert_eq!(after[0], "running");
        assert!(after.contains(&format!("tool_call_update {end}")), "{after:?}");
        assert_eq!(after.last().unwrap(), "idle end_turn");
        assert_eq!(after.contains(&"tool_call_update in_progress".to_owned()), end == "completed");
    }
}

#[test]
fn a_v1_question_has_all_in_its_title() {
    let mut rig = Rig::new();
    rig.v1();
    let session = rig.session();
    rig.model.call("run", &json!({"command": "ls"}));
    let id = rig.prompt(&session, "run");
    let (before, question) = rig.until(|message| message["method"] == "session/request_permission");
    assert_eq!(words(&before), ["user run", "_milk/route", "tool_call pending"]);
    let call = &question["params"]["toolCall"];
    assert_eq!(call["title"], "Allow run? ls");
    assert_eq!(call["toolCallId"], before[2]["params"]["update"]["toolCallId"]);
    rig.reply(&question, &picked("allow"));
    let (after, answer) = rig.until(|message| message["id"] == id && message.get("method").is_none());
    let row: Vec<&Value> = after
        .iter()
        .map(|message| &message["params"]["update"])
        .filter(|update| update["toolCallId"].is_string())
        .collect();
    assert_eq!((&row[0]["status"], &row[0]["title"]), (&json!("in_progress"), &json!("ls")));
    assert_eq!(row.last().unwrap()["rawOutput"], json!({"output": "ls\n"}));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}

#[test]
fn a_client_that_cannot_ask_denies_and_the_user_is_told_why() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    rig.model.call("write", &json!({"path": "a.txt"}));
    let id = rig.prompt(&session, "write");
    let question = rig.question();
    rig.send(&json!({"jsonrpc": "2.0", "id": question["id"],
        "error": {"code": -32601, "message": "Method not found"}}));
    let (after, _) = rig.until(|message| message["id"] == id);
    let notice = words(&after).into_iter().find(|word| word.starts_with("agent ")).unwrap();
    assert!(
        notice.contains("session/request_permission: Method not found")
            && notice.contains("/skip-permissions on"),
        "{notice}"
    );
}

#[test]
fn an_answer_matches_by_value() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    rig.model.call("write", &json!({"path": "a.txt"}));
    let id = rig.prompt(&session, "write");
    let question = rig.question();
    let as_text = Value::String(question["id"].to_string());
    rig.send(&json!({"jsonrpc": "2.0", "id": as_text, "result": picked("allow")}));
    let (after, _) = rig.until(|message| message["id"] == id);
    assert!(words(&after).contains(&"tool_call_update completed".to_owned()));
}

#[test]
fn two_sessions_ask_at_once_and_each_gets_its_own_answer() {
    let mut rig = Rig::new();
    rig.v2();
    let (a, b) = (rig.session(), rig.session());
    rig.model.call("write", &json!({"path": "a.txt"}));
    let of_a = rig.prompt(&a, "write");
    let first = rig.question();
    assert_eq!(first["params"]["sessionId"], a.as_str());
    rig.model.call("write", &json!({"path": "b.txt"}));
    let of_b = rig.prompt(&b, "write");
    let second = rig.question();
    assert_eq!(second["params"]["sessionId"], b.as_str());
    assert!(rig.ask("session/list", &json!({}))["result"].is_object(), "nothing else is held up");

    rig.reply(&second, &picked("allow"));
    let (after, _) = rig.until(|message| message["id"] == of_b);
    assert!(words(&after).contains(&"tool_call_update completed".to_owned()));
    rig.reply(&first, &picked("deny"));
    let (after, _) = rig.until(|message| message["id"] == of_a);
    assert!(words(&after).contains(&"tool_call_update failed".to_owned()));
}
