//! What a turn looks like, and who waits for whom: contract, Example exchange; R6 to R10, R22, R30; cases 014 to 027.

use std::collections::HashSet;
use std::time::Duration;

use milk_testkit::client::{RequestId, Speaker};
use milk_testkit::server::Cut;
use milk_testkit::{Gate, Matcher, Policy, RecordedRequest, Reply, TestHome, ToolCall, Transcript};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Rig, Setup, answered, assert_has, ended, prompt, request, story, updates_of};

// ---- the sequence of a turn

/// A reply that thinks, says something and calls a tool.
fn say_and_call(name: &str, arguments: Value) -> Reply {
    let call = ToolCall::new(name, arguments);
    Reply::stream().role().think("hm").say("Let me look.").call(call).finish("tool_calls").usage(10, 5).done()
}

/// Contract, Example exchange; R8, R10
#[tokio::test]
async fn a_text_turn_in_v2() {
    let rig = Setup::replies([Reply::deltas(["Hel", "lo", "."])]).start().await;
    let session = rig.session().await;
    let mark = rig.mark();
    let turn = rig.agent.turn(&session, "hi").await;
    answered(&turn, "Hello.");
    let lines = rig.since(mark);
    let expected = [
        "user_message",
        "state_update running",
        "_milk/route",
        "agent_message_chunk",
        "state_update idle end_turn",
        "result",
    ];
    assert_eq!(story(&lines), expected);
    let texts = lines.texts(&session);
    assert_eq!(texts.len(), 2, "the echo and one message: {texts:#?}");
    assert_eq!((texts[0].speaker, texts[0].text.as_str()), (Speaker::User, "hi"));
    let response = turn.response.unwrap();
    assert_eq!(response["messageId"].as_str(), texts[0].id.as_deref(), "R8: the id of the user message");
    assert!(response.get("stopReason").is_none(), "v2 has the reason in the update: {response}");
    assert_ne!(texts[1].id, texts[0].id, "R8: the agent's text has an id of its own");
    assert!(texts[1].id.is_some());

    // Contract, Routing and warnings
    let route = lines.from_agent().find(|message| message["method"] == "_milk/route").unwrap();
    assert_eq!(route["params"]["agent"], "test");
    let idle = updates_of(&lines, &session, "state_update").pop().unwrap();
    for field in ["agent", "target", "reason"] {
        let word = &route["params"][field];
        assert!(word.is_string(), "{field} of {route}");
        assert_eq!(&idle["_meta"]["milk/route"][field], word, "{field} of {idle}");
    }
}

/// R2, R8
#[tokio::test]
async fn a_text_turn_in_v1() {
    let rig = Setup::replies([Reply::deltas(["Hel", "lo", "."])]).v1().start().await;
    let session = rig.session().await;
    let mark = rig.mark();
    let turn = rig.agent.turn(&session, "hi").await;
    answered(&turn, "Hello.");
    let lines = rig.since(mark);
    assert_eq!(story(&lines), ["user_message_chunk", "_milk/route", "agent_message_chunk", "result"]);
    let response = turn.response.unwrap();
    assert_eq!(response["stopReason"], "end_turn");
    let texts = lines.texts(&session);
    assert_eq!((texts[0].speaker, texts[0].text.as_str()), (Speaker::User, "hi"));
    assert_eq!(response["messageId"].as_str(), texts[0].id.as_deref(), "R8: {texts:#?}");
}

