//! Homes, clocks and turns for these tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::id::{SessionId, TurnId};
use milk_core::model::AssistantMessage;
use milk_core::ports::{Clock, NewSession, SessionLog, SessionStore, StoredSession};
use milk_core::record::{Logged, Record, Speaker, TurnOrigin, TurnWork};
use milk_core::session::{HistoryWindow, SessionQuery, SessionSummary, Worth};
use milk_core::tool::{ToolKind, ToolStatus};
use milk_files::{Folder, MilkHome};
use milk_store::DiskSessions;

/// A clock that goes on by `step` with every look at it.
#[derive(Debug)]
pub(crate) struct Ticking {
    now: AtomicU64,
    step: u64,
}

impl Clock for Ticking {
    fn now_ms(&self) -> u64 {
        self.now.fetch_add(self.step, Ordering::SeqCst)
    }
}

/// When these tests happen.
pub(crate) const NOW: u64 = 1_796_118_136_123;

/// A home of one test.
#[derive(Debug)]
pub(crate) struct Home {
    root: PathBuf,
    // Removed with the test that made it.
    _dir: Option<tempfile::TempDir>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { root: dir.path().to_owned(), _dir: Some(dir) }
    }

    /// The home of the test that started this process.
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root, _dir: None }
    }

    pub(crate) fn milk(&self) -> MilkHome {
        MilkHome::at(self.root.join("home"))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A store whose clock goes on by a millisecond with every look at it.
    pub(crate) fn store(&self) -> DiskSessions {
        self.store_at(NOW, 1)
    }

    pub(crate) fn store_at(&self, now: u64, step: u64) -> DiskSessions {
        DiskSessions::new(self.milk(), Arc::new(Ticking { now: AtomicU64::new(now), step }))
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.milk().path(Folder::Sessions)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.sessions().join(name)
    }

    pub(crate) fn log(&self, id: &str) -> PathBuf {
        self.file(&format!("{id}.jsonl"))
    }

    /// A directory to work in.
    pub(crate) fn cwd(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Puts a file among the sessions.
    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::create_dir_all(self.sessions()).unwrap();
        fs::write(self.file(name), content).unwrap();
    }
}

pub(crate) async fn create(store: &DiskSessions, id: &str, cwd: &Path) -> Arc<dyn SessionLog> {
    store.create(NewSession { id: &id.into(), cwd, name: None }).await.unwrap()
}

/// A session with so many turns, closed.
pub(crate) async fn lived(store: &DiskSessions, id: &str, cwd: &Path, turns: u64) {
    let log = create(store, id, cwd).await;
    for turn in 1..=turns {
        log.append(&whole_turn(turn, &format!("question {turn}"))).await.unwrap();
    }
}

pub(crate) fn started(turn: u64, text: &str) -> Record {
    Record::TurnStarted {
        turn: TurnId(turn),
        origin: TurnOrigin::Client,
        message: format!("user-r-{turn}").into(),
        content: vec![ContentBlock::text(text)],
        work: TurnWork::Prompt,
    }
}

pub(crate) fn command(turn: u64, text: &str) -> Record {
    match started(turn, text) {
        Record::TurnStarted { turn, origin, message, content, .. } => {
            Record::TurnStarted { turn, origin, message, content, work: TurnWork::Command }
        }
        other => other,
    }
}

pub(crate) fn said(turn: u64, text: &str) -> Record {
    Record::ModelSaid {
        turn: TurnId(turn),
        message: format!("agent-r-{turn}").into(),
        thought: None,
        said: AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() },
        usage: None,
        by: Speaker { agent: "a".into(), provider: "p".to_owned(), model: "m".to_owned() },
    }
}

pub(crate) fn tool_ended(turn: u64, call: &str, output: &str) -> Record {
    Record::ToolEnded {
        turn: TurnId(turn),
        call: call.into(),
        title: "bash".to_owned(),
        kind: ToolKind::Execute,
        status: ToolStatus::Completed,
        output: output.to_owned(),
        locations: Vec::new(),
        changes: Vec::new(),
    }
}

pub(crate) fn noted(turn: Option<u64>, text: &str) -> Record {
    Record::Noted { turn: turn.map(TurnId), message: "n".into(), text: text.to_owned() }
}

pub(crate) fn ended(turn: u64) -> Record {
    Record::TurnEnded { turn: TurnId(turn), stop: StopReason::EndTurn, failure: None }
}

/// A prompt, an answer and an end: two entries.
pub(crate) fn whole_turn(turn: u64, text: &str) -> Vec<Record> {
    vec![started(turn, text), said(turn, &format!("answer {turn}")), ended(turn)]
}

pub(crate) async fn read(store: &DiskSessions, id: &str) -> Vec<Logged> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&found);
    store.read(&id.into(), Box::new(move |logged| into.lock().unwrap().push(logged))).await.unwrap();
    Arc::into_inner(found).unwrap().into_inner().unwrap()
}

pub(crate) fn records(logged: &[Logged]) -> Vec<Record> {
    logged.iter().map(|logged| logged.record.clone()).collect()
}

pub(crate) fn entries(logged: &[Logged]) -> Vec<u64> {
    logged.iter().filter_map(|logged| logged.entry).map(|entry| entry.0).collect()
}

pub(crate) async fn open(store: &DiskSessions, id: &str) -> StoredSession {
    store.open(&id.into()).await.unwrap()
}

pub(crate) async fn window(store: &DiskSessions, id: &str, head: usize, tail: usize) -> HistoryWindow {
    store.window(&id.into(), head, tail).await.unwrap()
}

/// Every session, in the order of the list.
pub(crate) async fn all(store: &DiskSessions) -> Vec<SessionSummary> {
    let query = SessionQuery { limit: usize::MAX >> 1, ..SessionQuery::default() };
    store.list(&query).await.unwrap().sessions
}

pub(crate) async fn ids(store: &DiskSessions) -> Vec<String> {
    all(store).await.into_iter().map(|summary| summary.id.as_str().to_owned()).collect()
}

pub(crate) fn used(open: &[&str]) -> Worth {
    Worth::Used { open: open.iter().copied().map(SessionId::from).collect() }
}
