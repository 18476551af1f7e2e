//! A conversation goes from session to session (contract: Session commands and view rebinding).

use std::sync::Arc;

use milk_core::event::StopReason;
use milk_core::id::SessionId;
use milk_core::tool::Workspace;
use milk_engine::{Engine, OpenError, Opened, Origin, Start};
use pretty_assertions::assert_eq;

use crate::fakes::journal::Journal;
use crate::fakes::screen::Screen;
use crate::replay::{said, started};
use crate::rig::{Rig, Setup, settings};

async fn command(rig: &Rig, text: &str) -> String {
    let prompt = rig.submit(text);
    assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
    rig.lines_of(prompt)[2].clone()
}

/// A further conversation of the same engine, on a screen of its own.
async fn open(engine: &Engine, cwd: &str, start: Start) -> (Opened, Journal) {
    let journal = Journal::default();
    let screen = Arc::new(Screen::new(journal.clone()));
    let opened = engine.open(Workspace::new(cwd), start, screen).await;
    (opened.expect("the conversation opens"), journal)
}

#[tokio::test(start_paused = true)]
async fn new_goes_to_a_fresh_session_and_resume_goes_back() {
    let mut rig = Setup::default().open().await;
    rig.text_turn("remember the colour blue", "I do").await;
    let first = rig.conversation.session();
    let said = command(&rig, "/new  second\tone").await;
    let second = rig.conversation.session();
    assert_ne!(first, second);
    assert!(said.contains(&second.as_str()[..8]) && said.contains("\"second one\""), "{said}");
    let stored = rig.store.get(second.as_str()).unwrap();
    assert_eq!(stored.summary.name.as_deref(), Some("second one"));

    let prompt = rig.submit("which colour?");
    let exchange = rig.exchange().await;
    assert_eq!(
        crate::lines::chat(&exchange.request),
        ["user: which colour?"],
        "nothing of the other session"
    );
    exchange.say("none");
    rig.ended(prompt).await;

    let prompt = rig.submit(&format!("/resume {}", &first.as_str()[..8]));
    rig.ended(prompt).await;
    let id8 = &first.as_str()[..8];
    crate::lines::assert_lines(
        &rig.lines_of(prompt)[1..],
        &[
            "running",
            &format!(
                "text: switched this conversation to session {id8} — replaying 2 earlier turns; /export prints the full transcript"
            ),
            "was 0: user: remember the colour blue",
            "was 1: text: I do",
            "idle: end_turn",
            "ended: end_turn",
        ],
    );
    assert_eq!(rig.conversation.session(), first);
    let sent = rig.next_prompt_works().await;
    assert_eq!(sent, ["user: remember the colour blue", "assistant: I do", "user: and now?"]);
    let said = command(&rig, "/resume second one").await;
    assert!(said.contains("\"second one\""), "by its name: {said}");
    assert_eq!(rig.conversation.session(), second);
}