/// R9: a delta leaves at once, before the next one is made.
#[tokio::test]
async fn text_is_streamed_as_it_is_made() {
    for version in [1, 2] {
        let gates = [Gate::new(), Gate::new()];
        let reply = Reply::stream().role().think("thinking").wait(&gates[0]);
        let reply = reply.say("one ").wait(&gates[1]).say("two").end();
        let rig = Setup::replies([reply]).version(version).start().await;
        let session = rig.session().await;
        let id = rig.agent.prompt(&session, "go");
        let thought = rig.agent.expect_update(&session, "agent_thought_chunk").await;
        assert_eq!(thought["content"]["text"], "thinking");
        gates[0].open();
        let first = rig.agent.expect_update(&session, "agent_message_chunk").await;
        assert_eq!(first["content"]["text"], "one ");
        gates[1].open();
        let second = rig.agent.expect_update(&session, "agent_message_chunk").await;
        assert_eq!(second["content"]["text"], "two");
        assert_eq!(first["messageId"], second["messageId"], "one message");
        assert_ne!(first["messageId"], thought["messageId"], "R8: a thought has an id of its own");
        rig.agent.response(&id).await.unwrap();
    }
}

/// R9: with `acp_streaming: false` a segment is one chunk, the contract's documented shape.
#[tokio::test]
async fn without_streaming_a_segment_is_one_chunk() {
    let first = Reply::stream().role().say("Let me ").say("look.");
    let first = first.call(ToolCall::new("list_dir", json!({"path": "."}))).finish("tool_calls").done();
    let second = Reply::deltas(["Found", " ", "it."]);
    for version in [1, 2] {
        let replies = [first.clone(), second.clone()];
        let rig = Setup::replies(replies).root("acp_streaming", false).version(version).start().await;
        let session = rig.session().await;
        let turn = rig.agent.turn(&session, "go").await;
        ended(&turn, "end_turn");
        let transcript = rig.agent.transcript();
        let chunks = updates_of(&transcript, &session, "agent_message_chunk");
        let texts: Vec<&Value> = chunks.iter().map(|chunk| &chunk["content"]["text"]).collect();
        assert_eq!(texts, [&json!("Let me look."), &json!("Found it.")]);
        assert_ne!(chunks[0]["messageId"], chunks[1]["messageId"], "case 149: two messages");
    }
}

/// Contract, Example exchange; R3, R8, R30; cases 148 and 149
#[tokio::test]
async fn a_tool_turn_in_v2() {
    let replies = [say_and_call("read_file", json!({"path": "a.txt"})), Reply::text("Found it.")];
    let rig = Setup::replies(replies).start().await;
    let path = rig.home.write("a.txt", "the content\n");
    let session = rig.session().await;
    let mark = rig.mark();
    let turn = rig.agent.turn(&session, "read").await;
    ended(&turn, "end_turn");
    let lines = rig.since(mark);
    let expected = [
        "user_message",
        "state_update running",
        "_milk/route",
        "agent_thought_chunk",
        "agent_message_chunk",
        "tool_call_update in_progress",
        "tool_call_update completed",
        "agent_message_chunk",
        "state_update idle end_turn",
        "result",
    ];
    assert_eq!(story(&lines), expected);
    let rows = lines.tool_rows(&session);
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((row.field("name"), row.field("kind")), ("read_file", "read"));
    assert_has(row.title(), "a.txt");
    assert_eq!(row.fields["rawInput"], json!({"path": "a.txt"}));
    assert_eq!(row.fields["locations"][0]["path"], path.display().to_string(), "an absolute path");
    assert_has(&row.fields["rawOutput"].to_string(), "the content");
    let first = updates_of(&lines, &session, "tool_call_update")[0];
    for field in ["name", "title", "kind", "status", "rawInput"] {
        assert!(first.get(field).is_some(), "the first row has {field}: {first}");
    }
    assert_has(&rig.results(1).await[0], "the content");

    // R8: an id for the user, one for each thought and each text of each model response.
    let ids: Vec<Option<String>> = lines.texts(&session).into_iter().map(|message| message.id).collect();
    assert_eq!(ids.len(), 4, "user, thought, text, text: {ids:?}");
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4, "ids are apart: {ids:?}");
}

