//! A session such as people have: questions, reading, edits, a failing test, a cancelled and a failed turn.

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::failure::Failure;
use milk_core::record::Logged;
use milk_core::tool::{FileAction, FileChange, ToolKind, ToolStatus};
use serde_json::json;

use crate::log::{Did, Log, modified, usage};

const OLD: &str = "use std::time::Duration;\n\npub struct Client {\n    base: String,\n    timeout: Duration,\n}\n\nimpl Client {\n    pub fn send(&self, item: &Item) -> Result<(), SendError> {\n        loop {\n            match self.try_send(item) {\n                Ok(()) => return Ok(()),\n                Err(error) if error.is_transient() => continue,\n                Err(error) => return Err(error),\n            }\n        }\n    }\n}\n";
const NEW: &str = "use std::time::Duration;\n\nuse crate::budget::RetryBudget;\n\npub struct Client {\n    base: String,\n    timeout: Duration,\n    budget: RetryBudget,\n}\n\nimpl Client {\n    pub fn send(&self, item: &Item) -> Result<(), SendError> {\n        loop {\n            match self.try_send(item) {\n                Ok(()) => return Ok(()),\n                Err(error) if error.is_transient() && self.budget.take() => continue,\n                Err(error) => return Err(error),\n            }\n        }\n    }\n}\n";

const ANSWER: &str = "The loop in `Client::send` retries **forever** when the server keeps answering `503`: nothing counts the attempts.\n\n### What happens\n\n1. `try_send` fails with a transient error.\n2. `continue` starts over, *without* a pause.\n3. Every client does the same, so the server never recovers.\n\nA budget shared by all calls keeps retries below a share of the traffic:\n\n| strategy | calms an outage | cost |\n|---|:-:|--:|\n| fixed attempts | no, all clients multiply | none |\n| budget | yes | one counter |\n| circuit breaker | yes | states to test |\n\n```rust\npub fn take(&self) -> bool {\n    let spent = self.spent.fetch_add(1, Ordering::Relaxed);\n    spent < self.earned.load(Ordering::Relaxed) / 10 // a tenth of what succeeded\n}\n```\n\n> A retry is a promise that the other side has room.\n\n- [x] find the loop\n- [ ] add the budget\n- [ ] a test with a server that fails nine times of ten\n\nMore on this in [the paper on metastable failures](https://example.org/metastable.pdf) and in [src/client.rs](src/client.rs:9).";

pub(crate) fn records() -> Vec<Logged> {
    let mut log = Log::default();
    question(&mut log);
    edit(&mut log);
    cancelled(&mut log);
    log.begin(vec![ContentBlock::text("Now the same for `Client::fetch`.")]);
    log.end(
        StopReason::Error,
        Some(Failure::new("model_unreachable", "ollama: nothing answers at http://127.0.0.1:11434. Start it with `ollama serve`, then send the prompt again.")),
    );
    for (input, cached, output) in
        [(9_800, 8_200, 310), (10_400, 9_700, 1_220), (12_900, 10_300, 420), (15_100, 12_800, 95)]
    {
        log.begin(vec![ContentBlock::text("Go on.")]);
        log.say(None, "Done: `fetch` takes from the same budget.", usage(input, cached, output), vec![]);
        log.end(StopReason::EndTurn, None);
    }
    log.begin(vec![ContentBlock::text("Run the whole suite once more, please.")]);
    log.say(None, "", usage(15_900, 15_100, 40), vec![]);
    log.records
}

