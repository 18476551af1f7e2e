//! Everything that can be cancelled, and what is left after it: R12, R20; cases 034 to 044.

use std::time::{Duration, Instant};

use milk_testkit::client::RequestId;
use milk_testkit::fault::{open_files, threads, wait_alive, wait_gone};
use milk_testkit::{Answer, Gate, Matcher, Policy, RecordedRequest, Reply, TestHome};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{
    Rig, SOON, Setup, answered, answers, asked, assert_has, assert_lacks, cancel, ended, notification,
    prompt, refused, story, updates_of, within,
};

/// Stalls for prompts that say so, and answers all others.
fn stalling(request: &RecordedRequest) -> Reply {
    if asked(request).contains("stall") {
        Reply::stream().role().say("NEVER-FINISHED").hang()
    } else {
        Reply::text("ok")
    }
}

fn bash(command: impl Into<String>) -> Reply {
    let command: String = command.into();
    Reply::tool("bash", json!({ "command": command }))
}

/// A command that a process list tells from all others: it sleeps far longer than any test.
fn sleep_with(marker: &str) -> String {
    format!("sleep 600 & sh -c 'sleep 600; : {marker}'; wait")
}

fn marker_of(home: &TestHome) -> String {
    format!("{}-marker", home.root().file_name().unwrap().to_string_lossy())
}

/// Cancels a session and waits for the response to its prompt.
async fn cancelled(rig: &Rig, session: &str, id: &RequestId) -> Result<Value, Value> {
    let began = Instant::now();
    rig.agent.cancel(session);
    let response = rig.agent.response(id).await;
    within(began.elapsed(), SOON, "a cancel");
    response
}

/// Asserts that a prompt ended as a cancelled one: a response that is no error, and the true reason.
#[track_caller]
fn assert_cancelled(rig: &Rig, session: &str, response: &Result<Value, Value>) {
    let result = response.as_ref().unwrap_or_else(|error| panic!("R12: a normal response, not {error}"));
    let transcript = rig.agent.transcript();
    if transcript.version() == 1 {
        assert_eq!(result["stopReason"], "cancelled");
        return;
    }
    let last = updates_of(&transcript, session, "state_update").pop().unwrap().clone();
    assert_eq!((&last["state"], &last["stopReason"]), (&json!("idle"), &json!("cancelled")), "{last}");
}

// ---- races with the prompt

