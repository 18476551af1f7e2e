//! Shell commands through the `bash` tool. This test is a program of its own, because it is also the supervisor of the
//! commands that it runs (see `milk_tools::process`).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::format_collect,
    missing_debug_implementations,
    reason = "a test"
)]

mod kit;

use std::future::Future;
use std::pin::Pin;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::{Kit, World};
use milk_core::tool::{Effect, ToolContext, ToolOutcome, ToolStatus};
use milk_tools::process::supervise;
use serde_json::json;

type Case = fn(World) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! cases {
    ($($name:ident),* $(,)?) => { [$((stringify!($name), (|world| Box::pin($name(world))) as Case)),*] };
}

fn main() -> ExitCode {
    if let Some(code) = supervise(std::env::args_os()) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, tag] = arguments.as_slice()
        && flag == "--hold"
    {
        return hold(tag);
    }
    kit::harness(
        &arguments,
        &cases![
            output_and_exit_code,
            paths_are_the_sessions_077,
            the_question_shows_the_whole_command_056,
            arguments_080,
            a_keyboard_is_not_there_064,
            no_terminal_is_reachable_064,
            children_left_behind_do_not_hold_the_result_065,
            a_time_out_keeps_what_was_printed,
            the_calls_own_limit_counts_too,
            a_time_out_ends_the_tree_067,
            a_cancel_ends_the_tree_067,
            a_tripped_token_ends_the_tree_and_keeps_what_was_printed,
            descendants_that_left_the_group_are_ended_067,
            a_tree_that_ignores_signals_is_ended,
            a_stopped_tree_is_ended,
            a_stopped_supervisor_ends_its_tree,
            children_left_behind_end_at_exit,
            nothing_starts_after_the_exit_began,
            a_killed_milk_leaves_nothing_behind,
            a_killed_supervisor_is_told,
            floods_stay_small_068,
            output_that_is_no_text_069,
            characters_split_over_reads_stay_whole,
            keys_are_not_handed_on_081,
            a_folder_that_is_gone_is_told,
            many_at_once,
            the_next_command_works_after_each_fault,
        ],
    )
}

async fn bash(kit: &Kit, command: &str) -> ToolOutcome {
    kit.call("bash", json!({"command": command})).await
}

async fn bash_for(kit: &Kit, command: &str, seconds: u64) -> ToolOutcome {
    kit.call("bash", json!({"command": command, "timeout_seconds": seconds})).await
}

/// How many living processes carry the tag in their arguments, their supervisor included.
fn alive(tag: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let carries = |entry: &std::fs::DirEntry| {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        arguments.contains(tag) && !arguments.contains("--hold")
    };
    processes.filter(carries).count()
}

/// Waits until a condition holds, at most ten seconds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until nothing that carries the tag is alive, at most the two seconds of case 067 and a little.
async fn gone(tag: &str) {
    let start = Instant::now();
    until("all are gone", || alive(tag) == 0).await;
    assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
}

/// A number of seconds to sleep that no other test has.
fn tag(number: u32) -> String {
    format!("6{:05}.{number:03}", std::process::id() % 100_000)
}

async fn output_and_exit_code(world: World) {
    let kit = world.kit();
    for (command, output, code, status) in [
        ("echo hi", "hi\n[exit code 0]", Some(0), ToolStatus::Completed),
        ("true", "[exit code 0, no output]", Some(0), ToolStatus::Completed),
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n[exit code 0]", Some(0), ToolStatus::Completed),
        ("printf x; exit 3", "x\n[exit code 3]", Some(3), ToolStatus::Failed),
        ("kill -9 $$", "[ended by signal 9, no output]", Some(137), ToolStatus::Failed),
        ("echo 'a  b' | tr a-z A-Z", "A  B\n[exit code 0]", Some(0), ToolStatus::Completed),
    ] {
        let outcome = bash(&kit, command).await;
        assert_eq!(
            (outcome.output.as_str(), outcome.exit_code, outcome.status),
            (output, code, status),
            "{command}"
        );
    }
    let outcome = bash(&kit, "no-such-program-at-all").await;
    assert_eq!(outcome.exit_code, Some(127));
    assert!(outcome.output.contains("not found"), "{}", outcome.output);
    let outcome = bash(&kit, "if").await;
    assert_eq!(outcome.status, ToolStatus::Failed);
}

