//! Each event in both versions side by side, every message checked against its schema.

use std::time::{Duration, Instant};

use milk_core::ask::{AnswerOption, Asker, OptionKind, Question};
use milk_core::content::ContentBlock;
use milk_core::event::{
    ContextUsage, EventKind, Route, RouteTarget, RowChange, RowStatus, State, StopReason, ToolCallRow,
};
use milk_core::failure::Failure;
use milk_core::id::QuestionId;
use milk_core::model::Usage;
use milk_core::tool::{FileAction, FileChange, Location, ToolKind, ToolStatus};
use milk_testkit::client::Direction;
use milk_testkit::schema::SchemaOracle;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn oracle(version: Version) -> &'static SchemaOracle {
    match version {
        Version::V1 => SchemaOracle::v1(),
        Version::V2 => SchemaOracle::v2(),
    }
}

fn line_of(message: Outgoing) -> Vec<u8> {
    match message {
        Outgoing::Line { line, .. } => line,
        Outgoing::Delta(delta) => delta.into_line(),
    }
}

fn checked(version: Version, line: &[u8]) -> Value {
    let message: Value = serde_json::from_slice(line).unwrap();
    let wrong = oracle(version).check_message(Direction::FromAgent, &message, None);
    assert!(wrong.is_empty(), "{version:?} {message}: {wrong:?}");
    message
}

/// A map whose clock the test moves.
struct Rig {
    version: Version,
    map: Map,
    now: Instant,
}

impl Rig {
    fn new(version: Version) -> Self {
        Self { version, map: Map::new(version, Echo::Sent), now: Instant::now() }
    }

    /// The updates that an event becomes; other notifications whole.
    fn show(&mut self, event: EventKind) -> Vec<Value> {
        let mut lines = Vec::new();
        let of = Handle::new("s");
        self.map.show(event, self.now, &mut |update| lines.push(line_of(update.address(&of))));
        self.updates(&lines)
    }

    fn flush(&mut self) -> Vec<Value> {
        let mut lines = Vec::new();
        let of = Handle::new("s");
        self.map.flush(self.now, &mut |update| lines.push(line_of(update.address(&of))));
        self.updates(&lines)
    }

    fn updates(&self, lines: &[Vec<u8>]) -> Vec<Value> {
        let update = |line: &Vec<u8>| {
            let mut message = checked(self.version, line);
            match message["params"].get_mut("update") {
                Some(update) => update.take(),
                None => message,
            }
        };
        lines.iter().map(update).collect()
    }

    fn question(&mut self, question: &Question) -> Value {
        let line = self.map.question(7, question, &Handle::new("s"));
        checked(self.version, &line)["params"].take()
    }
}

/// What one event becomes in v1 and in v2.
fn both(event: impl Fn() -> EventKind) -> (Vec<Value>, Vec<Value>) {
    (Rig::new(Version::V1).show(event()), Rig::new(Version::V2).show(event()))
}

fn row(status: RowStatus) -> ToolCallRow {
    ToolCallRow {
        id: "c1".into(),
        name: "bash".into(),
        title: "ls -la".into(),
        kind: ToolKind::Execute,
        status,
        input: json!({"command": "ls -la"}),
        locations: vec![],
        changes: vec![],
    }
}

fn edit() -> ToolCallRow {
    let change = FileChange {
        action: FileAction::Modify,
        path: "/w/a.txt".into(),
        old_text: Some("1\n".into()),
        new_text: Some("2\n".into()),
    };
    ToolCallRow {
        name: "edit_file".into(),
        title: "a.txt".into(),
        kind: ToolKind::Edit,
        locations: vec![Location { path: "/w/a.txt".into(), line: Some(1) }],
        changes: vec![change],
        ..row(RowStatus::Pending)
    }
}

fn ended(status: ToolStatus, output: &str) -> EventKind {
    let change = RowChange::Ended { status, output: output.into(), exit_code: None, changes: vec![] };
    EventKind::ToolCallChanged { id: "c1".into(), change }
}

