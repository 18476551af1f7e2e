//! Commands: keyboards, children that stay, trees, floods of output, output while they run.

use std::fs;
use std::time::{Duration, Instant};

use milk_testkit::{TestHome, fault};
use serde_json::{Value, json};

use super::{MEMORY, permissive};
use crate::support::{Called, Plan, Rig, answered, assert_has, assert_has_any, ended, within};

// ---- 064: commands that want a keyboard

#[tokio::test]
async fn case_064_a_keyboard_command_gets_an_end_of_input() {
    let rig = permissive().await;
    let called = rig.call("bash", json!({"command": "cat"})).await;
    assert_eq!(called.row().status(), "completed");
    let called = rig.call("bash", json!({"command": "read x; echo \"got:$x.\""})).await;
    assert_has(called.result(), "got:.");
}

#[tokio::test]
async fn case_064_editors_pagers_and_prompts_end() {
    let limit = 5;
    let rig = Plan::obedient()
        .root("dangerously_skip_permissions", true)
        .agent("limits", json!({"tool_timeout_secs": limit}))
        .start()
        .await;
    let repository = "git init -q . && git config user.email a@b.c && git config user.name a && \
        date > f && git add f && git commit -qm one && seq 1 20000 > g && git add g";
    ended(&rig.call("bash", json!({"command": repository})).await.turn, "end_turn");
    let commands = [
        "unset EDITOR VISUAL GIT_EDITOR; git commit",
        "EDITOR=vi git commit",
        "GIT_EDITOR='read x; false' git commit",
        "GIT_PAGER=less PAGER=less git -c core.pager=less log -p",
        "less g",
        "cat < /dev/tty",
        "printf 'password: ' > /dev/tty; read -r x < /dev/tty",
        "ssh -o BatchMode=no -o ConnectTimeout=2 nobody@127.0.0.1 -p 1",
    ];
    for command in commands {
        let called = rig.call("bash", json!({"command": command})).await;
        within(called.took, Duration::from_secs(limit + 3), command);
        answered(&called.turn, "done");
    }
    rig.assert_usable().await;
}

/// No terminal can be taken over: the command has a session of its own, and no controlling terminal.
#[tokio::test]
async fn case_064_a_command_has_no_terminal() {
    let rig = permissive().await;
    let called = rig.call("bash", json!({"command": "cat /proc/self/stat; :"})).await;
    let stat = |text: &str| -> Vec<String> {
        let after_name = text.rsplit_once(") ").expect("a line of /proc/self/stat").1;
        after_name.split_whitespace().map(str::to_owned).collect()
    };
    let (command, milk) = (
        stat(called.result()),
        stat(&fs::read_to_string(format!("/proc/{}/stat", rig.agent.pid())).unwrap()),
    );
    // After the name: state, parent, group, session, terminal.
    assert_ne!(command[2], milk[2], "a process group of its own");
    assert_ne!(command[3], milk[3], "a session of its own");
    assert_eq!(command[4], "0", "no controlling terminal");
}

// ---- 065: a background child keeps the pipe open

#[tokio::test]
async fn case_065_a_background_child_does_not_hold_the_result() {
    let home = TestHome::new();
    let tag = Tag::of(&home);
    let rig = Plan::obedient().root("dangerously_skip_permissions", true).start_in(home).await;
    let commands =
        ["sleep 300 & echo done", "nohup sleep 300 >/dev/null 2>&1 & echo done", "(sleep 300 &) ; echo done"];
    for command in commands {
        let called = rig.call("bash", json!({"command": tag.mark(command)})).await;
        within(called.took, Duration::from_secs(3), command);
        assert_has(called.result(), "done");
        assert_eq!(called.row().status(), "completed");
    }
    assert!(rig.agent.shutdown().await.success());
    tag.gone().await;
}

/// A variable in the environment of everything that a command starts.
struct Tag(String);

impl Tag {
    fn of(home: &TestHome) -> Self {
        let random = home.root().file_name().unwrap().to_string_lossy().into_owned();
        Self(format!("CASE_TAG={random}"))
    }

    fn mark(&self, command: &str) -> String {
        format!("export {}; {command}", self.0)
    }

    /// Waits until no process carries it, for the 2 s that milk has.
    async fn gone(&self) {
        if let Err(alive) = fault::wait_gone(&self.0, Duration::from_secs(2)).await {
            let names: Vec<String> = alive
                .iter()
                .map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default())
                .collect();
            panic!("still there after 2 s: {alive:?} {names:?}");
        }
    }
}

// ---- 067: cancel, time-out and exit end the whole tree

const TREES: [&str; 3] = [
    "sh -c 'sleep 600 & sleep 600 & echo rea\"\"dy; wait'",
    "echo rea''dy; bash -c 'exec -a tagged sleep 600' | cat",
    "trap '' TERM HUP INT; (trap '' TERM HUP INT; sleep 600) & echo rea''dy; wait; sleep 600",
];

