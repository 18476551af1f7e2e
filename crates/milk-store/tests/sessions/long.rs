//! Long histories, and many of them.

use std::time::Instant;

use milk_core::ports::SessionStore;
use milk_core::record::{Logged, Record};
use milk_core::session::{HistoryWindow, SessionQuery};
use milk_store::synthetic::{ENTRIES_PER_TURN, Synthetic};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use crate::kit::*;

fn write(home: &Home, id: &str, turns: u64, text_bytes: usize) {
    let cwd = home.cwd("w");
    Synthetic { id: id.into(), cwd: &cwd, created_ms: NOW, turns, text_bytes }.write(&home.milk()).unwrap();
}

/// What a window is, by the plainest way to make it.
fn naive(history: &[Logged], head: usize, tail: usize) -> HistoryWindow {
    let all: Vec<Logged> = history.iter().filter(|logged| logged.entry.is_some()).cloned().collect();
    if all.len() <= head.saturating_add(tail) {
        return HistoryWindow { head: all, omitted: 0, tail: Vec::new() };
    }
    let mut end = head;
    let from = all.len() - tail;
    while head > 0 && end < from && matches!(all[end].record, Record::ToolEnded { .. }) {
        end += 1;
    }
    if end == from {
        return HistoryWindow { head: all, omitted: 0, tail: Vec::new() };
    }
    let omitted = u64::try_from(from - end).unwrap();
    HistoryWindow { head: all[..end].to_vec(), omitted, tail: all[from..].to_vec() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_window_and_a_summary_are_what_the_plain_way_gives(
        kinds in proptest::collection::vec(0_u8..6, 0..40),
        head in 0_usize..15,
        tail in 0_usize..15,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let home = Home::new();
            let store = home.store();
            let log = create(&store, "s", &home.cwd("w")).await;
            for (n, kind) in kinds.iter().enumerate() {
                let turn = u64::try_from(n).unwrap();
                let record = match kind {
                    0 => started(turn, "x"),
                    1 => command(turn, "/x"),
                    2 => said(turn, "y"),
                    3 | 4 => tool_ended(turn, "c", "z"),
                    _ => noted(None, "n"),
                };
                log.append(&[record]).await.unwrap();
            }
            let history = read(&store, "s").await;
            assert_eq!(window(&store, "s", head, tail).await, naive(&history, head, tail));
            drop(log);
            assert_eq!(window(&home.store(), "s", head, tail).await, naive(&history, head, tail));
            // What is counted record by record is what the log says.
            let counted = all(&store).await;
            drop(store);
            std::fs::remove_file(home.file("index.db")).unwrap();
            assert_eq!(all(&home.store()).await, counted);
        });
    }
}

#[tokio::test]
async fn a_history_of_10_000_turns_is_opened_by_its_end() {
    let home = Home::new();
    write(&home, "s", 10_000, 1000);
    let store = home.store();
    store.warm_up().await;
    let begun = Instant::now();
    let opened = open(&store, "s").await;
    let shown = window(&store, "s", 10, 200).await;
    // A bound that only a look at the whole history would break by far.
    assert!(begun.elapsed().as_millis() < 2000, "{:?}", begun.elapsed());
    assert_eq!(
        (shown.head.len(), shown.tail.len(), shown.omitted),
        (11, 200, 10_000 * ENTRIES_PER_TURN - 211)
    );
    assert_eq!((opened.summary.turns, opened.summary.entries), (10_000, 40_000));
    assert!(
        matches!(opened.recent[0].record, Record::TurnStarted { turn, .. } if turn.0 == opened.earlier_turns + 1)
    );
    let kept = 10_000 - opened.earlier_turns;
    assert!((500..3000).contains(&kept), "{kept} turns in memory");
    opened.log.append(&whole_turn(10_001, "more")).await.unwrap();
    assert_eq!(entries(&window(&store, "s", 0, 2).await.tail), [40_000, 40_001]);
}

#[tokio::test]
async fn a_turn_that_is_larger_than_what_is_loaded_is_loaded_from_its_beginning() {
    let home = Home::new();
    let store = home.store();
    let log = create(&store, "s", &home.cwd("w")).await;
    log.append(&whole_turn(1, "before")).await.unwrap();
    log.append(&[started(2, "large")]).await.unwrap();
    for n in 0..100 {
        log.append(&[tool_ended(2, &format!("c{n}"), &"x".repeat(200_000))]).await.unwrap();
    }
    drop(log);
    let opened = open(&store, "s").await;
    assert_eq!((opened.recent.len(), opened.earlier_turns), (101, 1));
    let held: usize = opened
        .recent
        .iter()
        .map(|logged| match &logged.record {
            Record::ToolEnded { output, .. } => output.len(),
            _ => 0,
        })
        .sum();
    assert!(held < 12 * 1024 * 1024, "{held}");
    assert_eq!(opened.troubles, [""; 0]);
}

#[tokio::test]
async fn ten_thousand_sessions_are_paged_without_gaps_or_repeats() {
    let home = Home::new();
    for n in 0..10_000 {
        write(&home, &format!("s{n}"), 1, 10);
    }
    let store = home.store();
    store.warm_up().await;
    let mut found = Vec::new();
    loop {
        let query =
            SessionQuery { offset: found.len(), limit: 50, worth: used(&[]), ..SessionQuery::default() };
        let page = store.list(&query).await.unwrap();
        found.extend(page.sessions.into_iter().map(|summary| summary.id.as_str().to_owned()));
        if !page.more {
            break;
        }
    }
    assert_eq!(found.len(), 10_000);
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 10_000);
}
