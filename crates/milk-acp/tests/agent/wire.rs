//! Lines, ids and errors (R16 to R20).

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::rig::Rig;

#[test]
fn ids_go_back_as_they_came() {
    let mut rig = Rig::new();
    for id in
        ["7", "\"7\"", "0", "null", "9007199254740993", "\"init-α\"", "123456789012345678901234567890", "-1"]
    {
        rig.send_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"no/such\"}}\n").as_bytes());
        let answer = rig.next().unwrap();
        let sent: Value = serde_json::from_str(id).unwrap();
        assert_eq!(answer["id"], sent);
        assert_eq!(answer["error"]["code"], -32601);
        assert_eq!(answer["error"]["message"], "method not found: no/such");
    }
}

#[test]
fn junk_between_lines_is_dropped_and_the_next_line_works() {
    let mut rig = Rig::new();
    let junk: &[&[u8]] = &[
        b"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\r\n",
        b"\n\n",
        b"hello there\n",
        b"{\"jsonrpc\":\n",
        b"\xFF\xFE\n",
        b"[1,2\n",
        b"[{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"session/list\"}]\n",
        b"[]\n",
        b"\"text\"\n",
        b"42\n",
        b"null\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"nobody/knows\",\"params\":5}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"x\"}}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"session/prompt\",\"params\":{}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/list\"}\r\n",
    ];
    for line in junk {
        rig.send_bytes(line);
    }
    assert_eq!(rig.next().unwrap()["id"], 1);
    assert_eq!(rig.next().unwrap()["result"]["sessions"], json!([]));
}

#[test]
fn every_request_is_answered_and_unknown_ones_by_name() {
    let mut rig = Rig::new();
    rig.v2();
    for method in [
        "auth/login",
        "auth/logout",
        "authenticate",
        "session/load",
        "session/set_mode",
        "_x/y",
        "$/cancel_request",
        "",
    ] {
        let error = rig.ask(method, &json!({"sessionId": "s"}))["error"].take();
        assert_eq!(error["code"], -32601, "{method}");
        assert_eq!(error["data"]["kind"], "method_not_found");
    }
    rig.send(&json!({"jsonrpc": "2.0", "id": "x", "method": 5}));
    let answer = rig.answer(&json!("x"));
    assert_eq!(answer["error"]["code"], -32600);
}

#[test]
fn wrong_parameters_say_which() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    for (method, params, says) in [
        ("session/new", json!({}), "session/new: cwd is required"),
        ("session/new", json!({"cwd": ""}), "session/new: cwd is required"),
        ("session/new", json!({"cwd": null}), "session/new: cwd is required"),
        ("session/new", json!({"cwd": 5}), "session/new: cwd must be a text"),
        ("session/new", json!([]), "session/new: params must be an object"),
        ("session/prompt", json!({"prompt": []}), "session/prompt: sessionId is required"),
        (
            "session/prompt",
            json!({"sessionId": session, "prompt": "hi"}),
            "session/prompt: prompt must be an array of content blocks",
        ),
        (
            "session/prompt",
            json!({"sessionId": session}),
            "session/prompt: prompt must be an array of content blocks",
        ),
        ("session/list", json!({"cursor": 5}), "session/list: invalid cursor"),
        ("session/list", json!({"cursor": "x"}), "session/list: invalid cursor"),
        ("session/resume", json!({"sessionId": session}), "session/resume: cwd is required"),
        ("session/close", json!({}), "session/close: sessionId is required"),
        ("session/delete", json!({"sessionId": ""}), "session/delete: sessionId is required"),
        ("session/cancel", json!({}), "session/cancel: sessionId is required"),
    ] {
        let error = rig.ask(method, &params)["error"].take();
        assert_eq!(error["code"], -32602, "{method} {params}");
        assert_eq!(error["message"], says);
        assert_eq!(error["data"], json!({"kind": "invalid_params", "details": says}));
    }
}

#[test]
fn an_unknown_session_has_its_code_everywhere() {
    let mut rig = Rig::new();
    rig.v2();
    for (method, params) in [
        ("session/prompt", json!({"sessionId": "nope", "prompt": []})),
        ("session/cancel", json!({"sessionId": "nope"})),
        ("session/resume", json!({"sessionId": "nope", "cwd": "/w"})),
        ("session/delete", json!({"sessionId": "nope"})),
        ("session/delete", json!({"sessionId": "../victim"})),
        ("session/delete", json!({"sessionId": "*"})),
    ] {
        let error = rig.ask(method, &params)["error"].take();
        assert_eq!(error["code"], -32002, "{method}");
        assert_eq!(error["data"]["sessionId"], params["sessionId"]);
    }
    assert_eq!(rig.ask("session/close", &json!({"sessionId": "nope"}))["result"], json!({}));
}

#[test]
fn a_bug_costs_one_answer() {
    let mut rig = Rig::new();
    rig.v2();
    let error = rig.ask("session/new", &json!({"cwd": "/panics"}))["error"].take();
    assert_eq!(error["code"], -32000);
    assert_eq!(error["data"]["kind"], "internal");
    rig.session();
}

#[test]
fn a_prompt_of_megabytes_comes_through() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    let text = "ž\n\"".repeat(500_000);
    let (updates, answer) = rig.turn(&session, &text);
    assert!(answer["result"]["messageId"].is_string());
    assert_eq!(updates[0]["params"]["update"]["content"][0]["text"], text.as_str());
}
