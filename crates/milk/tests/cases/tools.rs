//! Commands, files and searches: what hangs, floods, breaks or escapes (issue text: Tools; R28, R29, R30).
//!
//! Cases that need more than stands:
//!
//! | case | needs |
//! |---|---|
//! | 060 and 061 under a grant in place of the config | grants that are patterns |
//! | 060 to 063, running what only a pattern allowed in a sandbox (R33) | the sandbox |
//! | 064 and 065 as background jobs | background agents |
//! | 069, its part on replay | stored sessions |
//! | 081, its part on MCP servers | MCP |

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use milk_testkit::{ModelServer, Policy, Reply, Script, TestHome, ToolCall, fault};
use serde_json::{Value, json};

use crate::support::{
    Called, Plan, Rig, answered, assert_has, assert_has_any, assert_lacks, ended, results, subject, within,
    words,
};

fn allow() -> Policy {
    Policy::Option("allow".to_owned())
}

async fn permissive() -> Rig {
    Plan::obedient().root("dangerously_skip_permissions", true).start().await
}

// ---- 060, 061, 063: patterns allow what they say and nothing that hides behind it (R29)

/// Each command must ask; it is denied, and its marker must not come into being.
async fn all_ask(patterns: Value, commands: &[&str]) {
    let rig = Plan::obedient().root("bash_allowed_patterns", patterns).policy(Policy::Deny).start().await;
    rig.home.write("a", "2\n1\n");
    for command in commands {
        let called = rig.call("bash", json!({"command": command})).await;
        assert_eq!(called.questions.len(), 1, "this must ask: {command:?}");
        assert!(!rig.home.exists("PWN"), "this ran without a yes: {command:?}");
    }
}

/// None of these commands asks.
async fn none_asks(patterns: Value, commands: &[&str]) {
    let rig = Plan::obedient().root("bash_allowed_patterns", patterns).policy(Policy::Deny).start().await;
    for command in commands {
        let called = rig.call("bash", json!({"command": command})).await;
        assert_eq!(called.questions.len(), 0, "this must not ask: {command:?}");
    }
}

fn git_status_and_ls() -> Value {
    json!(["git status", "ls", "ls *"])
}

#[tokio::test]
async fn case_060_patterns_and_command_chains() {
    let commands = [
        "git status && touch PWN",
        "git status; touch PWN",
        "ls | tee PWN",
        "ls & touch PWN",
        "ls || touch PWN",
        "ls\ntouch PWN",
        "ls\r\ntouch PWN",
        "(touch PWN)",
        "{ touch PWN; }",
        "git statusx",
        "ls;touch PWN",
        "ls -la;touch PWN",
        "ls -la&&touch PWN",
        "ls -la |& tee PWN",
        "! touch PWN",
        "if true; then touch PWN; fi",
        "ls() { touch PWN; }; ls",
        "alias ls='touch PWN'",
        "lsof",
        "ls\\\ntouch PWN",
    ];
    all_ask(git_status_and_ls(), &commands).await;
    none_asks(git_status_and_ls(), &["git status", "ls -la", "ls"]).await;
}

#[tokio::test]
async fn case_061_patterns_and_substitution() {
    let commands = [
        "git status $(touch PWN)",
        "ls `touch PWN`",
        "ls <(touch PWN)",
        "ls > >(touch PWN)",
        "ls \"$(touch PWN)\"",
        "ls \"`touch PWN`\"",
        "ls ${x:-$(touch PWN)}",
        "ls $((`touch PWN` 1))",
        "ls <<E\n$(touch PWN)\nE",
    ];
    all_ask(git_status_and_ls(), &commands).await;
}

/// R29: what a pattern cannot answer for needs a question, though its first word is allowed.
#[tokio::test]
async fn case_062_shells_and_environment_prefixes_ask() {
    let patterns =
        json!(["ls", "ls *", "sh *", "env *", "xargs *", "find *", "eval *", "exec *", "command *"]);
    let commands = [
        "PATH=.:$PATH ls",
        "LD_PRELOAD=./evil.so ls",
        "sh -c 'touch PWN'",
        "env sh -c 'touch PWN'",
        "xargs touch PWN",
        "find . -exec touch PWN +",
        "find . -execdir touch PWN ;",
        "find . -ok touch PWN \\;",
        "eval 'touch PWN'",
        "ls 'unfinished",
        "ls \"unfinished",
        "ls $(unfinished",
        "ls \\",
    ];
    all_ask(patterns, &commands).await;
}

