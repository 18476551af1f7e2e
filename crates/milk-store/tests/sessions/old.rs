//! Sessions of older versions of milk.

use std::fs;

use milk_core::content::plain_text;
use milk_core::event::RouteTarget;
use milk_core::model::ToolArguments;
use milk_core::ports::{SessionStore, StoreError};
use milk_core::record::Record;
use milk_core::tool::{ToolKind, ToolStatus};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::kit::*;

const ID: &str = "0b9f6c1e-2a52-4a4e-9d5f-3f1f6a0d6f10";

/// One with both ways in which tool calls were kept.
fn document(home: &Home) -> String {
    let document = json!({
        "id": ID,
        "name": "fixing",
        "cwd": home.cwd("w"),
        "created_at": "2026-03-01T10:00:00+01:00",
        "last_used": "2026-03-02T10:00:00.5+01:00",
        "state": "primary",
        "escalation_nonce": "abc",
        "tokens": { "m\u{0}primary": { "model": "m", "agent": "primary", "prompt": 5, "completion": 6 } },
        "history": [
            { "role": "user", "content": "look at go.mod", "timestamp": "2026-03-01T10:00:01+01:00" },
            { "role": "assistant", "agent": "primary", "agent_name": "qwen", "content": "It is example.com/t.",
              "thinking": "hm", "timestamp": "2026-03-01T10:00:09+01:00",
              "trail": [
                { "text": "I look.", "calls": [
                    { "id": "c1", "name": "read_file", "args": "{\"path\":\"go.mod\"}", "result": "{\"output\":\"module example.com/t\"}" },
                    { "id": "c1", "name": "bash", "args": { "command": "false" }, "result": "{\"error\":\"no\",\"exit_code\":1}" }
                ] },
                { "calls": [{ "id": "", "name": "grep", "args": "not json", "cleared": true }] }
              ] },
            { "role": "user", "content": "and now?", "timestamp": "2026-03-01T10:01:00+01:00" },
            { "role": "assistant", "agent": "escalation", "content": "", "timestamp": "2026-03-01T10:01:01+01:00",
              "tool_calls": [{ "id": "c9", "name": "list_dir", "arguments": "{}" }] },
            { "role": "tool_result", "content": "a.go", "timestamp": "2026-03-01T10:01:02+01:00" },
            { "role": "tool_result", "content": "nobody asked", "timestamp": "2026-03-01T10:01:02+01:00" },
            { "role": "assistant", "agent": "escalation", "content": "done", "timestamp": "2026-03-01T10:01:03+01:00" }
        ]
    });
    serde_json::to_string_pretty(&document).unwrap()
}

#[tokio::test]
async fn an_old_session_is_listed_and_read_where_it_is() {
    let home = Home::new();
    let text = document(&home);
    home.put(&format!("{ID}.json"), &text);
    home.put("index.json", "{}");
    let store = home.store();
    let listed = all(&store).await;
    assert_eq!(listed.len(), 1);
    let summary = &listed[0];
    assert_eq!(
        (summary.name.as_deref(), summary.first_prompt.as_deref(), summary.turns, summary.entries),
        (Some("fixing"), Some("look at go.mod"), 2, 11)
    );
    assert_eq!((summary.created_ms, summary.last_used_ms), (1_772_355_600_000, 1_772_442_000_500));
    assert_eq!(&store.find(&ID.into()).await.unwrap(), summary);
    assert_eq!(store.with_prefix("0b9f", 5).await.unwrap(), listed);
    let found = read(&store, ID).await;
    assert_eq!(entries(&found), (0..11).collect::<Vec<_>>());
    assert_eq!(entries(&window(&store, ID, 2, 3).await.tail), [8, 9, 10]);
    assert_eq!(found[0].at_ms, 1_772_355_601_000);
    assert_eq!(fs::read_to_string(home.file(&format!("{ID}.json"))).unwrap(), text, "nothing is changed");
    assert!(!home.log(ID).exists());
}

#[tokio::test]
async fn its_turns_become_records_with_a_result_for_each_call() {
    let home = Home::new();
    home.put(&format!("{ID}.json"), document(&home));
    let found = records(&read(&home.store(), ID).await);
    let shape: Vec<String> = found
        .iter()
        .map(|record| match record {
            Record::TurnStarted { turn, content, .. } => format!("{} user {}", turn.0, plain_text(content)),
            Record::Routed { route, .. } => {
                let target = if route.target == RouteTarget::Primary { "primary" } else { "escalation" };
                format!("  {target} {}", route.agent)
            }
            Record::ModelSaid { said, .. } => {
                let calls: Vec<_> = said
                    .tool_calls
                    .iter()
                    .map(|call| match &call.arguments {
                        ToolArguments::Object(object) => format!("{}{}", call.name, object.len()),
                        ToolArguments::Unparsable(text) => format!("{}?{text}", call.name),
                    })
                    .collect();
                format!("  said {:?} {:?} {}", said.text, said.thinking, calls.join(" "))
            }
            Record::ToolEnded { kind, status, output, .. } => format!("  ended {kind:?} {status:?} {output}"),
            Record::Noted { text, .. } => format!("  noted {text}"),
            Record::TurnEnded { .. } => "  end".to_owned(),
        })
        .collect();
    assert_eq!(
        shape,
        [
            "1 user look at go.mod",
            "  primary qwen",
            "  said \"I look.\" None read_file1 bash1",
            "  ended Read Completed module example.com/t",
            "  ended Execute Failed no\nexit code 1",
            "  said \"\" None grep?not json",
            "  ended Search Completed (the result was not kept)",
            "  said \"It is example.com/t.\" Some(\"hm\") ",
            "  end",
            "2 user and now?",
            "  escalation escalation",
            "  said \"\" None list_dir0",
            "  ended Search Completed a.go",
            "  noted nobody asked",
            "  said \"done\" None ",
            "  end",
        ]
    );
    assert_eq!((ToolKind::Search, ToolStatus::Failed), (ToolKind::Search, ToolStatus::Failed));
    let mut calls: Vec<_> = found
        .iter()
        .filter_map(|record| match record {
            Record::ToolEnded { call, .. } => Some(call.as_str().to_owned()),
            _ => None,
        })
        .collect();
    calls.sort();
    calls.dedup();
    assert_eq!(calls.len(), 4, "each call has an id of its own");
}