fn question(summary: &str) -> Question {
    let option = |id: &str, label: &str, kind| AnswerOption { id: id.into(), label: label.to_owned(), kind };
    Question {
        id: QuestionId(1),
        asker: Asker::Foreground,
        title: "Allow bash?".into(),
        summary: summary.into(),
        subject: Some("c1".into()),
        options: vec![
            option("allow", "Allow", OptionKind::AllowOnce),
            option("allow_always", "Always allow", OptionKind::AllowAlways),
            option("deny", "Deny", OptionKind::RejectOnce),
        ],
    }
}

#[test]
fn the_echo_is_chunks_in_v1_and_one_message_in_v2() {
    let content = || {
        vec![
            ContentBlock::text("look at"),
            ContentBlock::text("this"),
            ContentBlock::Link { uri: "file:///w/a".into(), name: "a".into(), mime: None },
            ContentBlock::EmbeddedText {
                uri: "file:///w/b".into(),
                mime: Some("text/plain".into()),
                text: "body".into(),
            },
            ContentBlock::EmbeddedBlob { uri: "file:///w/c".into(), mime: None, data: "AA==".into() },
            ContentBlock::Image { mime: "image/png".into(), data: "AA==".into() },
            ContentBlock::Unknown { kind: "_x".into() },
        ]
    };
    let (v1, v2) = both(|| EventKind::UserMessage { id: "m".into(), content: content() });
    let chunk =
        |block: Value| json!({"sessionUpdate": "user_message_chunk", "content": block, "messageId": "m"});
    let link = json!({"type": "resource_link", "name": "a", "uri": "file:///w/a"});
    let embedded = json!({"type": "resource",
        "resource": {"mimeType": "text/plain", "text": "body", "uri": "file:///w/b"}});
    let blob = json!({"type": "resource", "resource": {"blob": "AA==", "uri": "file:///w/c"}});
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let joined = json!({"type": "text", "text": "look at\nthis"});
    assert_eq!(v1, [joined, link.clone(), embedded.clone(), blob.clone(), image.clone()].map(chunk));
    let texts = ["look at", "this"].map(|text| json!({"type": "text", "text": text}));
    let [first, second] = texts;
    assert_eq!(
        v2,
        [json!({"sessionUpdate": "user_message", "messageId": "m",
            "content": [first, second, link, embedded, blob, image]})]
    );
}

#[test]
fn an_echo_that_the_client_cannot_bear_is_left_out() {
    for version in [Version::V1, Version::V2] {
        let mut map = Map::new(version, Echo::Omitted);
        let event = EventKind::UserMessage { id: "m".into(), content: vec![ContentBlock::text("x")] };
        map.show(event, Instant::now(), &mut |update| panic!("{update:?}"));
    }
}

#[test]
fn text_thoughts_and_notices_are_chunks() {
    let chunk = |kind: &str, text: &str| json!({"sessionUpdate": kind, "messageId": "m", "content": {"type": "text", "text": text}});
    let (v1, v2) = both(|| EventKind::AgentText { id: "m".into(), text: "hi".into() });
    assert_eq!(v1, [chunk("agent_message_chunk", "hi")]);
    assert_eq!(v2, v1);
    let (v1, v2) = both(|| EventKind::AgentThought { id: "m".into(), text: "hm".into() });
    assert_eq!(v1, [chunk("agent_thought_chunk", "hm")]);
    assert_eq!(v2, v1);
    let (v1, v2) = both(|| EventKind::Notice { id: "m".into(), text: "[milk] note".into() });
    assert_eq!(v1, [chunk("agent_message_chunk", "[milk] note\n\n")]);
    assert_eq!(v2, [chunk("agent_message_chunk", "[milk] note")]);
    let (v1, v2) = both(|| EventKind::AgentText { id: "m".into(), text: String::new() });
    assert!(v1.is_empty() && v2.is_empty(), "an empty piece is nothing");
}

/// An event, and what of it stands in a `state_update`.
type StateCase = (Box<dyn Fn() -> EventKind>, Value);