/// R2, R30
#[tokio::test]
async fn a_tool_turn_in_v1() {
    let replies = [say_and_call("read_file", json!({"path": "a.txt"})), Reply::text("Found it.")];
    let rig = Setup::replies(replies).v1().start().await;
    rig.home.write("a.txt", "the content\n");
    let session = rig.session().await;
    let (turn, story) = rig.story_of_turn(&session, "read").await;
    ended(&turn, "end_turn");
    let expected = [
        "user_message_chunk",
        "_milk/route",
        "agent_thought_chunk",
        "agent_message_chunk",
        "tool_call in_progress",
        "tool_call_update completed",
        "agent_message_chunk",
        "result",
    ];
    assert_eq!(story, expected);
    let row = &rig.agent.transcript().tool_rows(&session)[0];
    assert!(row.fields["rawOutput"].is_object(), "R2: {row:#?}");
    assert_has(&row.text(), "the content");
    assert_has(row.title(), "a.txt");
}

/// The parts of a question's turn up to the answer, in no promised order.
fn sorted(labels: &[String]) -> Vec<&str> {
    let mut labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    labels.sort_unstable();
    labels
}

/// Contract, Tool permissions; R10, R28, R30
#[tokio::test]
async fn a_turn_with_a_question_in_v2() {
    let call = Reply::tool("bash", json!({"command": "echo out > proof"}));
    let rig = Setup::replies([call, Reply::text("done")]).start().await;
    let session = rig.session().await;
    let mark = rig.mark();
    let id = rig.agent.prompt(&session, "go");
    let (mut is_asked, mut is_told) = (false, false);
    rig.agent
        .expect(|message| {
            is_asked |= message["method"] == "session/request_permission";
            is_told |= message["params"]["update"]["state"] == "requires_action";
            is_asked && is_told
        })
        .await;
    rig.agent.sync().await;
    let asked = rig.since(mark);
    let told = story(&asked);
    let begin = ["user_message", "state_update running", "_milk/route", "tool_call_update pending"];
    assert_eq!(told[..4], begin);
    let waiting = ["error -32601", "session/request_permission", "state_update requires_action"];
    assert_eq!(sorted(&told[4..]), waiting, "and the answer to the sync");
    assert!(!rig.home.exists("proof"), "nothing runs before the answer");

    let question = rig.agent.held().pop().unwrap();
    let params = &question["params"];
    let row = &asked.tool_rows(&session)[0];
    assert_eq!(params["sessionId"], session.as_str());
    assert_eq!(params["title"], "Allow bash?");
    assert_has(params["description"].as_str().unwrap_or_default(), "echo out > proof");
    assert_eq!(params["subject"]["type"], "tool_call");
    assert_eq!(params["subject"]["toolCall"]["toolCallId"], row.id.as_str());
    let options = params["options"].as_array().unwrap().iter();
    let options: Vec<(&Value, &Value)> =
        options.map(|option| (&option["optionId"], &option["kind"])).collect();
    let expected = [("allow", "allow_once"), ("allow_always", "allow_always"), ("deny", "reject_once")];
    let expected = expected.map(|(id, kind)| (json!(id), json!(kind)));
    for (id, kind) in &expected {
        assert!(options.contains(&(id, kind)), "R28: {id} of {kind} in {options:?}");
    }
    assert_eq!(options.len(), 3);

    let mark = rig.mark();
    rig.agent.select(&question, "allow");
    rig.agent.response(&id).await.unwrap();
    let told = story(&rig.since(mark));
    assert_eq!(sorted(&told[..2]), ["state_update running", "tool_call_update in_progress"]);
    let expected =
        ["tool_call_update completed", "agent_message_chunk", "state_update idle end_turn", "result"];
    let rest: Vec<&String> = told[2..].iter().filter(|label| *label != "tool_call_content_chunk").collect();
    assert_eq!(rest, expected);
    assert!(rig.home.exists("proof"));
}

