//! Who waits for whom, within a session and between sessions: R7, R22, R24; cases 014, 015, 023, 024, 025, 027.

use std::collections::HashSet;
use std::time::Duration;

use milk_testkit::client::RequestId;
use milk_testkit::server::Cut;
use milk_testkit::{Gate, Matcher, RecordedRequest, Reply, Transcript};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Setup, answered, assert_has, prompt, request, story, updates_of, words};

// ---- one session

/// The blocks of `running` to `idle` must not overlap.
#[track_caller]
fn assert_turns_apart(transcript: &Transcript, session: &str, turns: usize) {
    let states = updates_of(transcript, session, "state_update");
    let states: Vec<&str> = states.iter().filter_map(|update| update["state"].as_str()).collect();
    let expected: Vec<&str> = (0..turns).flat_map(|_| ["running", "idle"]).collect();
    assert_eq!(states, expected);
}

/// Case 027, R7
#[tokio::test]
async fn prompts_of_one_session_run_one_after_another() {
    let gate = Gate::new();
    let replies =
        [Reply::text("answer one").held(&gate), Reply::text("answer two"), Reply::text("answer three")];
    let rig = Setup::replies(replies).start().await;
    let session = rig.session().await;
    let mark = rig.mark();
    let lines = [prompt(1, &session, "one"), prompt(2, &session, "two"), prompt(3, &session, "three")];
    rig.agent.send_bytes(lines.concat().as_bytes());
    gate.reached().await;
    rig.agent.sync().await;
    assert_eq!(rig.server.count(), 1, "the others wait");
    gate.open();
    for id in [1, 2, 3] {
        rig.agent.response(id).await.unwrap();
    }
    let lines = rig.since(mark);
    assert_turns_apart(&lines, &session, 3);
    let echo = |text: &'static str| {
        Matcher::update("user_message")
            .and(text, move |message| message["params"]["update"]["content"].to_string().contains(text))
    };
    // The echo comes when its turn begins.
    lines.assert_order(&[
        echo("one"),
        Matcher::state("running"),
        Matcher::state("idle"),
        Matcher::response(1),
        echo("two"),
        Matcher::state("running"),
        Matcher::state("idle"),
        Matcher::response(2),
        echo("three"),
        Matcher::state("running"),
        Matcher::state("idle"),
        Matcher::response(3),
    ]);
    let second = rig.server.request(1).await;
    assert_has(&json!(second.messages()).to_string(), "answer one");
    assert_eq!(second.last_user().lines().last(), Some("two"));
    let third = json!(rig.server.request(2).await.messages()).to_string();
    assert_has(&third, "answer two");
}

/// Case 014, R22
#[tokio::test]
async fn nothing_names_a_session_before_its_response() {
    let rig = Setup::echo().start().await;
    let cwd = rig.home.workspace();
    let lines = (0..40).map(|id| {
        request(id, "session/new", json!({"cwd": cwd, "mcpServers": [], "_meta": {"milk": {"fresh": true}}}))
    });
    rig.agent.send_bytes(lines.collect::<String>().as_bytes());
    let mut sessions = Vec::new();
    for id in 0..40 {
        let result = rig.agent.response(id).await.unwrap();
        sessions.push((id, result["sessionId"].as_str().unwrap().to_owned()));
    }
    for (_, session) in &sessions {
        let is_its = |message: &Value| {
            message["params"]["sessionId"] == session.as_str()
                && message["params"]["update"]["sessionUpdate"] == "available_commands_update"
        };
        let there = rig.agent.with_transcript(|transcript| transcript.from_agent().any(is_its));
        if !there {
            rig.agent.expect(is_its).await;
        }
    }
    rig.agent.sync().await;
    let transcript = rig.agent.transcript();
    for (id, session) in &sessions {
        let names = session.clone();
        let naming =
            Matcher::from_agent("a line that names it", move |message| message.to_string().contains(&names));
        let first = transcript.find(0, &naming);
        assert_eq!(
            first,
            transcript.find(0, &Matcher::response(*id)),
            "the response is the first to name {session}"
        );
        let commands = updates_of(&transcript, session, "available_commands_update");
        assert_eq!(commands.len(), 1, "exactly one list of commands for {session}");
    }
    let ids: HashSet<&String> = sessions.iter().map(|(_, session)| session).collect();
    assert_eq!(ids.len(), 40, "R24: no two share a session");
}