async fn paths_are_the_sessions_077(world: World) {
    let (a, b) = (world.kit(), world.kit());
    let (in_a, in_b) = tokio::join!(bash(&a, "pwd; echo $PWD"), bash(&b, "pwd; echo $PWD"));
    for (kit, outcome) in [(&a, in_a), (&b, in_b)] {
        let root = kit.root.display();
        assert_eq!(outcome.output, format!("{root}\n{root}\n[exit code 0]"));
    }
}

async fn the_question_shows_the_whole_command_056(world: World) {
    let kit = world.kit();
    let command = "rm -rf build\r\u{1b}[2Kls -la";
    let call = kit.prepare("bash", json!({"command": command})).await.unwrap();
    assert_eq!(call.title, r"bash: rm -rf build\r\u{1b}[2Kls -la");
    assert_eq!(call.effect, Effect::Executes { command: command.to_owned() });
}

async fn arguments_080(world: World) {
    let kit = world.kit();
    for (arguments, problem) in [
        (json!({"command": "ls", "timeout": "abc"}), "must be a whole number"),
        (json!({"command": "ls", "timeout_seconds": -1}), "must be a whole number"),
        (json!({}), "`command` is missing"),
        (json!({"command": ""}), "must not be empty"),
        (json!({"command": "  \n"}), "must not be empty"),
        (json!({"command": ["ls"]}), "must be a text"),
        (json!({"command": "a\0b"}), "NUL"),
        (json!({"command": "x".repeat(200_000)}), "too long"),
    ] {
        let error = kit.prepare("bash", arguments).await.unwrap_err();
        assert!(error.message.contains(problem), "{}", error.message);
    }
    let outcome = kit.call("bash", json!({"command": "echo ok", "timeout": "5", "other": 1})).await;
    assert_eq!(outcome.output, "ok\n[exit code 0]");
    let long = format!("echo {}", "x".repeat(100_000));
    let outcome = kit.call("bash", json!({"command": long})).await;
    assert_eq!(outcome.exit_code, Some(0), "{}", outcome.output);
}

async fn a_keyboard_is_not_there_064(world: World) {
    let kit = world.kit();
    bash(
        &kit,
        "git init -q . && git config user.email a@b && git config user.name n && touch f && git add f",
    )
    .await;
    for command in [
        "cat",
        "read x; echo got:$x",
        "git commit",
        "EDITOR=vi git commit",
        "PAGER=less git log",
        "git rebase -i --root",
        "ssh -o BatchMode=no nohost.invalid",
        "sudo -A true",
        "python3 -c 'input()'",
        "stty size",
    ] {
        for line in [command.to_owned(), format!("{{ {command}; }} & wait")] {
            let start = Instant::now();
            let outcome = bash_for(&kit, &line, 5).await;
            assert!(start.elapsed() < Duration::from_secs(5), "{line}: {}", outcome.output);
        }
    }
}

async fn no_terminal_is_reachable_064(world: World) {
    let kit = world.kit();
    let outcome = bash(&kit, "exec 3</dev/tty && echo opened").await;
    assert!(!outcome.output.contains("opened"), "{}", outcome.output);
    // Its own session: the sixth field of proc(5)'s stat. The shell runs below the leader.
    let outcome = bash(&kit, "set -- $(cat /proc/$$/stat); echo $6 $PPID $7").await;
    let fields: Vec<&str> = outcome.output.lines().next().unwrap().split(' ').collect();
    assert_eq!(fields[0], fields[1], "the session is the supervisor's");
    assert_eq!(fields[2], "0", "no terminal controls it");
}

async fn children_left_behind_do_not_hold_the_result_065(world: World) {
    let kit = world.kit();
    let tag = tag(1);
    for command in [
        format!("sleep {tag} & echo done"),
        format!("nohup sleep {tag} >/dev/null 2>&1 & echo done"),
        format!("echo done; (while :; do echo noise; done; sleep {tag}) &"),
    ] {
        let start = Instant::now();
        let outcome = bash(&kit, &command).await;
        assert!(start.elapsed() < Duration::from_secs(3), "{command}");
        assert!(outcome.output.contains("done\n"), "{}", outcome.output);
        assert!(outcome.output.ends_with("still run, in the background]"), "{}", outcome.output);
        assert_eq!(outcome.status, ToolStatus::Completed);
    }
    assert_eq!(kit.processes.count(), 3);
    kit.processes.kill_all(Duration::from_secs(5));
    gone(&tag).await;
}

