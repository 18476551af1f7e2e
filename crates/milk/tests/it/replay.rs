//! What is stored comes back: resume by default, `session/resume` with a replay, `session/load` (contract: Session resume,
//! list, and history replay; R22 to R24, R27, R40; cases 014, 028, 032).

use milk_testkit::{Reply, Transcript};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Rig, Setup, answered, refused, story};

async fn new(rig: &Rig, meta: Value) -> String {
    let params = json!({"cwd": rig.home.workspace(), "mcpServers": [], "_meta": meta});
    let answer = rig.agent.request("session/new", params).await.unwrap();
    let session = answer["sessionId"].as_str().unwrap().to_owned();
    rig.agent.expect_update(&session, "available_commands_update").await;
    session
}

async fn resume(rig: &Rig, session: &str, more: Value) -> Result<Value, Value> {
    let mut params = json!({"sessionId": session, "cwd": rig.home.workspace(), "mcpServers": []});
    params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    rig.agent.request("session/resume", params).await
}

/// Kind, id and text of every message and row that milk sent about a session.
fn shown(transcript: &Transcript, session: &str) -> Vec<(String, String, String)> {
    let updates = transcript.updates(session);
    let told = updates.into_iter().filter_map(|update| {
        let kind = update["sessionUpdate"].as_str()?;
        let id = update["messageId"].as_str().or_else(|| update["toolCallId"].as_str())?;
        let content = &update["content"];
        let text = content["text"].as_str().or_else(|| content[0]["text"].as_str());
        let text = text.or_else(|| update["title"].as_str()).unwrap_or_default();
        Some((kind.to_owned(), id.to_owned(), text.to_owned()))
    });
    told.collect()
}

fn row(kind: &str, id: &str, text: &str) -> (String, String, String) {
    (kind.to_owned(), id.to_owned(), text.to_owned())
}

/// Contract: session/new adopts; R22: response, notice, replay, commands.
#[tokio::test]
async fn a_new_session_goes_on_with_the_directorys_newest() {
    for version in [1, 2] {
        let mut rig = Setup::echo().version(version).start().await;
        let first = rig.session().await;
        answered(&rig.agent.turn(&first, "remember blue").await, "you said remember blue");
        rig.restart(version).await;
        let mark = rig.mark();
        let adopted = new(&rig, Value::Null).await;
        assert_eq!(adopted, first);
        let said = rig.since(mark);
        let id8 = &first[..8];
        let notice = format!("resumed session {id8} — 2 earlier turns; /export prints the full transcript");
        let shown = shown(&said, &first);
        assert!(shown[0].2.starts_with(&notice), "{shown:?}");
        let wanted = if version == 1 {
            [
                row("user_message_chunk", "hist-u0", "remember blue"),
                row("agent_message_chunk", "hist-a1", "you said remember blue"),
            ]
        } else {
            [
                row("user_message", "hist-u0", "remember blue"),
                row("agent_message", "hist-a1", "you said remember blue"),
            ]
        };
        assert_eq!(shown[1..], wanted);
        assert_eq!(story(&said)[0], "result", "the client is told the id first: {:?}", story(&said));
        assert_eq!(story(&said).last().unwrap(), "available_commands_update");
        answered(&rig.agent.turn(&first, "which colour?").await, "you said which colour?");
        let asked = rig.server.request(1).await;
        assert!(
            asked.body.to_string().contains("remember blue"),
            "the model knows the first turn: {:?}",
            asked.body
        );
        // The directory has a conversation now.
        assert_ne!(rig.agent.new_session(rig.home.workspace()).await, first);
    }
}

/// Contract: the five conditions.
#[tokio::test]
async fn nothing_is_adopted_where_something_speaks_against_it() {
    let mut rig = Setup::echo().start().await;
    let first = rig.session().await;
    rig.agent.turn(&first, "one").await;
    rig.restart(2).await;
    assert_ne!(new(&rig, json!({"milk": {"fresh": true}})).await, first, "the client wants a fresh one");
    rig.restart(2).await;
    rig.agent.request("session/close", json!({"sessionId": first})).await.unwrap();
    assert_ne!(new(&rig, Value::Null).await, first, "closed in this process, though never open");
    rig.restart(2).await;
    assert_eq!(new(&rig, json!({"milk": {"fresh": "true"}})).await, first, "only `true` is true");
    rig.restart(2).await;
    let elsewhere = rig.home.another_workspace("elsewhere");
    assert_ne!(rig.agent.new_session(&elsewhere).await, first, "another directory");

    let off = Setup::echo().root("acp_resume", false).start().await;
    let first = off.session().await;
    off.agent.turn(&first, "one").await;
    let mut off = off;
    off.restart(2).await;
    assert_ne!(new(&off, Value::Null).await, first, "switched off");
}

