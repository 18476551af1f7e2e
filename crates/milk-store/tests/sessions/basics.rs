//! A session is made, written, listed, opened again and deleted.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use milk_core::ports::{NewSession, SessionStore, StoreError};
use milk_core::record::EntryNumber;
use milk_core::session::SessionQuery;
use pretty_assertions::assert_eq;

use crate::kit::*;

#[tokio::test]
async fn what_is_appended_is_there_after_a_restart() {
    let home = Home::new();
    let cwd = home.cwd("w");
    let store = home.store();
    let log = create(&store, "s1", &cwd).await;
    assert!(home.log("s1").exists(), "from the beginning on");
    let first = [started(1, "fix   the\nthing"), said(1, "done"), tool_ended(1, "c", "out")];
    log.append(&first[..1]).await.unwrap();
    log.append(&first[1..]).await.unwrap();
    log.append(&[noted(Some(1), "psst"), ended(1)]).await.unwrap();
    log.append(&[command(2, "/help"), ended(2)]).await.unwrap();
    drop(log);

    let store = home.store_at(NOW + 1_000_000, 1);
    let opened = open(&store, "s1").await;
    let summary = opened.summary.clone();
    assert_eq!(
        (summary.turns, summary.entries, summary.title(), summary.cwd.clone(), summary.created_ms),
        (1, 3, Some("fix the thing"), cwd.clone(), NOW)
    );
    assert_eq!(summary.last_used_ms, NOW + 4, "the second turn");
    assert_eq!(opened.earlier_turns, 0);
    assert_eq!(opened.troubles, [""; 0]);
    let mut expected = first.to_vec();
    expected.extend([noted(Some(1), "psst"), ended(1), command(2, "/help"), ended(2)]);
    assert_eq!(records(&opened.recent), expected);
    assert_eq!(entries(&opened.recent), [0, 1, 2]);

    opened.log.append(&whole_turn(3, "more")).await.unwrap();
    let read = read(&store, "s1").await;
    assert_eq!(entries(&read), [0, 1, 2, 3, 4]);
    assert_eq!(read[7].entry, Some(EntryNumber(3)));
    assert!(read[7].at_ms >= NOW + 1_000_000);
    assert_eq!(store.find(&"s1".into()).await.unwrap().turns, 2);
}