async fn a_time_out_keeps_what_was_printed(world: World) {
    let kit = world.kit();
    let start = Instant::now();
    let outcome = bash_for(&kit, "echo before; sleep 60; echo after", 1).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    let expected = "before\n[command timed out after 1 s and was stopped, with all its processes]";
    assert_eq!((outcome.output.as_str(), outcome.status), (expected, ToolStatus::Failed));
}

async fn the_calls_own_limit_counts_too(world: World) {
    let kit = world.kit();
    let call = kit.prepare("bash", json!({"command": "echo before; sleep 60"})).await.unwrap();
    let limit = Some(Duration::from_millis(300));
    let outcome = (call.run)(ToolContext { time_limit: limit, ..kit::quiet() }).await;
    assert!(outcome.output.starts_with("before\n[command timed out after 0.3 s"), "{}", outcome.output);
}

/// Two trees of case 067.
fn trees(tag: &str) -> [String; 2] {
    [
        format!("sh -c 'sleep {tag} & sleep {tag} & wait'"),
        format!("bash -c 'exec -a tagged{tag} sleep {tag}' | cat"),
    ]
}

async fn a_time_out_ends_the_tree_067(world: World) {
    let kit = world.kit();
    let tag = tag(2);
    for command in trees(&tag) {
        let outcome = bash_for(&kit, &command, 1).await;
        assert!(outcome.output.contains("timed out"), "{}", outcome.output);
        gone(&tag).await;
    }
    until("they are forgotten", || kit.processes.count() == 0).await;
}

/// Starts a command, waits until `count` processes carry the tag, and drops the call.
async fn cancel(kit: &Kit, command: &str, tag: &str, count: usize) {
    let call = kit.prepare("bash", json!({"command": command})).await.unwrap();
    let mut run = (call.run)(kit::quiet());
    tokio::select! {
        outcome = &mut run => panic!("it ended: {}", outcome.output),
        () = until("it runs", || alive(tag) >= count) => {}
    }
    drop(run);
}

async fn a_cancel_ends_the_tree_067(world: World) {
    let kit = world.kit();
    let tag = tag(3);
    for command in trees(&tag) {
        cancel(&kit, &command, &tag, 3).await;
        gone(&tag).await;
    }
    until("they are forgotten", || kit.processes.count() == 0).await;
    assert_eq!(bash(&kit, "echo next").await.output, "next\n[exit code 0]");
}

async fn a_tripped_token_ends_the_tree_and_keeps_what_was_printed(world: World) {
    let kit = world.kit();
    let tag = tag(10);
    let call = kit
        .prepare("bash", json!({"command": format!("echo before; sleep {tag} & sleep {tag}")}))
        .await
        .unwrap();
    let context = kit::quiet();
    let cancel = context.cancel.clone();
    let run = tokio::spawn((call.run)(context));
    until("it runs", || alive(&tag) >= 3).await;
    let start = Instant::now();
    cancel.cancel();
    let outcome = run.await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(outcome.status, ToolStatus::Cancelled);
    assert_eq!(outcome.output, "before\n[cancelled: it was stopped, with all its processes]");
    gone(&tag).await;
}

async fn descendants_that_left_the_group_are_ended_067(world: World) {
    let kit = world.kit();
    let tag = tag(4);
    // Another session, its parent gone, its environment empty.
    let command = format!("(env -i setsid sleep {tag} >/dev/null 2>&1 &) ; sleep {tag}");
    cancel(&kit, &command, &tag, 4).await;
    gone(&tag).await;
    let outcome = bash(&kit, &format!("(env -i setsid sleep {tag} >/dev/null 2>&1 &) ; echo up")).await;
    assert!(outcome.output.contains("still run"), "{}", outcome.output);
    kit.processes.kill_all(Duration::from_secs(5));
    gone(&tag).await;
}