/// Case 036: the cancel in the very next line works, a hundred times.
#[tokio::test]
async fn a_cancel_written_with_its_prompt_cancels_it() {
    // Late enough that nothing of an answer is there when the cancel is read.
    let late = |request: &RecordedRequest| match asked(request).as_str() {
        "go on" => Reply::text("ok"),
        _ => Reply::text("NEVER-SHOWN").delayed(Duration::from_millis(300)),
    };
    let rig = Setup::respond(late).start().await;
    let session = rig.session().await;
    let mark = rig.mark();
    for round in 0..100 {
        let line = prompt(round, &session, &format!("stall {round}")) + &cancel(&session);
        rig.agent.send_bytes(line.as_bytes());
        rig.agent.response(round).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    rig.agent.sync().await;
    let lines = rig.since(mark);
    let idles = updates_of(&lines, &session, "state_update");
    let idles: Vec<&&Value> = idles.iter().filter(|update| update["state"] == "idle").collect();
    assert_eq!(idles.len(), 100);
    assert!(idles.iter().all(|idle| idle["stopReason"] == "cancelled"), "{idles:#?}");
    answered(&rig.agent.turn(&session, "go on").await, "ok");
    let last = rig.server.request(rig.server.count() - 1).await;
    let from_model = json!(last.with_role("assistant")).to_string();
    assert_lacks(&from_model, "NEVER-SHOWN");
}

/// The same in v1, where the reason is in the result.
#[tokio::test]
async fn a_cancel_written_with_its_prompt_cancels_it_in_v1() {
    let rig = Setup::respond(stalling).v1().start().await;
    let session = rig.session().await;
    for round in 0..30 {
        let line = prompt(round, &session, "stall") + &cancel(&session);
        rig.agent.send_bytes(line.as_bytes());
        assert_eq!(rig.agent.response(round).await.unwrap()["stopReason"], "cancelled");
    }
    answered(&rig.agent.turn(&session, "go on").await, "ok");
}

/// R12: the running one and those that arrived before the cancel, none that arrived after it.
#[tokio::test]
async fn a_cancel_covers_what_arrived_before_it_and_nothing_else() {
    for version in [1, 2] {
        let rig = Setup::respond(stalling).version(version).start().await;
        let session = rig.session().await;
        let mark = rig.mark();
        let lines = [
            prompt(1, &session, "stall"),
            prompt(2, &session, "waits"),
            prompt(3, &session, "waits too"),
            cancel(&session),
            prompt(4, &session, "after it"),
        ];
        rig.agent.send_bytes(lines.concat().as_bytes());
        let first = rig.agent.response(1).await.unwrap();
        for id in [2, 3] {
            let waiting = rig.agent.response(id).await;
            if version == 1 {
                assert_eq!(waiting.unwrap()["stopReason"], "cancelled");
            } else {
                refused(waiting, -32800);
            }
        }
        rig.agent.response(4).await.unwrap();
        rig.agent.sync().await;
        let lines = rig.since(mark);
        assert_has(&lines.agent_text(&session), "ok");
        for text in ["waits", "waits too"] {
            let sent = rig.server.requests().iter().any(|request| request.last_user().ends_with(text));
            assert!(!sent, "{text:?} reached the model");
        }
        if version == 1 {
            assert_eq!(first["stopReason"], "cancelled");
        } else {
            let states = updates_of(&lines, &session, "state_update");
            let reasons: Vec<&Value> = states.iter().filter_map(|state| state.get("stopReason")).collect();
            assert_eq!(reasons, [&json!("cancelled"), &json!("end_turn")], "two turns ran");
        }
    }
}

/// R20: `$/cancel_request` cancels a prompt that waits, and no other.
#[tokio::test]
async fn cancel_request_ends_a_waiting_prompt() {
    for version in [1, 2] {
        let gate = Gate::new();
        let held = gate.clone();
        let rig = Setup::respond(move |request| Reply::text(request.last_user()).held(&held));
        let rig = rig.version(version).start().await;
        let session = rig.session().await;
        let lines = [
            prompt("runs", &session, "first"),
            prompt("waits", &session, "second"),
            prompt("last", &session, "third"),
        ];
        rig.agent.send_bytes(lines.concat().as_bytes());
        gate.reached().await;
        let line = notification("$/cancel_request", json!({"requestId": "waits"}));
        rig.agent.send_bytes(line.as_bytes());
        let waiting = rig.agent.response("waits").await;
        if version == 1 {
            assert_eq!(waiting.unwrap()["stopReason"], "cancelled");
        } else {
            refused(waiting, -32800);
        }
        gate.open();
        rig.agent.response("runs").await.unwrap();
        rig.agent.response("last").await.unwrap();
        let text = rig.agent.transcript().agent_text(&session);
        assert!(text.contains("first") && text.contains("third") && !text.contains("second"), "{text}");
    }
}

/// R20: `$/cancel_request` cancels the prompt that runs; the next one runs then.
#[tokio::test]
async fn cancel_request_ends_the_running_prompt() {
    for version in [1, 2] {
        let rig = Setup::respond(stalling).version(version).start().await;
        let session = rig.session().await;
        let mark = rig.mark();
        // An id of each kind: it is matched by value.
        let lines = [prompt(7, &session, "stall"), prompt("8", &session, "go on")];
        rig.agent.send_bytes(lines.concat().as_bytes());
        rig.agent.expect_update(&session, "agent_message_chunk").await;
        let wrong =
            [json!({"requestId": 70}), json!({"requestId": null}), json!({}), json!({"requestId": {}})];
        for params in wrong {
            rig.agent.notify("$/cancel_request", params);
        }
        rig.agent.sync().await;
        let lines = rig.since(mark);
        assert_eq!(lines.find(0, &Matcher::response(7)), None, "nothing else is cancelled");
        rig.agent.notify("$/cancel_request", json!({"requestId": 7}));
        let running = rig.agent.response(7).await.expect("R12: a normal response");
        if version == 1 {
            assert_eq!(running["stopReason"], "cancelled");
        } else {
            let lines = rig.since(mark);
            lines.assert_order(&[
                Matcher::state("idle").field("/params/update/stopReason", "cancelled"),
                Matcher::response(7),
            ]);
        }
        rig.agent.response("8").await.unwrap();
        assert_has(&rig.since(mark).agent_text(&session), "ok");
    }
}

/// R12: a cancel with nothing to cancel is a no-op, and does not wait for the next prompt.
#[tokio::test]
async fn a_cancel_of_nothing_is_nothing() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    let mark = rig.mark();
    rig.agent.cancel(&session);
    rig.agent.notify("session/cancel", json!({"sessionId": session, "_meta": {"why": "extra"}}));
    rig.agent.sync().await;
    assert_eq!(story(&rig.since(mark)), ["error -32601"], "the answer to the sync alone");
    for round in 0..20 {
        let line = cancel(&session) + &prompt(round, &session, "hello");
        rig.agent.send_bytes(line.as_bytes());
        rig.agent.response(round).await.unwrap();
        assert_eq!(rig.agent.until_idle(&session).await, "end_turn", "round {round}");
    }
}

