//! Logs that a crash, a disk or a person has damaged.

use std::fs;

use milk_core::ports::{SessionStore, StoreError};
use milk_core::record::Record;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use crate::kit::*;

/// What a test does to the end of a log.
#[derive(Debug, Clone, Copy)]
enum Tail {
    Cut,
    Zeroed,
    Garbage,
}

/// A log with its whole lines: where each ends, and the records up to there.
struct Whole {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

impl Whole {
    async fn new() -> Self {
        let home = Home::new();
        let store = home.store();
        let log = create(&store, "s", &home.cwd("w")).await;
        log.append(&whole_turn(1, "größer\n")).await.unwrap();
        log.append(&[started(2, "two"), tool_ended(2, "c", "out\0put"), said(2, "x"), ended(2)])
            .await
            .unwrap();
        let records = records(&read(&store, "s").await);
        Self { bytes: fs::read(home.log("s")).unwrap(), records }
    }

    /// How many records are whole in the first `len` bytes, line end included.
    fn whole_records(&self, len: usize) -> usize {
        // The first line is the header.
        self.bytes[..len].split(|byte| *byte == b'\n').count() - 2
    }

    fn header_len(&self) -> usize {
        self.bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1
    }

    fn damaged(&self, at: usize, tail: Tail) -> Vec<u8> {
        let mut bytes = self.bytes[..at].to_vec();
        match tail {
            Tail::Cut => {}
            Tail::Zeroed => bytes.resize(self.bytes.len(), 0),
            Tail::Garbage => bytes.extend_from_slice(b"\xff\xfe{\"record\n\n[]\n\x00{}\n{\"a"),
        }
        bytes
    }
}

async fn a_damaged_tail_costs_nothing_before_it(tail: Tail) {
    let whole = Whole::new().await;
    let home = Home::new();
    let (store, other) = (home.store(), home.store());
    for at in whole.header_len()..=whole.bytes.len() {
        let id = format!("s{at}");
        let damaged = whole.damaged(at, tail);
        let renamed = replace(&damaged, br#""id":"s""#, format!(r#""id":"{id}""#).as_bytes());
        home.put(&format!("{id}.jsonl"), &renamed);

        let count = whole.whole_records(at);
        assert_eq!(records(&read(&store, &id).await), whole.records[..count], "{tail:?} at {at}");
        assert_eq!(fs::read(home.log(&id)).unwrap(), renamed, "reading changes nothing");

        let opened = open(&store, &id).await;
        let found = records(&opened.recent);
        // A record of which only the line end was cut is whole.
        let only_line_end = matches!(tail, Tail::Cut) && whole.bytes.get(at) == Some(&b'\n');
        assert_eq!(found, whole.records[..count + usize::from(only_line_end)], "{tail:?} at {at}");
        let nothing_lost = renamed.ends_with(b"}\n") && !matches!(tail, Tail::Garbage) || only_line_end;
        assert_eq!(opened.troubles.is_empty(), nothing_lost, "{tail:?} at {at}: {:?}", opened.troubles);
        assert!(opened.troubles.iter().all(|line| !line.contains('\n')));
        // What has a line end is never taken away, and told as long as it is near.
        let told_again = usize::from(matches!(tail, Tail::Garbage));
        assert!(opened.troubles.len() <= 1 + told_again);

        opened.log.append(&whole_turn(9, "goes on")).await.unwrap();
        drop(opened);
        let again = read(&other, &id).await;
        let mut expected = found;
        expected.extend(whole_turn(9, "goes on"));
        assert_eq!(records(&again), expected, "{tail:?} at {at}");
        let numbers = entries(&again);
        assert_eq!(
            numbers,
            (0..u64::try_from(numbers.len()).unwrap()).collect::<Vec<_>>(),
            "{tail:?} at {at}"
        );
        assert!(open(&store, &id).await.troubles.len() <= told_again, "{tail:?} at {at}: mended");
        fs::remove_file(home.log(&id)).unwrap();
    }
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}

#[tokio::test]
async fn a_log_that_is_cut_anywhere_loses_at_most_the_record_that_was_cut() {
    a_damaged_tail_costs_nothing_before_it(Tail::Cut).await;
}

#[tokio::test]
async fn a_log_that_ends_in_zeros_loses_no_whole_record() {
    a_damaged_tail_costs_nothing_before_it(Tail::Zeroed).await;
}

#[tokio::test]
async fn a_log_that_ends_in_garbage_loses_no_whole_record() {
    a_damaged_tail_costs_nothing_before_it(Tail::Garbage).await;
}

/// One thing that happens to a file.
#[derive(Debug, Clone)]
enum Harm {
    Change(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = 0_usize..3000;
    prop_oneof![
        (at.clone(), any::<u8>()).prop_map(|(at, byte)| Harm::Change(at, byte)),
        (at.clone(), proptest::collection::vec(any::<u8>(), 1..50))
            .prop_map(|(at, new)| Harm::Insert(at, new)),
        (at.clone(), 1_usize..300).prop_map(|(at, len)| Harm::Remove(at, len)),
        (at, 1_usize..300).prop_map(|(at, len)| Harm::Repeat(at, len)),
    ]
}

fn harmed(mut bytes: Vec<u8>, harms: &[Harm]) -> Vec<u8> {
    for harm in harms {
        let len = bytes.len();
        match harm {
            Harm::Change(at, new) => {
                if let Some(byte) = bytes.get_mut(at % (len + 1)) {
                    *byte = *new;
                }
            }
            Harm::Insert(at, new) => {
                let at = at % (len + 1);
                bytes.splice(at..at, new.iter().copied());
            }
            Harm::Remove(at, count) => {
                let at = at % (len + 1);
                bytes.drain(at..(at + count).min(len));
            }
            Harm::Repeat(at, count) => {
                let at = at % (len + 1);
                bytes.extend_from_within(at..(at + count).min(len));
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn no_harm_to_a_log_stops_the_store(harms in proptest::collection::vec(harm(), 1..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let whole = Whole::new().await;
            let home = Home::new();
            let store = home.store();
            lived(&store, "good", &home.cwd("w"), 1).await;
            home.put("s.jsonl", harmed(whole.bytes, &harms));
            assert!(ids(&store).await.contains(&"good".to_owned()));
            let id = "s".into();
            let _ = store.find(&id).await;
            let _ = store.window(&id, 2, 2).await;
            let _ = store.read(&id, Box::new(|_| {})).await;
            let Ok(opened) = store.open(&id).await else { return };
            opened.log.append(&whole_turn(9, "goes on")).await.unwrap();
            drop(opened);
            let found = records(&read(&home.store(), "s").await);
            assert!(found.ends_with(&whole_turn(9, "goes on")), "{found:?}");
            let found = records(&open(&store, "s").await.recent);
            assert!(found.ends_with(&whole_turn(9, "goes on")), "{found:?}");
        });
    }
}

#[tokio::test]
async fn a_log_without_its_first_line_is_left_alone() {
    let whole = Whole::new().await;
    let home = Home::new();
    lived(&home.store(), "good", &home.cwd("w"), 1).await;
    for at in 0..whole.header_len() {
        let cut = &whole.bytes[..at];
        home.put("s.jsonl", cut);
        let store = home.store();
        assert!(matches!(store.open(&"s".into()).await.unwrap_err(), StoreError::Failed(_)), "{at}");
        assert!(matches!(store.find(&"s".into()).await.unwrap_err(), StoreError::Failed(_)), "{at}");
        assert_eq!(ids(&store).await, ["good"], "{at}");
        assert_eq!(fs::read(home.log("s")).unwrap(), cut, "{at}");
    }
}

#[tokio::test]
async fn broken_lines_are_passed_over_and_told() {
    let home = Home::new();
    lived(&home.store(), "s", &home.cwd("w"), 4).await;
    let text = fs::read_to_string(home.log("s")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[5] = "{\"at\":\"2026";
    lines.insert(8, r#"{"at":"2026-12-01T09:42:16.123Z","record":"dreamt","entry":77,"of":"a newer milk"}"#);
    lines.insert(2, "\0\0\0");
    home.put("s.jsonl", lines.join("\n") + "\n");
    let store = home.store();
    let opened = open(&store, "s").await;
    assert_eq!(opened.troubles.len(), 1);
    assert!(opened.troubles[0].starts_with("2 lines"), "{:?}", opened.troubles);
    assert_eq!(entries(&opened.recent), [0, 1, 2, 4, 5, 6, 7]);
    assert_eq!(opened.summary.turns, 4);
    // A newer milk's entry has its number; what comes after it must not get it again.
    assert_eq!(opened.summary.entries, 78);
    let told = store.reindex().await.unwrap();
    assert_eq!((told.sessions, told.damaged), (1, vec![("s".into(), 2)]));
    assert!(fs::read_to_string(home.log("s")).unwrap().contains("dreamt"), "kept");
}

#[tokio::test]
async fn a_newer_milks_log_is_shown_and_not_written() {
    let home = Home::new();
    lived(&home.store(), "s", &home.cwd("w"), 1).await;
    let text =
        fs::read_to_string(home.log("s")).unwrap().replace(r#""format":1"#, r#""format":2,"mood":"new""#);
    home.put("s.jsonl", &text);
    let store = home.store();
    assert_eq!(ids(&store).await, ["s"]);
    assert_eq!(read(&store, "s").await.len(), 3);
    let refused = store.open(&"s".into()).await.unwrap_err();
    assert!(refused.to_string().contains("newer milk"), "{refused}");
    assert_eq!(fs::read_to_string(home.log("s")).unwrap(), text);
}

#[tokio::test]
async fn what_is_no_log_hides_nothing_and_hangs_nothing() {
    let home = Home::new();
    let cwd = home.cwd("w");
    for n in 1..=5 {
        lived(&home.store(), &format!("good{n}"), &cwd, 1).await;
    }
    home.put("empty.jsonl", "");
    home.put("braces.jsonl", "{}\n");
    home.put("other.jsonl", fs::read(home.log("good1")).unwrap());
    home.put("broken.json", "{");
    home.put("list.json", "[]");
    home.put("index.json", "{\"/w\":[]}");
    fs::create_dir(home.log("folder")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, home.log("pipe"), rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::fs::symlink("/dev/zero", home.log("zero")).unwrap();
    std::os::unix::fs::symlink("nowhere", home.log("nowhere")).unwrap();
    let hole = fs::File::create(home.log("hole")).unwrap();
    hole.set_len(100 * 1024 * 1024).unwrap();

    let store = home.store();
    store.warm_up().await;
    assert_eq!(ids(&store).await.len(), 5);
    for bad in ["empty", "braces", "other", "broken", "list", "folder", "pipe", "zero", "hole"] {
        let id = bad.into();
        assert!(matches!(store.find(&id).await.unwrap_err(), StoreError::Failed(_)), "{bad}");
        assert!(matches!(store.open(&id).await.unwrap_err(), StoreError::Failed(_)), "{bad}");
        assert!(matches!(store.window(&id, 1, 1).await.unwrap_err(), StoreError::Failed(_)), "{bad}");
    }
    let mut bad = store.reindex().await.unwrap().bad;
    bad.retain(|(id, _)| id.as_str() != "nowhere");
    assert_eq!(bad.len(), 9, "{bad:?}");
    assert_eq!(fs::read(home.file("broken.json")).unwrap(), b"{");
    assert!(home.log("empty").exists() && home.log("folder").exists());
}

#[tokio::test]
async fn a_line_of_100_megabytes_is_passed_over() {
    let home = Home::new();
    lived(&home.store(), "s", &home.cwd("w"), 1).await;
    let file = fs::OpenOptions::new().append(true).open(home.log("s")).unwrap();
    file.set_len(file.metadata().unwrap().len() + 100 * 1024 * 1024).unwrap();
    std::io::Write::write_all(&mut &file, b"\n").unwrap();
    let more = fs::read_to_string(home.log("s")).unwrap();
    let last = more.lines().nth(3).unwrap().to_owned() + "\n";
    drop(more);
    std::io::Write::write_all(&mut &file, last.as_bytes()).unwrap();
    let store = home.store();
    assert_eq!(window(&store, "s", 5, 5).await.head.len(), 2);
    assert_eq!(read(&store, "s").await.len(), 4);
    let opened = open(&store, "s").await;
    assert!(opened.troubles.iter().any(|line| line.starts_with("1 lines")), "{:?}", opened.troubles);
    assert_eq!(opened.summary.turns, 1);
}