async fn a_tree_that_ignores_signals_is_ended(world: World) {
    let kit = world.kit();
    let tag = tag(5);
    let command = format!(
        "trap '' TERM INT HUP; (trap '' TERM; while :; do sleep {tag}; done) & while :; do sleep {tag}; done"
    );
    cancel(&kit, &command, &tag, 4).await;
    gone(&tag).await;
}

async fn a_stopped_tree_is_ended(world: World) {
    let kit = world.kit();
    let tag = tag(6);
    cancel(&kit, &format!("sleep {tag} & kill -STOP $!; sleep {tag}; sleep {tag}"), &tag, 3).await;
    gone(&tag).await;
}

async fn a_stopped_supervisor_ends_its_tree(world: World) {
    let kit = world.kit();
    let tag = tag(11);
    let stopping = format!("kill -STOP $PPID; sleep {tag}; sleep {tag}");
    cancel(&kit, &stopping, &tag, 3).await;
    gone(&tag).await;
    let outcome = bash_for(&kit, &stopping, 1).await;
    assert!(outcome.output.contains("timed out"), "{}", outcome.output);
    gone(&tag).await;
    // One that stops its supervisor whenever that one goes on.
    let again = format!("trap '' TERM; while :; do kill -STOP $PPID; sleep 0.02; done # {tag}");
    let outcome = bash_for(&kit, &again, 1).await;
    assert!(outcome.output.contains("timed out"), "{}", outcome.output);
    gone(&tag).await;
    until("they are forgotten", || kit.processes.count() == 0).await;
    cancel(&kit, &format!("echo {tag}; sleep 0.1; kill -STOP $PPID; sleep {tag}"), &tag, 3).await;
    gone(&tag).await;
}

async fn children_left_behind_end_at_exit(world: World) {
    let kit = world.kit();
    let tag = tag(7);
    for _ in 0..3 {
        bash(&kit, &format!("sleep {tag} & echo done")).await;
    }
    assert_eq!(kit.processes.count(), 3);
    let start = Instant::now();
    // Without the runtime's help, as at exit.
    let processes = Arc::clone(&kit.processes);
    let left = std::thread::spawn(move || processes.kill_all(Duration::from_secs(5))).join().unwrap();
    assert_eq!(left, 0);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(alive(&tag), 0);
    until("they are forgotten", || kit.processes.count() == 0).await;
}

async fn nothing_starts_after_the_exit_began(world: World) {
    let kit = world.kit();
    assert_eq!(kit.processes.kill_all(Duration::ZERO), 0);
    let outcome = bash(&kit, "echo hi").await;
    assert_eq!(outcome.output, "[milk is exiting: no command starts any more]");
}

/// What the next case kills: runs a command until then.
fn hold(tag: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = World::new();
    let command = format!("sleep {tag} & sleep {tag}");
    runtime.block_on(async { bash(&world.kit(), &command).await });
    ExitCode::SUCCESS
}

async fn a_killed_milk_leaves_nothing_behind(_: World) {
    let tag = tag(8);
    let mut milk = Command::new(std::env::current_exe().unwrap())
        .args(["--hold", &tag])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("it runs", || alive(&tag) >= 3).await;
    milk.kill().unwrap();
    milk.wait().unwrap();
    gone(&tag).await;
}

