//! List, resume, close and delete of one process's sessions: contract, Session resume, list, and history replay;
//! R16, R21 to R24; cases 020, 021, 030, 033, 035.
//!
//! What needs sessions on disk is not here: resume-by-default, replay (case 028), restarts (case 032).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use milk_testkit::{Matcher, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Rig, Setup, answered, assert_has, refused, request, story, updates_of};

fn ids(sessions: &[Value]) -> Vec<&str> {
    sessions.iter().filter_map(|entry| entry["sessionId"].as_str()).collect()
}

async fn resume(rig: &Rig, session: &str, cwd: impl AsRef<Path>, more: Value) -> Result<Value, Value> {
    let mut params = json!({"sessionId": session, "cwd": cwd.as_ref(), "mcpServers": []});
    params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    rig.agent.request("session/resume", params).await
}

async fn close(rig: &Rig, session: &str) {
    let closed = rig.agent.request("session/close", json!({"sessionId": session})).await;
    assert_eq!(closed.unwrap(), json!({}));
}

/// Spellings of the workspace that all mean it.
fn spellings(rig: &Rig) -> Vec<String> {
    let (root, real) = (rig.home.root(), rig.home.workspace());
    std::os::unix::fs::symlink(&real, root.join("link")).unwrap();
    std::os::unix::fs::symlink(root, root.join("up")).unwrap();
    let real = real.display();
    vec![
        format!("{real}"),
        format!("{real}/"),
        format!("{real}//"),
        format!("{real}/."),
        format!("{real}/../work"),
        format!("{}/./work", root.display()),
        format!("{}/link", root.display()),
        format!("{}/up/link/", root.display()),
    ]
}

/// Directories that are not the workspace, however alike they look.
fn other_directories(rig: &Rig) -> Vec<PathBuf> {
    let other = rig.home.another_workspace("workX");
    vec![other, rig.home.workspace().join("no-such-directory"), rig.home.root().to_owned()]
}

/// An RFC 3339 time in UTC, with all nine digits of its fraction.
#[track_caller]
fn sortable(time: &str) -> String {
    let is_rfc3339 = time.len() >= 20 && &time[10..11] == "T" && time.ends_with('Z');
    assert!(is_rfc3339, "RFC 3339: {time}");
    let (seconds, fraction) = time.trim_end_matches('Z').split_at(19);
    format!("{seconds}.{:0<9}", fraction.trim_start_matches('.'))
}

// ---- list

/// Contract: `SessionInfo`, last use first.
#[tokio::test]
async fn the_list_shows_what_there_is_last_use_first() {
    for version in [1, 2] {
        let rig = Setup::echo().version(version).start().await;
        assert_eq!(rig.list(json!({})).await, Vec::<Value>::new());
        let other = rig.home.another_workspace("other");
        let first = rig.session().await;
        let second = rig.session_in(&other).await;
        for (session, text) in [(&first, "fix   the\n thing"), (&second, "second"), (&first, "again")] {
            answered(&rig.agent.turn(session, text).await, &format!("you said {text}"));
        }
        let listed = rig.list(json!({})).await;
        assert_eq!(ids(&listed), [&first, &second]);
        assert_eq!(listed[0]["cwd"], rig.home.workspace().display().to_string());
        assert_eq!(listed[0]["title"], "fix the thing", "the first user turn");
        assert_eq!(listed[1]["cwd"], other.display().to_string());
        let times = [&listed[0], &listed[1]].map(|entry| sortable(entry["updatedAt"].as_str().unwrap()));
        assert!(times[0] >= times[1], "last use first: {listed:#?}");
        for filter in [json!({"cwd": null}), json!({"cwd": null, "cursor": null, "_meta": null}), Value::Null]
        {
            let page = rig.agent.request("session/list", filter.clone()).await.unwrap();
            assert_eq!(page["sessions"].as_array().unwrap().len(), 2, "{filter}");
        }
    }
}

/// R23: a session without a turn is listed only while it is open.
#[tokio::test]
async fn a_session_without_a_turn_is_listed_while_it_is_open() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    assert_eq!(ids(&rig.list(json!({})).await), [&session]);
    close(&rig, &session).await;
    assert_eq!(rig.list(json!({})).await, Vec::<Value>::new());
}