// ---- what is cancelled

/// Case 043: the model has not sent a byte, or headers only, or part of its text.
#[tokio::test]
async fn a_model_call_ends_wherever_it_is() {
    let replies = || [Reply::silence(), Reply::headers_only(), Reply::stream().role().say("half").hang()];
    for version in [1, 2] {
        let rig = Setup::replies(replies()).version(version).start().await;
        let session = rig.session().await;
        for index in 0..3 {
            let id = rig.agent.prompt(&session, "go");
            rig.server.request(index).await;
            if index == 2 {
                rig.shown(&session, "half").await;
            }
            let response = cancelled(&rig, &session, &id).await;
            assert_cancelled(&rig, &session, &response);
            rig.server.closed(index).await;
        }
        rig.server.push(Reply::text("ok"));
        answered(&rig.agent.turn(&session, "go on").await, "ok");
    }
}

/// R12: a retry that waits is not waited for.
#[tokio::test]
async fn a_wait_for_the_next_try_ends() {
    let rig = Setup::respond(|request| match asked(request).as_str() {
        "busy" => Reply::status(503).header("retry-after", "20"),
        _ => Reply::text("ok"),
    })
    .start()
    .await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "busy");
    rig.server.replied(0).await;
    let response = cancelled(&rig, &session, &id).await;
    assert_cancelled(&rig, &session, &response);
    answered(&rig.agent.turn(&session, "go on").await, "ok");
}

/// Cases 038 and 044; R12: a command ends with its whole tree, and its row says so.
#[tokio::test]
async fn a_running_command_ends_with_its_tree() {
    for version in [1, 2] {
        let home = TestHome::new();
        let marker = marker_of(&home);
        let replies = [bash(sleep_with(&marker)), Reply::text("ok")];
        let rig = Setup::replies(replies).policy(Policy::Allow).version(version).start_in(home).await;
        let session = rig.session().await;
        let id = rig.agent.prompt(&session, "go");
        wait_alive(&marker, SOON).await.expect("the command runs");
        let response = cancelled(&rig, &session, &id).await;
        assert_cancelled(&rig, &session, &response);
        wait_gone(&marker, SOON).await.unwrap_or_else(|left| panic!("left over: {left:?}"));
        let rows = rig.agent.transcript().tool_rows(&session);
        let closed = if version == 1 { "failed" } else { "cancelled" };
        assert_eq!((rows.len(), rows[0].status()), (1, closed), "R12: {rows:#?}");
        assert_eq!(rig.server.count(), 1, "no model call after a cancel");
        let mark = rig.mark();
        rig.agent.sync().await;
        assert_eq!(story(&rig.since(mark)), ["error -32601"], "nothing after it but the answer to the sync");
        rig.assert_usable(&session).await;
    }
}

