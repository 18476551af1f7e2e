//! Sessions that were made for nothing do not pile up (R23).

use std::fs;
use std::time::{Duration, SystemTime};

use milk_core::ports::{NewSession, SessionStore};
use milk_store::Prune;
use pretty_assertions::assert_eq;

use crate::kit::*;

const DAY: u64 = 24 * 60 * 60 * 1000;

async fn some(home: &Home) {
    let store = home.store();
    let cwd = home.cwd("w");
    lived(&store, "turned", &cwd, 1).await;
    store.create(NewSession { id: &"named".into(), cwd: &cwd, name: Some("n") }).await.unwrap();
    drop(create(&store, "empty", &cwd).await);
    let log = create(&store, "commanded", &cwd).await;
    log.append(&[command(1, "/help"), ended(1)]).await.unwrap();
}

fn names(summaries: &[milk_core::session::SessionSummary]) -> Vec<&str> {
    summaries.iter().map(|summary| summary.id.as_str()).collect()
}

#[tokio::test]
async fn empty_sessions_go_after_a_day() {
    let home = Home::new();
    some(&home).await;
    let today = home.store_at(NOW + DAY - 1000, 1);
    today.warm_up().await;
    assert_eq!(ids(&today).await.len(), 4);
    let other = home.store();
    let held = create(&other, "open", &home.cwd("w")).await;

    let tomorrow = home.store_at(NOW + DAY + 1000, 1);
    let mine = create(&tomorrow, "mine", &home.cwd("w")).await;
    tomorrow.warm_up().await;
    let mut left = ids(&tomorrow).await;
    left.sort();
    assert_eq!(left, ["mine", "named", "open", "turned"]);
    assert!(!home.log("empty").exists() && home.log("open").exists());
    held.append(&whole_turn(1, "x")).await.unwrap();
    drop(mine);

    let late = home.store_at(NOW + 100 * DAY, 1);
    let pruned = late.prune(Prune::Empty).await.unwrap();
    assert_eq!(names(&pruned.removed), ["mine"]);
    assert!(pruned.kept.is_empty() && pruned.named.is_empty());
}

#[tokio::test]
async fn unused_sessions_go_when_asked_for_but_for_named_and_open_ones() {
    let home = Home::new();
    some(&home).await;
    let other = home.store();
    lived(&other, "open", &home.cwd("w"), 1).await;
    let held = open(&other, "open").await;
    let late = home.store_at(NOW + 30 * DAY, 1);
    lived(&late, "new", &home.cwd("w"), 1).await;
    let pruned = late.prune(Prune::UnusedFor(Duration::from_hours(24 * 20))).await.unwrap();
    let mut removed = names(&pruned.removed);
    removed.sort_unstable();
    assert_eq!(removed, ["commanded", "empty", "turned"]);
    assert_eq!(names(&pruned.named), ["named"]);
    assert_eq!(pruned.kept.len(), 1);
    assert!(pruned.kept[0].1.contains("open in another process"), "{:?}", pruned.kept);
    drop(held);
    let mut left = ids(&late).await;
    left.sort();
    assert_eq!(left, ["named", "new", "open"]);
}

#[tokio::test]
async fn what_kills_left_behind_goes_after_a_day() {
    let home = Home::new();
    let store = home.store();
    lived(&store, "good", &home.cwd("w"), 1).await;
    home.put("unborn.jsonl", "");
    home.put("fresh.jsonl", "");
    home.put("torn.jsonl", "{\"record\":\"sess");
    fs::create_dir(home.file("orphan.d")).unwrap();
    fs::write(home.file("orphan.d/0.0.txt"), "x").unwrap();
    fs::create_dir(home.file("good.d")).unwrap();
    let old = SystemTime::now() - Duration::from_hours(30);
    for name in ["unborn.jsonl", "torn.jsonl", "orphan.d", "good.d"] {
        let file = fs::File::open(home.file(name)).unwrap();
        file.set_modified(old).unwrap();
    }
    store.warm_up().await;
    let left: Vec<bool> = ["unborn.jsonl", "orphan.d", "fresh.jsonl", "torn.jsonl", "good.d", "good.jsonl"]
        .iter()
        .map(|name| home.file(name).exists())
        .collect();
    assert_eq!(left, [false, false, true, true, true, true]);
}