#[tokio::test]
async fn case_067_a_cancel_ends_the_whole_tree() {
    let home = TestHome::new();
    let tag = Tag::of(&home);
    let rig = Plan::obedient().root("dangerously_skip_permissions", true).start_in(home).await;
    for command in TREES {
        let prompt = rig.begin("bash", json!({"command": tag.mark(command)}));
        rig.shown_live("ready").await;
        rig.agent.cancel(&rig.session);
        let cancelled = Instant::now();
        rig.agent.response(prompt).await.unwrap();
        within(cancelled.elapsed(), Duration::from_secs(2), command);
        tag.gone().await;
        rig.assert_rows_ended();
        rig.assert_usable().await;
    }
    let rows = rig.agent.transcript().tool_rows(&rig.session);
    assert!(rows.iter().all(|row| row.status() == "cancelled"), "R12: {rows:#?}");
}

#[tokio::test]
async fn case_067_a_timeout_ends_the_whole_tree() {
    let home = TestHome::new();
    let tag = Tag::of(&home);
    let rig = Plan::obedient().root("dangerously_skip_permissions", true).start_in(home).await;
    for command in TREES {
        let called = rig.call("bash", json!({"command": tag.mark(command), "timeout_seconds": 1})).await;
        within(called.took, Duration::from_secs(4), command);
        tag.gone().await;
        assert_has_any(called.result(), &["timed out", "time-out", "timeout"]);
        assert_has(called.result(), "ready");
        assert_eq!(called.row().status(), "failed");
        answered(&called.turn, "done");
    }
}

#[tokio::test]
async fn case_067_the_end_of_milk_ends_the_whole_tree() {
    for command in TREES {
        let home = TestHome::new();
        let tag = Tag::of(&home);
        let rig = Plan::obedient().root("dangerously_skip_permissions", true).start_in(home).await;
        rig.begin("bash", json!({"command": tag.mark(command)}));
        rig.shown_live("ready").await;
        assert!(rig.agent.shutdown().await.success());
        tag.gone().await;
    }
}

/// R12 says whole trees: also what left the command's process group, as daemons and test runners do.
#[tokio::test]
async fn case_067_a_cancel_reaches_children_with_a_session_of_their_own() {
    let home = TestHome::new();
    let tag = Tag::of(&home);
    let rig = Plan::obedient().root("dangerously_skip_permissions", true).start_in(home).await;
    let prompt =
        rig.begin("bash", json!({"command": tag.mark("setsid sleep 600 & echo rea''dy; wait; sleep 600")}));
    rig.shown_live("ready").await;
    rig.agent.cancel(&rig.session);
    rig.agent.response(prompt).await.unwrap();
    tag.gone().await;
}

// ---- 068: floods of output

const RESULT: usize = 10_000;

async fn flooded(command: &str) -> (Rig, Called) {
    let rig = Plan::obedient()
        .root("dangerously_skip_permissions", true)
        .root("local_tool_result_max_bytes", RESULT)
        .start()
        .await;
    rig.assert_usable().await;
    let before = fault::peak_rss_bytes(rig.agent.pid()).unwrap();
    let called = rig.call("bash", json!({"command": command})).await;
    let after = fault::peak_rss_bytes(rig.agent.pid()).unwrap();
    assert!(after - before < MEMORY, "memory grew by {} KiB", (after - before) >> 10);
    answered(&called.turn, "done");
    // The mark that says how much was cut comes on top.
    assert!(called.result().len() <= RESULT + 256, "the model was told {} bytes", called.result().len());
    let shown: usize = rig
        .agent
        .with_transcript(|transcript| transcript.from_agent().map(|message| message.to_string().len()).sum());
    assert!(shown < 4 << 20, "the client was told {shown} bytes");
    rig.assert_usable().await;
    let request = rig.server.request(rig.server.count() - 1).await;
    assert!(request.raw_body.len() < 256 << 10, "the next request has {} bytes", request.raw_body.len());
    (rig, called)
}

/// A number in a text that is at least this: how much was left out.
fn has_number_over(text: &str, least: u64) -> bool {
    let digits = |c: char| !c.is_ascii_digit();
    text.split(digits).any(|word| word.parse::<u64>().is_ok_and(|number| number >= least))
}

#[tokio::test]
async fn case_068_a_flood_of_lines() {
    let (_rig, called) = flooded("echo the head; yes 0123456789 | head -c 300000000; echo the tail").await;
    assert_has(called.result(), "the head");
    assert_has(called.result(), "the tail");
    assert!(has_number_over(called.result(), 200_000_000), "how much was cut: {}", called.result());
}

#[tokio::test]
async fn case_068_a_flood_without_a_line_end() {
    let (_rig, called) =
        flooded("echo the head; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the tail").await;
    assert_has(called.result(), "the head");
    assert_has(called.result(), "the tail");
    assert!(has_number_over(called.result(), 2_900_000), "how much was cut: {}", called.result());
}

#[tokio::test]
async fn case_068_a_flood_of_bytes_that_are_no_text() {
    flooded("cat /bin/ls /bin/ls /bin/ls").await;
}

#[tokio::test]
async fn case_068_a_flood_on_stderr() {
    flooded("yes 0123456789 | head -c 50000000 >&2").await;
}

