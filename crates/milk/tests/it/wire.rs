//! Lines and JSON-RPC: contract, Launching it and Error handling; R1 to R5, R16 to R20; cases 001 to 019.

use milk_testkit::client::{Direction, RequestId};
use milk_testkit::fault::{peak_rss_bytes, rss_bytes};
use milk_testkit::{AgentProcess, Reply, TestHome};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{
    Setup, answered, answers, assert_has, assert_lacks, ended, notification, prompt, refused, request, serve,
    story,
};

const MIB: usize = 1 << 20;

/// The ids of all responses so far, as text, digit by digit.
fn response_ids(agent: &AgentProcess) -> Vec<String> {
    #[derive(Deserialize)]
    struct Line {
        id: Option<Box<RawValue>>,
        method: Option<String>,
    }
    agent.with_transcript(|transcript| {
        let lines = transcript.entries.iter().filter(|entry| entry.direction == Direction::FromAgent);
        let lines = lines.map(|entry| serde_json::from_slice::<Line>(&entry.raw).unwrap());
        let responses = lines.filter(|line| line.method.is_none());
        // An Option takes the id null for none.
        responses.map(|line| line.id.map_or_else(|| "null".to_owned(), |id| id.get().to_owned())).collect()
    })
}

/// A line with this text as its id.
fn with_raw_id(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#) + "\n"
}

// ---- ids