/// R2, R28, R30
#[tokio::test]
async fn a_turn_with_a_question_in_v1() {
    let call = Reply::tool("bash", json!({"command": "echo out > proof"}));
    let rig = Setup::replies([call, Reply::text("done")]).v1().start().await;
    let session = rig.session().await;
    let mark = rig.mark();
    let id = rig.agent.prompt(&session, "go");
    let question = rig.agent.expect_request("session/request_permission").await;
    rig.agent.sync().await;
    let told = story(&rig.since(mark));
    let expected = [
        "user_message_chunk",
        "_milk/route",
        "tool_call pending",
        "session/request_permission",
        "error -32601",
    ];
    assert_eq!(told, expected, "and the answer to the sync");
    let call = &question["params"]["toolCall"];
    assert_eq!(call["toolCallId"], rig.agent.transcript().tool_rows(&session)[0].id.as_str());
    assert_has(call["title"].as_str().unwrap_or_default(), "bash");
    assert!(!rig.home.exists("proof"), "nothing runs before the answer");
    let mark = rig.mark();
    rig.agent.select(&question, "allow");
    rig.agent.response(&id).await.unwrap();
    let told = story(&rig.since(mark));
    let statuses = ["tool_call_update in_progress", "tool_call_update completed"];
    let told: Vec<&str> =
        told.iter().map(String::as_str).filter(|label| *label != "tool_call_update").collect();
    assert_eq!(told, [statuses[0], statuses[1], "agent_message_chunk", "result"]);
}

/// R30: a running command streams its output, in each version's shape.
#[tokio::test]
async fn a_running_command_streams_its_output() {
    for version in [1, 2] {
        let call = Reply::tool("bash", json!({"command": "echo first; read gate < gate; echo second"}));
        let rig =
            Setup::replies([call, Reply::text("done")]).policy(Policy::Allow).version(version).start().await;
        let fifo = rig.home.workspace().join("gate");
        assert!(rig.home.run("/usr/bin/env", &["mkfifo", "gate"], "").status.success());
        let session = rig.session().await;
        let id = rig.agent.prompt(&session, "go");
        // The output is there while the command runs: it waits for the gate, which only this test opens.
        rig.agent
            .expect(|message| {
                let update = &message["params"]["update"];
                update["status"] != "completed" && update["content"].to_string().contains("first")
            })
            .await;
        std::fs::write(&fifo, "go\n").unwrap();
        rig.agent.response(&id).await.unwrap();
        let row = &rig.agent.transcript().tool_rows(&session)[0];
        assert_eq!(row.status(), "completed");
        assert_eq!(row.text().matches("first").count(), 1, "v{version}: shown once: {row:#?}");
        assert_eq!(row.text().matches("second").count(), 1, "v{version}: shown once: {row:#?}");
        let chunks = Matcher::update("tool_call_content_chunk");
        assert_eq!(rig.agent.transcript().count(&chunks) > 0, version == 2, "the shape of v{version}");
    }
}

// ---- ids

/// R8: no id is ever used for two messages, in no session of the process.
#[tokio::test]
async fn message_ids_are_never_used_twice() {
    let rig = Setup::respond(|_| Reply::stream().role().think("hm").say("text").end()).start().await;
    let sessions = [rig.session().await, rig.session().await];
    let mut seen = HashSet::new();
    for session in sessions.iter().cycle().take(6) {
        let mark = rig.mark();
        let turn = rig.agent.turn(session, "again").await;
        ended(&turn, "end_turn");
        for message in rig.since(mark).texts(session) {
            let id = message.id.unwrap();
            assert!(!id.starts_with("hist-"), "a live id: {id}");
            assert!(seen.insert(id.clone()), "{id} was used before");
        }
    }
    assert_eq!(seen.len(), 18, "user, thought and text of six turns");
}

// ---- the response: held or early