fn question(log: &mut Log) {
    log.begin(vec![
        ContentBlock::text(
            "Our sync client hammers the server when it is down.\nWhy, and what would you do?",
        ),
        ContentBlock::Link {
            uri: "file:///home/ada/projects/harbour-sync/src/client.rs".into(),
            name: "client.rs".into(),
            mime: None,
        },
        ContentBlock::Image { mime: "image/png".into(), data: include_str!("picture.txt").into() },
    ]);
    log.say(
        Some("The user sees a retry storm. I should read the client first, then look for where attempts are counted."),
        "I'll look at the client first.",
        usage(2_140, 0, 88),
        vec![
            Did { name: "read_file", arguments: json!({"path": "src/client.rs"}), title: "Read src/client.rs".into(), kind: ToolKind::Read, status: ToolStatus::Completed, output: OLD.into(), changes: vec![] },
            Did { name: "search", arguments: json!({"pattern": "is_transient", "glob": "*.rs", "limit": 50}), title: "Search is_transient in *.rs".into(), kind: ToolKind::Search, status: ToolStatus::Completed, output: "src/client.rs:13: Err(error) if error.is_transient() => continue,\nsrc/error.rs:31: pub fn is_transient(&self) -> bool {".into(), changes: vec![] },
        ],
    );
    log.say(None, ANSWER, usage(3_020, 2_100, 412), vec![]);
    log.end(StopReason::EndTurn, None);
}

fn edit(log: &mut Log) {
    log.begin(vec![
        ContentBlock::text("Do it. Keep it small."),
        ContentBlock::EmbeddedText {
            uri: "file:///home/ada/projects/harbour-sync/NOTES.md".into(),
            mime: None,
            text: "# Notes\n\n- no new dependencies\n- every public item has docs\n".into(),
        },
    ]);
    log.say(
        None,
        "",
        usage(4_010, 3_000, 530),
        vec![
            Did { name: "edit_file", arguments: json!({"path": "src/client.rs", "old": "continue", "new": "self.budget.take()"}), title: "Edit src/client.rs".into(), kind: ToolKind::Edit, status: ToolStatus::Completed, output: "1 replacement".into(), changes: vec![modified("/home/ada/projects/harbour-sync/src/client.rs", OLD, NEW)] },
            Did { name: "write_file", arguments: json!({"path": "src/budget.rs", "content": "…"}), title: "Write src/budget.rs".into(), kind: ToolKind::Edit, status: ToolStatus::Completed, output: String::new(), changes: vec![FileChange { action: FileAction::Create, path: "/home/ada/projects/harbour-sync/src/budget.rs".into(), old_text: None, new_text: Some("//! How many retries all calls together may spend.\n\nuse std::sync::atomic::{AtomicU64, Ordering};\n\n/// Retries as a share of successes.\n#[derive(Debug, Default)]\npub struct RetryBudget {\n    earned: AtomicU64,\n    spent: AtomicU64,\n}\n".into()) }] },
        ],
    );
    log.say(
        None,
        "Both are in place. Now the tests:",
        usage(5_300, 4_000, 120),
        vec![Did { name: "bash", arguments: json!({"command": "cargo test -p harbour-sync --quiet -- --test-threads=1 budget client 2>&1 | tail -40"}), title: "cargo test -p harbour-sync --quiet -- --test-threads=1 budget client 2>&1 | tail -40".into(), kind: ToolKind::Execute, status: ToolStatus::Failed, output: "running 14 tests\n.............F\nfailures:\n\n---- budget::tests::it_is_shared stdout ----\nassertion `left == right` failed\n  left: 11\n right: 10\n\ntest result: FAILED. 13 passed; 1 failed; 0 ignored; finished in 0.31s\n\n[exit code 101]".into(), changes: vec![] }],
    );
    log.say(None, "One test fails: the comparison is off by one, as `fetch_add` gives the count *before* the addition. I'll leave the code and fix the test's expectation only if you agree.", usage(6_100, 5_300, 96), vec![]);
    log.end(StopReason::EndTurn, None);
}

fn cancelled(log: &mut Log) {
    log.begin(vec![ContentBlock::text("No, fix the code. And delete the old client while you are at it.")]);
    log.say(
        None,
        "I'll remove the old client first.",
        usage(6_900, 6_000, 70),
        vec![Did {
            name: "bash",
            arguments: json!({"command": "rm -r src/old_client"}),
            title: "rm -r src/old_client".into(),
            kind: ToolKind::Execute,
            status: ToolStatus::Cancelled,
            output: "The user stopped the turn.".into(),
            changes: vec![],
        }],
    );
    log.end(StopReason::Cancelled, None);
}