/// A pattern's beginning answers for no redirection and for no option that runs code or writes.
#[tokio::test]
async fn case_063_arguments_that_run_code_or_write() {
    let patterns = json!(["find *", "git log*", "sort *", "ls", "ls *"]);
    let commands = [
        "find . -exec touch PWN +",
        "find . -delete",
        "git log --output=PWN",
        "git -c core.pager='touch PWN' log",
        "sort -o PWN a",
        "ls > PWN",
        "ls >> PWN",
        "ls >| PWN",
        "ls 2> PWN",
        "ls &> PWN",
        "ls <> PWN",
    ];
    all_ask(patterns, &commands).await;
}

/// Whoever writes the complete command into the config means it.
#[tokio::test]
async fn case_063_the_complete_text_of_a_command_is_the_users_own_choice() {
    let commands = ["sort -o sorted a", "git log --output=log.txt"];
    none_asks(json!(commands), &commands).await;
}

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

const MEMORY: u64 = 64 << 20;
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

// ---- 069: output that is not UTF-8

#[tokio::test]
async fn case_069_output_that_is_no_utf8() {
    let rig = permissive().await;
    let called = rig.call("bash", json!({"command": r"printf '\377\376A\360B'"})).await;
    assert_has(called.result(), "A");
    assert_has(called.result(), "B");
    assert_has(called.result(), "\u{fffd}");
    let name = OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(rig.home.workspace().join(name), "x\n").unwrap();
    for (tool, arguments) in [
        ("bash", json!({"command": "ls"})),
        ("list_dir", json!({"path": "."})),
        ("find_files", json!({"path": ".", "pattern": "*.txt"})),
        ("grep", json!({"path": ".", "pattern": "x"})),
    ] {
        let called = rig.call(tool, arguments).await;
        assert_has(called.result(), "caf");
        answered(&called.turn, "done");
    }
}

#[tokio::test]
async fn case_069_files_that_are_no_utf8() {
    let rig = permissive().await;
    rig.home.write("latin1.txt", b"caf\xe9 au lait\nsecond\n");
    let called = rig.call("read_file", json!({"path": "latin1.txt"})).await;
    assert_has(called.result(), "au lait");
    assert_has(called.result(), "second");
    rig.home.write("program", [0x7f, b'E', b'L', b'F', 0, 0, 1, 2, 3, 0xff, 0, 0]);
    let called = rig.call("read_file", json!({"path": "program"})).await;
    assert_has_any(called.result(), &["binary"]);
}

/// An edit of a file that is no UTF-8 loses none of its bytes.
#[tokio::test]
async fn case_069_an_edit_keeps_bytes_that_are_no_utf8() {
    let rig = permissive().await;
    rig.home.write("latin1.txt", b"caf\xe9\nsecond\n");
    let edit = json!({"path": "latin1.txt", "old_string": "second", "new_string": "2nd"});
    let called = rig.call("edit_file", edit).await;
    let bytes = fs::read(rig.home.workspace().join("latin1.txt")).unwrap();
    if called.row().status() == "completed" {
        assert_eq!(bytes, b"caf\xe9\n2nd\n");
    } else {
        assert_eq!(bytes, b"caf\xe9\nsecond\n", "a refused edit changes nothing");
    }
}

// ---- 071: special files

#[tokio::test]
async fn case_071_special_files_are_named_and_never_waited_for() {
    let rig = permissive().await;
    let workspace = rig.home.workspace();
    assert!(Command::new("mkfifo").arg(workspace.join("p")).status().unwrap().success());
    symlink("/dev/zero", workspace.join("z")).unwrap();
    let _socket = UnixListener::bind(workspace.join("s")).unwrap();
    rig.home.write("empty", "");
    fs::create_dir(workspace.join("folder")).unwrap();
    rig.home.write("src.txt", "the needle\n");
    let cases: [(&str, &[&str]); 5] = [
        ("p", &["pipe", "fifo"]),
        ("z", &["device"]),
        ("s", &["socket"]),
        ("empty", &["empty"]),
        ("folder", &["folder", "directory"]),
    ];
    for (path, kinds) in cases {
        let called = rig.call("read_file", json!({"path": path})).await;
        within(called.took, Duration::from_secs(2), path);
        assert_has_any(called.result(), kinds);
        answered(&called.turn, "done");
    }
    for (tool, arguments) in [
        ("grep", json!({"path": ".", "pattern": "needle"})),
        ("find_files", json!({"path": ".", "pattern": "src*"})),
        ("list_dir", json!({"path": "."})),
    ] {
        let called = rig.call(tool, arguments).await;
        within(called.took, Duration::from_secs(2), tool);
        assert_has(called.result(), "src.txt");
    }
    // Writers do not wait for them either.
    for (tool, arguments) in [
        ("write_file", json!({"path": "p", "content": "x"})),
        ("edit_file", json!({"path": "p", "old_string": "x", "new_string": "y"})),
        ("grep", json!({"path": "p", "pattern": "needle"})),
    ] {
        let called = rig.call(tool, arguments).await;
        within(called.took, Duration::from_secs(2), tool);
    }
}

