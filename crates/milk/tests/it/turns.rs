//! What a turn looks like, and who waits for whom: contract, Example exchange; R6 to R10, R22, R30; cases 014 to 027.

use std::collections::HashSet;

use milk_testkit::client::Speaker;
use milk_testkit::{Gate, Matcher, Policy, Reply, TestHome, ToolCall};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Rig, Setup, answered, assert_has, ended, story, updates_of};

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

// ---- history

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