#[test]
fn states_are_v2_only_and_tell_why() {
    let route = || Route { agent: "main".into(), target: RouteTarget::Primary, reason: "default".into() };
    let idle = |stop| EventKind::State(State::Idle { stop, failure: None, route: None });
    let state = |rest: Value| {
        let mut update = json!({"sessionUpdate": "state_update"});
        update.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        vec![update]
    };
    let failure = || Failure {
        retryable: true,
        provider: Some("ollama".into()),
        ..Failure::new("timed_out", "no answer")
    };
    let cases: Vec<StateCase> = vec![
        (Box::new(|| EventKind::State(State::Running)), json!({"state": "running"})),
        (Box::new(|| EventKind::State(State::RequiresAction)), json!({"state": "requires_action"})),
        (Box::new(move || idle(StopReason::EndTurn)), json!({"state": "idle", "stopReason": "end_turn"})),
        (Box::new(move || idle(StopReason::Cancelled)), json!({"state": "idle", "stopReason": "cancelled"})),
        (Box::new(move || idle(StopReason::MaxTokens)), json!({"state": "idle", "stopReason": "max_tokens"})),
        (
            Box::new(move || idle(StopReason::MaxTurnRequests)),
            json!({"state": "idle", "stopReason": "max_turn_requests"}),
        ),
        (Box::new(move || idle(StopReason::Refusal)), json!({"state": "idle", "stopReason": "refusal"})),
        (
            Box::new(move || {
                EventKind::State(State::Idle {
                    stop: StopReason::Error,
                    failure: Some(failure()),
                    route: Some(route()),
                })
            }),
            json!({"state": "idle", "stopReason": "error",
                "error": {"code": -32000, "message": "no answer", "data": {"kind": "timed_out",
                    "details": "no answer", "retryable": true, "provider": "ollama"}},
                "_meta": {"milk/route": {"agent": "main", "target": "primary", "reason": "default"}}}),
        ),
    ];
    for (event, expected) in cases {
        let (v1, v2) = both(event);
        assert!(v1.is_empty(), "{v1:?}");
        assert_eq!(v2, state(expected));
    }
}

#[test]
fn a_row_from_question_to_end() {
    let mut v1 = Rig::new(Version::V1);
    let mut v2 = Rig::new(Version::V2);

    let started = || EventKind::ToolCallStarted(row(RowStatus::Pending));
    assert_eq!(
        v1.show(started()),
        [json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "name": "bash", "title": "ls -la",
            "kind": "execute", "status": "pending", "rawInput": {"command": "ls -la"}})]
    );
    let named = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "name": "bash",
        "title": "ls -la", "kind": "execute"});
    let with = |rest: Value| {
        let mut update = named.clone();
        update.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        update
    };
    assert_eq!(v2.show(started()), [with(json!({"status": "pending", "rawInput": {"command": "ls -la"}}))]);

    let options = json!([
        {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
        {"optionId": "allow_always", "name": "Always allow", "kind": "allow_always"},
        {"optionId": "deny", "name": "Deny", "kind": "reject_once"}
    ]);
    assert_eq!(
        v1.question(&question("ls -la")),
        json!({"sessionId": "s", "options": options, "toolCall": {"toolCallId": "c1",
            "title": "Allow bash? ls -la", "status": "pending"}})
    );
    assert_eq!(
        v2.question(&question("ls -la")),
        json!({"sessionId": "s", "title": "Allow bash?", "description": "ls -la", "options": options,
            "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c1"}}})
    );

    let running = || EventKind::ToolCallChanged { id: "c1".into(), change: RowChange::Running };
    assert_eq!(
        v1.show(running()),
        [json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress",
            "title": "ls -la"})],
        "the question no longer stands in the title"
    );
    assert_eq!(v2.show(running()), [with(json!({"status": "in_progress"}))]);

    let done = || EventKind::ToolCallChanged {
        id: "c1".into(),
        change: RowChange::Ended {
            status: ToolStatus::Completed,
            output: "a\n".into(),
            exit_code: Some(0),
            changes: vec![],
        },
    };
    assert_eq!(
        v1.show(done()),
        [json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": "a\n"}}],
            "rawOutput": {"output": "a\n", "exitCode": 0}})]
    );
    assert_eq!(v2.show(done()), [with(json!({"status": "completed", "rawOutput": "a\n"}))]);
}