/// R22: what is not a response waits 100 ms, or until the client first names the session.
#[tokio::test]
async fn a_new_session_is_quiet_until_the_client_knows_it() {
    let rig = Setup::echo().start().await;
    let mut longest = Duration::ZERO;
    // A stalled test thread can only make the gap look shorter, so one round that shows it is enough.
    for _ in 0..5 {
        let mark = rig.mark();
        let session = rig.session().await;
        let lines = rig.since(mark);
        let response =
            lines.entries.iter().position(|entry| entry.json["result"]["sessionId"] == session.as_str());
        let commands = lines.find(0, &Matcher::update("available_commands_update").session(&session));
        let (response, commands) = (response.unwrap(), commands.unwrap());
        assert!(response < commands);
        longest = longest.max(lines.entries[commands].at - lines.entries[response].at);
    }
    assert!(longest >= Duration::from_millis(90), "the longest gap was {longest:?}");
}

/// R22
#[tokio::test]
async fn naming_the_session_ends_the_quiet() {
    for version in [1, 2] {
        let rig = Setup::echo().version(version).start().await;
        for _ in 0..5 {
            let mark = rig.mark();
            let session = rig.agent.new_session(rig.home.workspace()).await;
            for text in ["one", "two"] {
                answered(&rig.agent.turn(&session, text).await, &format!("you said {text}"));
            }
            rig.agent.sync().await;
            let lines = rig.since(mark);
            let commands = Matcher::update("available_commands_update").session(&session);
            assert_eq!(lines.count(&commands), 1);
            let echo = if version == 1 { "user_message_chunk" } else { "user_message" };
            lines.assert_order(&[commands, Matcher::update(echo)]);
        }
    }
}

/// Case 015
#[tokio::test]
async fn nothing_of_a_turn_comes_after_its_response() {
    let rig = Setup::respond(|request: &RecordedRequest| {
        if request.messages().last().is_some_and(|message| message["role"] == "tool") {
            return Reply::deltas(words(200)).cut(Cut::Burst);
        }
        Reply::tool("list_dir", json!({"path": "."})).cut(Cut::Burst)
    })
    .start()
    .await;
    let session = rig.session().await;
    let whole = words(200).concat();
    let mark = rig.mark();
    let mut ids: Vec<RequestId> = Vec::new();
    for _ in 0..25 {
        let turn = rig.agent.turn(&session, "go").await;
        answered(&turn, &whole);
        ids.push(turn.id);
    }
    rig.agent.sync().await;
    let told = story(&rig.since(mark));
    let turn = [
        "user_message",
        "state_update running",
        "_milk/route",
        "tool_call_update in_progress",
        "tool_call_update completed",
        "agent_message_chunk",
        "state_update idle end_turn",
        "result",
    ];
    let mut expected: Vec<&str> = turn.iter().copied().cycle().take(25 * turn.len()).collect();
    expected.push("error -32601");
    assert_eq!(told, expected);
}

// ---- sessions side by side

/// Case 023
#[tokio::test]
async fn each_session_has_the_settings_of_its_folder() {
    let rig = Setup::respond(|request| Reply::text(request.model())).start().await;
    let folders = [("A", "mA"), ("B", "mB")].map(|(name, model)| {
        let folder = rig.home.another_workspace(name);
        let config = json!({"agents": [{"name": "test", "model": model}]});
        std::fs::create_dir(folder.join(".milk")).unwrap();
        std::fs::write(folder.join(".milk/config.json"), config.to_string()).unwrap();
        (folder, model)
    });
    for round in 0..20 {
        let ids = ["a", "b"].map(|name| format!("{name}{round}"));
        let lines = ids.iter().zip(&folders).map(|(id, (folder, _))| {
            let params = json!({"cwd": folder, "mcpServers": [], "_meta": {"milk": {"fresh": true}}});
            request(id.as_str(), "session/new", params)
        });
        rig.agent.send_bytes(lines.collect::<String>().as_bytes());
        for (id, (_, model)) in ids.iter().zip(&folders) {
            let session = rig.agent.response(id.as_str()).await.unwrap();
            let session = session["sessionId"].as_str().unwrap().to_owned();
            answered(&rig.agent.turn(&session, "which model are you").await, model);
        }
    }
}

