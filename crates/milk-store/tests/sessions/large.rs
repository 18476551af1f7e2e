//! Texts that are too large for a line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use milk_core::content::ContentBlock;
use milk_core::model::{AssistantMessage, ToolArguments, ToolCall};
use milk_core::ports::SessionStore;
use milk_core::record::Record;
use milk_core::tool::{FileAction, FileChange};
use pretty_assertions::assert_eq;

use crate::kit::*;

fn big(kind: &str) -> String {
    format!("{kind} größer than a line\n").repeat(3000)
}

/// Records with large texts in every kind of place, and something that looks like a reference and is none.
fn records_with_large_texts() -> Vec<Record> {
    let trap = r#"{"spilled":[{"at":"/output","file":"../../x","bytes":3}]}"#;
    let mut arguments = serde_json::Map::new();
    arguments.insert("a/b~c".to_owned(), serde_json::json!([{ "deep": big("argument") }]));
    arguments.insert("spilled".to_owned(), serde_json::from_str(trap).unwrap());
    let call = ToolCall { id: "c".into(), name: "t".to_owned(), arguments: ToolArguments::Object(arguments) };
    let mut first = started(1, "");
    if let Record::TurnStarted { content, .. } = &mut first {
        *content = vec![
            ContentBlock::text(big("prompt")),
            ContentBlock::Image { mime: "image/png".to_owned(), data: "iVBOR".repeat(20_000).into() },
        ];
    }
    let mut second = said(1, trap);
    if let Record::ModelSaid { said, .. } = &mut second {
        *said = AssistantMessage {
            text: trap.to_owned(),
            thinking: Some(big("thought")),
            tool_calls: vec![call],
            provider_notes: Some(serde_json::json!({ "signature": big("note") })),
        };
    }
    let mut third = tool_ended(1, "c", &big("output"));
    if let Record::ToolEnded { changes, .. } = &mut third {
        *changes = vec![FileChange {
            action: FileAction::Create,
            path: "/w/f".into(),
            old_text: None,
            new_text: Some(Arc::from(big("file"))),
        }];
    }
    vec![first, second, third, ended(1)]
}

#[tokio::test]
async fn large_texts_are_beside_the_log_and_come_back() {
    let home = Home::new();
    let store = home.store();
    let log = create(&store, "s", &home.cwd("w")).await;
    let expected = records_with_large_texts();
    log.append(&expected).await.unwrap();
    drop(log);

    let text = fs::read_to_string(home.log("s")).unwrap();
    assert!(text.lines().all(|line| line.len() < 64 * 1024), "lines stay readable");
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    let folder = home.file("s.d");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 7);
    for file in &files {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let store = home.store();
    assert_eq!(records(&read(&store, "s").await), expected);
    assert_eq!(records(&window(&store, "s", 9, 9).await.head), expected[..3]);
    let opened = open(&store, "s").await;
    assert_eq!(records(&opened.recent), expected);
    assert!(opened.summary.title().unwrap().starts_with("prompt größer"));
    drop(opened);
    let store = home.store();
    fs::remove_file(home.file("index.db")).unwrap();
    assert!(store.find(&"s".into()).await.unwrap().title().unwrap().starts_with("prompt größer"));
}

#[tokio::test]
async fn a_missing_text_is_told_in_its_place() {
    let home = Home::new();
    let store = home.store();
    let log = create(&store, "s", &home.cwd("w")).await;
    log.append(&records_with_large_texts()).await.unwrap();
    fs::remove_dir_all(home.file("s.d")).unwrap();
    let found = read(&store, "s").await;
    assert_eq!(found.len(), 4);
    let Record::ToolEnded { output, .. } = &found[2].record else { panic!() };
    assert!(output.starts_with("output größer") && output.len() < 8 * 1024, "its beginning is in the line");
    assert!(output.contains("missing: 2."), "{}", &output[output.len() - 100..]);
    let Record::TurnStarted { content, .. } = &found[0].record else { panic!() };
    assert!(
        matches!(&content[1], ContentBlock::Text { text } if text.contains("missing")),
        "{:?}",
        content[1]
    );
}

#[tokio::test]
async fn a_record_of_countless_texts_is_kept_whole() {
    let home = Home::new();
    let store = home.store();
    let log = create(&store, "s", &home.cwd("w")).await;
    let mut record = started(1, "");
    if let Record::TurnStarted { content, .. } = &mut record {
        *content = (0..20_000).map(|n| ContentBlock::text(format!("{n}: {}", "x".repeat(300)))).collect();
        content.push(ContentBlock::text(big("last")));
    }
    let expected = vec![record, said(1, "hm"), ended(1)];
    log.append(&expected).await.unwrap();
    assert!(fs::metadata(home.log("s")).unwrap().len() < 10_000);
    assert_eq!(records(&read(&store, "s").await), expected);
    drop(log);
    let opened = open(&home.store(), "s").await;
    assert_eq!(records(&opened.recent), expected);
    assert_eq!((opened.summary.turns, opened.summary.entries), (1, 2));
}

#[tokio::test]
async fn references_reach_no_other_file() {
    let home = Home::new();
    let store = home.store();
    let log = create(&store, "s", &home.cwd("w")).await;
    log.append(&[tool_ended(1, "c", &big("output")), ended(1)]).await.unwrap();
    drop(log);
    fs::write(home.file("secret.txt"), "secret").unwrap();
    let text = fs::read_to_string(home.log("s")).unwrap();
    for (other, bytes) in
        [("../secret.txt", 6), ("/etc/passwd", 10), ("", 1), (".", 1), ("0.0.txt", u64::MAX)]
    {
        let name = serde_json::to_string(other).unwrap();
        let from = text.find(r#""file":"0.0.txt","bytes":"#).unwrap();
        let to = text[from..].find('}').unwrap() + from;
        home.put("s.jsonl", format!("{}\"file\":{name},\"bytes\":{bytes}{}", &text[..from], &text[to..]));
        let found = read(&store, "s").await;
        let Record::ToolEnded { output, .. } = &found[0].record else { panic!() };
        assert!(!output.contains("secret\n") && output.contains("missing"), "{other}: {}", output.len());
    }
}

#[tokio::test]
async fn a_window_is_bounded_however_large_its_texts_are() {
    let home = Home::new();
    let store = home.store();
    let log = create(&store, "s", &home.cwd("w")).await;
    let text = big("output").repeat(100);
    for turn in 1..=10 {
        log.append(&[started(turn, "x"), tool_ended(turn, &format!("c{turn}"), &text), ended(turn)])
            .await
            .unwrap();
    }
    let window = window(&store, "s", 4, 10).await;
    let held: usize = window
        .head
        .iter()
        .chain(&window.tail)
        .map(|logged| match &logged.record {
            Record::ToolEnded { output, .. } => output.len(),
            _ => 0,
        })
        .sum();
    assert!(held < 33 * 1024 * 1024, "{held}");
    let Record::ToolEnded { output, .. } = &window.tail[9].record else { panic!() };
    assert_eq!(output.len(), text.len(), "the newest is whole");
    let Record::ToolEnded { output, .. } = &window.head[1].record else { panic!() };
    assert!(
        output.starts_with("output größer") && output.contains("not loaded") && output.ends_with("line\n")
    );
}