#[tokio::test(start_paused = true)]
async fn references_are_never_guessed() {
    let rig = Setup::default().open().await;
    rig.store.put("aaaa1111-x", "/work", Some("one"), &[started(1, "a")]);
    rig.store.put("aaaa2222-x", "/work", None, &[started(1, "b")]);
    rig.store.put("bbbb3333-x", "/elsewhere", Some("far"), &[started(1, "c")]);
    let own = rig.conversation.session();
    for (typed, wanted) in [
        ("/resume nothing", "text: no session matches \"nothing\""),
        ("/resume aaaa", "text: \"aaaa\" fits several sessions (aaaa2222 b, aaaa1111 one)"),
        ("/resume far", "text: no session matches \"far\""),
        ("/resume ../x", "text: no session matches \"../x\""),
        ("/drop nothing", "text: no session matches \"nothing\""),
        ("/export session one", "text: no session matches \"one\""),
        ("/new one", "text: session aaaa1111 of this directory has the name \"one\" already"),
    ] {
        let said = command(&rig, typed).await;
        assert!(said.starts_with(wanted), "{typed}: {said}");
        assert_eq!(rig.conversation.session(), own, "{typed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_of_another_directory_is_worked_on_there() {
    let rig = Setup::default().open().await;
    rig.store.put("bbbb3333-x", "/elsewhere", None, &[started(1, "c"), said(1, "d")]);
    let said = command(&rig, "/resume bbbb").await;
    assert!(said.contains(" in /elsewhere"), "{said}");
    assert_eq!(rig.conversation.workspace(), Workspace::new("/elsewhere"));
}

#[tokio::test(start_paused = true)]
async fn drop_deletes_and_goes_to_a_fresh_session() {
    let mut rig = Setup::default().open().await;
    rig.text_turn("hello", "hi").await;
    let first = rig.conversation.session();
    let said = command(&rig, "/drop").await;
    let second = rig.conversation.session();
    assert!(said.contains(&first.as_str()[..8]) && said.contains(&second.as_str()[..8]), "{said}");
    assert!(rig.store.get(first.as_str()).is_none());
    assert_eq!(rig.next_prompt_works().await, ["user: and now?"]);
    // A reference to the own session is the same; one to another leaves the conversation where it is.
    command(&rig, &format!("/drop {second}")).await;
    let third = rig.conversation.session();
    assert_ne!(third, second);
    rig.store.put("cccc4444-x", "/work", Some("old stuff"), &[started(1, "c")]);
    let said = command(&rig, "/drop old stuff").await;
    assert!(said.contains("deleted session cccc4444 (old stuff)"), "{said}");
    assert_eq!(rig.conversation.session(), third);
    assert!(rig.store.get("cccc4444-x").is_none());
}

#[tokio::test(start_paused = true)]
async fn one_session_is_in_one_conversation() {
    let mut rig = Setup::default().open().await;
    rig.text_turn("hello", "hi").await;
    let (other, _) = open(&rig.engine, "/work", Start::Default).await;
    assert_eq!(other.origin, Origin::Fresh, "the directory has a conversation already");
    let theirs = other.conversation.session();
    let own = rig.conversation.session();
    let said = command(&rig, &format!("/resume {theirs}")).await;
    assert!(said.contains("is open in another conversation"), "{said}");
    assert_eq!(rig.conversation.session(), own);
    let refused = rig
        .engine
        .open_stored(&theirs, Workspace::new("/work"), Arc::new(Screen::new(Journal::default())))
        .await;
    assert_eq!(refused.map(drop).unwrap_err(), OpenError::Taken(theirs.clone()));
    other.conversation.close().await;
    let said = command(&rig, &format!("/resume {theirs}")).await;
    assert!(said.contains("switched"), "free at once after a close: {said}");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_whose_session_is_deleted_goes_on_with_a_fresh_one() {
    let mut rig = Setup::default().open().await;
    rig.text_turn("hello", "hi").await;
    let own = rig.conversation.session();
    let running = rig.submit("a long work");
    let exchange = rig.exchange().await;
    let waiting = rig.submit("and then?");
    rig.engine.delete(&own).await.unwrap();
    drop(exchange);
    assert_eq!(rig.stop_of(running).await, StopReason::Cancelled);
    let exchange = rig.exchange().await;
    assert_eq!(
        crate::lines::chat(&exchange.request),
        ["user: and then?"],
        "what waited runs in the fresh one"
    );
    exchange.say("this");
    assert_eq!(rig.stop_of(waiting).await, StopReason::EndTurn);
    assert!(rig.store.get(own.as_str()).is_none());
    let told = format!(
        "announced: session {} was deleted — this conversation is now a fresh session",
        &own.as_str()[..8]
    );
    assert!(rig.lines().contains(&told), "{:?}", rig.lines());
}

#[tokio::test(start_paused = true)]
async fn two_conversations_that_drop_each_others_session_both_go_on() {
    let rig = Setup::default().open().await;
    let (other, _) = open(&rig.engine, "/work", Start::Fresh).await;
    let (ours, theirs) = (rig.conversation.session(), other.conversation.session());
    let first = rig.submit(&format!("/drop {theirs}"));
    other.conversation.submit(
        milk_engine::next_prompt_id(),
        vec![milk_core::content::ContentBlock::text(format!("/drop {ours}"))],
    );
    rig.ended(first).await;
    let mut rig = rig;
    rig.next_prompt_works().await;
    other.conversation.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_conversation_goes_on_with_the_newest_session_of_its_directory() {
    let rig = Setup::default().open().await;
    rig.store.put("old", "/project", None, &[started(1, "a"), said(1, "b")]);
    rig.store.put("new", "/project", None, &[started(1, "c"), said(1, "d"), started(2, "e")]);
    rig.store.put("empty", "/project", None, &[]);
    rig.store.put("locked", "/project", None, &[started(1, "f")]);
    rig.store.lock("locked");
    let (fresh, _) = open(&rig.engine, "/project", Start::Fresh).await;
    assert_eq!(fresh.origin, Origin::Fresh);
    fresh.conversation.close().await;
    let (adopted, _) = open(&rig.engine, "/project", Start::Default).await;
    let Origin::Adopted(summary) = adopted.origin else { panic!("{:?}", adopted.origin) };
    assert_eq!((summary.id.as_str(), summary.entries), ("new", 3), "not an empty one, not a locked one");
    let (second, _) = open(&rig.engine, "/project", Start::Default).await;
    assert_eq!(second.origin, Origin::Fresh, "the directory has a conversation now");
    second.conversation.close().await;
    adopted.conversation.close().await;
    rig.engine.note_closed("new");
    let (third, _) = open(&rig.engine, "/project", Start::Default).await;
    assert_eq!(
        third.origin,
        Origin::Fresh,
        "what was closed here is not brought back, nor is the one before it"
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_that_open_at_the_same_instant_one_adopts() {
    let rig = Setup::default().open().await;
    rig.store.put("new", "/project", None, &[started(1, "c"), said(1, "d")]);
    let opening = (0..8).map(|_| open(&rig.engine, "/project", Start::Default));
    let opened = futures_util::future::join_all(opening).await;
    let mut sessions: Vec<SessionId> =
        opened.iter().map(|(opened, _)| opened.conversation.session()).collect();
    sessions.sort();
    sessions.dedup();
    assert_eq!(sessions.len(), 8);
    assert_eq!(opened.iter().filter(|(opened, _)| opened.origin != Origin::Fresh).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_setting_for_adoption_is_obeyed() {
    let mut changed = settings();
    changed.resume = milk_core::settings::ResumeByDefault::Fresh;
    let rig = Setup { settings: changed, ..Setup::default() }.open().await;
    rig.store.put("new", "/project", None, &[started(1, "c"), said(1, "d")]);
    let (opened, _) = open(&rig.engine, "/project", Start::Default).await;
    assert_eq!(opened.origin, Origin::Fresh);
}

#[tokio::test(start_paused = true)]
async fn a_client_goes_back_to_where_its_conversation_began() {
    let mut rig = Setup::default().open().await;
    rig.text_turn("hello", "hi").await;
    let first = rig.conversation.session();
    command(&rig, "/new").await;
    rig.conversation.go_to(&first).await.unwrap();
    assert_eq!(rig.conversation.session(), first);
    let lines = rig.lines();
    let told = format!(
        "announced: switched this conversation to session {} — replaying 2 earlier turns; /export prints the full transcript",
        &first.as_str()[..8]
    );
    assert_eq!(
        lines[lines.len() - 3..],
        [told, "was 0: user: hello".to_owned(), "was 1: text: hi".to_owned()]
    );
    let gone = rig.conversation.go_to(&SessionId::from("nowhere")).await;
    assert_eq!(gone, Err(OpenError::Unknown("nowhere".into())));
    assert_eq!(rig.conversation.session(), first, "where it was");
    rig.next_prompt_works().await;
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_with_a_mark_on_the_own_one() {
    let mut rig = Setup::default().open().await;
    rig.store.put("aaaa1111-x", "/work", Some("with ``` and \u{1b}[2J"), &[started(1, "a")]);
    rig.store.put("bbbb3333-x", "/elsewhere", None, &[started(1, "c"), said(1, "d")]);
    rig.text_turn("hello", "hi").await;
    let own = rig.conversation.session();
    let here = command(&rig, "/sessions").await;
    assert!(here.contains(&format!("* {}  hello", &own.as_str()[..8])), "{here}");
    assert!(here.contains("  aaaa1111  with ''' and"), "{here}");
    assert!(!here.contains("bbbb3333") && !here.contains('\u{1b}'), "{here}");
    let all = command(&rig, "/sessions all").await;
    assert!(all.contains("bbbb3333") && all.contains("/elsewhere"), "{all}");
    let old = command(&rig, "/list").await;
    assert!(old.contains("aaaa1111") && old.contains("called /sessions now"), "{old}");
    let bare = command(&rig, "/resume").await;
    assert_eq!(bare, here, "a bare /resume lists");
}

#[tokio::test(start_paused = true)]
async fn exports_are_printed_or_saved_and_not_recorded_whole() {
    let mut rig = Setup::default().open().await;
    rig.text_turn("hello", "hi").await;
    let own = rig.conversation.session();
    assert_eq!(command(&rig, "/export").await, format!("text: Text of {own} | hello | /export"));
    rig.store.put("aaaa1111-x", "/work", None, &[started(1, "a")]);
    assert_eq!(command(&rig, "/export session aaaa json").await, "text: Json of aaaa1111-x | a");
    let said = command(&rig, "/export html out/page one.html").await;
    assert!(said.ends_with("to /work/out/page one.html"), "{said}");
    assert!(rig.documents.saved("/work/out/page one.html").unwrap().starts_with("Html of "));
    let noted = rig.seen_like(&["log noted: [the transcript"]);
    assert_eq!(noted.len(), 2, "{noted:?}");
}
