//! What is shown of a stored history (contract: History replay).

use milk_core::content::ContentBlock;
use milk_core::id::{AgentName, ToolCallId, TurnId};
use milk_core::model::{AssistantMessage, ToolArguments, ToolCall};
use milk_core::record::{Record, Speaker, TurnOrigin, TurnWork};
use milk_core::settings::Thoughts;
use milk_core::tool::{ToolKind, ToolStatus};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::rig::{Rig, Setup, settings};

pub(crate) fn started(turn: u64, text: &str) -> Record {
    Record::TurnStarted {
        turn: TurnId(turn),
        origin: TurnOrigin::Client,
        message: format!("msg-old-{turn}").into(),
        content: vec![ContentBlock::text(text)],
        work: TurnWork::Prompt,
    }
}

pub(crate) fn said(turn: u64, text: &str) -> Record {
    response(turn, AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() })
}

fn response(turn: u64, said: AssistantMessage) -> Record {
    let by = Speaker { agent: AgentName::from("a"), provider: "p".to_owned(), model: "m".to_owned() };
    Record::ModelSaid {
        turn: TurnId(turn),
        message: format!("agent-old-{turn}").into(),
        thought: said.thinking.is_some().then(|| format!("thought-old-{turn}").into()),
        said,
        usage: None,
        by,
    }
}

fn calls(turn: u64, text: &str, ids: &[&str]) -> Record {
    let call = |id: &&str| ToolCall {
        id: ToolCallId::from(*id),
        name: "read_file".to_owned(),
        arguments: ToolArguments::Object(json!({"path": id}).as_object().unwrap().clone()),
    };
    let tool_calls = ids.iter().map(call).collect();
    response(turn, AssistantMessage { text: text.to_owned(), tool_calls, ..AssistantMessage::default() })
}

fn ended(turn: u64, call: &str, status: ToolStatus, output: &str) -> Record {
    Record::ToolEnded {
        turn: TurnId(turn),
        call: ToolCallId::from(call),
        title: format!("Read {call}"),
        kind: ToolKind::Read,
        status,
        output: output.to_owned(),
        locations: Vec::new(),
        changes: Vec::new(),
    }
}

fn command(turn: u64, text: &str) -> [Record; 2] {
    let started = Record::TurnStarted {
        turn: TurnId(turn),
        origin: TurnOrigin::Client,
        message: "msg-c".into(),
        content: vec![ContentBlock::text(text)],
        work: TurnWork::Command,
    };
    [started, Record::Noted { turn: Some(TurnId(turn)), message: "note".into(), text: "done".to_owned() }]
}

async fn replayed(records: Vec<Record>, setup: Setup) -> Vec<String> {
    let rig: Rig = Setup { stored: Some(records), ..setup }.open().await;
    rig.conversation.replay().await.unwrap();
    rig.lines()
}

#[tokio::test(start_paused = true)]
async fn every_entry_is_shown_with_its_number_and_its_results() {
    let mut records = vec![
        started(1, "look"),
        response(
            1,
            AssistantMessage {
                text: "I look".to_owned(),
                thinking: Some("hm".to_owned()),
                ..AssistantMessage::default()
            },
        ),
        calls(1, "", &["c1", "c2", "c3"]),
        ended(1, "c2", ToolStatus::Failed, "no such file"),
        ended(1, "c1", ToolStatus::Completed, "text"),
        said(1, "there"),
    ];
    records.extend(command(2, "/help"));
    records.push(started(3, "more"));
    let lines = replayed(records, Setup::default()).await;
    assert_eq!(
        lines,
        [
            "was 0: user: look",
            "was 1: thought: hm",
            "was 1: text: I look",
            "was 2: call 0: Read c1 completed: text",
            "was 2: call 1: Read c2 failed: no such file",
            "was 2: call 2: read_file failed: (none)",
            "was 5: text: there",
            "was 6: user: more",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_history_has_one_gap() {
    let records = (0..215).map(|index| {
        if index % 2 == 0 {
            started(index / 2 + 1, &format!("q{index}"))
        } else {
            said(index / 2 + 1, &format!("a{index}"))
        }
    });
    let lines = replayed(records.collect(), Setup::default()).await;
    assert_eq!(lines.len(), 211);
    assert_eq!(lines[9], "was 9: text: a9");
    assert_eq!(lines[10], "was 10: gap: 5");
    assert_eq!(lines[11], "was 15: text: a15");
    assert_eq!(lines[210], "was 214: user: q214");
}

#[tokio::test(start_paused = true)]
async fn thoughts_are_left_out_where_they_are_hidden_and_texts_are_cut() {
    let long = format!("{}{}", "é".repeat(6_000), "z".repeat(4_000));
    let thinking = AssistantMessage {
        text: long.clone(),
        thinking: Some("hm".to_owned()),
        ..AssistantMessage::default()
    };
    let mut hidden = settings();
    hidden.thoughts = Thoughts::Hidden;
    let setup = Setup { settings: hidden, ..Setup::default() };
    let lines = replayed(vec![started(1, &long), response(1, thinking)], setup).await;
    assert_eq!(lines.len(), 2);
    for line in lines {
        assert!(
            line.len() < 8 * 1024 + 100 && line.ends_with('z') && line.contains("chars omitted ...]\n\n"),
            "{line}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_running_turn_is_not_shown_again() {
    let mut rig = Setup::default().open().await;
    rig.text_turn("one", "1").await;
    let prompt = rig.submit("two");
    let exchange = rig.exchange().await;
    let before = rig.lines().len();
    rig.conversation.replay().await.unwrap();
    assert_eq!(rig.lines()[before..], ["was 0: user: one", "was 1: text: 1"]);
    exchange.say("2");
    rig.ended(prompt).await;
    let before = rig.lines().len();
    rig.conversation.replay().await.unwrap();
    assert_eq!(rig.lines()[before..].len(), 4);
}