#[tokio::test]
async fn case_071_a_big_sparse_file_is_paged() {
    let rig = permissive().await;
    let path = rig.home.write("big", "a line of text\n".repeat(10_000));
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(5 << 30).unwrap();
    let called = rig.call("read_file", json!({"path": "big", "limit": 3})).await;
    within(called.took, Duration::from_secs(2), "read_file");
    assert_has(called.result(), "a line of text");
    assert!(called.result().len() < 4096, "three lines were asked for");
    let called = rig.call("grep", json!({"path": ".", "pattern": "nowhere"})).await;
    answered(&called.turn, "done");
    assert!(fault::peak_rss_bytes(rig.agent.pid()).unwrap() < 256 << 20, "the file was held in memory");
}

// ---- 072: edits keep line endings

async fn edited(before: &[u8], old: &str, new: &str) -> Vec<u8> {
    let rig = permissive().await;
    rig.home.write("f", before);
    let called = rig.call("edit_file", json!({"path": "f", "old_string": old, "new_string": new})).await;
    assert_eq!(called.row().status(), "completed", "{called:#?}");
    fs::read(rig.home.workspace().join("f")).unwrap()
}

#[tokio::test]
async fn case_072_an_edit_keeps_crlf() {
    assert_eq!(edited(b"a\r\nb\r\nc\r\n", "b\nc", "B\nC").await, b"a\r\nB\r\nC\r\n");
    assert_eq!(edited(b"a\r\nb\r\nc\r\n", "b\r\nc", "B\r\nC").await, b"a\r\nB\r\nC\r\n");
    assert_eq!(edited(b"a\r\nb\r\nc\r\n", "b", "B1\nB2").await, b"a\r\nB1\r\nB2\r\nc\r\n");
}

#[tokio::test]
async fn case_072_an_edit_keeps_bom_and_missing_final_newline() {
    assert_eq!(edited("\u{feff}a\nb".as_bytes(), "b", "B").await, "\u{feff}a\nB".as_bytes());
    assert_eq!(edited("\u{feff}a\nb".as_bytes(), "a", "A").await, "\u{feff}A\nb".as_bytes());
    assert_eq!(edited("\u{feff}a\r\nb".as_bytes(), "a\nb", "A\nB").await, "\u{feff}A\r\nB".as_bytes());
}

#[tokio::test]
async fn case_072_an_edit_changes_only_its_own_line_of_a_mixed_file() {
    assert_eq!(edited(b"a\r\nb\nc\r\n", "b", "B").await, b"a\r\nB\nc\r\n");
    assert_eq!(edited(b"a\nb\r\nc\n", "b", "B").await, b"a\nB\r\nc\n");
}

// ---- 073: writes are all or nothing and keep the mode

#[tokio::test]
async fn case_073_the_mode_is_kept() {
    let rig = permissive().await;
    let path = rig.home.write("run.sh", "#!/bin/sh\necho one\n");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    for wanted in [0o755, 0o640, 0o600] {
        fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).unwrap();
        rig.home.write("run.sh", "#!/bin/sh\necho one\n");
        let edit = json!({"path": "run.sh", "old_string": "one", "new_string": "two"});
        ended(&rig.call("edit_file", edit).await.turn, "end_turn");
        assert_eq!((mode(), rig.home.read("run.sh").as_str()), (wanted, "#!/bin/sh\necho two\n"));
        let write = json!({"path": "run.sh", "content": "#!/bin/sh\necho three\n"});
        ended(&rig.call("write_file", write).await.turn, "end_turn");
        assert_eq!((mode(), rig.home.read("run.sh").as_str()), (wanted, "#!/bin/sh\necho three\n"));
    }
}

/// Whenever milk dies, the file is wholly old or wholly new, and nothing else is left beside it after the next start.
#[tokio::test]
async fn case_073_a_kill_in_mid_write_leaves_a_whole_file() {
    let (old, new) = ("old\n".repeat(1 << 20), "new\n".repeat(1 << 20));
    let home = TestHome::new();
    home.write("big", &old);
    let write = json!({"path": "big", "content": new});
    let write = move || Reply::tools([ToolCall::new("write_file", write.clone())]);
    let mut rig = Plan::respond(move |request| {
        if request.messages().last().is_some_and(|newest| newest["role"] == "tool") {
            Reply::text("done")
        } else {
            write()
        }
    })
    .root("dangerously_skip_permissions", true)
    .start_in(home)
    .await;
    for round in 0..10 {
        rig.home.write("big", &old);
        rig.agent.prompt(&rig.session, "go");
        let session = rig.session.clone();
        rig.agent
            .expect(|message| {
                message["params"]["sessionId"] == session.as_str()
                    && message["params"]["update"]["status"] == "in_progress"
            })
            .await;
        // The moment of the kill is the subject: a little later in each round.
        std::thread::sleep(Duration::from_millis(round * 2));
        rig.agent.kill();
        rig.agent.wait_exit(Duration::from_secs(5)).await;
        let content = rig.home.read("big");
        assert!(content == old || content == new, "round {round}: {} bytes", content.len());
        rig = rig.revived().await;
    }
    let left: Vec<_> =
        fs::read_dir(rig.home.workspace()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["big"], "stray files after the next start");
}

