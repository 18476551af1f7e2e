//! Starts and ends: contract, Launching it; cases 129, 131, 132, 133. No end leaves a process behind.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use milk_testkit::client::Signal;
use milk_testkit::fault::{RefusedPort, wait_alive, wait_gone};
use milk_testkit::{AgentProcess, Policy, Reply, TestHome};
use serde_json::json;

use crate::support::{MILK, Rig, SOON, Setup, answered, asked, serve};

/// What milk is doing when its end comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Streaming,
    RunningACommand,
    Asking,
    WaitingForTheModel,
}

const DOINGS: [Doing; 5] =
    [Doing::Nothing, Doing::Streaming, Doing::RunningACommand, Doing::Asking, Doing::WaitingForTheModel];

/// A command whose processes are found by the environment that they have from this home.
const COMMAND: &str = "echo begun; sleep 600 & sh -c 'sleep 600 | cat' & yes > /dev/null & wait";

/// Starts milk and brings it to where it does this.
async fn busy(doing: Doing) -> Rig {
    let setup = Setup::respond(|request| match asked(request).as_str() {
        "Streaming" => Reply::stream().role().say("half").hang(),
        "RunningACommand" | "Asking" => Reply::tool("bash", json!({"command": COMMAND})),
        "WaitingForTheModel" => Reply::silence(),
        other => Reply::text(other),
    });
    let rig = setup.start().await;
    let session = rig.session().await;
    answered(&rig.agent.turn(&session, "a turn before").await, "a turn before");
    if doing == Doing::RunningACommand {
        rig.agent.set_policy(Policy::Allow);
    }
    if doing != Doing::Nothing {
        rig.agent.prompt(&session, &format!("{doing:?}"));
    }
    match doing {
        Doing::Nothing => {}
        Doing::Streaming => rig.shown(&session, "half").await,
        Doing::RunningACommand => {
            rig.agent.expect(|message| message.to_string().contains(r#""text":"begun"#)).await;
        }
        Doing::Asking => drop(rig.agent.expect_request("session/request_permission").await),
        Doing::WaitingForTheModel => drop(rig.server.request(1).await),
    }
    rig
}

/// Asserts that milk has ended by itself in time, and that nothing of it is left.
async fn assert_ended(rig: &Rig, what: &str) {
    let began = Instant::now();
    let status = rig.agent.wait_exit(SOON).await;
    let crash = status.signal().filter(|signal| ![2, 15].contains(signal));
    assert_eq!(crash, None, "{what}: {status}\n{}", rig.agent.stderr());
    assert_ne!(status.code(), Some(101), "{what}: a panic\n{}", rig.agent.stderr());
    let left = SOON.saturating_sub(began.elapsed()).max(Duration::from_millis(100));
    wait_gone(&rig.home.marker(), left).await.unwrap_or_else(|left| panic!("{what}: left over: {left:?}"));
}

/// Case 129: whatever it does, the end of stdin is its end, and a good one.
#[tokio::test]
async fn it_ends_when_stdin_closes() {
    for doing in DOINGS {
        let rig = busy(doing).await;
        rig.agent.close_stdin();
        assert_ended(&rig, &format!("stdin closed, {doing:?}")).await;
        let status = rig.agent.exit_status().unwrap();
        assert!(status.success(), "{doing:?}: {status}\n{}", rig.agent.stderr());
    }
}

/// Case 131
#[tokio::test]
async fn it_ends_at_sigterm() {
    for doing in DOINGS {
        let rig = busy(doing).await;
        rig.agent.signal(Signal::Terminate);
        assert_ended(&rig, &format!("SIGTERM, {doing:?}")).await;
    }
}

/// Case 131
#[tokio::test]
async fn it_ends_at_sigint() {
    for doing in DOINGS {
        let rig = busy(doing).await;
        rig.agent.signal(Signal::Interrupt);
        assert_ended(&rig, &format!("SIGINT, {doing:?}")).await;
    }
}

/// Case 131: impatience changes nothing.
#[tokio::test]
async fn it_ends_at_several_signals_at_once() {
    let rig = busy(Doing::RunningACommand).await;
    rig.agent.signal(Signal::Terminate);
    rig.agent.signal(Signal::Interrupt);
    rig.agent.signal(Signal::Terminate);
    rig.agent.close_stdin();
    assert_ended(&rig, "several signals").await;
}

/// Case 132: a client that has vanished is the end too, also while nothing is to be said.
#[tokio::test]
async fn it_ends_when_its_reader_goes_away() {
    for doing in DOINGS {
        let rig = busy(doing).await;
        rig.agent.close_stdout();
        assert_ended(&rig, &format!("stdout closed, {doing:?}")).await;
        let stderr = rig.agent.stderr();
        assert!(!stderr.contains("panicked"), "{doing:?}: {stderr}");
    }
}

/// Case 132: both ends gone.
#[tokio::test]
async fn it_ends_when_stdout_and_stderr_go_away() {
    let rig = busy(Doing::RunningACommand).await;
    rig.agent.close_stderr();
    rig.agent.close_stdout();
    assert_ended(&rig, "stdout and stderr closed").await;
}

/// Case 132: stderr alone changes nothing, however much is logged.
#[tokio::test]
async fn a_closed_stderr_changes_nothing() {
    let rig = Setup::echo().env("MILK_LOG", "trace").start_raw(TestHome::new()).await;
    rig.agent.close_stderr();
    rig.agent.initialize(2).await;
    let session = rig.session().await;
    for _ in 0..3 {
        answered(&rig.agent.turn(&session, "hello").await, "you said hello");
    }
    assert!(rig.agent.shutdown().await.success());
}

/// A client that is killed, or kills: no command outlives milk.
#[tokio::test]
async fn a_killed_milk_leaves_no_command_behind() {
    let rig = busy(Doing::RunningACommand).await;
    wait_alive(&rig.home.marker(), SOON).await.expect("it runs");
    rig.agent.signal(Signal::Kill);
    let status = rig.agent.wait_exit(SOON).await;
    assert_eq!(status.signal(), Some(9));
    wait_gone(&rig.home.marker(), SOON).await.unwrap_or_else(|left| panic!("left over: {left:?}"));
}

/// A client that does not read any more cannot keep milk alive.
#[tokio::test]
async fn it_ends_although_nobody_reads() {
    for end in ["stdin", "SIGTERM"] {
        let rig = Setup::respond(|_| Reply::deltas((0..500).map(|_| "x".repeat(64 << 10)))).start().await;
        let session = rig.session().await;
        rig.agent.pause_reading();
        rig.agent.prompt(&session, "flood");
        rig.server.request(0).await;
        if end == "stdin" {
            rig.agent.close_stdin();
        } else {
            rig.agent.signal(Signal::Terminate);
        }
        let status = rig.agent.wait_exit(SOON).await;
        assert_ne!(status.code(), Some(101), "{end}: a panic");
    }
}

/// What was said before stdin closed is still answered.
#[tokio::test]
async fn requests_before_the_end_of_stdin_are_answered() {
    let rig = Setup::echo().start().await;
    for id in 0..20 {
        rig.agent.send_bytes(crate::support::request(id, "session/list", json!({})).as_bytes());
    }
    rig.agent.close_stdin();
    assert!(rig.agent.wait_exit(SOON).await.success());
    for id in 0..20 {
        rig.agent.response(id).await.unwrap();
    }
}

/// Case 133: the handshake needs no model server, no network and no time.
#[tokio::test]
async fn the_handshake_is_instant_and_needs_no_model() {
    let port = RefusedPort::take().unwrap();
    let (mut initialize, mut new) = (Duration::MAX, Duration::MAX);
    // The best of some: what is measured is milk, not what else the machine does.
    for _ in 0..5 {
        let home = TestHome::new();
        let agents = json!([{"name": "gone", "provider": "local", "url": port.url(), "model": "m"},
            {"name": "far", "provider": "openai", "url": "http://192.0.2.1/", "model": "m"}]);
        home.config(&json!({"agent": "gone", "agents": agents, "discovery": false}));
        let began = Instant::now();
        let agent = AgentProcess::start(serve(&home));
        agent.initialize(2).await;
        initialize = initialize.min(began.elapsed());
        let began = Instant::now();
        agent.new_session(home.workspace()).await;
        new = new.min(began.elapsed());
    }
    assert!(initialize < Duration::from_millis(900), "initialize took {initialize:?}");
    assert!(new < Duration::from_secs(3), "session/new took {new:?}");
}

/// Case 133: a start that fails says why on stderr, and nothing on stdout.
#[tokio::test]
async fn a_start_that_fails_says_why() {
    let home = TestHome::new();
    for arguments in [&["serve", "--no-such-flag"][..], &["no-such-command"], &["serve", "--acp", "extra"]] {
        let output = home.run(MILK, arguments, "");
        assert!(!output.status.success(), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

/// Processes that a command puts into a session of their own belong to its tree all the same.
#[tokio::test]
async fn a_command_that_leaves_its_group_ends_with_the_others() {
    let command = "setsid sleep 600 & (setsid sh -c 'sleep 600' &) ; echo begun; wait";
    for end in ["cancel", "stdin"] {
        let replies = [Reply::tool("bash", json!({ "command": command })), Reply::text("ok")];
        let rig = Setup::replies(replies).policy(Policy::Allow).start().await;
        let session = rig.session().await;
        let id = rig.agent.prompt(&session, "go");
        rig.agent.expect(|message| message.to_string().contains(r#""text":"begun"#)).await;
        if end == "cancel" {
            rig.agent.cancel(&session);
            rig.agent.response(&id).await.unwrap();
        }
        rig.agent.close_stdin();
        assert_ended(&rig, end).await;
    }
}
