//! Several processes on one home, and processes that die.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use milk_core::ports::{SessionStore, StoreError};
use milk_core::record::Record;
use pretty_assertions::assert_eq;

use crate::kit::*;

/// Starts one of the tests below in a process of its own.
fn start(test: &str, root: &Path, job: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("MILK_STORE_TEST_ROOT", root)
        .env("MILK_STORE_TEST_JOB", job)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

/// What this process was started for; `None` where it was not started by one of these tests.
pub(crate) fn job() -> Option<(Home, String)> {
    let root = std::env::var_os("MILK_STORE_TEST_ROOT")?;
    Some((Home::at(root.into()), std::env::var("MILK_STORE_TEST_JOB").ok()?))
}

pub(crate) fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The next line that a child told.
pub(crate) fn told(lines: &mut BufReader<ChildStdout>) -> Option<String> {
    let mut line = String::new();
    loop {
        line.clear();
        if lines.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        // The line is whole, or the child died while it wrote it.
        if let Some(text) = line.strip_prefix('@').and_then(|text| text.strip_suffix('\n')) {
            return Some(text.to_owned());
        }
    }
}

#[tokio::test]
#[ignore = "run by a_kill_loses_nothing_that_was_acknowledged"]
async fn child_that_appends() {
    let Some((home, id)) = job() else { return };
    let store = home.store();
    let log = match store.open(&id.as_str().into()).await {
        Ok(opened) => {
            assert!(opened.troubles.iter().all(|trouble| trouble.contains("middle of a record")));
            tell(&format!("opened {}", opened.summary.entries));
            opened.log
        }
        Err(StoreError::Unknown(_)) => create(&store, &id, &home.cwd("w")).await,
        Err(error) => panic!("{error}"),
    };
    for turn in 1.. {
        let large = "x".repeat(if turn % 3 == 0 { 50_000 } else { 10 });
        log.append(&[started(turn, "q")]).await.unwrap();
        tell("entry");
        log.append(&[tool_ended(turn, "c", &large), said(turn, "a")]).await.unwrap();
        tell("entry");
        tell("entry");
        log.append(&[ended(turn)]).await.unwrap();
    }
}

#[tokio::test]
async fn a_kill_loses_nothing_that_was_acknowledged() {
    let home = Home::new();
    let mut acknowledged = 0;
    for round in 0..25_u64 {
        let (mut child, mut lines) = start("processes::child_that_appends", home.root(), "s");
        // The moment of the kill: after so many acknowledgements, in the middle of whatever comes next.
        for _ in 0..=(round * 7 % 23) {
            let line = told(&mut lines).unwrap();
            if let Some(entries) = line.strip_prefix("opened ") {
                acknowledged = entries.parse().unwrap();
            } else {
                acknowledged += 1;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(line) = told(&mut lines) {
            acknowledged += u64::from(line == "entry");
        }
        let store = home.store();
        let found = read(&store, "s").await;
        let numbers = entries(&found);
        let count = u64::try_from(numbers.len()).unwrap();
        assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "round {round}");
        assert!(count >= acknowledged, "round {round}: {count} of {acknowledged}");
        for logged in &found {
            if let Record::ToolEnded { output, .. } = &logged.record {
                assert!(output.bytes().all(|b| b == b'x'), "round {round}: {} bytes", output.len());
            }
        }
        // What a list says is true, although nobody closed the session.
        let summary = all(&store).await.remove(0);
        assert_eq!(summary.entries, count, "round {round}");
        let turns = found.iter().filter(|l| matches!(l.record, Record::TurnStarted { .. })).count();
        assert_eq!(summary.turns, u64::try_from(turns).unwrap(), "round {round}");
    }
}

#[tokio::test]
#[ignore = "run by two_processes_lose_nothing_of_each_other"]
async fn child_that_hammers() {
    let Some((home, me)) = job() else { return };
    let store = home.store();
    let cwd = home.cwd("w");
    for n in 0..40 {
        lived(&store, &format!("{me}-{n}"), &cwd, 2).await;
        // Both want this one.
        match store.open(&"shared".into()).await {
            Ok(opened) => opened.log.append(&whole_turn(opened.summary.turns + 1, &me)).await.unwrap(),
            Err(StoreError::Locked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        let mine = ids(&store).await.into_iter().filter(|id| id.starts_with(&format!("{me}-"))).count();
        assert_eq!(mine, n + 1 - n / 5);
        if n % 5 == 4 {
            store.delete(&format!("{me}-{n}").as_str().into()).await.unwrap();
        }
        if n % 10 == 9 {
            store.reindex().await.unwrap();
        }
    }
    tell("done");
}

#[tokio::test]
async fn two_processes_lose_nothing_of_each_other() {
    let home = Home::new();
    lived(&home.store(), "shared", &home.cwd("w"), 1).await;
    let mut children = ["a", "b"].map(|me| start("processes::child_that_hammers", home.root(), me));
    for (child, lines) in &mut children {
        assert_eq!(told(lines).as_deref(), Some("done"));
        assert!(child.wait().unwrap().success());
    }
    let store = home.store();
    let mut found = ids(&store).await;
    assert_eq!(found.len(), 1 + 2 * 32);
    found.sort();
    let rebuilt = store.reindex().await.unwrap();
    assert_eq!((rebuilt.sessions, rebuilt.damaged, rebuilt.bad), (65, vec![], vec![]));
    let shared = read(&store, "shared").await;
    let numbers = entries(&shared);
    assert_eq!(numbers, (0..u64::try_from(numbers.len()).unwrap()).collect::<Vec<_>>());
    for summary in all(&store).await {
        if summary.id.as_str() != "shared" {
            assert_eq!((summary.turns, summary.entries), (2, 4), "{}", summary.id);
        }
    }
}

#[tokio::test]
#[ignore = "run by processes_that_start_at_once_share_one_new_home"]
async fn child_that_begins() {
    let Some((home, me)) = job() else { return };
    let store = home.store();
    tell("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    lived(&store, &me, &home.cwd("w"), 1).await;
    assert!(ids(&store).await.contains(&me));
    tell("done");
}

#[tokio::test]
async fn processes_that_start_at_once_share_one_new_home() {
    let home = Home::new();
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut children = names.map(|me| start("processes::child_that_begins", home.root(), me));
    for (_, lines) in &mut children {
        assert_eq!(told(lines).as_deref(), Some("ready"));
    }
    for (child, _) in &mut children {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    for (child, lines) in &mut children {
        assert_eq!(told(lines).as_deref(), Some("done"));
        assert!(child.wait().unwrap().success());
    }
    let mut found = ids(&home.store()).await;
    found.sort();
    assert_eq!(found, names);
}

#[tokio::test]
#[ignore = "run by a_session_is_open_in_one_process_at_a_time"]
async fn child_that_holds() {
    let Some((home, id)) = job() else { return };
    let store = home.store();
    let opened = open(&store, &id).await;
    opened.log.append(&whole_turn(2, "from the child")).await.unwrap();
    tell("open");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

#[tokio::test]
async fn a_session_is_open_in_one_process_at_a_time() {
    let home = Home::new();
    let store = home.store();
    lived(&store, "s", &home.cwd("w"), 1).await;
    let (mut child, mut lines) = start("processes::child_that_holds", home.root(), "s");
    assert_eq!(told(&mut lines).as_deref(), Some("open"));
    let refused = store.open(&"s".into()).await.unwrap_err();
    assert_eq!(refused, StoreError::Locked { id: "s".into(), holder: format!("process {}", child.id()) });
    assert!(matches!(store.delete(&"s".into()).await.unwrap_err(), StoreError::Locked { .. }));
    assert_eq!(all(&store).await[0].turns, 2);
    assert_eq!(read(&store, "s").await.len(), 6);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(open(&store, "s").await.summary.turns, 2, "the lock died with its process");
}