// ---- 074: links that leave the workspace

struct Links {
    rig: Rig,
    victim: std::path::PathBuf,
}

/// `notes.md` and `out` lead out of the workspace; every tool has been said yes to inside it.
async fn linked() -> Links {
    let rig = Plan::obedient().policy(allow()).start().await;
    let (workspace, outside) = (rig.home.workspace(), rig.home.outside());
    let victim = rig.home.write(outside.join("victim"), "victim\n");
    rig.home.write(outside.join("a"), "a\n");
    symlink(&victim, workspace.join("notes.md")).unwrap();
    symlink(&outside, workspace.join("out")).unwrap();
    rig.home.write("in.txt", "in\n");
    rig.home.write("gone.txt", "x\n");
    for (tool, arguments) in [
        ("write_file", json!({"path": "w.txt", "content": "x"})),
        ("edit_file", json!({"path": "in.txt", "old_string": "in", "new_string": "inside"})),
        ("delete_file", json!({"path": "gone.txt"})),
        ("move_file", json!({"source": "w.txt", "destination": "w2.txt"})),
    ] {
        rig.call(tool, arguments).await.asked(1);
    }
    Links { rig, victim }
}

#[tokio::test]
async fn case_074_writing_through_links_asks_with_the_real_path() {
    let Links { rig, victim } = linked().await;
    rig.agent.set_policy(Policy::Deny);
    let outside = rig.home.outside();
    let attempts = [
        ("write_file", json!({"path": "notes.md", "content": "pwned"}), victim.clone()),
        ("write_file", json!({"path": "out/new", "content": "pwned"}), outside.join("new")),
        ("write_file", json!({"path": "out/deeper/new", "content": "pwned"}), outside.join("deeper/new")),
        ("write_file", json!({"path": "../outside/new", "content": "pwned"}), outside.join("new")),
        ("write_file", json!({"path": outside.join("new"), "content": "pwned"}), outside.join("new")),
        ("write_file", json!({"path": "sub/../out/./new", "content": "pwned"}), outside.join("new")),
        (
            "edit_file",
            json!({"path": "notes.md", "old_string": "victim", "new_string": "pwned"}),
            victim.clone(),
        ),
        ("delete_file", json!({"path": "out/a"}), outside.join("a")),
        ("move_file", json!({"source": "in.txt", "destination": "out/in.txt"}), outside.join("in.txt")),
        ("move_file", json!({"source": "out/a", "destination": "taken"}), outside.join("a")),
    ];
    for (tool, arguments, real) in attempts {
        let called = rig.call(tool, arguments.clone()).await;
        // Refused outright, or asked with the real path shown.
        assert!(called.questions.len() <= 1, "{called:#?}");
        for question in &called.questions {
            assert_has(&words(question), real.to_str().unwrap());
            assert_eq!(subject(question), called.row().id);
        }
        assert_eq!(called.row().status(), "failed", "{tool} {arguments}");
        let left: Vec<String> = ["victim", "a"].map(|name| rig.home.read(outside.join(name))).to_vec();
        assert_eq!(left, ["victim\n", "a\n"], "{tool} {arguments}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 2, "{tool} {arguments}");
    }
}

/// With a yes, the write goes where the question said, and the link stays a link.
#[tokio::test]
async fn case_074_a_yes_writes_to_the_target_and_keeps_the_link() {
    let Links { rig, victim } = linked().await;
    let called = rig.call("write_file", json!({"path": "notes.md", "content": "agreed"})).await;
    called.asked(1);
    assert_eq!(rig.home.read(&victim), "agreed");
    assert!(rig.home.workspace().join("notes.md").is_symlink());
    // Each time anew: the yes to one place outside is none to another.
    rig.agent.set_policy(Policy::Deny);
    rig.call("write_file", json!({"path": "out/new", "content": "x"})).await.asked(1);
    assert!(!rig.home.outside().join("new").exists());
}

#[tokio::test]
async fn case_074_links_inside_the_workspace_work() {
    let home = TestHome::new();
    fs::create_dir(home.workspace().join("sub")).unwrap();
    symlink("sub", home.workspace().join("inner")).unwrap();
    home.write("sub/target.txt", "before\n");
    symlink("sub/target.txt", home.workspace().join("link.txt")).unwrap();
    let rig = Plan::obedient().policy(allow()).start_in(home).await;
    rig.call("write_file", json!({"path": "sub/first.txt", "content": "1"})).await.asked(1);
    rig.call("write_file", json!({"path": "inner/second.txt", "content": "2"})).await.asked(0);
    assert_eq!(rig.home.read("sub/second.txt"), "2");
    rig.call("write_file", json!({"path": "link.txt", "content": "after\n"})).await.asked(0);
    assert_eq!(rig.home.read("sub/target.txt"), "after\n");
    assert!(rig.home.workspace().join("link.txt").is_symlink());
}

#[tokio::test]
async fn case_074_a_workspace_that_is_a_link_works() {
    let rig = Plan::obedient().policy(allow()).start().await;
    let link = rig.home.root().join("link-to-work");
    symlink(rig.home.workspace(), &link).unwrap();
    let session = rig.session_in(&link).await;
    rig.call_in(&session, "write_file", json!({"path": "a.txt", "content": "1"})).await.asked(1);
    rig.call_in(&session, "write_file", json!({"path": "sub/b.txt", "content": "2"})).await.asked(0);
    rig.call_in(&session, "write_file", json!({"path": link.join("c.txt"), "content": "3"})).await.asked(0);
    assert_eq!(["a.txt", "sub/b.txt", "c.txt"].map(|name| rig.home.read(name)), ["1", "2", "3"]);
    let called = rig.call_in(&session, "bash", json!({"command": "pwd -P"})).await;
    assert_has(called.result(), rig.home.workspace().to_str().unwrap());
}

/// The path leads inside while the question is open, and outside when the yes comes.
#[tokio::test]
async fn case_074_a_link_swapped_under_the_question_does_not_lead_out() {
    for file in ["sub/w.txt", "sub/deeper/w.txt"] {
        let rig = Plan::obedient().start().await;
        fs::create_dir(rig.home.workspace().join("sub")).unwrap();
        let prompt = rig.begin("write_file", json!({"path": file, "content": "x"}));
        let question = rig.agent.expect_request("session/request_permission").await;
        fs::remove_dir(rig.home.workspace().join("sub")).unwrap();
        symlink(rig.home.outside(), rig.home.workspace().join("sub")).unwrap();
        rig.agent.select(&question, "allow");
        rig.agent.response(prompt).await.unwrap();
        assert_eq!(fs::read_dir(rig.home.outside()).unwrap().count(), 0, "{file} was written outside");
        assert_eq!(rig.agent.transcript().tool_rows(&rig.session)[0].status(), "failed");
    }
}

/// What cannot be done is told, without a question where that is known before, and changes nothing.
#[tokio::test]
async fn writes_that_cannot_be_done_are_told() {
    let rig = permissive().await;
    fs::create_dir(rig.home.workspace().join("folder")).unwrap();
    rig.home.write("folder/full.txt", "x");
    rig.home.write("file.txt", "one two two\n");
    let long = "n".repeat(5000);
    for (tool, arguments) in [
        ("write_file", json!({"path": "folder", "content": "x"})),
        ("write_file", json!({"path": "file.txt/below", "content": "x"})),
        ("write_file", json!({"path": "", "content": "x"})),
        ("write_file", json!({"path": "a\u{0}b", "content": "x"})),
        ("write_file", json!({"path": long, "content": "x"})),
        ("edit_file", json!({"path": "file.txt", "old_string": "three", "new_string": "x"})),
        ("edit_file", json!({"path": "file.txt", "old_string": "two", "new_string": "x"})),
        ("edit_file", json!({"path": "file.txt", "old_string": "", "new_string": "x"})),
        ("edit_file", json!({"path": "nowhere.txt", "old_string": "a", "new_string": "x"})),
        ("edit_file", json!({"path": "folder", "old_string": "a", "new_string": "x"})),
        ("delete_file", json!({"path": "nowhere.txt"})),
        ("delete_file", json!({"path": "folder"})),
        ("delete_file", json!({"path": "."})),
        ("move_file", json!({"source": "nowhere.txt", "destination": "x"})),
        ("move_file", json!({"source": "file.txt", "destination": "file.txt/x"})),
        ("move_file", json!({"source": "folder", "destination": "folder/inside"})),
    ] {
        let called = rig.call(tool, arguments.clone()).await;
        assert_eq!(called.row().status(), "failed", "{tool} {arguments}: {}", called.result());
        assert!(!called.result().trim().is_empty(), "{tool} {arguments} failed in silence");
        assert_eq!(rig.home.read("file.txt"), "one two two\n", "{tool} {arguments}");
        assert_eq!(rig.home.read("folder/full.txt"), "x", "{tool} {arguments}");
    }
}

/// A move onto a file that is there must not lose it in silence: refused, or asked with a word about it.
#[tokio::test]
async fn a_move_onto_another_file_loses_nothing_in_silence() {
    let rig = Plan::obedient().policy(allow()).start().await;
    rig.home.write("from.txt", "from");
    rig.home.write("onto.txt", "onto");
    let called = rig.call("move_file", json!({"source": "from.txt", "destination": "onto.txt"})).await;
    if rig.home.read("onto.txt") != "onto" {
        let asked: String = called.questions.iter().map(words).collect();
        assert_has_any(&asked, &["overwrit", "replac", "exist"]);
    }
}

// ---- 076: searching big trees

#[tokio::test]
async fn case_076_searching_a_big_tree() {
    let home = TestHome::new();
    home.write(".gitignore", "node_modules/\n");
    home.write("src/main.ts", "const needle = 1;\n");
    symlink(".", home.workspace().join("loop")).unwrap();
    for package in 0..50 {
        for file in 0..100 {
            home.write(format!("node_modules/p{package}/f{file}.ts"), "const needle = 2;\n");
        }
    }
    let rig = Plan::obedient().start_in(home).await;
    for (tool, arguments) in [
        ("grep", json!({"path": ".", "pattern": "needle"})),
        ("find_files", json!({"path": ".", "pattern": "**/*.ts"})),
        ("find_files", json!({"path": ".", "pattern": "*.ts"})),
    ] {
        let called = rig.call(tool, arguments).await;
        called.asked(0);
        within(called.took, Duration::from_secs(5), tool);
        assert_eq!(called.result().matches("main.ts").count(), 1, "found once: {}", called.result());
        assert_lacks(called.result(), "node_modules");
    }
    let called = rig.call("list_dir", json!({"path": "."})).await;
    within(called.took, Duration::from_secs(5), "list_dir");
    assert_has(called.result(), "src");
    assert_has(called.result(), "loop");
}

// ---- 077: paths are relative to the session, not to the process

#[tokio::test]
async fn case_077_paths_are_relative_to_the_session() {
    let rig = Plan::obedient().process_cwd("/").policy(allow()).start().await;
    let places = ["a", "b"].map(|name| rig.home.another_workspace(name));
    for (place, word) in places.iter().zip(["alpha", "beta"]) {
        rig.home.write(place.join("x"), format!("needle {word}\n"));
    }
    let a = rig.session_in(&places[0]).await;
    let b = rig.session_in(&places[1]).await;
    let calls = [
        ("grep", json!({"path": ".", "pattern": "needle"})),
        ("grep", json!({"pattern": "needle", "path": "x"})),
        ("find_files", json!({"path": ".", "pattern": "x"})),
        ("list_dir", json!({"path": "."})),
        ("read_file", json!({"path": "x"})),
        ("bash", json!({"command": "pwd; cat x"})),
        ("write_file", json!({"path": "made", "content": "made"})),
    ];
    for (tool, arguments) in calls {
        let turns = [&a, &b].map(|session| rig.agent.prompt(session, &order_of(tool, &arguments)));
        for turn in turns {
            rig.agent.response(turn).await.unwrap();
        }
        for (session, own, others) in [(&a, "alpha", "beta"), (&b, "beta", "alpha")] {
            let transcript = rig.agent.transcript();
            let rows = transcript.tool_rows(session);
            let row = rows.last().unwrap();
            assert_eq!(row.status(), "completed", "{tool}: {row:#?}");
            let output = row.fields["rawOutput"].to_string();
            assert_lacks(&output, others);
            if ["grep", "read_file", "bash"].contains(&tool) {
                assert_has(&output, own);
            }
        }
    }
    assert!(places.iter().all(|place| place.join("made").is_file()));
    assert!(!Path::new("/made").exists());
}

fn order_of(tool: &str, arguments: &Value) -> String {
    format!("Please make these calls: {}", json!([[tool, arguments]]))
}

// ---- fetching: bounded in time and memory

#[tokio::test]
async fn http_tools_are_bounded_in_memory() {
    let big = "0123456789abcde\n".repeat(5 << 20);
    let server = ModelServer::start(
        Script::replies([]).route("/big", Reply::body(200, "text/plain", big)).unchecked(),
    )
    .await;
    let rig = permissive().await;
    rig.assert_usable().await;
    let before = fault::peak_rss_bytes(rig.agent.pid()).unwrap();
    let called = rig.call("http_get", json!({"url": format!("{}/big", server.url())})).await;
    let after = fault::peak_rss_bytes(rig.agent.pid()).unwrap();
    assert!(after - before < MEMORY / 2, "memory grew by {} KiB", (after - before) >> 10);
    assert_has(called.result(), "0123456789abcde");
    assert!(called.result().len() < 32 << 10, "{} bytes", called.result().len());
    answered(&called.turn, "done");
}

#[tokio::test]
async fn http_tools_are_bounded_in_time() {
    let script = [
        ("/silent", Reply::silence()),
        ("/headers", Reply::headers_only()),
        ("/half", Reply::stream().say("x").hang()),
    ]
    .into_iter()
    .fold(Script::replies([]).unchecked(), |script, (path, reply)| script.route(path, reply));
    let server = ModelServer::start(script).await;
    let rig = Plan::obedient()
        .root("dangerously_skip_permissions", true)
        .agent("limits", json!({"tool_timeout_secs": 1}))
        .start()
        .await;
    for path in ["silent", "headers", "half"] {
        let called = rig.call("http_get", json!({"url": format!("{}/{path}", server.url())})).await;
        within(called.took, Duration::from_secs(4), path);
        assert_eq!(called.row().status(), "failed", "{called:#?}");
        answered(&called.turn, "done");
    }
}

#[tokio::test]
async fn a_cancel_ends_a_fetch() {
    let server = ModelServer::start(Script::replies([]).unchecked().route("/silent", Reply::silence())).await;
    let rig = permissive().await;
    let prompt = rig.begin("http_get", json!({"url": format!("{}/silent", server.url())}));
    rig.agent.expect(|message| message["params"]["update"]["status"] == "in_progress").await;
    rig.agent.cancel(&rig.session);
    let began = Instant::now();
    rig.agent.response(prompt).await.unwrap();
    within(began.elapsed(), Duration::from_secs(2), "the cancel");
    rig.assert_rows_ended();
    rig.assert_usable().await;
}

#[tokio::test]
async fn urls_that_are_no_http_are_refused() {
    let rig = permissive().await;
    let passwd = format!("file://{}", rig.home.write("x", "the words of a file").display());
    for url in [
        passwd.as_str(),
        "ftp://127.0.0.1/x",
        "javascript:alert(1)",
        "//127.0.0.1/x",
        "",
        "http://",
        "http://[::/x",
    ] {
        let called = rig.call("http_get", json!({ "url": url })).await;
        assert_eq!(called.row().status(), "failed", "{url}: {called:#?}");
        assert_lacks(called.result(), "the words of a file");
        answered(&called.turn, "done");
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

// ---- 078 to 080: what models get wrong

#[tokio::test]
async fn case_078_an_unknown_tool_is_named_with_those_there_are() {
    let rig = Plan::obedient().start().await;
    for name in ["search_files", "Bash", "read_file ", "functions.read_file", "ﬁle"] {
        let called = rig.call(name, json!({"query": "x"})).await;
        called.asked(0);
        if called.row().status() == "completed" {
            // A near miss may be understood; then it is the tool that it meant.
            continue;
        }
        assert_eq!(called.row().status(), "failed");
        answered(&called.turn, "done");
    }
    let called = rig.call("search_files", json!({"query": "x"})).await;
    assert_has_any(called.result(), &["unknown tool", "no tool", "does not exist"]);
    assert_has(called.result(), "search_files");
    for there in ["read_file", "grep", "bash"] {
        assert_has(called.result(), there);
    }
}

#[tokio::test]
async fn case_079_arguments_that_do_not_parse_run_nothing() {
    let broken = [
        (r#"{"path":"a.txt","content":"x"#, "write_file"),
        ("{path: a}", "write_file"),
        ("", "write_file"),
        ("null", "write_file"),
        ("[]", "write_file"),
        ("\"a.txt\"", "write_file"),
        ("", "bash"),
        ("{}", "bash"),
        (r#"{"command":"touch a.txt"#, "bash"),
    ];
    let rig = Plan::respond({
        let mut calls = broken.into_iter();
        move |request| {
            if request.messages().last().is_some_and(|newest| newest["role"] == "tool") {
                return Reply::text("done");
            }
            let (arguments, tool) = calls.next().expect("one more case");
            Reply::tools([ToolCall::new(tool, json!({})).raw_arguments(arguments)])
        }
    })
    .policy(allow())
    .start()
    .await;
    for (arguments, tool) in broken {
        let turn = rig.turn("go").await;
        answered(&turn, "done");
        assert_eq!(rig.questions().len(), 0, "nothing is asked about broken arguments: {tool} {arguments:?}");
        assert!(!rig.home.exists("a.txt"), "{tool} ran with {arguments:?}");
        let told = results(&rig.server.request(rig.server.count() - 1).await);
        assert_has_any(told.last().unwrap(), &["argument", "parse", "missing", "required", "JSON"]);
    }
    for row in rig.agent.transcript().tool_rows(&rig.session) {
        assert_eq!(row.status(), "failed", "{row:#?}");
    }
}

/// Empty arguments are fine for a tool that needs none.
#[tokio::test]
async fn case_079_empty_arguments_run_a_tool_that_needs_none() {
    let rig = Plan::respond(|request| match request.messages().last() {
        Some(newest) if newest["role"] == "tool" => Reply::text("done"),
        _ => Reply::tools([ToolCall::new("list_dir", json!({})).raw_arguments("")]),
    })
    .start()
    .await;
    rig.home.write("here.txt", "x");
    answered(&rig.turn("go").await, "done");
    let request = rig.server.request(1).await;
    let offered = request.body["tools"].as_array().unwrap().iter();
    let list_dir = offered.map(|tool| &tool["function"]).find(|tool| tool["name"] == "list_dir").unwrap();
    let needs_none = list_dir["parameters"]["required"].as_array().is_none_or(Vec::is_empty);
    let told = results(&request).remove(0);
    if needs_none {
        assert_has(&told, "here.txt");
    } else {
        assert_has_any(&told, &["path", "argument", "required"]);
    }
}

#[tokio::test]
async fn case_080_the_right_value_in_the_wrong_type() {
    let rig = permissive().await;
    rig.home.write("a", "l1\nl2\nl3\nl4\nl5\nl6\n");
    let typed = rig.call("read_file", json!({"path": "a", "offset": 2, "limit": 3})).await;
    let texts = rig.call("read_file", json!({"path": "a", "offset": "2", "limit": "3"})).await;
    assert_eq!(texts.result(), typed.result());
    assert_lacks(typed.result(), "l6");
    assert_eq!(texts.row().status(), "completed");

    rig.home.write("b", "x x x\n");
    let edit = json!({"path": "b", "old_string": "x", "new_string": "y", "replace_all": "true"});
    assert_eq!(rig.call("edit_file", edit).await.row().status(), "completed");
    assert_eq!(rig.home.read("b"), "y y y\n");

    let called = rig.call("bash", json!({"command": "touch ran", "timeout_seconds": "abc"})).await;
    assert_eq!(called.row().status(), "failed");
    assert_has(called.result(), "timeout_seconds");
    assert!(!rig.home.exists("ran"));
    let called = rig.call("bash", json!({"command": "echo fine", "timeout_seconds": "30"})).await;
    assert_has(called.result(), "fine");

    rig.home.write("7", "seven\n");
    let called = rig.call("read_file", json!({"path": 7})).await;
    if called.row().status() == "completed" {
        assert_has(called.result(), "seven");
    } else {
        assert_has(called.result(), "path");
    }
    for path in [json!(null), json!(["a"]), json!({"a": 1}), json!(true)] {
        let called = rig.call("read_file", json!({ "path": path })).await;
        assert_eq!(called.row().status(), "failed", "{called:#?}");
        assert_has_any(called.result(), &["path", "true"]);
        answered(&called.turn, "done");
    }
}

/// Numbers far outside of sense neither panic nor wait.
#[tokio::test]
async fn case_080_numbers_outside_of_sense() {
    let rig = permissive().await;
    rig.home.write("a", "l1\nl2\n");
    for (tool, arguments) in [
        ("read_file", json!({"path": "a", "offset": u64::MAX, "limit": u64::MAX})),
        ("read_file", json!({"path": "a", "offset": -1, "limit": 0})),
        ("read_file", json!({"path": "a", "offset": 1e300, "limit": 2.5})),
        ("bash", json!({"command": "true", "timeout_seconds": u64::MAX})),
        ("bash", json!({"command": "true", "timeout_seconds": -5})),
        ("bash", json!({"command": "true", "timeout_seconds": 1e300})),
        ("bash", json!({"command": "true", "timeout_seconds": 0})),
        ("read_file", json!({"path": "a".repeat(100_000)})),
        ("read_file", json!({"path": "a\u{0}b"})),
        ("grep", json!({"path": ".", "pattern": "("})),
        ("grep", json!({"path": ".", "pattern": "a".repeat(100_000)})),
        ("find_files", json!({"path": ".", "pattern": "[".repeat(1000)})),
    ] {
        let called = rig.call(tool, arguments).await;
        answered(&called.turn, "done");
    }
}