/// Case 028: everything before the response, twice the same; `replay_complete` (R22).
#[tokio::test]
async fn a_replay_shows_messages_and_tool_rows_before_the_response() {
    for version in [1, 2] {
        let mut rig = Setup::replies([
            Reply::tool("read_file", json!({"path": "a.txt"})),
            Reply::tool("read_file", json!({"path": "missing.txt"})),
            Reply::text("done"),
            Reply::text("here"),
        ])
        .version(version)
        .start()
        .await;
        std::fs::write(rig.home.workspace().join("a.txt"), "inside a\n").unwrap();
        let session = rig.session().await;
        answered(&rig.agent.turn(&session, "look").await, "done");
        rig.restart(version).await;
        let mut runs = Vec::new();
        for _ in 0..2 {
            let mark = rig.mark();
            let id = rig.agent.send_request(
                "session/resume",
                json!({"sessionId": session, "cwd": rig.home.workspace(), "replayFrom": {"type": "start"}}),
            );
            rig.agent.response(id).await.unwrap();
            let said = rig.since(mark);
            let mut told = story(&said);
            let end = told.iter().position(|label| label == "result").unwrap();
            told.truncate(end);
            runs.push((shown(&said, &session), told));
        }
        assert_eq!(runs[0].0, runs[1].0, "the same ids each time");
        let (shown, told) = &runs[0];
        let ids: Vec<&str> = shown.iter().map(|(_, id, _)| id.as_str()).collect();
        assert_eq!(ids, ["hist-u0", "hist-t1-0", "hist-t3-0", "hist-a5"]);
        let completes = told.iter().filter(|label| *label == "replay_complete").count();
        assert_eq!(completes, usize::from(version == 2));
        let transcript = rig.agent.transcript();
        let rows = transcript.updates(&session);
        let of = |id: &str| rows.iter().find(|update| update["toolCallId"] == id).copied().unwrap();
        let (read, failed) = (of("hist-t1-0"), of("hist-t3-0"));
        assert_eq!(
            (&read["status"], &read["kind"], &read["name"]),
            (&json!("completed"), &json!("read"), &json!("read_file"))
        );
        assert_eq!(read["rawInput"], json!({"path": "a.txt"}));
        assert!(read["rawOutput"].to_string().contains("inside a"), "{read}");
        assert_eq!(failed["status"], "failed");
        rig.assert_usable(&session).await;
    }
}

/// Contract: replayFrom; acp-behaviour 1.6: the order of the checks.
#[tokio::test]
async fn other_cursors_are_refused_before_anything_is_said() {
    let mut rig = Setup::echo().start().await;
    let session = rig.session().await;
    rig.agent.turn(&session, "one").await;
    rig.restart(2).await;
    let mark = rig.mark();
    for cursor in [json!({"type": "later"}), json!({"type": "_x"}), json!("start"), json!({}), json!(7)] {
        refused(resume(&rig, &session, json!({"replayFrom": cursor})).await, -32602);
        refused(resume(&rig, "nowhere", json!({"replayFrom": cursor})).await, -32602);
    }
    refused(resume(&rig, "nowhere", json!({})).await, -32002);
    refused(resume(&rig, &session, json!({"cwd": rig.home.root()})).await, -32602);
    resume(&rig, &session, json!({"replayFrom": null})).await.unwrap();
    assert!(shown(&rig.since(mark), &session).is_empty(), "nothing is replayed");
    rig.assert_usable(&session).await;
}

/// acp-behaviour section 6: the window and its marker.
#[tokio::test]
async fn a_long_history_is_shown_with_a_gap() {
    let mut rig = Setup::echo().start().await;
    let session = rig.session().await;
    for turn in 0..108 {
        rig.agent.turn(&session, &format!("q{turn}")).await;
    }
    rig.restart(2).await;
    let mark = rig.mark();
    resume(&rig, &session, json!({"replayFrom": {"type": "start"}})).await.unwrap();
    let shown = shown(&rig.since(mark), &session);
    assert_eq!(shown.len(), 211);
    assert_eq!(shown[9], row("agent_message", "hist-a9", "you said q4"));
    assert_eq!(
        shown[10],
        row(
            "agent_message",
            "hist-gap",
            "[… 6 earlier turns omitted from replay — /export prints the full transcript …]"
        )
    );
    assert_eq!(shown[11], row("user_message", "hist-u16", "q8"));
    assert_eq!(shown[210], row("agent_message", "hist-a215", "you said q107"));
}

/// R27: live messages and their replay patch the same message, across a restart.
#[tokio::test]
async fn live_ids_come_back_to_a_client_that_asks_for_them() {
    let mut rig = Setup::echo().start().await;
    let session = rig.session().await;
    let mark = rig.mark();
    rig.agent.turn(&session, "one").await;
    let mut live: Vec<String> = shown(&rig.since(mark), &session).into_iter().map(|(_, id, _)| id).collect();
    live.dedup();
    assert_eq!(live.len(), 2);
    rig.agent.shutdown().await;
    rig.agent = rig.another_agent(2, "testkit", json!({"milk": {"replayIds": "live"}})).await;
    let mark = rig.mark();
    resume(&rig, &session, json!({"replayFrom": {"type": "start"}})).await.unwrap();
    let again: Vec<String> = shown(&rig.since(mark), &session).into_iter().map(|(_, id, _)| id).collect();
    assert_eq!(again, live);
}

/// R40.
#[tokio::test]
async fn session_load_is_for_the_clients_that_need_it() {
    let mut rig = Setup::echo().v1().start().await;
    let session = rig.session().await;
    rig.agent.turn(&session, "one").await;
    let load = json!({"sessionId": session, "cwd": rig.home.workspace(), "mcpServers": []});
    refused(rig.agent.request("session/load", load.clone()).await, -32601);
    rig.agent.shutdown().await;
    rig.agent = rig.another_agent(1, "toad", Value::Null).await;
    let mark = rig.mark();
    rig.agent.request("session/load", load.clone()).await.unwrap();
    let texts: Vec<String> = shown(&rig.since(mark), &session).into_iter().map(|(_, _, text)| text).collect();
    assert_eq!(texts, ["one", "you said one"], "the user's message too, though this client wants no echo");
    let unknown = json!({"sessionId": "nowhere", "cwd": rig.home.workspace(), "mcpServers": []});
    refused(rig.agent.request("session/load", unknown).await, -32002);
    rig.assert_usable(&session).await;
    rig.agent.expect_update(&session, "available_commands_update").await;
}