/// Case 044: several calls of one reply, one of them running, the rest not begun.
#[tokio::test]
async fn every_open_row_is_closed_before_idle() {
    for version in [1, 2] {
        let home = TestHome::new();
        let marker = marker_of(&home);
        let call = |command: String| milk_testkit::ToolCall::new("bash", json!({ "command": command }));
        let calls = [call("echo first".into()), call(sleep_with(&marker)), call("echo third > third".into())];
        let rig = Setup::replies([Reply::tools(calls), Reply::text("ok")]);
        let rig = rig.policy(Policy::Allow).version(version).start_in(home).await;
        let session = rig.session().await;
        let id = rig.agent.prompt(&session, "go");
        wait_alive(&marker, SOON).await.expect("the command runs");
        let response = cancelled(&rig, &session, &id).await;
        assert_cancelled(&rig, &session, &response);
        rig.assert_rows_ended(&session);
        assert!(!rig.home.exists("third"), "what had not begun never runs");
        let late = Matcher::from_agent("a row", |message| {
            message["params"]["update"]["sessionUpdate"]
                .as_str()
                .is_some_and(|kind| kind.starts_with("tool_call"))
        });
        rig.agent.sync().await;
        rig.agent.transcript().assert_none_after(&Matcher::response(&id), &late);
        rig.assert_usable(&session).await;
    }
}

/// What the client does with a question after it has cancelled its turn.
#[derive(Clone, Copy, Debug)]
enum After {
    Nothing,
    Cancelled,
    LateYes,
    Error,
}

/// Case 039
#[tokio::test]
async fn a_cancel_ends_an_open_question() {
    for version in [1, 2] {
        for after in [After::Nothing, After::Cancelled, After::LateYes, After::Error] {
            let rig = Setup::replies([bash("echo out > proof"), Reply::text("ok"), Reply::text("ok")]);
            let rig = rig.version(version).start().await;
            let (session, other) = (rig.session().await, rig.session().await);
            let id = rig.agent.prompt(&session, "go");
            let question = rig.agent.expect_request("session/request_permission").await;
            rig.agent.cancel(&session);
            if matches!(after, After::Cancelled) {
                rig.agent.answer(&question, Answer::cancelled());
            }
            let response = rig.agent.response(&id).await;
            assert_cancelled(&rig, &session, &response);
            match after {
                After::LateYes => rig.agent.select(&question, "allow"),
                After::Error => rig.agent.answer(&question, Answer::error(-32800, "request cancelled")),
                After::Nothing | After::Cancelled => {}
            }
            rig.agent.sync().await;
            let transcript = rig.agent.transcript();
            if !matches!(after, After::Cancelled) {
                // R12: open dialogs are withdrawn.
                let withdrawn =
                    Matcher::method("$/cancel_request").field("/params/requestId", question["id"].clone());
                transcript.assert_order(&[withdrawn, Matcher::response(&id)]);
            }
            for session in [&session, &other] {
                answered(&rig.agent.turn(session, "go on").await, "ok");
            }
            assert!(!rig.home.exists("proof"), "{after:?}: the command ran");
            rig.assert_rows_ended(&session);
            let row = &rig.agent.transcript().tool_rows(&session)[0];
            let closed = if version == 1 { "failed" } else { "cancelled" };
            assert_eq!(row.status(), closed, "R12: the row after {after:?}");
        }
    }
}