/// Case 020, R21
#[tokio::test]
async fn the_list_finds_a_folder_however_it_is_spelled() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    let others = other_directories(&rig);
    let neighbour = rig.session_in(&others[0]).await;
    for cwd in spellings(&rig) {
        let listed = rig.list(json!({ "cwd": cwd })).await;
        assert_eq!(ids(&listed), [&session], "{cwd}");
        assert!(Path::new(listed[0]["cwd"].as_str().unwrap()).is_absolute());
    }
    assert_eq!(ids(&rig.list(json!({"cwd": others[0]})).await), [&neighbour]);
    for cwd in &others[1..] {
        assert_eq!(rig.list(json!({ "cwd": cwd })).await, Vec::<Value>::new(), "{}", cwd.display());
    }
    // A session opened by another name of the folder is one of that folder.
    let linked = rig.session_in(rig.home.root().join("link")).await;
    let listed = rig.list(json!({"cwd": rig.home.workspace()})).await;
    assert!(ids(&listed).contains(&linked.as_str()), "{listed:#?}");
}

/// Case 033
#[tokio::test]
async fn titles_are_one_bounded_line_of_text() {
    let rig = Setup::respond(|_| Reply::text("ok")).start().await;
    let family = "👨‍👩‍👧‍👦".repeat(400);
    let resource = json!([{"type": "resource", "resource": {"uri": "file:///x.txt", "text": "content"}}]);
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let prompts = [
        text(&family),
        text(&"é".repeat(10_000)),
        text("a\nb\tc\u{1b}[31md\u{7}e\u{202e}f\u{0}g\u{9b}h\r\ni"),
        text(&"word ".repeat(50)),
        text("/help"),
        text("\n\n  \t"),
        text(""),
        resource,
    ];
    for blocks in prompts {
        let session = rig.agent.new_session(rig.home.workspace()).await;
        let id = rig.agent.prompt_blocks(&session, blocks.clone());
        // A prompt that says nothing may be refused; it may not go unanswered.
        let _ = rig.agent.response(&id).await;
        let listed = rig.list(json!({})).await;
        let entry = listed.iter().find(|entry| entry["sessionId"] == session.as_str()).unwrap();
        let Some(title) = entry["title"].as_str() else {
            assert!(entry["title"].is_null(), "{entry}");
            continue;
        };
        assert!(!title.is_empty(), "no title rather than an empty one: {entry}");
        assert!(title.chars().count() <= 61, "{} characters: {title}", title.chars().count());
        let is_bad = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) || c == '\u{fffd}';
        assert!(!title.contains(is_bad), "{title:?} for {blocks}");
        rig.assert_usable(&session).await;
    }
    let long = rig.session().await;
    rig.agent.turn(&long, &"abcdefghij".repeat(20)).await.response.unwrap();
    let title = rig.list(json!({})).await[0]["title"].as_str().unwrap().to_owned();
    assert!(title.ends_with('…') && title.starts_with("abcdefghij"), "{title}");
    assert_eq!(title.chars().count(), 61);
}

/// Case 035: pages of 50 without repeats or gaps, and bad cursors.
#[tokio::test]
async fn cursors() {
    let rig = Setup::echo().start().await;
    let lines = (0..120).map(|id| {
        let meta = json!({"milk": {"fresh": true}});
        request(id, "session/new", json!({"cwd": rig.home.workspace(), "mcpServers": [], "_meta": meta}))
    });
    rig.agent.send_bytes(lines.collect::<String>().as_bytes());
    let mut opened = HashSet::new();
    for id in 0..120 {
        let result = rig.agent.response(id).await.unwrap();
        opened.insert(result["sessionId"].as_str().unwrap().to_owned());
    }
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    let mut sizes = Vec::new();
    loop {
        let page = rig.agent.request("session/list", json!({ "cursor": cursor })).await.unwrap();
        let sessions = page["sessions"].as_array().unwrap();
        sizes.push(sessions.len());
        seen.extend(ids(sessions).into_iter().map(str::to_owned));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(sizes, [50, 50, 20]);
    assert_eq!(seen.len(), 120);
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), opened);
    // base64 of x, o:-1, p:3, o:, o:1x, o:18446744073709551616
    let bad = ["x", "bzotMQ==", "cDoz", "bzo=", "bzoxeA==", "bzoxODQ0Njc0NDA3MzcwOTU1MTYxNg==", ""];
    for cursor in bad.map(Value::from).into_iter().chain([json!(5), json!({}), json!(true)]) {
        refused(rig.agent.request("session/list", json!({ "cursor": cursor })).await, -32602);
    }
    let past = rig.agent.request("session/list", json!({"cursor": "bzo5OTk5OTk="})).await.unwrap();
    assert_eq!(past["sessions"], json!([]));
    assert!(past["nextCursor"].is_null());
}

// ---- resume

/// Case 021, R21
#[tokio::test]
async fn resume_takes_an_equal_folder_and_no_other() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    for cwd in spellings(&rig) {
        resume(&rig, &session, &cwd, json!({})).await.unwrap_or_else(|error| panic!("{cwd}: {error}"));
    }
    for cwd in other_directories(&rig) {
        refused(resume(&rig, &session, &cwd, json!({})).await, -32602);
    }
    rig.assert_usable(&session).await;
}

