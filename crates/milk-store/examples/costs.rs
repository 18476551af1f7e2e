//! What the store of sessions costs on this machine: `cargo run --release -p milk-store --example costs [folder]`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it prints what it measured, and fails loudly")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use milk_core::ports::{Clock, NewSession, SessionStore};
use milk_core::session::{SessionQuery, Worth};
use milk_files::MilkHome;
use milk_store::DiskSessions;
use milk_store::synthetic::{Synthetic, records};

#[derive(Debug)]
struct Now;

impl Clock for Now {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        u64::try_from(since.as_millis()).unwrap()
    }
}

/// How often each thing is done.
const TIMES: usize = 100;

async fn measure(what: &str, mut one: impl AsyncFnMut(usize)) {
    let mut times: Vec<Duration> = Vec::new();
    for n in 0..TIMES {
        let begun = Instant::now();
        one(n).await;
        times.push(begun.elapsed());
    }
    times.sort();
    println!(
        "{what:44} median {:>10.1?}   9 in 10 {:>10.1?}   worst {:>10.1?}",
        times[50], times[90], times[99]
    );
}

#[tokio::main]
async fn main() {
    let temporary = tempfile::tempdir().unwrap();
    let root = std::env::args_os().nth(1).map_or_else(|| temporary.path().to_owned(), Into::into);
    let home = MilkHome::at(root.join("milk-store-costs"));
    let cwd = Path::new("/");
    let write = |id: &str, turns, text_bytes| {
        let session =
            Synthetic { id: id.into(), cwd, created_ms: Now.now_ms() - 1_000_000_000, turns, text_bytes };
        session.write(&home).unwrap();
    };
    let begun = Instant::now();
    for n in 0..10_000 {
        write(&format!("many-{n}"), 2, 100);
    }
    write("long", 10_000, 2000);
    println!("made 10,000 sessions and one of 10,000 turns in {:.1?}", begun.elapsed());
    let store = DiskSessions::new(home.clone(), Arc::new(Now));
    let begun = Instant::now();
    store.warm_up().await;
    println!("made the index in {:.1?}", begun.elapsed());
    drop(store);
    let store = DiskSessions::new(home.clone(), Arc::new(Now));
    let query = |offset| SessionQuery {
        cwd: Some(cwd.into()),
        worth: Worth::Used { open: Vec::new() },
        offset,
        limit: 50,
    };
    let begun = Instant::now();
    store.list(&query(0)).await.unwrap();
    println!("first page of a process in {:.1?}", begun.elapsed());
    let begun = Instant::now();
    store.warm_up().await;
    println!("checked the index in {:.1?}", begun.elapsed());

    measure("a page of 10,000 sessions", async |n| drop(store.list(&query(n * 90)).await.unwrap())).await;
    let mut logs = Vec::new();
    measure("a new session", async |n| {
        let id = format!("new-{n}").into();
        logs.push(store.create(NewSession { id: &id, cwd, name: None }).await.unwrap());
    })
    .await;
    measure("a page right after a new session", async |n| {
        let id = format!("newer-{n}").into();
        logs.push(store.create(NewSession { id: &id, cwd, name: None }).await.unwrap());
        store.list(&query(0)).await.unwrap();
    })
    .await;
    let turn = records(1, &"x".repeat(2000));
    measure("the beginning of a turn", async |n| logs[n].append(&turn[..1]).await.unwrap()).await;
    measure("a response", async |n| logs[n].append(&turn[1..2]).await.unwrap()).await;
    measure("the end of a turn (on disk for good)", async |n| logs[n].append(&turn[4..]).await.unwrap())
        .await;
    logs.clear();
    measure("opening and closing a session of 2 turns", async |n| {
        drop(store.open(&format!("many-{n}").as_str().into()).await.unwrap());
    })
    .await;
    measure("opening and closing one of 10,000 turns", async |_| {
        drop(store.open(&"long".into()).await.unwrap());
    })
    .await;
    measure("a window of 10 + 200 entries of 10,000 turns", async |_| {
        drop(store.window(&"long".into(), 10, 200).await.unwrap());
    })
    .await;
    measure("finding one of 10,000 turns", async |_| drop(store.find(&"long".into()).await.unwrap())).await;
}
