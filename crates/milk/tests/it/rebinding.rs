//! Views, handles, aliases and the session commands over the wire (contract: Session commands and view rebinding; R25;
//! acp-behaviour section 7, by its rows).

use milk_testkit::Transcript;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Rig, Setup, answered, assert_has, refused, said};

async fn resume(rig: &Rig, session: &str) -> Result<Value, Value> {
    rig.agent.request("session/resume", json!({"sessionId": session, "cwd": rig.home.workspace()})).await
}

/// What a command says.
async fn command(rig: &Rig, session: &str, text: &str) -> String {
    let turn = rig.agent.turn(session, text).await;
    assert!(!turn.text.is_empty(), "{text} is silent");
    turn.text
}

/// Two sessions, each with a turn and a view of its own.
async fn two(rig: &Rig) -> (String, String) {
    let (a, b) = (rig.session().await, rig.session().await);
    rig.agent.turn(&a, "in a").await;
    rig.agent.turn(&b, "in b").await;
    (a, b)
}

fn ids(transcript: &Transcript, session: &str) -> Vec<String> {
    let updates = transcript.updates(session);
    updates.iter().filter_map(|update| update["messageId"].as_str()).map(str::to_owned).collect()
}

async fn listed(rig: &Rig) -> Vec<String> {
    let all = rig.list(json!({})).await;
    all.iter().map(|session| session["sessionId"].as_str().unwrap().to_owned()).collect()
}

/// Rows 1, 2 and 16.
#[tokio::test]
async fn a_handle_stays_and_leads_back_to_where_it_began() {
    let rig = Setup::echo().start().await;
    let a = rig.session().await;
    rig.agent.turn(&a, "first").await;
    let told = command(&rig, &a, "/new other").await;
    assert_has(&told, "\"other\"");
    answered(&rig.agent.turn(&a, "second").await, "you said second");
    let b = listed(&rig).await[0].clone();
    assert_ne!(b, a, "a store session of its own: {told}");
    let mark = rig.mark();
    resume(&rig, &a).await.unwrap();
    let back = rig.since(mark);
    assert_eq!(ids(&back, &a)[1..], ["hist-u0", "hist-a1"], "plain ids at home, whatever was asked");
    let mark = rig.mark();
    assert_has(&command(&rig, &a, &format!("/resume {}", &b[..8])).await, "switched this conversation");
    let there = ids(&rig.since(mark), &a);
    let qualified = format!("hist-{}-u0", &b[..8]);
    assert!(there.contains(&qualified), "{there:?}");
    rig.assert_usable(&a).await;
}

/// Rows 3 to 6.
#[tokio::test]
async fn a_binding_is_an_alias_of_its_view() {
    let rig = Setup::echo().start().await;
    let (a, b) = two(&rig).await;
    rig.agent.request("session/close", json!({"sessionId": b})).await.unwrap();
    command(&rig, &a, &format!("/resume {b}")).await;
    resume(&rig, &b).await.unwrap();
    let mark = rig.mark();
    answered(&rig.agent.turn(&b, "by the alias").await, "you said by the alias");
    assert!(!rig.since(mark).updates(&b).is_empty(), "a turn carries the handle that its prompt named");
    answered(&rig.agent.turn(&a, "by the handle").await, "you said by the handle");
    rig.agent.request("session/close", json!({"sessionId": b})).await.unwrap();
    for handle in [&a, &b] {
        let error = rig.agent.request(
            "session/prompt",
            json!({"sessionId": handle, "prompt": [{"type": "text", "text": "x"}]}),
        );
        refused(error.await, -32002);
    }
    let fresh = rig.agent.new_session(rig.home.workspace()).await;
    assert!(fresh != a && fresh != b, "both are among the closed ones");
}

/// Row 7.
#[tokio::test]
async fn a_session_that_another_conversation_has_is_refused() {
    let rig = Setup::echo().start().await;
    let (a, b) = two(&rig).await;
    assert_has(&command(&rig, &a, &format!("/resume {b}")).await, "open in another conversation");
    answered(&rig.agent.turn(&a, "still a").await, "you said still a");
    answered(&rig.agent.turn(&b, "still b").await, "you said still b");
}