/// R6: held until the turn has ended.
#[tokio::test]
async fn the_response_is_held_until_the_turn_has_ended() {
    for version in [1, 2] {
        let gate = Gate::new();
        let reply = Reply::stream().role().say("one").wait(&gate).say(" two").end();
        // What the config asks for here is v2's: v1's response has the stop reason and cannot come before it.
        let asked = if version == 1 { "accepted" } else { "held" };
        let setup = Setup::replies([reply]).root("acp_prompt_response", asked).version(version);
        let rig = setup.start().await;
        let session = rig.session().await;
        let mark = rig.mark();
        let id = rig.agent.prompt(&session, "go");
        rig.agent.expect_update(&session, "agent_message_chunk").await;
        rig.agent.sync().await;
        assert_eq!(rig.since(mark).find(0, &Matcher::response(&id)), None, "v{version}: held");
        gate.open();
        rig.agent.response(&id).await.unwrap();
        let late = Matcher::from_agent("an update", |message| message["method"] == "session/update");
        rig.agent.sync().await;
        rig.agent.transcript().assert_none_after(&Matcher::response(&id), &late);
    }
}

/// R6: a client that wants upstream's early answer asks for it, in `initialize` or in the config.
#[tokio::test]
async fn an_early_response_comes_before_the_work() {
    let asked_for = |reply: Reply, how: &str| match how {
        "meta" => Setup::replies([reply]).meta(json!({"milk": {"promptResponse": "accepted"}})),
        _ => Setup::replies([reply]).root("acp_prompt_response", "accepted"),
    };
    for how in ["meta", "config"] {
        let gate = Gate::new();
        let rig = asked_for(Reply::stream().role().wait(&gate).say("text").end(), how).start().await;
        let session = rig.session().await;
        let mark = rig.mark();
        let id = rig.agent.prompt(&session, "go");
        // The model has said nothing yet.
        let response = rig.agent.response(&id).await.unwrap();
        gate.open();
        assert_eq!(rig.agent.until_idle(&session).await, "end_turn");
        rig.agent.sync().await;
        let lines = rig.since(mark);
        assert_eq!(response["messageId"].as_str(), lines.texts(&session)[0].id.as_deref(), "{how}: R8");
        assert_eq!(lines.count(&Matcher::response(&id)), 1);
        lines.assert_order(&[Matcher::response(&id), Matcher::update("agent_message_chunk")]);
        lines.assert_order(&[Matcher::state("running"), Matcher::state("idle")]);
    }
}

/// R11: where the response was early, the error is in the idle update alone.
#[tokio::test]
async fn a_failure_after_an_early_response_is_in_the_idle_update() {
    let setup = Setup::replies([Reply::status(401)]).root("acp_prompt_response", "accepted");
    let rig = setup.start().await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "go");
    rig.agent.response(&id).await.unwrap();
    assert_eq!(rig.agent.until_idle(&session).await, "error");
    rig.agent.sync().await;
    let transcript = rig.agent.transcript();
    assert_eq!(transcript.count(&Matcher::response(&id)), 1, "one answer for one request");
    let idle = updates_of(&transcript, &session, "state_update").pop().unwrap();
    assert!(idle["error"]["message"].is_string(), "R11: {idle}");
}

// ---- order

/// The blocks of `running` to `idle` must not overlap.
#[track_caller]
fn assert_turns_apart(transcript: &Transcript, session: &str, turns: usize) {
    let states = updates_of(transcript, session, "state_update");
    let states: Vec<&str> = states.iter().filter_map(|update| update["state"].as_str()).collect();
    let expected: Vec<&str> = (0..turns).flat_map(|_| ["running", "idle"]).collect();
    assert_eq!(states, expected);
}