/// Case 001, R19
#[tokio::test]
async fn ids_come_back_as_they_were_sent() {
    let rig = Setup::echo().unvalidated().start_raw(TestHome::new()).await;
    let sent = [
        ("\"init-α\"", "initialize", r#"{"protocolVersion":2}"#),
        ("\"7\"", "session/list", "{}"),
        ("0", "session/list", "{}"),
        ("-1", "session/list", "{}"),
        ("9007199254740993", "session/list", "{}"),
        ("18446744073709551616", "session/list", "{}"),
        ("123456789012345678901234567890", "nope", "{}"),
        ("1.50", "session/list", "{}"),
        ("1e2", "session/list", "{}"),
        ("\"\"", "session/list", "{}"),
        ("\"zz\"", "nope", "{}"),
        ("null", "session/list", "{}"),
        ("\"quote \\\" and back\\\\slash\"", "nope", "{}"),
        ("\"cwd\"", "session/new", r#"{"cwd":""}"#),
    ];
    let lines: String = sent.iter().map(|(id, method, params)| with_raw_id(id, method, params)).collect();
    rig.agent.send_bytes(lines.as_bytes());
    let mut missing = sent.len();
    rig.agent
        .expect(|message| {
            missing -= usize::from(message.get("method").is_none());
            missing == 0
        })
        .await;
    let mut ids = response_ids(&rig.agent);
    let mut expected: Vec<&str> = sent.iter().map(|(id, ..)| *id).collect();
    // Only the order of what one conversation does is promised.
    ids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ids, expected);
}

/// R18: also an id that no JSON-RPC peer should use.
#[tokio::test]
async fn an_odd_id_is_an_id_too() {
    let rig = Setup::echo().unvalidated().start().await;
    for id in ["true", "{\"a\":1}", "[1,2]"] {
        rig.agent.send_bytes(with_raw_id(id, "session/list", "{}").as_bytes());
        let id: Value = serde_json::from_str(id).unwrap();
        let _ = rig.agent.response(id).await;
    }
}

#[tokio::test]
async fn duplicate_ids_are_each_answered() {
    let rig = Setup::replies([Reply::text("one"), Reply::text("two")]).unvalidated().start().await;
    let session = rig.session().await;
    let lines = [
        prompt(5, &session, "first"),
        request(5, "session/list", json!({})),
        prompt(5, &session, "second"),
        request(5, "nope", json!({})),
    ];
    rig.agent.send_bytes(lines.concat().as_bytes());
    let mut left = 4;
    while left > 0 {
        rig.agent.expect(|message| RequestId::from(5).is_answered_by(message)).await;
        left -= 1;
    }
    rig.agent.sync().await;
    assert_eq!(answers(&rig.agent.transcript(), &5.into()).len(), 4);
    rig.server.assert_played();
}

/// R19: responses to milk's own requests match by value.
#[tokio::test]
async fn an_answer_may_carry_the_id_in_the_other_type() {
    let call = || Reply::tool("bash", json!({"command": "echo ran > proof"}));
    let rig = Setup::replies([call(), Reply::text("done")]).start().await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "go");
    let question = rig.agent.expect_request("session/request_permission").await;
    let other = match &question["id"] {
        Value::String(text) => text.parse::<u64>().map_or_else(|_| question["id"].clone(), Value::from),
        number => number.to_string().into(),
    };
    let answer = json!({"jsonrpc": "2.0", "id": other,
        "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}});
    rig.agent.send_json(&answer);
    rig.agent.response(&id).await.unwrap();
    assert_eq!(rig.home.read("proof"), "ran\n");
}

// ---- lines

/// Case 005
#[tokio::test]
async fn prompts_far_larger_than_a_pipe_arrive_whole() {
    let rig = Setup::respond(|_| Reply::text("read")).start().await;
    for size in [70_000, 1_100_000, 8_000_000] {
        let session = rig.agent.new_session(rig.home.workspace()).await;
        let text = "0123456789 \"quoted\" \\ äöü\n".repeat(size / 27);
        let turn = rig.agent.turn(&session, &text).await;
        answered(&turn, "read");
        let got = rig.server.request(rig.server.count() - 1).await.last_user();
        assert!(got.contains(text.trim()), "{size} bytes were sent, {} arrived", got.len());
        rig.agent.request("session/list", json!({})).await.unwrap();
        rig.agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    }
}

/// Case 007
#[tokio::test]
async fn junk_between_lines_is_dropped() {
    let rig = Setup::echo().unvalidated().start_raw(TestHome::new()).await;
    let mut bytes = b"\xEF\xBB\xBF".to_vec();
    let init = request("init", "initialize", json!({"protocolVersion": 2}));
    bytes.extend_from_slice(format!("{}\r\n", init.trim_end()).as_bytes());
    bytes.extend_from_slice(
        b"\n\n\r\n   \t\nhello there\n{\"jsonrpc\":\n\xFF\xFE\n[1,2\n\"text\"\n42\nnull\ntrue\n\0\0\n",
    );
    bytes.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\"}}\n{\"id\":2,\"method\":\"x\"} trailing\n");
    bytes.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"\xFF\xFE\"}\n");
    let list = request("list", "session/list", json!({}));
    bytes.extend_from_slice(format!("  {}\r\n", list.trim_end()).as_bytes());
    rig.agent.send_bytes(&bytes);
    rig.agent.response("init").await.unwrap();
    rig.agent.response("list").await.unwrap();
    assert_eq!(story(&rig.agent.transcript()), ["result", "result"]);
}

/// A request may come in pieces of any size, and a last line needs no end.
#[tokio::test]
async fn a_line_is_a_line_however_it_is_cut() {
    let rig = Setup::echo().start().await;
    let line = request("cut", "session/list", json!({"_meta": {"text": "ä€𝄞"}}));
    for byte in line.as_bytes() {
        rig.agent.send_bytes(&[*byte]);
    }
    rig.agent.response("cut").await.unwrap();
}

/// Case 010, R18: an array is dropped like any line that is no object.
#[tokio::test]
async fn batches_are_dropped() {
    let rig = Setup::echo().start().await;
    let mark = rig.mark();
    for line in [
        json!([
            {"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}},
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "x"}},
            {"jsonrpc": "2.0", "id": 2, "method": "nope"}, 5]),
        json!([]),
        json!([{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "x"}}]),
    ] {
        rig.agent.send_json(&line);
    }
    rig.agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(story(&rig.since(mark)), ["result"]);
}

