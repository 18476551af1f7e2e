//! What a view does between and inside turns, with events that no engine has to make.

use std::io::Write;
use std::sync::mpsc;

use milk_core::event::{Event, RowChange, RowStatus, StopReason, ToolCallRow};
use milk_core::tool::{ToolKind, ToolStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::profile::{self, ProfileOverrides};
use crate::writer::Writer;

/// A client that keeps what it is sent.
struct Kept(mpsc::Sender<u8>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for byte in bytes {
            let _ = self.0.send(*byte); // the test may be over
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Rig {
    view: Arc<View>,
    link: Arc<Link>,
    bytes: mpsc::Receiver<u8>,
}

impl Rig {
    /// A view that was named `first`, on which prompt 1 was sent by that name.
    fn new(version: Version, client: &str) -> Self {
        let (sender, bytes) = mpsc::channel();
        let link = Link::new(Writer::start(Kept(sender)).unwrap());
        let profile = profile::choose(version, client, &ProfileOverrides::new());
        let shapes =
            Shapes { version, profile, prompt_response: PromptResponse::Held, replay_ids: ReplayIds::Hist };
        let view = View::new(Arc::clone(&link), shapes);
        view.named(Handle::new("first"));
        let rig = Self { view, link, bytes };
        rig.prompt(1, "first");
        rig
    }

    fn prompt(&self, id: u64, handle: &str) {
        let request: RawId = RawId::new(serde_json::value::RawValue::NULL);
        let key = request.key();
        let open = OpenPrompt { request, key, handle: Handle::new(handle), answer: Owed::Yes };
        self.view.lock().prompts.insert(PromptId(id), open);
    }

    fn emit(&self, prompt: Option<u64>, kind: EventKind) {
        self.view.emit(Event { prompt: prompt.map(PromptId), kind });
    }

    fn text(&self, prompt: Option<u64>, text: &str) {
        self.emit(prompt, EventKind::AgentText { id: text.into(), text: text.to_owned() });
    }

    fn notice(&self, prompt: Option<u64>, text: &str) {
        self.emit(prompt, EventKind::Notice { id: text.into(), text: text.to_owned() });
    }

    fn running(&self, prompt: u64) {
        self.emit(Some(prompt), EventKind::State(State::Running));
    }

    fn idle(&self, prompt: u64) {
        let state = State::Idle { stop: StopReason::EndTurn, failure: None, route: None };
        self.emit(Some(prompt), EventKind::State(state));
    }

    /// Everything that was sent, as `handle: text`, or the message's method or update.
    async fn sent(self) -> Vec<String> {
        // The writer is a real thread: a limit on the test's own clock would not wait for it.
        self.link.writer.finish(Duration::ZERO).await;
        self.link.writer.ended().await;
        let bytes: Vec<u8> = self.bytes.try_iter().collect();
        let lines = String::from_utf8(bytes).unwrap();
        lines.lines().map(|line| told(&serde_json::from_str(line).unwrap())).collect()
    }
}

fn told(message: &Value) -> String {
    let params = &message["params"];
    let update = &params["update"];
    let what = match update["content"]["text"].as_str() {
        Some(text) => text.trim_end(),
        None => match update["content"][0]["content"]["text"].as_str() {
            Some(text) => text,
            None => update["state"].as_str().or(update["sessionUpdate"].as_str()).unwrap_or_default(),
        },
    };
    format!("{}: {what}", params["sessionId"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn a_turn_carries_the_name_of_its_prompt_and_the_rest_the_last_name() {
    let rig = Rig::new(Version::V2, "");
    rig.view.named(Handle::new("second"));
    rig.prompt(2, "second");
    rig.text(Some(1), "a");
    rig.text(None, "b");
    rig.text(Some(2), "c");
    rig.view.named(Handle::new("first"));
    rig.text(None, "d");
    assert_eq!(rig.sent().await, ["first: a", "second: b", "second: c", "first: d"]);
}

#[tokio::test]
async fn a_v1_client_hears_notices_in_its_next_turn() {
    let rig = Rig::new(Version::V1, "");
    rig.notice(None, "early");
    rig.text(None, "background text is not held");
    rig.emit(Some(1), EventKind::UserMessage { id: "u".into(), content: vec![ContentBlock::text("hi")] });
    rig.running(1);
    rig.notice(Some(1), "of the turn");
    rig.notice(None, "while it runs");
    rig.running(1);
    rig.idle(1);
    rig.notice(None, "late");
    assert_eq!(
        rig.sent().await,
        [
            "first: background text is not held",
            "first: hi",
            "first: early",
            "first: of the turn",
            "first: while it runs"
        ]
    );
}

#[tokio::test]
async fn v2_and_clients_that_want_them_hear_notices_at_once() {
    for (version, client) in [(Version::V2, ""), (Version::V1, "zed")] {
        let rig = Rig::new(version, client);
        rig.notice(None, "now");
        assert_eq!(rig.sent().await, ["first: now"]);
    }
}

#[tokio::test]
async fn held_notices_are_bounded() {
    let rig = Rig::new(Version::V1, "");
    for number in 0..1000 {
        rig.notice(None, &number.to_string());
    }
    rig.running(1);
    let sent = rig.sent().await;
    assert_eq!((sent.len(), sent[0].as_str()), (HELD_NOTICES, "first: 936"));
}

#[tokio::test(start_paused = true)]
async fn v1_output_that_was_held_back_is_shown_when_it_is_due() {
    let rig = Rig::new(Version::V1, "");
    rig.running(1);
    let row = ToolCallRow {
        id: "c".into(),
        name: "bash".into(),
        title: "ls".into(),
        kind: ToolKind::Execute,
        status: RowStatus::InProgress,
        input: json!({}),
        locations: Vec::new(),
        changes: Vec::new(),
    };
    rig.emit(Some(1), EventKind::ToolCallStarted(row));
    let output =
        |text: &str| rig.emit(Some(1), EventKind::ToolOutput { id: "c".into(), text: text.to_owned() });
    output("1");
    output("2");
    output("3");
    tokio::time::sleep(Duration::from_millis(401)).await;
    output("4");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let change = RowChange::Ended {
        status: ToolStatus::Completed,
        output: "end".into(),
        exit_code: None,
        changes: Vec::new(),
    };
    output("5");
    rig.emit(Some(1), EventKind::ToolCallChanged { id: "c".into(), change });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        rig.sent().await,
        ["first: tool_call", "first: 1", "first: 123", "first: 1234", "first: 12345", "first: end"]
    );
}