/// Contract: an idempotent reattach; without a cursor nothing is replayed; the commands come with the response.
#[tokio::test]
async fn resume_without_a_cursor_replays_nothing() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    answered(&rig.agent.turn(&session, "hello").await, "you said hello");
    let commands = rig.agent.with_transcript(|transcript| {
        updates_of(transcript, &session, "available_commands_update")[0]["availableCommands"].clone()
    });
    for cursor in [json!({}), json!({"replayFrom": null})] {
        let mark = rig.mark();
        let result = resume(&rig, &session, rig.home.workspace(), cursor).await.unwrap();
        assert_eq!(result["availableCommands"], commands, "case 144: the same list everywhere");
        rig.agent.sync().await;
        assert_eq!(story(&rig.since(mark)), ["result", "error -32601"], "and the answer to the sync");
    }
    rig.assert_usable(&session).await;
}

/// R22: a v1 client's commands come after the response.
#[tokio::test]
async fn resume_tells_a_v1_client_the_commands() {
    let rig = Setup::echo().v1().start().await;
    let session = rig.session().await;
    answered(&rig.agent.turn(&session, "hello").await, "you said hello");
    let mark = rig.mark();
    resume(&rig, &session, rig.home.workspace(), json!({})).await.unwrap();
    rig.agent.expect_update(&session, "available_commands_update").await;
    assert_eq!(story(&rig.since(mark)), ["result", "available_commands_update"]);
}

/// Contract: any other cursor is refused before anything is emitted.
#[tokio::test]
async fn unknown_cursors_of_resume_are_refused() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    answered(&rig.agent.turn(&session, "hello").await, "you said hello");
    for cursor in
        [json!({"type": "later"}), json!({"type": "_x"}), json!({}), json!({"type": 5}), json!("start")]
    {
        let mark = rig.mark();
        refused(resume(&rig, &session, rig.home.workspace(), json!({"replayFrom": cursor})).await, -32602);
        rig.agent.sync().await;
        assert_eq!(story(&rig.since(mark)), ["error -32602", "error -32601"], "{cursor}");
    }
}

/// A session that was closed can be resumed, and goes on where it was: close is not delete.
#[tokio::test]
async fn a_closed_session_can_be_resumed() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    answered(&rig.agent.turn(&session, "the first wish").await, "you said the first wish");
    close(&rig, &session).await;
    close(&rig, &session).await;
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
    let error = refused(rig.agent.request("session/prompt", prompt).await, -32002);
    assert_eq!(error["data"]["sessionId"], session.as_str());
    assert_eq!(ids(&rig.list(json!({})).await), [&session], "its file is kept");
    resume(&rig, &session, rig.home.workspace(), json!({})).await.unwrap();
    answered(&rig.agent.turn(&session, "the second wish").await, "you said the second wish");
    assert_has(&json!(rig.server.request(1).await.messages()).to_string(), "the first wish");
}

// ---- close and delete

/// Contract: the closed-set; conditions 3 and 4 of resume-by-default.
#[tokio::test]
async fn a_closed_session_is_not_brought_back_unasked() {
    let rig = Setup::echo().start().await;
    let params = json!({"cwd": rig.home.workspace(), "mcpServers": []});
    let mut seen = HashSet::new();
    for method in ["session/close", "session/delete", "session/close"] {
        let new = rig.agent.request("session/new", params.clone()).await.unwrap();
        let session = new["sessionId"].as_str().unwrap().to_owned();
        answered(&rig.agent.turn(&session, "hello").await, "you said hello");
        assert!(seen.insert(session.clone()), "{session} was brought back");
        rig.agent.request(method, json!({"sessionId": session})).await.unwrap();
    }
    let new = rig.agent.request("session/new", params.clone()).await.unwrap();
    let second = rig.agent.request("session/new", params).await.unwrap();
    assert_ne!(new["sessionId"], second["sessionId"], "a second session/new is always fresh");
}