async fn a_killed_supervisor_is_told(world: World) {
    let kit = world.kit();
    let tag = tag(9);
    let start = Instant::now();
    let outcome = bash(&kit, &format!("echo before; sleep {tag} & kill -9 $PPID; sleep {tag}")).await;
    assert!(start.elapsed() < Duration::from_secs(3));
    assert_eq!(outcome.output, "before\n[the process that watched over the command was killed]");
    gone(&tag).await;
    assert_eq!(bash(&kit, "echo next").await.output, "next\n[exit code 0]");
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

async fn floods_stay_small_068(world: World) {
    let kit = world.kit();
    kit.write("line", "x".repeat(3_000_000));
    let before = resident_bytes();
    for (command, head, tail) in [
        ("yes 0123456789 | head -c 300000000", "0123456789\n", "[exit code 0]"),
        ("cat line", "xxxx", "xxxx\n[exit code 0]"),
        ("cat /bin/ls", "\u{FFFD}ELF", "[exit code 0]"),
    ] {
        let live = Arc::new(Mutex::new(0_usize));
        let count = Arc::clone(&live);
        let call = kit.prepare("bash", json!({"command": command})).await.unwrap();
        let output = Arc::new(move |piece: &str| *count.lock().unwrap() += piece.len());
        let outcome = (call.run)(ToolContext { output, ..kit::quiet() }).await;
        let text = outcome.output.replace('\u{7f}', "\u{FFFD}");
        assert!(text.starts_with(head) && text.ends_with(tail), "{command}");
        assert!(text.contains("bytes left out"), "{command}");
        assert!(text.len() < kit::RESULT_LIMIT + 200, "{command}: {}", text.len());
        assert!(*live.lock().unwrap() < 1 << 20, "{command}");
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "grew by {grown} bytes");
}

async fn output_that_is_no_text_069(world: World) {
    let kit = world.kit();
    let outcome = bash(&kit, "printf '\\377\\376A\\360B'").await;
    assert_eq!(outcome.output, "\u{FFFD}\u{FFFD}A\u{FFFD}B\n[exit code 0]");
    let outcome = bash(&kit, "touch \"$(printf 'caf\\351')\"; ls; printf '\\0'").await;
    assert_eq!(outcome.output, "caf\u{FFFD}\n\u{FFFD}\n[exit code 0]");
}

async fn characters_split_over_reads_stay_whole(world: World) {
    let kit = world.kit();
    let shown = Arc::new(Mutex::new(String::new()));
    let to = Arc::clone(&shown);
    let call = kit
        .prepare("bash", json!({"command": "printf 'a\\346\\274'; sleep 0.2; printf '\\242b'"}))
        .await
        .unwrap();
    let output = Arc::new(move |piece: &str| to.lock().unwrap().push_str(piece));
    let outcome = (call.run)(ToolContext { output, ..kit::quiet() }).await;
    assert_eq!(outcome.output, "a漢b\n[exit code 0]");
    assert_eq!(*shown.lock().unwrap(), "a漢b");
}

async fn keys_are_not_handed_on_081(world: World) {
    // This test's own environment has these from Cargo; the first plays the key.
    let (key, other) = ("CARGO_PKG_NAME", "CARGO_PKG_VERSION");
    let value = std::env::var(key).unwrap();
    let kit = world.kit_with(|env| env.secret_env = vec![key.to_owned()]);
    for command in ["env", "cat /proc/$PPID/environ | tr '\\0' '\\n'"] {
        let outcome = bash(&kit, command).await;
        let has = |name: &str| outcome.output.lines().any(|line| line.starts_with(&format!("{name}=")));
        assert!(!has(key) && !outcome.output.contains(&format!("={value}\n")), "{}", outcome.output);
        assert!(has("PATH") && has("HOME") && has(other), "{}", outcome.output);
    }
    let outcome = bash(&kit, "echo $PAGER $GIT_TERMINAL_PROMPT $EDITOR").await;
    assert_eq!(outcome.output, "cat 0 false\n[exit code 0]");
}

async fn a_folder_that_is_gone_is_told(world: World) {
    let kit = world.kit();
    std::fs::remove_dir(&kit.root).unwrap();
    let outcome = bash(&kit, "pwd").await;
    assert!(outcome.output.contains("does not exist"), "{}", outcome.output);
    assert_eq!(outcome.status, ToolStatus::Failed);
}

async fn many_at_once(world: World) {
    let kit = Arc::new(world.kit());
    let calls = (0..20).map(|n| {
        let kit = Arc::clone(&kit);
        tokio::spawn(async move {
            let outcome = bash(&kit, &format!("echo {n}; sleep 0.1")).await;
            assert_eq!(outcome.output, format!("{n}\n[exit code 0]"));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    until("they are forgotten", || kit.processes.count() == 0).await;
}

async fn the_next_command_works_after_each_fault(world: World) {
    let kit = world.kit();
    for fault in
        ["exit 1", "kill -9 $$", "cat /bin/ls", "exec 1>&- 2>&-", "sleep 5", ")", "ulimit -f 0; echo x > f"]
    {
        bash_for(&kit, fault, 1).await;
        assert_eq!(bash(&kit, "echo next").await.output, "next\n[exit code 0]", "after {fault}");
    }
}