/// Case 027, R7
#[tokio::test]
async fn prompts_of_one_session_run_one_after_another() {
    let gate = Gate::new();
    let replies =
        [Reply::text("answer one").held(&gate), Reply::text("answer two"), Reply::text("answer three")];
    let rig = Setup::replies(replies).start().await;
    let session = rig.session().await;
    let mark = rig.mark();
    let lines = [prompt(1, &session, "one"), prompt(2, &session, "two"), prompt(3, &session, "three")];
    rig.agent.send_bytes(lines.concat().as_bytes());
    gate.reached().await;
    rig.agent.sync().await;
    assert_eq!(rig.server.count(), 1, "the others wait");
    gate.open();
    for id in [1, 2, 3] {
        rig.agent.response(id).await.unwrap();
    }
    let lines = rig.since(mark);
    assert_turns_apart(&lines, &session, 3);
    let echo = |text: &'static str| {
        Matcher::update("user_message")
            .and(text, move |message| message["params"]["update"]["content"].to_string().contains(text))
    };
    // The echo comes when its turn begins.
    lines.assert_order(&[
        echo("one"),
        Matcher::state("running"),
        Matcher::state("idle"),
        Matcher::response(1),
        echo("two"),
        Matcher::state("running"),
        Matcher::state("idle"),
        Matcher::response(2),
        echo("three"),
        Matcher::state("running"),
        Matcher::state("idle"),
        Matcher::response(3),
    ]);
    let second = rig.server.request(1).await;
    assert_has(&json!(second.messages()).to_string(), "answer one");
    assert_eq!(second.last_user().lines().last(), Some("two"));
    let third = json!(rig.server.request(2).await.messages()).to_string();
    assert_has(&third, "answer two");
}

/// Case 014, R22
#[tokio::test]
async fn nothing_names_a_session_before_its_response() {
    let rig = Setup::echo().start().await;
    let cwd = rig.home.workspace();
    let lines = (0..40).map(|id| {
        request(id, "session/new", json!({"cwd": cwd, "mcpServers": [], "_meta": {"milk": {"fresh": true}}}))
    });
    rig.agent.send_bytes(lines.collect::<String>().as_bytes());
    let mut sessions = Vec::new();
    for id in 0..40 {
        let result = rig.agent.response(id).await.unwrap();
        sessions.push((id, result["sessionId"].as_str().unwrap().to_owned()));
    }
    for (_, session) in &sessions {
        let is_its = |message: &Value| {
            message["params"]["sessionId"] == session.as_str()
                && message["params"]["update"]["sessionUpdate"] == "available_commands_update"
        };
        let there = rig.agent.with_transcript(|transcript| transcript.from_agent().any(is_its));
        if !there {
            rig.agent.expect(is_its).await;
        }
    }
    rig.agent.sync().await;
    let transcript = rig.agent.transcript();
    for (id, session) in &sessions {
        let names = session.clone();
        let naming =
            Matcher::from_agent("a line that names it", move |message| message.to_string().contains(&names));
        let first = transcript.find(0, &naming);
        assert_eq!(
            first,
            transcript.find(0, &Matcher::response(*id)),
            "the response is the first to name {session}"
        );
        let commands = updates_of(&transcript, session, "available_commands_update");
        assert_eq!(commands.len(), 1, "exactly one list of commands for {session}");
    }
    let ids: HashSet<&String> = sessions.iter().map(|(_, session)| session).collect();
    assert_eq!(ids.len(), 40, "R24: no two share a session");
}

/// R22: what is not a response waits 100 ms, or until the client first names the session.
#[tokio::test]
async fn a_new_session_is_quiet_until_the_client_knows_it() {
    let rig = Setup::echo().start().await;
    let mut longest = Duration::ZERO;
    // A stalled test thread can only make the gap look shorter, so one round that shows it is enough.
    for _ in 0..5 {
        let mark = rig.mark();
        let session = rig.session().await;
        let lines = rig.since(mark);
        let response =
            lines.entries.iter().position(|entry| entry.json["result"]["sessionId"] == session.as_str());
        let commands = lines.find(0, &Matcher::update("available_commands_update").session(&session));
        let (response, commands) = (response.unwrap(), commands.unwrap());
        assert!(response < commands);
        longest = longest.max(lines.entries[commands].at - lines.entries[response].at);
    }
    assert!(longest >= Duration::from_millis(90), "the longest gap was {longest:?}");
}