/// Rows 8 and 14.
#[tokio::test]
async fn a_conversation_whose_session_is_deleted_goes_on_with_a_fresh_one() {
    for by_command in [false, true] {
        let rig = Setup::echo().start().await;
        let (a, b) = two(&rig).await;
        command(&rig, &a, "/new").await;
        rig.agent.turn(&a, "somewhere else").await;
        let c = listed(&rig).await[0].clone();
        let mark = rig.mark();
        if by_command {
            assert_has(&command(&rig, &b, &format!("/drop {c}")).await, "deleted session");
        } else {
            rig.agent.request("session/delete", json!({"sessionId": &c[..13]})).await.unwrap();
        }
        rig.agent.sync().await;
        let updates = rig.since(mark);
        let notice = format!("session {} was deleted — this conversation is now a fresh session", &c[..8]);
        let told = updates.updates(&a).iter().any(|update| update["content"][0]["text"] == notice.as_str());
        assert!(told, "{:#?}", updates.updates(&a));
        assert!(!listed(&rig).await.contains(&c));
        rig.assert_usable(&a).await;
        rig.assert_usable(&b).await;
    }
}

/// Row 9.
#[tokio::test]
async fn deleting_a_handle_closes_its_view_wherever_it_is() {
    let rig = Setup::echo().start().await;
    let a = rig.session().await;
    rig.agent.turn(&a, "first").await;
    command(&rig, &a, "/new").await;
    rig.agent.turn(&a, "second").await;
    let b = listed(&rig).await[0].clone();
    rig.agent.request("session/delete", json!({"sessionId": a})).await.unwrap();
    assert_eq!(listed(&rig).await, std::slice::from_ref(&b), "what the view had gone to stays stored");
    refused(resume(&rig, &a).await, -32002);
    assert_ne!(rig.agent.new_session(rig.home.workspace()).await, b, "and is not brought back");
    resume(&rig, &b).await.unwrap();
    rig.assert_usable(&b).await;
}

#[tokio::test]
async fn drop_and_sessions_and_export_say_what_there_is() {
    let rig = Setup::echo().start().await;
    let a = rig.session().await;
    rig.agent.turn(&a, "first").await;
    assert_has(&command(&rig, &a, "/sessions").await, &format!("* {}", &a[..8]));
    let listed_by_old_name = command(&rig, &a, "/list").await;
    assert_has(&listed_by_old_name, "/sessions");
    let transcript = command(&rig, &a, "/export").await;
    assert_has(&transcript, &format!("session: {a}"));
    assert_has(&transcript, "you said first");
    let json: Value = serde_json::from_str(&command(&rig, &a, "/export json").await).unwrap();
    assert_eq!(json["session"]["id"], a.as_str());
    assert_has(&command(&rig, &a, "/export html out.html").await, "out.html");
    let page = std::fs::read_to_string(rig.home.workspace().join("out.html")).unwrap();
    assert_has(&page, "you said first");
    let told = command(&rig, &a, "/drop").await;
    assert_has(&told, "deleted session");
    assert!(!listed(&rig).await.contains(&a));
    answered(&rig.agent.turn(&a, "after").await, "you said after");
    let again = command(&rig, &a, &format!("/export session {a}")).await;
    assert_has(&again, "no session matches");
}

/// Case 030: ids are not paths.
#[tokio::test]
async fn ids_are_not_paths() {
    let rig = Setup::echo().start().await;
    let a = rig.session().await;
    let victim = rig.home.root().join("victim");
    std::fs::write(&victim, "stay").unwrap();
    let absolute = victim.display().to_string();
    for id in
        ["../victim", absolute.as_str(), "..\\victim", "%2e%2e/victim", "a/b", "*", ".", "..", "\u{0}", "%"]
    {
        refused(rig.agent.request("session/delete", json!({"sessionId": id})).await, -32002);
        refused(resume(&rig, id).await, -32002);
        let closed = rig.agent.request("session/close", json!({"sessionId": id})).await;
        assert_eq!(closed.unwrap(), json!({}));
        for name in ["/drop", "/resume", "/export session"] {
            assert_has(&command(&rig, &a, &format!("{name} {id}x")).await, "no session matches");
        }
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "stay");
    rig.assert_usable(&a).await;
    assert!(!said(&rig.agent.transcript()).contains("panicked"));
}