/// Case 039: a yes in the very next line after the cancel is too late.
#[tokio::test]
async fn a_yes_after_a_cancel_is_too_late() {
    let rig = Setup::respond(|request| match asked(request).as_str() {
        "go on" => Reply::text("ok"),
        name => bash(format!("echo out > {name}")),
    });
    let rig = rig.start().await;
    let session = rig.session().await;
    for round in 0..30 {
        let id = rig.agent.prompt(&session, &format!("proof{round}"));
        let question = rig.agent.expect_request("session/request_permission").await;
        let yes = json!({"jsonrpc": "2.0", "id": question["id"],
            "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}});
        rig.agent.send_bytes((cancel(&session) + &yes.to_string() + "\n").as_bytes());
        let response = rig.agent.response(&id).await;
        assert_cancelled(&rig, &session, &response);
        answered(&rig.agent.turn(&session, "go on").await, "ok");
        assert!(!rig.home.exists(format!("proof{round}")), "round {round}: the command ran");
    }
    for row in rig.agent.transcript().tool_rows(&session) {
        assert_eq!(row.status(), "cancelled", "R12: {row:#?}");
    }
}

/// Every way to cancel at once is one cancel, and one answer.
#[tokio::test]
async fn cancels_do_not_add_up() {
    let rig = Setup::respond(stalling).start().await;
    let session = rig.session().await;
    for round in 0..20 {
        let lines = [
            prompt(round, &session, "stall"),
            notification("$/cancel_request", json!({"requestId": round})),
            cancel(&session),
            cancel(&session),
            notification("$/cancel_request", json!({"requestId": round})),
        ];
        rig.agent.send_bytes(lines.concat().as_bytes());
        rig.agent.response(round).await.unwrap();
        answered(&rig.agent.turn(&session, "go on").await, "ok");
    }
    for round in 0..20 {
        assert_eq!(answers(&rig.agent.transcript(), &round.into()).len(), 1);
    }
}

/// R20: the same by the id of the prompt.
#[tokio::test]
async fn cancel_request_ends_an_open_question() {
    for version in [1, 2] {
        let rig =
            Setup::replies([bash("echo out > proof"), Reply::text("ok")]).version(version).start().await;
        let session = rig.session().await;
        let id = rig.agent.prompt(&session, "go");
        let question = rig.agent.expect_request("session/request_permission").await;
        rig.agent.notify("$/cancel_request", json!({"requestId": id.as_json()}));
        let response = rig.agent.response(&id).await;
        assert_cancelled(&rig, &session, &response);
        rig.agent.select(&question, "allow");
        answered(&rig.agent.turn(&session, "go on").await, "ok");
        assert!(!rig.home.exists("proof"), "the command ran");
        rig.assert_rows_ended(&session);
    }
}

/// Case 041: between tool calls somebody looks at the cancel.
#[tokio::test]
async fn a_loop_of_tool_calls_stops() {
    let rig = Setup::respond(|request| match asked(request).as_str() {
        "loop" => Reply::tool("list_dir", json!({"path": "."})),
        _ => Reply::text("ok"),
    })
    .root("local_max_tool_iterations", -1)
    .start()
    .await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "loop");
    rig.server.request(5).await;
    let response = cancelled(&rig, &session, &id).await;
    assert_cancelled(&rig, &session, &response);
    let count = rig.server.count();
    answered(&rig.agent.turn(&session, "go on").await, "ok");
    assert_eq!(rig.server.count(), count + 1, "no request of the cancelled turn came after its response");
}

/// Case 040: the session is usable straight after, round after round, and nothing piles up.
#[tokio::test]
async fn cancelled_turns_leave_nothing_behind() {
    let rig = Setup::respond(stalling).start().await;
    let session = rig.session().await;
    let mut after_the_first = None;
    for _ in 0..25 {
        let id = rig.agent.prompt(&session, "stall");
        rig.shown(&session, "NEVER").await;
        let response = cancelled(&rig, &session, &id).await;
        assert_cancelled(&rig, &session, &response);
        answered(&rig.agent.turn(&session, "go on").await, "ok");
        after_the_first.get_or_insert((threads(rig.agent.pid()), open_files(rig.agent.pid())));
    }
    let (threads_then, files_then) = after_the_first.unwrap();
    let (threads_now, files_now) = (threads(rig.agent.pid()), open_files(rig.agent.pid()));
    assert!(threads_now <= threads_then.map(|count| count + 4), "threads: {threads_then:?}, {threads_now:?}");
    assert!(files_now <= files_then.map(|count| count + 4), "files: {files_then:?}, {files_now:?}");
}

/// Case 026: a reattached session is cancelled as the running one.
#[tokio::test]
async fn a_session_resumed_while_it_runs_can_be_cancelled() {
    let home = TestHome::new();
    let marker = marker_of(&home);
    let replies = [bash(sleep_with(&marker)), Reply::text("ok")];
    let rig = Setup::replies(replies).policy(Policy::Allow).start_in(home).await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "go");
    wait_alive(&marker, SOON).await.expect("the command runs");
    let params = json!({"sessionId": session, "cwd": rig.home.workspace(), "mcpServers": []});
    rig.agent.request("session/resume", params).await.unwrap();
    let response = cancelled(&rig, &session, &id).await;
    assert_cancelled(&rig, &session, &response);
    wait_gone(&marker, SOON).await.unwrap_or_else(|left| panic!("left over: {left:?}"));
    rig.assert_usable(&session).await;
}