#[tokio::test]
async fn opening_makes_a_log_of_it_and_keeps_the_old_file_aside() {
    let home = Home::new();
    let text = document(&home);
    home.put(&format!("{ID}.json"), &text);
    let store = home.store();
    let before = read(&store, ID).await;
    let listed = all(&store).await;
    let opened = open(&store, ID).await;
    assert_eq!(opened.recent, before);
    assert_eq!((opened.summary.turns, opened.earlier_turns), (2, 0));
    opened.log.append(&whole_turn(3, "go on")).await.unwrap();
    drop(opened);
    let header: serde_json::Value =
        serde_json::from_str(fs::read_to_string(home.log(ID)).unwrap().lines().next().unwrap()).unwrap();
    assert_eq!(header["imported"]["escalation_nonce"], "abc");
    assert_eq!(header["name"], "fixing");
    assert!(!home.file(&format!("{ID}.json")).exists());
    assert_eq!(fs::read_to_string(home.file(&format!("{ID}.json.bak"))).unwrap(), text);
    for store in [store, home.store()] {
        let after = read(&store, ID).await;
        assert_eq!(after[..before.len()], before[..]);
        assert_eq!(entries(&after)[10..], [10, 11, 12]);
        let now = all(&store).await;
        assert_eq!((now.len(), now[0].turns, now[0].created_ms), (1, 3, listed[0].created_ms));
    }
    let store = home.store();
    store.delete(&ID.into()).await.unwrap();
    assert!(!home.log(ID).exists() && !home.file(&format!("{ID}.json.bak")).exists());
}

#[tokio::test]
async fn a_conversion_that_was_killed_between_its_steps_is_finished_by_the_log() {
    let home = Home::new();
    home.put(&format!("{ID}.json"), document(&home));
    let store = home.store();
    let opened = open(&store, ID).await;
    opened.log.append(&whole_turn(3, "go on")).await.unwrap();
    drop(opened);
    fs::rename(home.file(&format!("{ID}.json.bak")), home.file(&format!("{ID}.json"))).unwrap();
    let store = home.store();
    assert_eq!(all(&store).await[0].turns, 3);
    assert_eq!(open(&store, ID).await.summary.turns, 3, "the log counts");
}

#[tokio::test]
async fn an_old_session_without_a_disk_to_convert_it_goes_on_in_memory() {
    let home = Home::new();
    home.put(&format!("{ID}.json"), document(&home));
    // A folder stands where the backup's log should go: the log cannot be made.
    let store = home.store();
    fs::create_dir(home.file(&format!("{ID}.d"))).unwrap();
    let before = read(&store, ID).await;
    let log_place = home.log(ID);
    std::os::unix::fs::symlink("/nowhere/at/all", &log_place).unwrap();
    let opened = open(&store, ID).await;
    assert_eq!(opened.recent, before);
    opened.log.append(&[started(3, "go on")]).await.unwrap_err();
    assert_eq!(read(&store, ID).await.len(), before.len() + 1);
    fs::remove_file(&log_place).unwrap();
    opened.log.append(&[said(3, "x"), ended(3)]).await.unwrap();
    drop(opened);
    let after = read(&home.store(), ID).await;
    assert_eq!(after.len(), before.len() + 3);
    assert_eq!(entries(&after), (0..13).collect::<Vec<_>>());
}

#[tokio::test]
async fn odd_old_files_are_passed_over_and_left_alone() {
    let home = Home::new();
    let good = document(&home);
    home.put(&format!("{ID}.json"), &good);
    let bad = [
        ("a", "{"),
        ("b", "[]"),
        ("c", r#"{"id":"other","cwd":"/w"}"#),
        ("d", r#"{"id":"d"}"#),
        ("e", r#"{"id":"e","cwd":"/w","history":[{"role":5}]}"#),
    ];
    for (id, text) in bad {
        home.put(&format!("{id}.json"), text);
    }
    home.put("f.json", r#"{"id":"f","cwd":"/w","history":null,"last_used":"someday"}"#);
    home.put(
        "g.json",
        r#"{"id":"g","cwd":"/w","history":[{"role":"assistant","content":"on my own"},{"role":"system","content":"?"}]}"#,
    );
    let store = home.store();
    let mut found = ids(&store).await;
    found.sort();
    assert_eq!(found, [ID, "f", "g"]);
    for (id, text) in bad {
        assert!(matches!(store.open(&id.into()).await.unwrap_err(), StoreError::Failed(_)), "{id}");
        assert_eq!(fs::read_to_string(home.file(&format!("{id}.json"))).unwrap(), text, "{id}");
    }
    let opened = open(&store, "g").await;
    assert!(matches!(opened.recent[0].record, Record::TurnStarted { .. }));
    assert_eq!(opened.recent.len(), 5);
    assert_eq!(open(&store, "f").await.recent, []);
    assert_eq!(store.find(&"index".into()).await.unwrap_err(), StoreError::Unknown("index".into()));
}
