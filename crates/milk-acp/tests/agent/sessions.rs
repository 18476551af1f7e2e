//! Sessions: order, lists, resume, close, delete (R21 to R25).

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::rig::{Rig, words};

#[test]
fn nothing_but_the_answer_comes_before_the_client_can_know_the_id() {
    for version in [1, 2] {
        let mut rig = Rig::new();
        rig.initialize(&json!({"protocolVersion": version}));
        let id = rig.request("session/new", &json!({"cwd": "/w"}));
        let answer = rig.next().unwrap();
        assert_eq!(answer["id"], id);
        let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
        assert!(rig.silent_for(Duration::from_millis(20)), "it waits for the client to register the id");
        let update = rig.next().unwrap();
        assert_eq!(update["params"]["sessionId"], session.as_str());
        let commands = update["params"]["update"]["availableCommands"].as_array().unwrap().clone();
        let names: Vec<&str> = commands.iter().map(|command| command["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"help") && names.iter().all(|name| !name.starts_with('/')), "{names:?}");
        assert_eq!(commands[0].get("type").is_some(), version == 2);
        let (updates, _) = rig.turn(&session, "hi");
        assert!(words(&updates).iter().all(|word| word != "available_commands_update"), "told once");
    }
}

#[test]
fn a_client_that_names_the_session_need_not_wait() {
    let mut rig = Rig::new();
    rig.v2();
    let answer = rig.ask("session/new", &json!({"cwd": "/w"}));
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let (updates, _) = rig.turn(&session, "hi");
    assert_eq!(words(&updates)[..2], ["available_commands_update", "user hi"]);
}

#[test]
fn editor_extras_are_accepted() {
    let mut rig = Rig::new();
    rig.v2();
    for extras in [
        json!({}),
        json!({"mcpServers": null}),
        json!({"mcpServers": [{"name": "x", "command": "sh", "args": ["-c", "touch PWN"], "env": []}]}),
        json!({"mcpServers": "odd", "additionalDirectories": 5, "_meta": null, "surprise": {}}),
    ] {
        let mut params = extras;
        params["cwd"] = json!("/w");
        assert!(rig.ask("session/new", &params)["result"]["sessionId"].is_string(), "{params}");
    }
}

#[test]
fn a_list_has_used_and_open_sessions_of_the_directory_last_use_first() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap().join("real");
    std::fs::create_dir(&real).unwrap();
    let link = real.with_file_name("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let real = real.to_str().unwrap().to_owned();

    let mut rig = Rig::new();
    rig.v2();
    let used = rig.session_in(&real);
    let unused = rig.session_in(link.to_str().unwrap());
    let other = rig.session_in(&format!("{real}X"));
    rig.turn(&used, "fix   the\nthing");
    let ids = |list: &Value| -> Vec<String> {
        let sessions = list["result"]["sessions"].as_array().unwrap();
        sessions.iter().map(|session| session["sessionId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&rig.ask("session/list", &json!({}))), [&*used, &*other, &*unused]);
    for spelling in
        [format!("{real}/"), format!("{real}/./"), format!("{real}/q/.."), link.display().to_string()]
    {
        let list = rig.ask("session/list", &json!({"cwd": spelling, "cursor": null}));
        assert_eq!(ids(&list), [&*used, &*unused], "{spelling}");
        assert_eq!(list["result"]["sessions"][0]["title"], "fix the thing");
        assert_eq!(list["result"]["sessions"][0]["cwd"], real.as_str());
        assert!(list["result"]["sessions"][0]["updatedAt"].as_str().unwrap().ends_with('Z'));
        assert_eq!(list["result"]["sessions"][1].get("title"), None);
    }
    rig.ask("session/close", &json!({"sessionId": unused}));
    assert_eq!(
        ids(&rig.ask("session/list", &json!({"cwd": real}))),
        [&*used],
        "an unused closed one is noise"
    );
    assert_eq!(ids(&rig.ask("session/list", &json!({"cwd": "/nowhere"}))), Vec::<String>::new());
}

#[test]
fn a_long_list_comes_in_pages() {
    let mut rig = Rig::new();
    rig.v1();
    for _ in 0..120 {
        let answer = rig.ask("session/new", &json!({"cwd": "/w"}));
        assert!(answer["result"].is_object());
    }
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    let mut sizes = Vec::new();
    loop {
        let list = rig.ask("session/list", &json!({"cursor": cursor}))["result"].take();
        let page: Vec<Value> = list["sessions"].as_array().unwrap().clone();
        sizes.push(page.len());
        seen.extend(page.into_iter().map(|session| session["sessionId"].to_string()));
        match list.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    assert_eq!(sizes, [50, 50, 20]);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 120, "no repeats, no gaps");
    // "o:999999"
    let past = rig.ask("session/list", &json!({"cursor": "bzo5OTk5OTk="}));
    assert_eq!(past["result"]["sessions"], json!([]));
}

#[test]
fn resume_attaches_to_what_is_open_and_reopens_what_was_closed() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    let resume = json!({"sessionId": session, "cwd": "/work/place/", "replayFrom": null});
    let answer = rig.ask("session/resume", &resume);
    let commands = answer["result"]["availableCommands"].as_array().unwrap();
    assert!(commands.iter().any(|command| command["name"] == "help" && command["type"] == "command"));
    rig.turn(&session, "hi");

    rig.ask("session/close", &json!({"sessionId": session}));
    let unknown = rig.ask("session/prompt", &json!({"sessionId": session, "prompt": []}));
    assert_eq!(unknown["error"]["code"], -32002);
    assert!(rig.ask("session/resume", &resume)["result"].is_object());
    let (updates, _) = rig.turn(&session, "again");
    assert_eq!(words(&updates)[0], "user again", "v2 has the commands in the answer");
}

#[test]
fn a_resume_during_a_turn_leaves_it_running_and_cancellable() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    let _never = rig.model.open_reply();
    let prompt = rig.prompt(&session, "hi");
    rig.until(|message| message["params"]["update"]["state"] == "running");
    assert!(
        rig.ask("session/resume", &json!({"sessionId": session, "cwd": "/work/place"}))["result"].is_object()
    );
    rig.notify("session/cancel", &json!({"sessionId": session}));
    let (updates, _) = rig.until(|message| message["id"] == prompt);
    assert_eq!(words(&updates).last().unwrap(), "idle cancelled");
}

#[test]
fn a_v1_resume_is_followed_by_the_commands() {
    let mut rig = Rig::new();
    rig.v1();
    let session = rig.session();
    let resume = json!({"sessionId": session, "cwd": "/work/place", "mcpServers": []});
    let id = rig.request("session/resume", &resume);
    assert_eq!(rig.next().unwrap()["id"], id);
    assert_eq!(words(&[rig.next().unwrap()]), ["available_commands_update"]);
    rig.ask("session/close", &json!({"sessionId": session}));
    let id = rig.request("session/resume", &resume);
    assert_eq!(rig.next().unwrap()["id"], id);
    assert_eq!(words(&[rig.next().unwrap()]), ["available_commands_update"]);
}

#[test]
fn a_resume_that_does_not_fit_is_refused_before_anything() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    let closed = rig.session();
    rig.ask("session/close", &json!({"sessionId": closed}));
    for session in [&session, &closed] {
        for (params, code) in [
            (json!({"sessionId": session, "cwd": "/elsewhere"}), -32602),
            (json!({"sessionId": session, "cwd": "/work/place", "replayFrom": {"type": "later"}}), -32602),
            (json!({"sessionId": session, "cwd": "/work/place", "replayFrom": {"type": "_x"}}), -32602),
            (json!({"sessionId": session, "cwd": "/work/place", "replayFrom": "start"}), -32602),
            (json!({"sessionId": session, "cwd": "/work/place", "replayFrom": {}}), -32602),
            (json!({"sessionId": "nope", "cwd": "/work/place", "replayFrom": {"type": "later"}}), -32602),
            (json!({"sessionId": "nope", "cwd": "/work/place"}), -32002),
        ] {
            assert_eq!(rig.ask("session/resume", &params)["error"]["code"], code, "{params}");
        }
    }
    assert!(rig.silent_for(Duration::from_millis(50)));
}

#[test]
fn many_resumes_at_once_make_one_view() {
    let mut rig = Rig::new();
    rig.v2();
    let session = rig.session();
    rig.turn(&session, "hi");
    rig.ask("session/close", &json!({"sessionId": session}));
    let resume = json!({"sessionId": session, "cwd": "/work/place"});
    let ids: Vec<Value> = (0..20).map(|_| rig.request("session/resume", &resume)).collect();
    for id in &ids {
        assert!(rig.answer(id)["result"].is_object());
    }
    let (updates, _) = rig.turn(&session, "once");
    assert_eq!(words(&updates).iter().filter(|word| *word == "user once").count(), 1);
}

#[test]
fn close_ends_the_turn_and_answers_it_first() {
    for version in [1, 2] {
        let mut rig = Rig::new();
        rig.initialize(&json!({"protocolVersion": version}));
        let session = rig.session();
        let _never = rig.model.open_reply();
        let running = rig.prompt(&session, "one");
        let waiting = rig.prompt(&session, "two");
        let close = rig.request("session/close", &json!({"sessionId": session}));
        let (before, answer) = rig.until(|message| message["id"] == close);
        assert_eq!(answer["result"], json!({}));
        for id in [&running, &waiting] {
            assert!(before.iter().any(|message| message["id"] == *id), "answered before the close");
        }
        assert_eq!(rig.ask("session/close", &json!({"sessionId": session}))["result"], json!({}));
        let fresh = rig.session();
        assert_ne!(fresh, session);
    }
}

#[test]
fn delete_takes_an_id_or_a_prefix_that_fits_one() {
    let mut rig = Rig::new();
    rig.v2();
    let (a, b, c) = (rig.session(), rig.session(), rig.session());
    for session in [&a, &b, &c] {
        rig.turn(session, "hi");
    }
    let never = rig.model.open_reply();
    never.text("working");
    let running = rig.prompt(&a, "runs");
    rig.until(|message| words(std::slice::from_ref(message)) == ["agent working"]);
    let delete = rig.request("session/delete", &json!({"sessionId": a}));
    assert!(rig.answer(&running).get("method").is_none(), "an open one is closed first");
    assert_eq!(rig.answer(&delete)["result"], json!({}));
    assert_eq!(rig.ask("session/delete", &json!({"sessionId": a}))["error"]["code"], -32002);
    assert_eq!(
        rig.ask("session/resume", &json!({"sessionId": a, "cwd": "/work/place"}))["error"]["code"],
        -32002
    );

    // As short as tells them apart.
    let common = b.bytes().zip(c.bytes()).take_while(|(b, c)| b == c).count();
    if common > 0 {
        assert_eq!(rig.ask("session/delete", &json!({"sessionId": &b[..common]}))["error"]["code"], -32002);
    }
    assert_eq!(rig.ask("session/delete", &json!({"sessionId": &b[..=common]}))["result"], json!({}));
    assert_eq!(rig.ask("session/prompt", &json!({"sessionId": b, "prompt": []}))["error"]["code"], -32002);
    assert!(rig.turn(&c, "still here").1["result"].is_object());
}