/// R12: what the cancelled turn did is history for the next one, in a form that servers accept.
#[tokio::test]
async fn a_cancelled_turn_is_remembered() {
    let home = TestHome::new();
    let marker = marker_of(&home);
    let replies = [bash(sleep_with(&marker)), Reply::text("ok")];
    let rig = Setup::replies(replies).policy(Policy::Allow).start_in(home).await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "the first wish");
    wait_alive(&marker, SOON).await.expect("the command runs");
    cancelled(&rig, &session, &id).await.unwrap();
    answered(&rig.agent.turn(&session, "the second wish").await, "ok");
    let request = json!(rig.server.request(1).await.messages()).to_string();
    assert_has(&request, "the first wish");
    assert_has(&request, "the second wish");
}

/// R12: a cancel touches its own session only.
#[tokio::test]
async fn a_cancel_leaves_other_sessions_alone() {
    let gate = Gate::new();
    let held = gate.clone();
    let rig = Setup::respond(move |_| Reply::stream().role().say("one ").wait(&held).say("two").end());
    let rig = rig.start().await;
    let sessions = [rig.session().await, rig.session().await];
    let prompts = [rig.agent.prompt(&sessions[0], "a"), rig.agent.prompt(&sessions[1], "b")];
    for session in &sessions {
        rig.agent.sync().await;
        let has_begun = rig.agent.with_transcript(|transcript| !transcript.agent_text(session).is_empty());
        if !has_begun {
            rig.agent.expect_update(session, "agent_message_chunk").await;
        }
    }
    let response = cancelled(&rig, &sessions[0], &prompts[0]).await;
    assert_cancelled(&rig, &sessions[0], &response);
    gate.open();
    rig.agent.response(&prompts[1]).await.unwrap();
    assert_eq!(rig.agent.transcript().agent_text(&sessions[1]), "one two");
}

// ---- close and delete

/// Case 034
#[tokio::test]
async fn close_and_delete_end_a_running_turn() {
    for method in ["session/close", "session/delete"] {
        let home = TestHome::new();
        let marker = marker_of(&home);
        let replies = [bash(sleep_with(&marker)), Reply::text("ok")];
        let rig = Setup::replies(replies).policy(Policy::Allow).start_in(home).await;
        let session = rig.session().await;
        let id = rig.agent.prompt(&session, "go");
        let waiting = rig.agent.prompt(&session, "waits");
        wait_alive(&marker, SOON).await.expect("the command runs");
        let began = Instant::now();
        let close = rig.agent.send_request(method, json!({"sessionId": session}));
        assert_eq!(rig.agent.response(&close).await.unwrap(), json!({}));
        within(began.elapsed(), SOON, method);
        // Before or with the answer: both are there now.
        rig.agent.sync().await;
        let transcript = rig.agent.transcript();
        transcript.assert_order(&[Matcher::response(&id), Matcher::response(&close)]);
        assert_cancelled(&rig, &session, &answer_of(&rig, &id));
        refused(rig.agent.response(&waiting).await, -32800);
        wait_gone(&marker, SOON).await.unwrap_or_else(|left| panic!("left over: {left:?}"));
        rig.assert_rows_ended(&session);

        let second = rig.agent.request("session/close", json!({"sessionId": session})).await;
        assert_eq!(second.unwrap(), json!({}), "closing twice");
        let params = json!({"cwd": rig.home.workspace(), "mcpServers": []});
        let new = rig.agent.request("session/new", params).await.unwrap();
        assert_ne!(new["sessionId"], session.as_str(), "the closed one is not brought back");
        let late = Matcher::from_agent("a line of the closed session", {
            let session = session.clone();
            move |message| message["params"]["sessionId"] == session.as_str()
        });
        rig.agent.transcript().assert_none_after(&Matcher::response(&close), &late);
        rig.assert_usable(new["sessionId"].as_str().unwrap()).await;
        if method == "session/delete" {
            let listed = rig.list(json!({})).await;
            assert!(listed.iter().all(|entry| entry["sessionId"] != session.as_str()), "{listed:?}");
        }
    }
}