/// R22
#[tokio::test]
async fn naming_the_session_ends_the_quiet() {
    for version in [1, 2] {
        let rig = Setup::echo().version(version).start().await;
        for _ in 0..5 {
            let mark = rig.mark();
            let session = rig.agent.new_session(rig.home.workspace()).await;
            for text in ["one", "two"] {
                answered(&rig.agent.turn(&session, text).await, &format!("you said {text}"));
            }
            rig.agent.sync().await;
            let lines = rig.since(mark);
            let commands = Matcher::update("available_commands_update").session(&session);
            assert_eq!(lines.count(&commands), 1);
            let echo = if version == 1 { "user_message_chunk" } else { "user_message" };
            lines.assert_order(&[commands, Matcher::update(echo)]);
        }
    }
}

/// Case 015
#[tokio::test]
async fn nothing_of_a_turn_comes_after_its_response() {
    let rig = Setup::respond(|request: &RecordedRequest| {
        if request.messages().last().is_some_and(|message| message["role"] == "tool") {
            return Reply::deltas((0..200).map(|n| format!("w{n} "))).cut(Cut::Burst);
        }
        Reply::tool("list_dir", json!({"path": "."})).cut(Cut::Burst)
    })
    .start()
    .await;
    let session = rig.session().await;
    let whole: String = (0..200).map(|n| format!("w{n} ")).collect();
    let mark = rig.mark();
    let mut ids: Vec<RequestId> = Vec::new();
    for _ in 0..25 {
        let turn = rig.agent.turn(&session, "go").await;
        answered(&turn, &whole);
        ids.push(turn.id);
    }
    rig.agent.sync().await;
    let told = story(&rig.since(mark));
    let turn = [
        "user_message",
        "state_update running",
        "_milk/route",
        "tool_call_update in_progress",
        "tool_call_update completed",
        "agent_message_chunk",
        "state_update idle end_turn",
        "result",
    ];
    let mut expected: Vec<&str> = turn.iter().copied().cycle().take(25 * turn.len()).collect();
    expected.push("error -32601");
    assert_eq!(told, expected);
}

// ---- sessions side by side

/// Case 023
#[tokio::test]
async fn each_session_has_the_settings_of_its_folder() {
    let rig = Setup::respond(|request| Reply::text(request.model())).start().await;
    let folders = [("A", "mA"), ("B", "mB")].map(|(name, model)| {
        let folder = rig.home.another_workspace(name);
        let config = json!({"agents": [{"name": "test", "model": model}]});
        std::fs::create_dir(folder.join(".milk")).unwrap();
        std::fs::write(folder.join(".milk/config.json"), config.to_string()).unwrap();
        (folder, model)
    });
    for round in 0..20 {
        let ids = ["a", "b"].map(|name| format!("{name}{round}"));
        let lines = ids.iter().zip(&folders).map(|(id, (folder, _))| {
            let params = json!({"cwd": folder, "mcpServers": [], "_meta": {"milk": {"fresh": true}}});
            request(id.as_str(), "session/new", params)
        });
        rig.agent.send_bytes(lines.collect::<String>().as_bytes());
        for (id, (_, model)) in ids.iter().zip(&folders) {
            let session = rig.agent.response(id.as_str()).await.unwrap();
            let session = session["sessionId"].as_str().unwrap().to_owned();
            answered(&rig.agent.turn(&session, "which model are you").await, model);
        }
    }
}

fn write_file(path: &str) -> Reply {
    Reply::tool("write_file", json!({"path": path, "content": "written"}))
}

/// Writes the file that the prompt names, when it begins with `write`.
fn writer(request: &RecordedRequest) -> Reply {
    let prompt = request.last_user();
    let is_result = request.messages().last().is_some_and(|message| message["role"] == "tool");
    match prompt.rsplit_once("write ") {
        Some((_, path)) if !is_result => write_file(path),
        _ => Reply::text("fine"),
    }
}