/// A file of one long line, and one of very many, are not handed over whole either.
#[tokio::test]
async fn case_068_reading_a_big_file_is_bounded() {
    let rig = permissive().await;
    rig.home.write("long", "x".repeat(3_000_000));
    rig.home.write("many", "line\n".repeat(600_000));
    for path in ["long", "many"] {
        let called = rig.call("read_file", json!({"path": path})).await;
        assert!(called.result().len() < 128 << 10, "{path}: {} bytes", called.result().len());
        answered(&called.turn, "done");
        let called = rig.call("grep", json!({"path": path, "pattern": "[xl]"})).await;
        assert!(called.result().len() < 128 << 10, "{path}: {} bytes", called.result().len());
    }
}

// ---- live output (R2, R30)

const SLOWLY: &str = "for i in $(seq 30); do echo line-$i-end; sleep 0.05; done";

#[tokio::test]
async fn live_output_reaches_a_v2_client_while_the_command_runs() {
    let rig = permissive().await;
    let called = rig.call("bash", json!({"command": SLOWLY})).await;
    let transcript = rig.agent.transcript();
    let updates = transcript.updates(&rig.session);
    let end = updates.iter().position(|update| update["status"] == "completed").unwrap();
    let chunks = updates[..end].iter().filter(|update| update["sessionUpdate"] == "tool_call_content_chunk");
    let live: String = chunks.map(|update| update["content"]["content"]["text"].as_str().unwrap()).collect();
    for number in [1, 15, 30] {
        assert_eq!(live.matches(&format!("line-{number}-end\n")).count(), 1, "whole before the end: {live}");
    }
    assert_has(&called.row().text(), "line-30-end");
}

#[tokio::test]
async fn live_output_reaches_a_v1_client_in_full_at_most_every_400_ms() {
    let rig = Plan::obedient().version(1).root("dangerously_skip_permissions", true).start().await;
    rig.call("bash", json!({"command": SLOWLY})).await;
    let transcript = rig.agent.transcript();
    let live: Vec<(Instant, String)> = transcript
        .entries
        .iter()
        .filter(|entry| {
            let update = &entry.json["params"]["update"];
            let is_live = update["status"].is_null() || update["status"] == "in_progress";
            update["sessionUpdate"] == "tool_call_update" && is_live && update["content"].is_array()
        })
        .map(|entry| {
            (
                entry.at,
                entry.json["params"]["update"]["content"][0]["content"]["text"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    assert!(live.len() >= 2, "1.5 s of output has live updates: {live:?}");
    for pair in live.windows(2) {
        // What the clock of the reader adds or takes away is small beside this.
        assert!(pair[1].0 - pair[0].0 >= Duration::from_millis(350), "sooner than every 400 ms: {live:?}");
        assert!(pair[1].1.starts_with(&pair[0].1), "each holds the full content so far: {live:?}");
    }
}

// ---- what else goes wrong with commands

#[tokio::test]
async fn a_failed_command_tells_its_status_and_both_outputs() {
    let rig = permissive().await;
    let called = rig.call("bash", json!({"command": "echo to-stdout; echo to-stderr >&2; exit 37"})).await;
    for part in ["to-stdout", "to-stderr", "37"] {
        assert_has(called.result(), part);
    }
    let called = rig.call("bash", json!({"command": "kill -9 $$"})).await;
    assert_has_any(called.result(), &["9", "kill"]);
    answered(&called.turn, "done");
}

#[tokio::test]
async fn a_command_too_long_for_the_machine_fails_as_one() {
    let rig = permissive().await;
    let called = rig.call("bash", json!({"command": format!("true {}", "x".repeat(4 << 20))})).await;
    assert_eq!(called.row().status(), "failed");
    answered(&called.turn, "done");
}

/// The workspace is deleted under the session.
#[tokio::test]
async fn a_workspace_that_is_gone_fails_calls_and_not_the_session() {
    let rig = permissive().await;
    let place = rig.home.another_workspace("short-lived");
    let session = rig.session_in(&place).await;
    fs::remove_dir(&place).unwrap();
    for (tool, arguments) in [
        ("bash", json!({"command": "pwd"})),
        ("read_file", json!({"path": "x"})),
        ("grep", json!({"path": ".", "pattern": "x"})),
        ("find_files", json!({"path": ".", "pattern": "x"})),
        ("list_dir", json!({"path": "."})),
    ] {
        let called = rig.call_in(&session, tool, arguments).await;
        assert_eq!(called.row().status(), "failed", "{tool}: {called:#?}");
        answered(&called.turn, "done");
    }
}

/// Very many calls in one reply are all answered, in order.
#[tokio::test]
async fn very_many_calls_in_one_reply() {
    let rig = permissive().await;
    let calls: Vec<(&str, Value)> = (0..200)
        .map(|number| match number % 3 {
            0 => ("bash", json!({"command": format!("echo answer-{number}.")})),
            _ => ("list_dir", json!({"path": "."})),
        })
        .collect();
    let called = rig.calls(&calls).await;
    answered(&called.turn, "done");
    assert_eq!(called.rows.len(), 200);
    for (number, result) in called.results.iter().enumerate().step_by(3) {
        assert_has(result, &format!("answer-{number}."));
    }
}