/// Case 011
#[tokio::test]
async fn requests_are_always_answered_and_notifications_never() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    let mark = rig.mark();
    let notifications = [
        notification("$/cancel_request", json!({"requestId": 77})),
        notification("$/cancel_request", json!({})),
        notification("foo/bar", json!({})),
        notification("session/cancel", json!({"sessionId": "no-such-session"})),
        notification("session/cancel", json!({})),
        notification("session/cancel", json!({"sessionId": 5})),
        notification("session/cancel", Value::Null),
        notification(
            "session/prompt",
            json!({"sessionId": session, "prompt": [{"type": "text", "text": "no id"}]}),
        ),
        notification("session/new", json!({"cwd": "/"})),
        notification("initialized", json!({})),
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\"}\n".to_owned(),
    ];
    rig.agent.send_bytes(notifications.concat().as_bytes());
    rig.agent.sync().await;
    let responses = |mark: usize| {
        let lines = rig.since(mark);
        story(&lines).into_iter().filter(|label| label == "result" || label.starts_with("error")).count()
    };
    assert_eq!(responses(mark), 1, "the answer to the sync alone");
    for method in [
        "auth/login",
        "auth/logout",
        "authenticate",
        "session/load",
        "session/set_mode",
        "session/fork",
        "_x/y",
        "_milk/route",
        "$/cancel_request",
        "session/update",
        "",
    ] {
        let error = refused(rig.agent.request(method, json!({"sessionId": session})).await, -32601);
        assert_has(&error["message"].as_str().unwrap().to_lowercase(), "method not found");
        assert_has(&error["message"].to_string(), method);
    }
}