/// R24
#[tokio::test]
async fn two_new_sessions_at_once_are_two() {
    let rig = Setup::echo().start().await;
    let params = json!({"cwd": rig.home.workspace(), "mcpServers": []});
    let lines = (0..10).map(|id| request(id, "session/new", params.clone()));
    rig.agent.send_bytes(lines.collect::<String>().as_bytes());
    let mut seen = HashSet::new();
    for id in 0..10 {
        seen.insert(rig.agent.response(id).await.unwrap()["sessionId"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen.len(), 10);
}

/// Contract: delete closes first, drops the session, accepts an unambiguous prefix; R16 for the unknown.
#[tokio::test]
async fn delete_takes_an_unambiguous_prefix() {
    for version in [1, 2] {
        let rig = Setup::echo().version(version).start().await;
        let mut sessions = Vec::new();
        // More than there are first digits: two begin alike.
        for _ in 0..17 {
            sessions.push(rig.agent.new_session(rig.home.workspace()).await);
        }
        let mut firsts = HashSet::new();
        let twice = sessions.iter().find(|session| !firsts.insert(&session[..1])).unwrap();
        let ambiguous = rig.agent.request("session/delete", json!({"sessionId": twice[..1]})).await;
        assert!(ambiguous.is_err(), "two sessions begin with {:?}: {ambiguous:?}", &twice[..1]);
        assert_eq!(rig.list(json!({})).await.len(), 17, "nothing was deleted");

        let deleted = rig.agent.request("session/delete", json!({"sessionId": sessions[0][..18]})).await;
        assert_eq!(deleted.unwrap(), json!({}));
        let deleted = rig.agent.request("session/delete", json!({"sessionId": sessions[1]})).await;
        assert_eq!(deleted.unwrap(), json!({}));
        let listed = rig.list(json!({})).await;
        assert_eq!(listed.len(), 15);
        for session in &sessions[..2] {
            assert!(!ids(&listed).contains(&session.as_str()));
            let again = rig.agent.request("session/delete", json!({"sessionId": session})).await;
            let error = refused(again, -32002);
            assert_eq!(error["data"]["sessionId"], session.as_str());
            refused(resume(&rig, session, rig.home.workspace(), json!({})).await, -32002);
            let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
            refused(rig.agent.request("session/prompt", prompt).await, -32002);
            close(&rig, session).await;
        }
        rig.assert_usable(&sessions[2]).await;
    }
}

/// Case 030: ids are not paths, and no pattern.
#[tokio::test]
async fn session_ids_are_not_paths() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    answered(&rig.agent.turn(&session, "hello").await, "you said hello");
    let victims: Vec<PathBuf> = [
        rig.home.root().join("victim"),
        rig.home.milk_home().join("victim"),
        rig.home.milk_home().join("victim.json"),
        rig.home.milk_home().join("victim.jsonl"),
        rig.home.workspace().join("victim"),
    ]
    .into();
    for victim in &victims {
        std::fs::write(victim, "untouched").unwrap();
    }
    let absolute = rig.home.root().join("victim").display().to_string();
    let odd = [
        "../victim",
        "../../victim",
        &absolute,
        "..\\victim",
        "%2e%2e/victim",
        "a/b",
        "*",
        "?",
        ".",
        "..",
        "/",
        "\u{0}",
        " ",
        "-",
        "%",
        "_",
        "' or 1=1 --",
    ];
    for id in odd {
        refused(resume(&rig, id, rig.home.workspace(), json!({})).await, -32002);
        refused(rig.agent.request("session/delete", json!({"sessionId": id})).await, -32002);
        close(&rig, id).await;
        let prompt = json!({"sessionId": id, "prompt": [{"type": "text", "text": "hello"}]});
        refused(rig.agent.request("session/prompt", prompt).await, -32002);
    }
    // No id at all: it is no prefix of the only session.
    rig.agent.request("session/delete", json!({"sessionId": ""})).await.unwrap_err();
    resume(&rig, "", rig.home.workspace(), json!({})).await.unwrap_err();
    let long = "f".repeat(100_000);
    refused(rig.agent.request("session/delete", json!({"sessionId": long})).await, -32002);
    for victim in &victims {
        assert_eq!(std::fs::read_to_string(victim).unwrap(), "untouched", "{}", victim.display());
    }
    assert_eq!(ids(&rig.list(json!({})).await), [&session], "the store is intact");
    rig.assert_usable(&session).await;
}

/// Case 034, R22: what waits for the client to know a session is not said once the session is closed.
#[tokio::test]
async fn nothing_is_said_of_a_session_after_its_close() {
    for method in ["session/close", "session/delete"] {
        let rig = Setup::echo().start().await;
        let closed = rig.agent.new_session(rig.home.workspace()).await;
        let id = rig.agent.send_request(method, json!({"sessionId": closed}));
        rig.agent.response(&id).await.unwrap();
        // Opened later, so its commands come after any of the closed one's.
        rig.session().await;
        let line = Matcher::from_agent("a line of the closed session", {
            let closed = closed.clone();
            move |message| message["params"]["sessionId"] == closed.as_str()
        });
        rig.agent.transcript().assert_none_after(&Matcher::response(&id), &line);
    }
}
