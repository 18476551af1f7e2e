//! The index is made from the logs, whatever happens to it.

use std::fs;

use milk_core::ports::{NewSession, SessionStore};
use milk_core::session::SessionQuery;
use pretty_assertions::assert_eq;

use crate::kit::*;

/// Five sessions, used in this order.
async fn five(home: &Home) -> Vec<milk_core::session::SessionSummary> {
    let store = home.store();
    let cwd = home.cwd("w");
    for n in 1..=5 {
        lived(&store, &format!("s{n}"), &cwd, n).await;
    }
    let listed = all(&store).await;
    assert_eq!(listed.iter().map(|summary| summary.turns).collect::<Vec<_>>(), [5, 4, 3, 2, 1]);
    listed
}

#[tokio::test]
async fn a_missing_or_broken_index_is_made_anew() {
    let home = Home::new();
    let listed = five(&home).await;
    let index = home.file("index.db");
    let run = |sql: &str| rusqlite::Connection::open(&index).unwrap().execute_batch(sql).unwrap();
    let breakages: [(&str, &dyn Fn()); 9] = [
        ("without its table", &|| run("DROP TABLE sessions")),
        ("of another shape", &|| run("ALTER TABLE sessions DROP COLUMN first_prompt")),
        ("of another version", &|| run("PRAGMA user_version = 77")),
        ("removed", &|| fs::remove_file(&index).unwrap()),
        ("garbage", &|| fs::write(&index, "garbage ".repeat(2000)).unwrap()),
        ("empty", &|| fs::write(&index, "").unwrap()),
        ("short", &|| {
            let bytes = fs::read(&index).unwrap();
            fs::write(&index, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("zeroed", &|| {
            let mut bytes = fs::read(&index).unwrap();
            let at = bytes.len() / 3;
            bytes[at..].fill(0);
            fs::write(&index, bytes).unwrap();
        }),
        ("a companion of garbage", &|| fs::write(home.file("index.db-wal"), "x".repeat(10_000)).unwrap()),
    ];
    for (what, breakage) in breakages {
        breakage();
        let store = home.store();
        assert_eq!(all(&store).await, listed, "{what}");
        assert_eq!(store.find(&"s3".into()).await.unwrap(), listed[2], "{what}");
    }
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    assert_eq!(all(&home.store()).await, listed, "a folder in its place");
}

#[tokio::test]
async fn an_index_that_is_replaced_under_a_living_store_is_noticed() {
    let home = Home::new();
    five(&home).await;
    let store = home.store_at(NOW + 1000, 1);
    let log = create(&store, "mine", &home.cwd("w")).await;
    log.append(&whole_turn(1, "x")).await.unwrap();
    assert_eq!(ids(&store).await.len(), 6);
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = fs::remove_file(home.file(name));
    }
    assert_eq!(ids(&store).await, ["mine", "s5", "s4", "s3", "s2", "s1"]);
    log.append(&whole_turn(2, "x")).await.unwrap();
    let other = home.store();
    assert_eq!(other.find(&"mine".into()).await.unwrap().turns, 2);
    assert_eq!(ids(&other).await.len(), 6);
}

#[tokio::test]
async fn an_index_that_is_removed_again_and_again_under_living_stores_harms_nothing() {
    let home = Home::new();
    let cwd = home.cwd("w");
    let stores = [home.store(), home.store(), home.store()];
    for n in 0..30 {
        for (which, store) in stores.iter().enumerate() {
            lived(store, &format!("s{which}-{n}"), &cwd, 1).await;
            let name = ["index.db", "index.db-wal", "index.db-shm"][n % 3];
            let _ = fs::remove_file(home.file(name));
            if n % 5 == which {
                let _ = fs::remove_file(home.file("index.db"));
            }
        }
    }
    for store in &stores {
        store.warm_up().await;
        assert_eq!(ids(store).await.len(), 90);
    }
}

#[tokio::test]
async fn an_index_that_cannot_be_written_is_kept_in_memory() {
    let home = Home::new();
    let listed = five(&home).await;
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = fs::remove_file(home.file(name));
    }
    fs::create_dir(home.file("index.db")).unwrap();
    let (store, other) = (home.store_at(NOW + 1000, 1), home.store_at(NOW + 2000, 1));
    assert_eq!(all(&store).await, listed);
    assert_eq!(all(&other).await, listed);
    lived(&store, "new", &home.cwd("w"), 2).await;
    let log = open(&store, "s1").await.log;
    log.append(&whole_turn(2, "x")).await.unwrap();
    assert_eq!(ids(&store).await, ["s1", "new", "s5", "s4", "s3", "s2"]);
    assert_eq!(all(&other).await, all(&store).await, "each looks at the logs itself");
    assert!(
        store.reindex().await.unwrap_err().to_string().contains("index.db"),
        "who asks for an index is told"
    );
    store.delete(&"new".into()).await.unwrap();
    assert_eq!(ids(&other).await, ["s1", "s5", "s4", "s3", "s2"]);
    assert_eq!(
        other.open(&"s1".into()).await.unwrap_err().to_string().matches("open in another process").count(),
        1
    );
}

#[tokio::test]
async fn files_that_come_and_go_are_noticed() {
    let home = Home::new();
    let listed = five(&home).await;
    let store = home.store();
    let text = fs::read_to_string(home.log("s1")).unwrap();
    home.put("copy.jsonl", text.replace(r#""id":"s1""#, r#""id":"copy""#));
    fs::remove_file(home.log("s4")).unwrap();
    let mut now = ids(&store).await;
    now.sort();
    assert_eq!(now, ["copy", "s1", "s2", "s3", "s5"]);
    assert!(store.find(&"s4".into()).await.is_err());
    let told = store.reindex().await.unwrap();
    assert_eq!((told.sessions, told.damaged.len(), told.bad.len()), (5, 0, 0));
    fs::remove_file(home.log("copy")).unwrap();
    let expected: Vec<_> = listed.iter().filter(|summary| summary.id.as_str() != "s4").cloned().collect();
    assert_eq!(all(&store).await, expected);
}

#[tokio::test]
async fn a_log_that_grew_or_shrank_elsewhere_is_counted_anew() {
    let home = Home::new();
    five(&home).await;
    let longer = fs::read(home.log("s5")).unwrap();
    let shorter = fs::read(home.log("s1")).unwrap();
    let rename = |bytes: &[u8], from: &str, to: &str| {
        String::from_utf8(bytes.to_vec())
            .unwrap()
            .replace(&format!(r#""id":"{from}""#), &format!(r#""id":"{to}""#))
    };
    home.put("s2.jsonl", rename(&longer, "s5", "s2"));
    home.put("s3.jsonl", rename(&shorter, "s1", "s3"));
    let store = home.store();
    assert_eq!(store.find(&"s3".into()).await.unwrap().turns, 1);
    store.warm_up().await;
    let listed = all(&store).await;
    let turns = |id: &str| listed.iter().find(|summary| summary.id.as_str() == id).unwrap().turns;
    assert_eq!((turns("s2"), turns("s3")), (5, 1));
}

#[tokio::test]
async fn a_wrong_index_gives_no_entry_the_number_of_another() {
    let home = Home::new();
    let store = home.store();
    lived(&store, "s", &home.cwd("w"), 3).await;
    store.warm_up().await;
    drop(store);
    let connection = rusqlite::Connection::open(home.file("index.db")).unwrap();
    assert_eq!(connection.execute("UPDATE sessions SET entries = 1, turns = 40", []).unwrap(), 1);
    drop(connection);
    let store = home.store();
    let opened = open(&store, "s").await;
    assert_eq!((opened.summary.turns, opened.summary.entries), (3, 6));
    opened.log.append(&whole_turn(4, "x")).await.unwrap();
    assert_eq!(entries(&read(&store, "s").await), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn equal_times_keep_their_order_from_page_to_page() {
    let home = Home::new();
    let store = home.store_at(NOW, 0);
    let cwd = home.cwd("w");
    let mut expected = Vec::new();
    for n in 0..120 {
        let id = format!("s{}", (n * 37) % 120);
        let name = Some("n");
        store.create(NewSession { id: &id.as_str().into(), cwd: &cwd, name }).await.unwrap();
        expected.insert(0, id);
    }
    for store in [&store, &home.store()] {
        let mut found = Vec::new();
        for (offset, size, more) in [(0, 50, true), (50, 50, true), (100, 20, false), (999_999, 0, false)] {
            let query = SessionQuery { worth: used(&[]), offset, limit: 50, cwd: Some(cwd.clone()) };
            let page = store.list(&query).await.unwrap();
            assert_eq!((page.sessions.len(), page.more), (size, more), "{offset}");
            found.extend(page.sessions.into_iter().map(|summary| summary.id.as_str().to_owned()));
        }
        assert_eq!(found, expected);
    }
}
