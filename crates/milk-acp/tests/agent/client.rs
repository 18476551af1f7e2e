//! milk's own client against milk's own agent, and against scripted agents of either version.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::path::Path;
use std::time::Duration;

use milk_acp::client::{
    AgentState, Client, ClientError, EventKind, Events, PermissionKind, StopReason, ToolStatus, TurnFailure,
};
use milk_acp::{Version, serve};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fakes::{Script, engine};
use crate::rig::settings;

/// A client and an agent of milk's, joined by pipes.
fn with_milk(model: &Script) -> (Client, Events) {
    let (agent_in, client_out) = io::pipe().unwrap();
    let (client_in, agent_out) = io::pipe().unwrap();
    let home = tempfile::tempdir().unwrap();
    let engine = engine(model, &home);
    tokio::spawn(async move {
        let _home = home; // the sessions live as long as the agent does
        serve(agent_in, agent_out, engine, settings(), CancellationToken::new()).await
    });
    Client::connect(client_in, client_out).unwrap()
}

/// Events in a few words each, up to the end of the turn.
async fn told(events: &mut Events) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        let event = events.next().await.expect("the agent is there");
        let (word, last) = match event.kind {
            EventKind::Text { text, .. } => (format!("text {text}"), false),
            EventKind::Thought { text, .. } => (format!("thought {text}"), false),
            EventKind::User { .. } => continue, // what the test has just said
            EventKind::Tool(tool) => {
                let status = tool.status.map(|status| format!("{status:?} "));
                let output = tool.output.or(tool.appended).unwrap_or_default();
                (format!("tool {}{output}", status.unwrap_or_default()).trim_end().to_owned(), false)
            }
            EventKind::Permission(question) => {
                let word = format!("asks {} {}", question.title, question.description).trim_end().to_owned();
                assert!(question.pick_kind(PermissionKind::AllowOnce));
                (word, false)
            }
            EventKind::PermissionWithdrawn(_) => ("withdrawn".to_owned(), false),
            EventKind::State(AgentState::Running) => ("running".to_owned(), false),
            EventKind::State(state) => (format!("{state:?}"), false),
            EventKind::TurnEnded(end) => (format!("{end:?}"), true),
        };
        told.push(word);
        if last {
            return told;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_with_a_question() {
    let model = Script::new();
    let (client, mut events) = with_milk(&model);
    let agent = client.initialize("test", "1").await.unwrap();
    assert_eq!((agent.version, agent.name.as_str(), agent.release.as_str()), (Version::V2, "milk", "1.2.3"));
    let session = client.new_session(Path::new("/work/place")).await.unwrap();
    model.call("run", &json!({"command": "ls"}));
    model.text("done");
    client.prompt(&session, "run ls");
    assert_eq!(
        told(&mut events).await,
        [
            "running",
            "tool Pending",
            "RequiresAction",
            "asks Allow run? ls",
            "running",
            "tool Running",
            "tool ls",
            "tool Completed ls",
            "text done",
            "Idle",
            "Ok(EndTurn)"
        ]
    );
    model.failure();
    client.prompt(&session, "fail");
    let last = told(&mut events).await.pop().unwrap();
    assert!(last.contains("too many requests"), "{last}");
    client.hang_up(Duration::from_secs(1)).await;
    assert!(events.next().await.is_none(), "the agent ends when its input does");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_turn_and_a_refused_call() {
    let model = Script::new();
    let (client, mut events) = with_milk(&model);
    client.initialize("test", "1").await.unwrap();
    let session = client.new_session(Path::new("/w")).await.unwrap();
    let _never = model.open_reply();
    client.prompt(&session, "hi");
    while !matches!(events.next().await.unwrap().kind, EventKind::State(AgentState::Running)) {}
    client.cancel(&session);
    assert_eq!(told(&mut events).await, ["Idle", "Ok(Cancelled)"]);
    let refused = client.call("no/such", &json!({})).await.unwrap_err();
    assert!(matches!(&refused, ClientError::Refused(error) if error.code == -32601), "{refused}");
}

/// An agent that is a script: it answers each line by what the test says.
fn with_script(mut agent: impl FnMut(&Value, &mut Out) + Send + 'static) -> (Client, Events) {
    let (agent_in, client_out): (PipeReader, PipeWriter) = io::pipe().unwrap();
    let (client_in, agent_out) = io::pipe().unwrap();
    std::thread::spawn(move || {
        let mut out = Out(agent_out);
        for line in BufReader::new(agent_in).lines() {
            let Ok(line) = line else { return };
            agent(&serde_json::from_str(&line).unwrap(), &mut out);
        }
    });
    Client::connect(client_in, client_out).unwrap()
}

struct Out(PipeWriter);

impl Out {
    fn send(&mut self, message: &Value) {
        let _ = writeln!(self.0, "{message}"); // the test may be over
    }

    fn result(&mut self, request: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    fn update(&mut self, update: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}));
    }
}