fn write_file(path: &str) -> Reply {
    Reply::tool("write_file", json!({"path": path, "content": "written"}))
}

/// Writes the file that the prompt names, when it begins with `write`.
fn writer(request: &RecordedRequest) -> Reply {
    let prompt = request.last_user();
    let is_result = request.messages().last().is_some_and(|message| message["role"] == "tool");
    match prompt.rsplit_once("write ") {
        Some((_, path)) if !is_result => write_file(path),
        _ => Reply::text("fine"),
    }
}

/// Case 024
#[tokio::test]
async fn a_question_in_one_session_stalls_no_other() {
    let rig = Setup::respond(writer).start().await;
    let first = rig.session().await;
    let waiting = rig.agent.prompt(&first, "write a.txt");
    let question = rig.agent.expect_request("session/request_permission").await;
    rig.agent.request("session/list", json!({})).await.unwrap();
    let second = rig.agent.new_session(rig.home.workspace()).await;
    answered(&rig.agent.turn(&second, "hello").await, "fine");
    rig.agent.request("session/close", json!({"sessionId": second})).await.unwrap();
    let other = rig.agent.new_session(rig.home.another_workspace("other")).await;
    answered(&rig.agent.turn(&other, "hello").await, "fine");
    rig.agent.select(&question, "allow");
    rig.agent.response(&waiting).await.unwrap();
    assert_eq!(rig.home.read("a.txt"), "written");
    rig.assert_usable(&first).await;
}

/// Case 025
#[tokio::test]
async fn questions_of_two_sessions_keep_their_own_ids() {
    let rig = Setup::respond(writer).start().await;
    let sessions = [rig.session().await, rig.session().await];
    let prompts =
        [rig.agent.prompt(&sessions[0], "write a.txt"), rig.agent.prompt(&sessions[1], "write b.txt")];
    let mut questions = [
        rig.agent.expect_request("session/request_permission").await,
        rig.agent.expect_request("session/request_permission").await,
    ];
    questions.sort_by_key(|question| question["params"]["sessionId"] != sessions[0].as_str());
    for ((session, question), path) in sessions.iter().zip(&questions).zip(["a.txt", "b.txt"]) {
        assert_eq!(question["params"]["sessionId"], session.as_str());
        let rows = rig.agent.transcript().tool_rows(session);
        assert_eq!(question["params"]["subject"]["toolCall"]["toolCallId"], rows[0].id.as_str());
        assert_has(rows[0].title(), path);
    }
    rig.agent.select(&questions[1], "allow");
    rig.agent.select(&questions[0], "deny");
    for id in &prompts {
        rig.agent.response(id).await.unwrap();
    }
    assert!(rig.home.exists("b.txt"));
    assert!(!rig.home.exists("a.txt"));
}

/// Several sessions at once, none blocked by another: all are at the model before any is answered.
#[tokio::test]
async fn sessions_run_at_the_same_time() {
    let gate = Gate::new();
    let held = gate.clone();
    let rig = Setup::respond(move |request| Reply::text(request.last_user()).held(&held)).start().await;
    let mut prompts = Vec::new();
    for number in 0..10 {
        let session = rig.agent.new_session(rig.home.workspace()).await;
        prompts.push((rig.agent.prompt(&session, &format!("number {number}")), session));
    }
    for index in 0..10 {
        rig.server.request(index).await;
    }
    gate.open();
    for (number, (id, session)) in prompts.iter().enumerate() {
        rig.agent.response(id).await.unwrap();
        assert_has(&rig.agent.transcript().agent_text(session), &format!("number {number}"));
    }
}