/// R18: an object with a method and an id is answered, whatever else is wrong with it.
#[tokio::test]
async fn an_object_with_a_method_and_an_id_is_answered() {
    let rig = Setup::echo().unvalidated().start().await;
    for (id, line) in [
        ("a", r#"{"id":"a","method":"session/list"}"#),
        ("b", r#"{"jsonrpc":"1.0","id":"b","method":"session/list"}"#),
        ("c", r#"{"jsonrpc":"2.0","id":"c","method":"session/list","params":null}"#),
        ("d", r#"{"jsonrpc":"2.0","id":"d","method":"session/list","params":{},"extra":1,"result":{}}"#),
    ] {
        rig.agent.send_line(line);
        rig.agent.response(id).await.unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    for (id, line) in [
        ("e", r#"{"jsonrpc":"2.0","id":"e","method":5}"#),
        ("f", r#"{"jsonrpc":"2.0","id":"f","method":null}"#),
        ("g", r#"{"jsonrpc":"2.0","id":"g","method":{}}"#),
        ("h", r#"{"jsonrpc":"2.0","id":"h","method":"session/new","params":[1]}"#),
        ("i", r#"{"jsonrpc":"2.0","id":"i","method":"session/new","params":"text"}"#),
        ("j", r#"{"jsonrpc":"2.0","id":"j","method":"session/prompt"}"#),
    ] {
        rig.agent.send_line(line);
        let error = rig.agent.response(id).await.expect_err(line);
        assert!(error["data"]["kind"].is_string(), "R17: {error}");
    }
    let session = rig.session().await;
    rig.assert_usable(&session).await;
}

/// R18
#[tokio::test]
async fn responses_that_nobody_waits_for_are_ignored() {
    let rig = Setup::echo().start().await;
    let mark = rig.mark();
    for line in [
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"99","error":{"code":-1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"_milk/route"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no id"}}"#,
        r#"{"jsonrpc":"2.0","id":0,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":"text"}"#,
        r#"{"jsonrpc":"2.0","id":5}"#,
        "{}",
        r#"{"id":{},"result":[]}"#,
    ] {
        rig.agent.send_line(line);
    }
    rig.agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(story(&rig.since(mark)), ["result"]);
}

/// R18: a line may have 64 MiB, so that much is held; what is longer is not, and nothing is kept.
#[tokio::test]
async fn a_line_over_the_limit_is_dropped_without_being_held() {
    let rig = Setup::echo().start().await;
    let mark = rig.mark();
    let before = rss_bytes(rig.agent.pid()).unwrap_or_default();
    let mut line = br#"{"jsonrpc":"2.0","id":"long","method":"session/list","params":{"pad":""#.to_vec();
    line.resize(130 * MIB, b'a');
    line.extend_from_slice(b"\"}}\n");
    rig.agent.send_bytes(&line);
    rig.agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(story(&rig.since(mark)), ["result"], "the long line is not answered");
    let peak = peak_rss_bytes(rig.agent.pid()).unwrap_or_default().saturating_sub(before);
    assert!(peak < 80 * MIB as u64, "memory grew by {peak} bytes on the way");
    let kept = rss_bytes(rig.agent.pid()).unwrap_or_default().saturating_sub(before);
    assert!(kept < 16 * MIB as u64, "{kept} bytes were kept");
    let session = rig.session().await;
    rig.assert_usable(&session).await;
}

// ---- params

/// Case 012; R32's transports are another matter: here none of this may refuse a session.
#[tokio::test]
async fn session_new_takes_the_extras_of_editors() {
    let rig = Setup::echo().start().await;
    let cwd = rig.home.workspace();
    let secret = "Bearer 0123456789-from-the-editor";
    for extras in [
        json!({}),
        json!({"mcpServers": null}),
        json!({"mcpServers": []}),
        json!({"mcpServers": [{"name": "s", "command": "/no/such/program", "args": [], "env": []}]}),
        json!({"mcpServers": [{"type": "http", "name": "h", "url": "http://127.0.0.1:9/",
            "headers": [{"name": "Authorization", "value": secret}]}]}),
        json!({"mcpServers": [{"type": "_new", "name": "n"}, 5, null]}),
        json!({"unknown": {"deep": [1]}, "_meta": null, "additionalDirectories": null}),
        json!({"additionalDirectories": ["/tmp"], "_meta": {"milk": null}}),
        json!({"additionalDirectories": [], "_meta": {"milk": {"fresh": null}, "other": 1}}),
    ] {
        let mut params = extras.clone();
        params["cwd"] = cwd.display().to_string().into();
        let result = rig.agent.request("session/new", params).await;
        let session = result.unwrap_or_else(|error| panic!("{extras}: {error}"));
        rig.assert_usable(session["sessionId"].as_str().unwrap()).await;
    }
    assert_lacks(&rig.agent.stderr(), secret);
}

/// R4, R16, R17
#[tokio::test]
async fn params_that_cannot_be_used_are_32602() {
    let rig = Setup::echo().unvalidated().start().await;
    let session = rig.session().await;
    let text = json!([{"type": "text", "text": "x"}]);
    for (method, params) in [
        ("session/new", json!({})),
        ("session/new", json!({"cwd": ""})),
        ("session/new", json!({"cwd": null})),
        ("session/new", json!({"cwd": 5})),
        ("session/new", json!([])),
        ("session/new", Value::Null),
        ("session/prompt", json!({})),
        ("session/prompt", json!({"sessionId": session})),
        ("session/prompt", json!({"sessionId": session, "prompt": "text"})),
        ("session/prompt", json!({"sessionId": 5, "prompt": text})),
        ("session/prompt", json!({"sessionId": null, "prompt": text})),
        ("session/resume", json!({"cwd": rig.home.workspace()})),
        ("session/resume", json!({"sessionId": session})),
        ("session/resume", json!({"sessionId": session, "cwd": ""})),
        ("session/resume", json!({"sessionId": [], "cwd": rig.home.workspace()})),
        ("session/delete", json!({})),
        ("session/close", json!({"sessionId": {}})),
        ("session/list", json!({"cursor": "x"})),
        ("session/list", json!({"cwd": 5})),
    ] {
        let answer = rig.agent.request(method, params.clone()).await;
        assert!(answer.is_err(), "{method} {params} was answered with {answer:?}");
        refused(answer, -32602);
    }
    rig.assert_usable(&session).await;
}

/// R16
#[tokio::test]
async fn an_unknown_session_is_32002_with_its_id() {
    for version in [1, 2] {
        let rig = Setup::echo().version(version).start().await;
        let cwd = rig.home.workspace();
        for (method, params) in [
            ("session/prompt", json!({"prompt": [{"type": "text", "text": "x"}]})),
            ("session/resume", json!({"cwd": cwd, "mcpServers": []})),
            ("session/delete", json!({})),
        ] {
            let mut params = params;
            params["sessionId"] = "no-such-session".into();
            let error = refused(rig.agent.request(method, params).await, -32002);
            assert_eq!(error["data"]["sessionId"], "no-such-session", "{method}: {error}");
        }
        let closed = rig.agent.request("session/close", json!({"sessionId": "no-such-session"})).await;
        assert_eq!(closed.unwrap(), json!({}));
    }
}

/// R16: a relative cwd is resolved against the process's directory.
#[tokio::test]
async fn a_relative_cwd_is_one_of_the_process() {
    let rig = Setup::echo().start().await;
    std::fs::create_dir(rig.home.home().join("sub")).unwrap();
    for (cwd, place) in [(".", rig.home.home()), ("sub", rig.home.home().join("sub"))] {
        let session = rig.session_in(cwd).await;
        let sessions = rig.list(json!({})).await;
        let listed = sessions.iter().find(|entry| entry["sessionId"] == session.as_str()).unwrap();
        assert_eq!(listed["cwd"], place.display().to_string());
    }
}

/// Case 013, R20
#[tokio::test]
async fn cancel_may_be_a_request() {
    let rig = Setup::replies([Reply::stream().say("one").hang()]).unvalidated().start().await;
    let session = rig.session().await;
    let id = rig.agent.prompt(&session, "go");
    rig.agent.expect_update(&session, "agent_message_chunk").await;
    let cancelled = rig.agent.request("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(cancelled.unwrap(), json!({}));
    assert!(rig.agent.response(&id).await.is_ok());
    assert_eq!(rig.agent.until_idle(&session).await, "cancelled");
    for params in [json!({"sessionId": session}), json!({"sessionId": "no-such-session"})] {
        // Nothing runs: nothing to do, and no error either where the session is known.
        let again = rig.agent.request("session/cancel", params.clone()).await;
        if params["sessionId"] == session.as_str() {
            assert_eq!(again.unwrap(), json!({}));
        }
    }
}

/// stdin may end without a line end, and the last request is answered all the same.
#[tokio::test]
async fn the_last_line_needs_no_end() {
    let home = TestHome::new();
    home.config(&json!({"discovery": false}));
    let agent = AgentProcess::start(serve(&home));
    agent
        .send_bytes(br#"{"jsonrpc":"2.0","id":"last","method":"initialize","params":{"protocolVersion":2}}"#);
    agent.close_stdin();
    assert!(agent.wait_exit(crate::support::SOON).await.success());
    // What was sent holds no line end, so the recorded request is missing; the response is not.
    assert_eq!(response_ids(&agent), ["\"last\""]);
}

/// Content blocks, names and texts are any text.
#[tokio::test]
async fn any_text_goes_through_unharmed() {
    let text = "tab\t nul\u{0} esc\u{1b}[31m crlf\r\n ls\u{2028}ps\u{2029} bom\u{feff} 👩‍👩‍👧‍👦 e\u{301} \u{202e}rtl \u{10ffff} </script> \\u0041";
    let answer = text.to_owned();
    let rig = Setup::respond(move |_| Reply::text(answer.clone())).start().await;
    let session = rig.session().await;
    let turn = rig.agent.turn(&session, text).await;
    ended(&turn, "end_turn");
    assert_eq!(turn.text, text);
    assert_has(&rig.server.request(0).await.last_user(), text);
}
