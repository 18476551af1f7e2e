//! Nothing that a client was told is lost: kills, torn tails, two processes on one home (cases 122, 125, 126).

use std::io::Write as _;
use std::path::PathBuf;

use milk_testkit::{AgentProcess, Reply};
use serde_json::{Value, json};

use crate::support::{Rig, Setup, answered, assert_has, refused};

async fn resume(agent: &AgentProcess, rig: &Rig, session: &str, replay: bool) -> Result<Value, Value> {
    let mut params = json!({"sessionId": session, "cwd": rig.home.workspace()});
    if replay {
        params["replayFrom"] = json!({"type": "start"});
    }
    agent.request("session/resume", params).await
}

fn log_of(rig: &Rig, session: &str) -> PathBuf {
    let mut found = Vec::new();
    let mut folders = vec![rig.home.root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| *name == *format!("{session}.jsonl")) {
                found.push(path);
            }
        }
    }
    assert_eq!(found.len(), 1, "the session has one log");
    found.remove(0)
}

/// The user's messages of a session, as a replay shows them.
fn prompts(agent: &AgentProcess, session: &str) -> Vec<String> {
    let transcript = agent.transcript();
    let updates = transcript.updates(session);
    let users = updates.iter().filter(|update| update["sessionUpdate"] == "user_message");
    users.filter_map(|update| update["content"][0]["text"].as_str()).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_kill_at_any_moment_loses_no_acknowledged_turn() {
    const ROUNDS: usize = 40;
    let mut rig = Setup::echo().start().await;
    let session = rig.session().await;
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..ROUNDS {
        let kept = format!("kept {round}");
        rig.agent.turn(&session, &kept).await;
        acknowledged.push(kept);
        // Killed so many messages into the next turn: at another moment each round.
        rig.agent.prompt(&session, &format!("cut {round}"));
        for _ in 0..round % 5 {
            rig.agent.expect(|message: &Value| message["method"] == "session/update").await;
        }
        rig.agent.kill();
        rig.agent = rig.another_agent(2, "testkit", Value::Null).await;
        resume(&rig.agent, &rig, &session, round + 1 == ROUNDS).await.unwrap();
    }
    let shown = prompts(&rig.agent, &session);
    let mut rest = shown.iter().filter(|text| text.starts_with("kept"));
    for wanted in &acknowledged {
        assert_eq!(rest.next(), Some(wanted), "in order, none missing: {shown:?}");
    }
    rig.assert_usable(&session).await;
}

/// Case 122: a torn, zeroed or garbled end costs the record being written and is told.
#[tokio::test]
async fn a_broken_end_is_told_and_the_rest_is_served() {
    for tail in [&b"{\"at\":\"2026-12-01T00:00:00Z\",\"rec"[..], &[0; 4096], b"\xff\xfe garbage"] {
        let mut rig = Setup::echo().start().await;
        let session = rig.session().await;
        rig.agent.turn(&session, "before").await;
        rig.agent.shutdown().await;
        let log = log_of(&rig, &session);
        std::fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(tail).unwrap();
        rig.agent = rig.another_agent(2, "testkit", Value::Null).await;
        assert!(rig.list(json!({})).await.iter().any(|listed| listed["sessionId"] == session.as_str()));
        resume(&rig.agent, &rig, &session, true).await.unwrap();
        assert_eq!(prompts(&rig.agent, &session), ["before"]);
        let turn = rig.agent.turn(&session, "after").await;
        assert_has(&turn.text, "you said after");
        assert_has(&turn.text, &session[..8]);
        assert!(!rig.agent.stderr().is_empty(), "told on standard error too");
        rig.restart(2).await;
        resume(&rig.agent, &rig, &session, true).await.unwrap();
        assert_eq!(prompts(&rig.agent, &session), ["before", "after"]);
    }
}

/// Case 125: a call that was never answered does not lock the session.
#[tokio::test]
async fn a_call_that_a_kill_interrupted_does_not_lock_the_session() {
    let mut rig =
        Setup::replies([Reply::tool("bash", json!({"command": "sleep 60"})), Reply::text("going on")])
            .start()
            .await;
    let session = rig.session().await;
    rig.agent.prompt(&session, "work");
    rig.agent.expect_request("session/request_permission").await;
    rig.agent.kill();
    rig.agent = rig.another_agent(2, "testkit", Value::Null).await;
    resume(&rig.agent, &rig, &session, true).await.unwrap();
    answered(&rig.agent.turn(&session, "go on").await, "going on");
    let asked = rig.server.request(1).await;
    assert_has(&asked.body.to_string(), "interrupted");
}

/// Case 126; R23.
#[tokio::test]
async fn one_process_at_a_time_has_a_session_open() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    rig.agent.turn(&session, "one").await;
    let second = rig.another_agent(2, "testkit", Value::Null).await;
    let error = refused(resume(&second, &rig, &session, false).await, -32000);
    assert_has(&error.to_string(), "open in another process");
    assert_has(&error.to_string(), &rig.agent.pid().to_string());
    let fresh = second.new_session(rig.home.workspace()).await;
    assert_ne!(fresh, session, "one that is open elsewhere is not adopted");
    second.turn(&fresh, "two").await;
    rig.agent.kill();
    resume(&second, &rig, &session, true).await.unwrap();
    assert_eq!(prompts(&second, &session), ["one"]);
    answered(&second.turn(&session, "three").await, "you said three");
}

/// A disk that refuses never stops the conversation; what it missed is written when it takes it again.
#[tokio::test]
async fn a_conversation_goes_on_without_its_disk() {
    let mut rig = Setup::echo().start().await;
    let session = rig.session().await;
    rig.agent.turn(&session, "one").await;
    let log = log_of(&rig, &session);
    let folder = log.parent().unwrap().to_owned();
    let aside = rig.home.root().join("aside");
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    let second = rig.agent.new_session(rig.home.another_workspace("second")).await;
    let turn = rig.agent.turn(&second, "two").await;
    assert_has(&turn.text, "cannot be saved");
    assert_has(&turn.text, "you said two");
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    assert_has(&rig.agent.turn(&second, "three").await.text, "you said three");
    answered(&rig.agent.turn(&session, "four").await, "you said four");
    rig.restart(2).await;
    let cwd = rig.home.root().join("second");
    let all = rig.list(json!({})).await;
    let found = all.iter().find(|listed| listed["sessionId"] == second.as_str()).unwrap();
    let params = json!({"sessionId": second, "cwd": found["cwd"], "replayFrom": {"type": "start"}});
    rig.agent.request("session/resume", params).await.unwrap_or_else(|error| panic!("{error} {cwd:?}"));
    assert_eq!(prompts(&rig.agent, &second), ["two", "three"]);
}