/// Case 024
#[tokio::test]
async fn a_question_in_one_session_stalls_no_other() {
    let rig = Setup::respond(writer).start().await;
    let first = rig.session().await;
    let waiting = rig.agent.prompt(&first, "write a.txt");
    let question = rig.agent.expect_request("session/request_permission").await;
    rig.agent.request("session/list", json!({})).await.unwrap();
    let second = rig.agent.new_session(rig.home.workspace()).await;
    answered(&rig.agent.turn(&second, "hello").await, "fine");
    rig.agent.request("session/close", json!({"sessionId": second})).await.unwrap();
    let other = rig.agent.new_session(rig.home.another_workspace("other")).await;
    answered(&rig.agent.turn(&other, "hello").await, "fine");
    rig.agent.select(&question, "allow");
    rig.agent.response(&waiting).await.unwrap();
    assert_eq!(rig.home.read("a.txt"), "written");
    rig.assert_usable(&first).await;
}

/// Case 025
#[tokio::test]
async fn questions_of_two_sessions_keep_their_own_ids() {
    let rig = Setup::respond(writer).start().await;
    let sessions = [rig.session().await, rig.session().await];
    let prompts =
        [rig.agent.prompt(&sessions[0], "write a.txt"), rig.agent.prompt(&sessions[1], "write b.txt")];
    let mut questions = [
        rig.agent.expect_request("session/request_permission").await,
        rig.agent.expect_request("session/request_permission").await,
    ];
    questions.sort_by_key(|question| question["params"]["sessionId"] != sessions[0].as_str());
    for ((session, question), path) in sessions.iter().zip(&questions).zip(["a.txt", "b.txt"]) {
        assert_eq!(question["params"]["sessionId"], session.as_str());
        let rows = rig.agent.transcript().tool_rows(session);
        assert_eq!(question["params"]["subject"]["toolCall"]["toolCallId"], rows[0].id.as_str());
        assert_has(rows[0].title(), path);
    }
    rig.agent.select(&questions[1], "allow");
    rig.agent.select(&questions[0], "deny");
    for id in &prompts {
        rig.agent.response(id).await.unwrap();
    }
    assert!(rig.home.exists("b.txt"));
    assert!(!rig.home.exists("a.txt"));
}

/// Several sessions at once, none blocked by another: all are at the model before any is answered.
#[tokio::test]
async fn sessions_run_at_the_same_time() {
    let gate = Gate::new();
    let held = gate.clone();
    let rig = Setup::respond(move |request| Reply::text(request.last_user()).held(&held)).start().await;
    let mut prompts = Vec::new();
    for number in 0..10 {
        let session = rig.agent.new_session(rig.home.workspace()).await;
        prompts.push((rig.agent.prompt(&session, &format!("number {number}")), session));
    }
    for index in 0..10 {
        rig.server.request(index).await;
    }
    gate.open();
    for (number, (id, session)) in prompts.iter().enumerate() {
        rig.agent.response(id).await.unwrap();
        assert_has(&rig.agent.transcript().agent_text(session), &format!("number {number}"));
    }
}

/// What a turn's end leaves is what the next turn's request begins with.
#[tokio::test]
async fn the_conversation_goes_on_over_turns_and_tools() {
    let replies = [
        say_and_call("list_dir", json!({"path": "."})),
        Reply::text("It is empty."),
        Reply::text("You asked for a list."),
    ];
    let rig: Rig = Setup::replies(replies).start_in(TestHome::new()).await;
    let session = rig.session().await;
    ended(&rig.agent.turn(&session, "list it").await, "end_turn");
    ended(&rig.agent.turn(&session, "what did I ask").await, "end_turn");
    let request = rig.server.request(2).await;
    let roles: Vec<&str> = request.messages().iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user"]);
    assert_has(&json!(request.messages()).to_string(), "It is empty.");
}