/// Case 034: written together with the prompt.
#[tokio::test]
async fn a_close_written_with_its_prompt_ends_it() {
    let rig = Setup::respond(stalling).start().await;
    for round in 0..20 {
        let session = rig.agent.new_session(rig.home.workspace()).await;
        let (id, close) = (format!("prompt {round}"), format!("close {round}"));
        let lines = prompt(id.as_str(), &session, "stall")
            + &crate::support::request(close.as_str(), "session/close", json!({"sessionId": session}));
        rig.agent.send_bytes(lines.as_bytes());
        rig.agent.response(id.as_str()).await.unwrap();
        rig.agent.response(close.as_str()).await.unwrap();
        let order = [Matcher::response(id.as_str()), Matcher::response(close.as_str())];
        rig.agent.transcript().assert_order(&order);
        assert_cancelled(&rig, &session, &answer_of(&rig, &id.as_str().into()));
    }
}

#[track_caller]
fn answer_of(rig: &Rig, id: &RequestId) -> Result<Value, Value> {
    let mut found = answers(&rig.agent.transcript(), id);
    assert_eq!(found.len(), 1, "answers to {id}: {found:?}");
    let mut message = found.remove(0);
    if message.get("error").is_some() { Err(message["error"].take()) } else { Ok(message["result"].take()) }
}

/// Case 034, with a question open.
#[tokio::test]
async fn close_ends_a_turn_that_asks() {
    let rig = Setup::replies([bash("echo out > proof")]).start().await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "go");
    let question = rig.agent.expect_request("session/request_permission").await;
    let close = rig.agent.request("session/close", json!({"sessionId": session})).await;
    assert_eq!(close.unwrap(), json!({}));
    let response = rig.agent.response(&id).await;
    assert_cancelled(&rig, &session, &response);
    rig.agent.select(&question, "allow");
    rig.agent.sync().await;
    assert!(!rig.home.exists("proof"));
    let withdrawn = Matcher::method("$/cancel_request").field("/params/requestId", question["id"].clone());
    rig.agent.transcript().assert_order(&[withdrawn]);
}

// ---- reasons

/// Case 038, R11
#[tokio::test]
async fn the_stop_reason_tells_the_truth() {
    let finish = |reason: &str| Reply::stream().role().say("text").finish(reason).usage(10, 5).done();
    for version in [1, 2] {
        let cases = [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal")];
        let rig = Setup::replies(cases.map(|(reason, _)| finish(reason))).version(version).start().await;
        let session = rig.session().await;
        for (_, reason) in cases {
            let turn = rig.agent.turn(&session, "go").await;
            ended(&turn, reason);
            assert_has(&turn.text, "text");
        }
    }
}

/// Case 038: a cancelled turn reports no usage of zero tokens.
#[tokio::test]
async fn a_cancelled_turn_claims_no_usage() {
    let rig = Setup::respond(stalling).start().await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "stall");
    rig.agent.expect_update(&session, "agent_message_chunk").await;
    cancelled(&rig, &session, &id).await.unwrap();
    let transcript = rig.agent.transcript();
    let idle = updates_of(&transcript, &session, "state_update").pop().unwrap();
    assert!(idle["usage"].is_null(), "{idle}");
}

/// Case 044, its tool time-out: the row ends, the model is told, the turn goes on.
#[tokio::test]
async fn a_timed_out_command_ends_its_row() {
    let home = TestHome::new();
    let marker = marker_of(&home);
    let call = json!({"command": sleep_with(&marker), "timeout_seconds": 1});
    let replies = [Reply::tool("bash", call), Reply::text("ok")];
    let rig = Setup::replies(replies).policy(Policy::Allow).start_in(home).await;
    let session = rig.session().await;
    let turn = rig.agent.turn(&session, "go").await;
    answered(&turn, "ok");
    wait_gone(&marker, SOON + Duration::from_secs(1))
        .await
        .unwrap_or_else(|left| panic!("left over: {left:?}"));
    let row = &rig.agent.transcript().tool_rows(&session)[0];
    assert_eq!(row.status(), "failed");
    assert_has(&rig.results(1).await[0], "timed out");
}
