//! Disks that refuse: a conversation goes on, and what it said is written when the disk is back.

use std::fs;
use std::io::{BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use milk_core::ports::{NewSession, SessionStore, StoreError};
use pretty_assertions::assert_eq;

use crate::kit::*;
use crate::processes::{job, tell, told};

#[tokio::test]
async fn a_session_begins_without_a_folder_and_is_written_when_there_is_one() {
    let home = Home::new();
    let cwd = home.cwd("w");
    fs::create_dir_all(home.sessions().parent().unwrap()).unwrap();
    fs::write(home.sessions(), "in the way").unwrap();
    let store = home.store();
    let new = NewSession { id: &"s".into(), cwd: &cwd, name: Some("n") };
    let log = store.create(new).await.unwrap();
    let refused = log.append(&whole_turn(1, "one")).await.unwrap_err();
    let StoreError::Failed(reason) = refused else { panic!("{refused}") };
    assert!(reason.starts_with(home.log("s").to_str().unwrap()), "{reason}");
    log.append(&[started(2, &"large ".repeat(20_000))]).await.unwrap_err();

    // Meanwhile it is as if it were there.
    assert_eq!(ids(&store).await, ["s"]);
    assert_eq!(store.find(&"s".into()).await.unwrap().turns, 2);
    assert_eq!(entries(&read(&store, "s").await), [0, 1, 2]);
    assert_eq!(window(&store, "s", 1, 1).await.tail.len(), 1);
    assert_eq!(store.with_name(&cwd, "n").await.unwrap().len(), 1);

    fs::remove_file(home.sessions()).unwrap();
    log.append(&[said(2, "back"), ended(2)]).await.unwrap();
    let mut expected = whole_turn(1, "one");
    expected.extend([started(2, &"large ".repeat(20_000)), said(2, "back"), ended(2)]);
    let other = home.store();
    assert_eq!(records(&read(&other, "s").await), expected);
    assert_eq!(entries(&read(&other, "s").await), [0, 1, 2, 3]);
    drop(log);
    assert_eq!(records(&open(&other, "s").await.recent), expected);
    assert_eq!(ids(&other).await, ["s"]);
}

#[tokio::test]
async fn a_folder_that_is_removed_comes_back_with_everything() {
    let home = Home::new();
    let store = home.store();
    let log = create(&store, "s", &home.cwd("w")).await;
    log.append(&whole_turn(1, "one")).await.unwrap();
    // What the store does in the background may bring the folder back at first.
    while fs::write(home.milk().root(), "in the way").is_err() {
        let _ = fs::remove_dir_all(home.milk().root());
    }
    log.append(&whole_turn(2, "two")).await.unwrap_err();
    log.append(&whole_turn(3, "three")).await.unwrap_err();
    assert_eq!(read(&store, "s").await.len(), 9);
    fs::remove_file(home.milk().root()).unwrap();
    log.append(&whole_turn(4, "four")).await.unwrap();
    assert_eq!(entries(&read(&home.store(), "s").await), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(matches!(home.store().open(&"s".into()).await.unwrap_err(), StoreError::Locked { .. }));
    assert_eq!(ids(&store).await, ["s"]);
}

#[tokio::test]
async fn what_the_disk_refuses_is_written_at_the_end_at_the_latest() {
    let home = Home::new();
    fs::create_dir_all(home.milk().root()).unwrap();
    fs::write(home.sessions(), "in the way").unwrap();
    let store = home.store();
    let log = create(&store, "s", &home.cwd("w")).await;
    log.append(&whole_turn(1, "one")).await.unwrap_err();
    fs::remove_file(home.sessions()).unwrap();
    drop(log);
    assert_eq!(read(&home.store(), "s").await.len(), 3);
}

#[tokio::test]
async fn a_session_that_never_reached_the_disk_can_be_deleted() {
    let home = Home::new();
    fs::create_dir_all(home.milk().root()).unwrap();
    fs::write(home.sessions(), "in the way").unwrap();
    let store = home.store();
    let log = create(&store, "s", &home.cwd("w")).await;
    log.append(&whole_turn(1, "one")).await.unwrap_err();
    store.delete(&"s".into()).await.unwrap();
    fs::remove_file(home.sessions()).unwrap();
    log.append(&whole_turn(2, "two")).await.unwrap();
    drop(log);
    assert!(!home.log("s").exists());
    assert_eq!(ids(&store).await, [""; 0]);
}

#[tokio::test]
async fn memory_for_what_the_disk_refuses_is_bounded_and_the_loss_is_told() {
    let home = Home::new();
    fs::create_dir_all(home.milk().root()).unwrap();
    fs::write(home.sessions(), "in the way").unwrap();
    let store = home.store();
    let log = create(&store, "s", &home.cwd("w")).await;
    let text = "x".repeat(10 * 1024 * 1024);
    for n in 0..8 {
        let refused = log.append(&[tool_ended(1, &format!("c{n}"), &text)]).await.unwrap_err();
        assert_eq!(refused.to_string().contains("too much"), n >= 6, "{n}: {refused}");
    }
    fs::remove_file(home.sessions()).unwrap();
    log.append(&[ended(1)]).await.unwrap();
    let found = read(&store, "s").await;
    assert_eq!(entries(&found), [0, 1, 2, 3, 4, 5]);
    assert!(fs::read_to_string(home.log("s")).unwrap().contains(r#""record":"lost","records":2"#));
}

/// Runs in a process of its own, whose files may not be larger than a few blocks.
#[tokio::test]
#[ignore = "run by a_full_disk_costs_nothing"]
async fn child_on_a_full_disk() {
    let Some(root) = std::env::var_os("MILK_STORE_TEST_ROOT") else { return };
    let home = Home::at(root.into());
    let store = home.store();
    let log = create(&store, "s", &home.cwd("w")).await;
    let mut refused = 0;
    for turn in 1..=200 {
        match log.append(&whole_turn(turn, &"x".repeat(200))).await {
            Ok(()) => assert_eq!(refused, 0, "it does not get better here"),
            Err(error) => {
                assert!(error.to_string().contains("s.jsonl: "), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 50, "{refused}");
    assert_eq!(read(&store, "s").await.len(), 600, "in memory");
    // The end of this process is a kill: nothing is tidied up.
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_full_disk_costs_nothing() {
    let home = Home::new();
    // The limit is in blocks of 512 or 1024 bytes; the signal that would kill is ignored, as a full disk sends none.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 40; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "disk::child_on_a_full_disk", "--ignored", "--nocapture"])
        .env("MILK_STORE_TEST_ROOT", home.root())
        .stdout(Stdio::null())
        .process_group(0);
    let status = shell.status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");

    let store = home.store();
    let written = read(&store, "s").await;
    assert!((60..600).contains(&written.len()), "{}", written.len());
    let opened = open(&store, "s").await;
    assert_eq!(opened.troubles, [""; 0], "whole records alone were left");
    let numbers = entries(&written);
    assert_eq!(numbers, (0..u64::try_from(numbers.len()).unwrap()).collect::<Vec<_>>());
    opened.log.append(&whole_turn(999, "goes on")).await.unwrap();
}

/// A user for whom modes count, where the tests run as one for whom they do not.
const NOBODY: u32 = 65534;

/// Gives every file and folder under `root` these modes, and to that user.
fn set_modes(root: &Path, folders: u32, files: u32) {
    let mut todo: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        if path.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            fs::set_permissions(&path, fs::Permissions::from_mode(folders)).unwrap();
        } else {
            fs::set_permissions(&path, fs::Permissions::from_mode(files)).unwrap();
        }
    }
}

#[tokio::test]
#[ignore = "run by a_read_only_folder_stops_nothing"]
async fn child_on_a_read_only_folder() {
    let Some((home, _)) = job() else { return };
    let store = home.store_at(NOW + 1000, 1);
    assert_eq!(ids(&store).await, ["s"]);
    let opened = open(&store, "s").await;
    assert_eq!((opened.recent.len(), opened.troubles.len()), (6, 0));
    let new = create(&store, "new", home.root()).await;
    for log in [&opened.log, &new] {
        let refused = log.append(&whole_turn(3, "kept")).await.unwrap_err();
        assert!(matches!(refused, StoreError::Failed(_)), "{refused}");
    }
    assert_eq!(ids(&store).await, ["new", "s"]);
    assert_eq!(read(&store, "s").await.len(), 9);
    tell("refused");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    for log in [&opened.log, &new] {
        log.append(&whole_turn(4, "written")).await.unwrap();
    }
    tell("done");
}

#[tokio::test]
async fn a_read_only_folder_stops_nothing() {
    let home = Home::new();
    lived(&home.store(), "s", &home.cwd("w"), 2).await;
    // The other user may not be able to reach the program where it is.
    let program = home.root().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(home.root(), fs::Permissions::from_mode(0o755)).unwrap();
    set_modes(home.milk().root(), 0o555, 0o444);

    let mut command = Command::new(&program);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = command
        .args(["--exact", "disk::child_on_a_read_only_folder", "--ignored", "--nocapture"])
        .env("MILK_STORE_TEST_ROOT", home.root())
        .env("MILK_STORE_TEST_JOB", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(told(&mut lines).as_deref(), Some("refused"));
    set_modes(home.milk().root(), 0o755, 0o644);
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(told(&mut lines).as_deref(), Some("done"));
    assert!(child.wait().unwrap().success());

    let store = home.store();
    assert_eq!(entries(&read(&store, "s").await), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(entries(&read(&store, "new").await), [0, 1, 2, 3]);
    assert_eq!(ids(&store).await, ["new", "s"]);
}