#[test]
fn a_stopped_row_is_cancelled_in_v2_and_failed_in_v1() {
    for (status, v1_word, v2_word) in
        [(ToolStatus::Failed, "failed", "failed"), (ToolStatus::Cancelled, "failed", "cancelled")]
    {
        let (v1, v2) = both(|| ended(status, ""));
        assert_eq!(v1[0]["status"], v1_word);
        assert_eq!(v2[0]["status"], v2_word);
        assert_eq!(v1[0]["rawOutput"], json!({"output": ""}));
        assert_eq!(v2[0]["rawOutput"], json!(""));
    }
}

#[test]
fn an_edit_shows_its_diff_in_each_versions_shape_and_keeps_it() {
    let mut v1 = Rig::new(Version::V1);
    let mut v2 = Rig::new(Version::V2);
    let diff = json!({"type": "diff", "path": "/w/a.txt", "oldText": "1\n", "newText": "2\n"});
    let started = v1.show(EventKind::ToolCallStarted(edit()));
    assert_eq!(started[0]["content"], json!([diff]));
    assert_eq!(started[0]["locations"], json!([{"path": "/w/a.txt", "line": 1}]));
    let ended_v1 = v1.show(ended(ToolStatus::Failed, "denied"));
    assert_eq!(
        ended_v1[0]["content"],
        json!([diff, {"type": "content", "content": {"type": "text", "text": "denied"}}])
    );

    let started = v2.show(EventKind::ToolCallStarted(edit()));
    let patch = "diff --git a/w/a.txt b/w/a.txt\n--- a/w/a.txt\n+++ b/w/a.txt\n@@ -1 +1 @@\n-1\n+2\n";
    assert_eq!(
        started[0]["content"],
        json!([{"type": "diff", "changes": [{"fileType": "text", "operation": "modify", "path": "/w/a.txt"}],
            "patch": {"format": "git_patch", "text": patch}}])
    );
    let ended_v2 = v2.show(ended(ToolStatus::Failed, "denied"));
    assert_eq!(ended_v2[0].get("content"), None, "what was shown stays");
}

#[test]
fn every_kind_of_change_and_of_tool_fits_the_schema() {
    let change = |action, old: Option<&str>, new: Option<&str>| FileChange {
        action,
        path: "/w/f".into(),
        old_text: old.map(Into::into),
        new_text: new.map(Into::into),
    };
    let changes = vec![
        change(FileAction::Create, None, Some("n")),
        change(FileAction::Delete, Some("o"), None),
        change(FileAction::Modify, None, None),
        change(FileAction::Move { from: "/w/e".into() }, Some("t"), Some("t")),
    ];
    let kinds = [
        ToolKind::Read,
        ToolKind::Edit,
        ToolKind::Delete,
        ToolKind::Move,
        ToolKind::Search,
        ToolKind::Execute,
        ToolKind::Think,
        ToolKind::Fetch,
        ToolKind::Other,
    ];
    for kind in kinds {
        let row = || ToolCallRow { kind, changes: changes.clone(), ..row(RowStatus::InProgress) };
        let (v1, v2) = both(|| EventKind::ToolCallStarted(row()));
        assert_eq!(v1[0]["content"].as_array().map(Vec::len), Some(2), "what is text and changes");
        assert_eq!(v1[0]["kind"], v2[0]["kind"]);
        let operations: Vec<&str> = v2[0]["content"][0]["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| change["operation"].as_str().unwrap())
            .collect();
        assert_eq!(operations, ["add", "delete", "modify", "move"]);
    }
}

#[test]
fn live_output_is_appended_in_v2_and_whole_but_rare_in_v1() {
    let output = |text: &str| EventKind::ToolOutput { id: "c1".into(), text: text.into() };
    let mut v2 = Rig::new(Version::V2);
    v2.show(EventKind::ToolCallStarted(row(RowStatus::InProgress)));
    for text in ["a", "b"] {
        assert_eq!(
            v2.show(output(text)),
            [json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c1",
                "content": {"type": "content", "content": {"type": "text", "text": text}}})]
        );
    }

    let mut v1 = Rig::new(Version::V1);
    let whole = |text: &str| {
        vec![json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1",
            "content": [{"type": "content", "content": {"type": "text", "text": text}}]})]
    };
    v1.show(EventKind::ToolCallStarted(row(RowStatus::InProgress)));
    assert_eq!(v1.map.due(v1.now), None);
    assert_eq!(v1.show(output("a")), whole("a"));
    assert!(v1.show(output("b")).is_empty());
    assert_eq!(v1.map.due(v1.now), Some(v1.now + Duration::from_millis(400)));
    assert!(v1.flush().is_empty(), "too early");
    v1.now += Duration::from_millis(400);
    assert_eq!(v1.flush(), whole("ab"));
    v1.show(output("c"));
    v1.show(ended(ToolStatus::Completed, "abc"));
    assert_eq!(v1.map.due(v1.now), None, "the end has shown all");
    assert!(v1.show(output("late")).is_empty());
}

