//! What is asked, and whose answer is whose.

use crate::support::{
    Plan, answered, assert_has, assert_has_any, assert_lacks, question_in, results, subject, words,
};
use milk_testkit::client::ToolRow;
use milk_testkit::{Matcher, Policy, Reply, ToolCall};
use serde_json::{Value, json};

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

/// A tool's name comes from the model too.
#[tokio::test]
async fn case_056_a_crafted_name_cannot_repaint_a_row() {
    let rig = Plan::obedient().policy(Policy::Deny).start().await;
    for name in ["bash\u{1b}[2K", "write_file\r", "\u{202e}hsab", "a\nb", ""] {
        let called = rig.call(name, json!({"command": "true"})).await;
        for row in &called.rows {
            assert!(!repaints(row.title()), "{name:?}: {row:#?}");
        }
        answered(&called.turn, "done");
    }
}