#[tokio::test]
async fn a_v1_agent_that_refuses_to_talk_of_v2() {
    let (client, mut events) = with_script(|message, out| match message["method"].as_str() {
        Some("initialize") if message["params"]["protocolVersion"] == 2 => {
            out.send(
                &json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "no"}}),
            );
        }
        Some("initialize") => {
            out.result(
                message,
                &json!({"protocolVersion": 1, "agentInfo": {"name": "old"}, "agentCapabilities": {}}),
            );
        }
        Some("session/new") => out.result(message, &json!({"sessionId": "s"})),
        Some("session/prompt") => {
            out.send(&json!({"jsonrpc": "2.0", "id": "fs-1", "method": "fs/read_text_file", "params": {}}));
            out.update(
                &json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hi"}}),
            );
            out.update(&json!({"sessionUpdate": "plan", "entries": []}));
            out.update(
                &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "status": "pending"}),
            );
            out.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {
                "sessionId": "s", "toolCall": {"toolCallId": "c", "title": "Run ls?"},
                "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
            out.update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}}));
            out.result(message, &json!({"stopReason": "max_tokens"}));
        }
        None => {
            // The client's answers, told back as text.
            let text = match message["id"].as_str() {
                Some(_) => format!("fs {}", message["error"]["code"]),
                None => message["result"].to_string(),
            };
            out.update(
                &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
            );
        }
        _ => {}
    });
    let agent = client.initialize("test", "1").await.unwrap();
    assert_eq!((agent.version, agent.name.as_str()), (Version::V1, "old"));
    let session = client.new_session(Path::new("/w")).await.unwrap();
    client.prompt(&session, "hi");
    let told = told(&mut events).await;
    assert_eq!(told, ["tool Pending", "asks Run ls?", "text hello", "Ok(Other(\"max_tokens\"))"]);
    let mut answers = Vec::new();
    for _ in 0..2 {
        if let EventKind::Text { text, .. } = events.next().await.unwrap().kind {
            answers.push(text);
        }
    }
    assert_eq!(answers, ["fs -32601", r#"{"outcome":{"outcome":"selected","optionId":"y"}}"#]);
}

#[tokio::test]
async fn a_v2_agent_that_answers_early() {
    let (client, mut events) = with_script(|message, out| match message["method"].as_str() {
        Some("initialize") => out.result(message, &json!({"protocolVersion": 2, "info": {"name": "new"}})),
        Some("session/new") => {
            out.result(message, &json!({"sessionId": "s"}));
            out.update(&json!({"sessionUpdate": "state_update", "state": "idle"}));
        }
        Some("session/prompt") => {
            out.result(message, &json!({"messageId": "m"}));
            out.update(&json!({"sessionUpdate": "state_update", "state": "running"}));
            out.send(
                &json!({"jsonrpc": "2.0", "id": "q", "method": "session/request_permission", "params": {
                "sessionId": "s", "title": "Sure?", "options": []}}),
            );
            out.send(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "q"}}));
            out.update(&json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}));
        }
        _ => {}
    });
    client.initialize("test", "1").await.unwrap();
    let session = client.new_session(Path::new("/w")).await.unwrap();
    client.prompt(&session, "hi");
    let mut asked = None;
    let mut withdrawn = None;
    let end = loop {
        match events.next().await.unwrap().kind {
            EventKind::Permission(question) => asked = Some(question),
            EventKind::PermissionWithdrawn(id) => withdrawn = Some(id),
            EventKind::TurnEnded(end) => break end,
            _ => {}
        }
    };
    assert_eq!(end, Ok(StopReason::EndTurn));
    assert_eq!(asked.map(|question| question.id), withdrawn);
    assert!(withdrawn.is_some());
}

#[tokio::test]
async fn an_agent_that_dies_or_talks_nonsense() {
    let (client, mut events) = with_script(|message, out| match message["method"].as_str() {
        Some("initialize") => out.result(message, &json!({"protocolVersion": 1})),
        Some("session/new") => out.result(message, &json!({"sessionId": 5})),
        Some("session/prompt") => {
            out.send(&json!([1, 2]));
            let _ = out.0.write_all(b"garbage\n\xFF\n");
            out.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "status": "completed"}));
            panic!("the agent dies");
        }
        _ => {}
    });
    client.initialize("test", "1").await.unwrap();
    let wrong = client.new_session(Path::new("/w")).await.unwrap_err();
    assert_eq!(wrong, ClientError::WrongAnswer("session/new"));
    client.prompt("s", "hi");
    match events.next().await.unwrap().kind {
        EventKind::Tool(tool) => assert_eq!(tool.status, Some(ToolStatus::Completed)),
        other => panic!("{other:?}"),
    }
    match events.next().await.unwrap().kind {
        EventKind::TurnEnded(end) => assert_eq!(end, Err(TurnFailure::Gone)),
        other => panic!("{other:?}"),
    }
    assert!(events.next().await.is_none());
    assert_eq!(client.call("x", &json!({})).await.unwrap_err(), ClientError::Gone);
}