#[test]
fn a_question_cannot_repaint_itself() {
    let nasty = "rm -rf build\r\u{1b}[2Kls\u{202e}\0\u{1b}]52;c;aGk=\u{7}";
    let deceptive = |text: &str| text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}');
    let v1 = Rig::new(Version::V1).question(&question(nasty));
    let v2 = Rig::new(Version::V2).question(&question(nasty));
    for text in [&v1["toolCall"]["title"], &v2["description"]] {
        let text = text.as_str().unwrap();
        assert!(text.contains("rm -rf build\\r\\u{1b}[2Kls") && !deceptive(text), "{text}");
    }
    let row =
        || ToolCallRow { title: nasty.into(), input: json!({"command": nasty}), ..row(RowStatus::Pending) };
    let (v1, v2) = both(|| EventKind::ToolCallStarted(row()));
    for update in [&v1[0], &v2[0]] {
        assert!(!deceptive(update["title"].as_str().unwrap()));
        assert_eq!(update["rawInput"]["command"], nasty, "the input is exact");
    }
    assert_eq!(Rig::new(Version::V2).question(&question("cat <<E\nx\nE"))["description"], "cat <<E\nx\nE");
}

#[test]
fn a_long_title_is_cut_and_an_empty_one_is_the_name() {
    let titled = |title: &str| {
        let title = title.to_owned();
        both(move || {
            EventKind::ToolCallStarted(ToolCallRow { title: title.clone(), ..row(RowStatus::Pending) })
        })
    };
    let (v1, v2) = titled(&"ž".repeat(5000));
    for update in [&v1[0], &v2[0]] {
        assert_eq!(update["title"].as_str().unwrap().chars().count(), TITLE + 1);
    }
    assert_eq!(titled(" ").1[0]["title"], "bash");
}

#[test]
fn usage_is_told_where_both_halves_are_known() {
    let usage = |input, output, window| {
        both(move || {
            EventKind::UsageChanged(ContextUsage { usage: Usage { input, cached: 0, output }, window })
        })
    };
    let expected = vec![json!({"sessionUpdate": "usage_update", "used": 30, "size": 100})];
    assert_eq!(usage(10, 20, Some(100)), (expected.clone(), expected));
    for (v1, v2) in [usage(10, 20, None), usage(0, 0, Some(100)), usage(10, 20, Some(0))] {
        assert!(v1.is_empty() && v2.is_empty());
    }
}

#[test]
fn the_route_names_its_session() {
    let route = || Route { agent: "main".into(), target: RouteTarget::Escalation, reason: "pinned".into() };
    let (v1, v2) = both(|| EventKind::Routed(route()));
    assert_eq!(
        v1,
        [json!({"jsonrpc": "2.0", "method": "_milk/route", "params": {"sessionId": "s", "agent": "main",
            "target": "escalation", "reason": "pinned"}})]
    );
    assert_eq!(v2, v1);
}

#[test]
fn a_path_that_is_no_text_can_be_told() {
    use std::os::unix::ffi::OsStrExt;
    let path = std::path::PathBuf::from(std::ffi::OsStr::from_bytes(b"/w/\xFF"));
    let row = || ToolCallRow {
        locations: vec![Location { path: path.clone(), line: Some(0) }],
        ..row(RowStatus::Pending)
    };
    let (v1, v2) = both(|| EventKind::ToolCallStarted(row()));
    assert_eq!(v1[0]["locations"][0]["path"], "/w/\u{fffd}");
    assert_eq!(v2[0]["locations"][0]["path"], "/w/\u{fffd}");
}