#[tokio::test]
async fn the_log_is_private_and_readable_lines() {
    let home = Home::new();
    let store = home.store();
    lived(&store, "s1", &home.cwd("w"), 1).await;
    let text = fs::read_to_string(home.log("s1")).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["record"], "session");
    assert_eq!(lines[0]["created_at"], "2026-12-01T09:42:16.123Z");
    assert_eq!(lines[2]["entry"], 1);
    assert!(lines[3].get("entry").is_none());
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(home.log("s1")), 0o600);
    assert_eq!(mode(home.sessions()), 0o700);
    store.warm_up().await;
    for entry in fs::read_dir(home.sessions()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(path.clone()), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn a_list_is_last_use_first_by_directory_and_worth() {
    let home = Home::new();
    let (a, b) = (home.cwd("a"), home.cwd("b"));
    let store = home.store();
    lived(&store, "s1", &a, 1).await;
    lived(&store, "s2", &b, 1).await;
    let empty = create(&store, "s3", &a).await;
    store.create(NewSession { id: &"s4".into(), cwd: &a, name: Some("named") }).await.unwrap();
    assert_eq!(ids(&store).await, ["s4", "s3", "s2", "s1"]);

    std::os::unix::fs::symlink(&a, home.root().join("link")).unwrap();
    for spelling in ["a", "a/", "./a", "b/../a", "link"] {
        let query =
            SessionQuery { cwd: Some(home.root().join(spelling)), worth: used(&["s3"]), offset: 0, limit: 2 };
        let page = store.list(&query).await.unwrap();
        let found: Vec<_> = page.sessions.iter().map(|summary| summary.id.as_str()).collect();
        assert_eq!((found, page.more), (vec!["s4", "s3"], true), "{spelling}");
        let query = SessionQuery { worth: used(&[]), ..query };
        let page = store.list(&query).await.unwrap();
        let found: Vec<_> = page.sessions.iter().map(|summary| summary.id.as_str()).collect();
        assert_eq!((found, page.more), (vec!["s4", "s1"], false), "{spelling}");
    }

    empty.append(&[command(1, "/help"), ended(1)]).await.unwrap();
    assert_eq!(ids(&store).await, ["s3", "s4", "s2", "s1"], "a command is a use");
    let named = store.with_name(&home.root().join("link"), "named").await.unwrap();
    assert_eq!(named.len(), 1);
    assert_eq!(store.with_name(&a, "nam%").await.unwrap(), []);
    assert_eq!(store.with_name(&b, "named").await.unwrap(), []);
}

#[tokio::test]
async fn a_directory_need_not_be_text() {
    let home = Home::new();
    let odd = home.root().join(std::ffi::OsStr::from_bytes(b"w\xff"));
    fs::create_dir(&odd).unwrap();
    lived(&home.store(), "s1", &odd, 1).await;
    lived(&home.store(), "s2", &home.cwd("w"), 1).await;
    let _ = fs::remove_file(home.file("index.db"));
    let store = home.store();
    let query = SessionQuery { cwd: Some(odd.clone()), limit: 9, ..SessionQuery::default() };
    let found = store.list(&query).await.unwrap().sessions;
    assert_eq!((found.len(), &found[0].cwd), (1, &odd));
}

#[tokio::test]
async fn references_fit_by_prefix() {
    let home = Home::new();
    let store = home.store();
    let cwd = home.cwd("w");
    for id in ["abc1", "abc2", "abd", "Abc", "a_c"] {
        lived(&store, id, &cwd, 1).await;
    }
    let found = async |prefix: &str, limit| {
        let found = store.with_prefix(prefix, limit).await.unwrap();
        found.into_iter().map(|summary| summary.id.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("abc", 9).await, ["abc2", "abc1"]);
    assert_eq!(found("ab", 2).await, ["abd", "abc2"]);
    assert_eq!(found("a_", 9).await, ["a_c"]);
    for none in ["", "%", "_", "abc1x", "a%", "../", "abc*"] {
        assert!(found(none, 9).await.is_empty(), "{none}");
    }
}

#[tokio::test]
async fn ids_are_not_paths() {
    let home = Home::new();
    let store = home.store();
    let victim = home.root().join("victim.jsonl");
    lived(&store, "s1", &home.cwd("w"), 1).await;
    fs::copy(home.log("s1"), &victim).unwrap();
    fs::write(home.root().join("home/victim.jsonl"), "x").unwrap();
    let absolute = victim.with_extension("").to_str().unwrap().to_owned();
    for bad in [
        "../victim",
        "../../victim",
        &absolute,
        "..\\victim",
        "%2e%2e/victim",
        "a/b",
        "*",
        ".",
        "..",
        "\0",
        "",
    ] {
        let id = bad.into();
        assert_eq!(store.find(&id).await.unwrap_err(), StoreError::Unknown(id.clone()), "{bad:?}");
        assert_eq!(store.open(&id).await.unwrap_err(), StoreError::Unknown(id.clone()), "{bad:?}");
        assert_eq!(store.delete(&id).await.unwrap_err(), StoreError::Unknown(id.clone()), "{bad:?}");
        assert_eq!(store.window(&id, 1, 1).await.unwrap_err(), StoreError::Unknown(id.clone()), "{bad:?}");
        assert_eq!(
            store.read(&id, Box::new(|_| {})).await.unwrap_err(),
            StoreError::Unknown(id.clone()),
            "{bad:?}"
        );
        let new = NewSession { id: &id, cwd: home.root(), name: None };
        assert!(store.create(new).await.is_err(), "{bad:?}");
    }
    assert!(victim.exists());
    assert_eq!(ids(&store).await, ["s1"]);
}

#[tokio::test]
async fn a_deleted_session_is_gone_for_good() {
    let home = Home::new();
    let store = home.store();
    let cwd = home.cwd("w");
    lived(&store, "s1", &cwd, 2).await;
    lived(&store, "s2", &cwd, 2).await;
    let opened = open(&store, "s1").await;
    opened.log.append(&[tool_ended(2, "c", &"x".repeat(100_000))]).await.unwrap();
    assert!(home.file("s1.d").exists());
    store.delete(&"s1".into()).await.unwrap();
    assert!(!home.log("s1").exists() && !home.file("s1.d").exists());
    opened.log.append(&whole_turn(3, "late")).await.unwrap();
    drop(opened);
    assert!(!home.log("s1").exists());
    assert_eq!(ids(&store).await, ["s2"]);
    assert_eq!(store.delete(&"s1".into()).await.unwrap_err(), StoreError::Unknown("s1".into()));
    assert_eq!(ids(&home.store()).await, ["s2"]);
}

#[tokio::test]
async fn one_writer_at_a_time() {
    let home = Home::new();
    let (one, two) = (home.store(), home.store());
    lived(&one, "s1", &home.cwd("w"), 1).await;
    let opened = open(&one, "s1").await;
    opened.log.append(&whole_turn(2, "x")).await.unwrap();
    let pid = std::process::id();
    let refused = StoreError::Locked { id: "s1".into(), holder: format!("process {pid}") };
    assert_eq!(two.open(&"s1".into()).await.unwrap_err(), refused);
    assert_eq!(two.delete(&"s1".into()).await.unwrap_err(), refused);
    assert_eq!(one.open(&"s1".into()).await.unwrap_err(), refused);
    assert_eq!(two.find(&"s1".into()).await.unwrap().turns, 2);
    assert_eq!(window(&two, "s1", 10, 10).await.head.len(), 4);
    assert_eq!(read(&two, "s1").await.len(), 6);
    drop(opened);
    let opened = open(&two, "s1").await;
    assert_eq!(opened.summary.turns, 2);
    drop(opened);
    two.delete(&"s1".into()).await.unwrap();
    assert_eq!(one.find(&"s1".into()).await.unwrap_err(), StoreError::Unknown("s1".into()));
    assert_eq!(ids(&one).await, [""; 0]);
}
