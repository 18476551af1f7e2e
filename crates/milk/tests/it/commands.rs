//! Slash commands: contract, Slash commands; R26; cases 052, 143, 144.

use milk_testkit::client::{Speaker, Turn};
use milk_testkit::{Policy, RecordedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Rig, Setup, answered, asked, assert_has, ended, updates_of};

/// The commands that were advertised for a session.
fn advertised(rig: &Rig, session: &str) -> Vec<Value> {
    rig.agent.with_transcript(|transcript| {
        let lists = updates_of(transcript, session, "available_commands_update");
        assert_eq!(lists.len(), 1, "exactly one list");
        lists[0]["availableCommands"].as_array().unwrap().clone()
    })
}

/// Contract, Slash commands: run by milk itself, one chunk between running and idle.
#[tokio::test]
async fn help_is_run_by_milk_itself() {
    for version in [1, 2] {
        let rig = Setup::replies([]).version(version).start().await;
        let session = rig.session().await;
        for spelled in ["/help", "//help", "/help please", "/help\nmore"] {
            let mark = rig.mark();
            let (turn, story) = rig.story_of_turn(&session, spelled).await;
            ended(&turn, "end_turn");
            let expected: &[&str] = if version == 1 {
                &["user_message_chunk", "agent_message_chunk", "result"]
            } else {
                &[
                    "user_message",
                    "state_update running",
                    "agent_message_chunk",
                    "state_update idle end_turn",
                    "result",
                ]
            };
            assert_eq!(story, expected, "{spelled}");
            let texts = rig.since(mark).texts(&session);
            assert_eq!((texts[0].speaker, texts[0].text.as_str()), (Speaker::User, spelled));
            assert_eq!(texts[1].updates, 1, "one chunk");
            for command in advertised(&rig, &session) {
                assert_has(&turn.text, &format!("/{}", command["name"].as_str().unwrap()));
            }
            assert!(!turn.text.contains('\u{1b}'), "no ANSI: {}", turn.text);
        }
        assert_eq!(rig.server.count(), 0, "the model is not asked");
    }
}

/// Case 144, R26: bare names, and everything that is advertised runs in both spellings.
#[tokio::test]
async fn what_is_advertised_runs() {
    for version in [1, 2] {
        let rig = Setup::replies([]).version(version).start().await;
        let session = rig.session().await;
        let commands = advertised(&rig, &session);
        let names: Vec<&str> = commands.iter().filter_map(|command| command["name"].as_str()).collect();
        assert!(names.contains(&"help"), "{names:?}");
        for command in &commands {
            let name = command["name"].as_str().unwrap();
            assert!(!name.starts_with('/') && !name.contains(char::is_whitespace), "R26: {name:?}");
            assert!(command["description"].as_str().is_some_and(|text| !text.is_empty()), "{command}");
            assert_eq!(command["type"] == "command", version == 2, "R26: {command}");
            for slash in ["/", "//"] {
                let turn = rig.agent.turn(&session, &format!("{slash}{name}")).await;
                ended(&turn, "end_turn");
                assert!(!turn.text.trim().is_empty(), "{name} says nothing");
            }
        }
        assert_eq!(rig.server.count(), 0, "none of them reached the model");
        let other = rig.session_in(rig.home.another_workspace("other")).await;
        assert_eq!(advertised(&rig, &other), commands, "the same list everywhere");
    }
}

/// Case 143: what is no command is an ordinary prompt; nothing ends silently.
#[tokio::test]
async fn unknown_slash_text_goes_to_the_model() {
    let rig = Setup::respond(|request| Reply::text(format!("model: {}", asked(request)))).start().await;
    let session = rig.session().await;
    for text in [
        "/etc/hosts explain this",
        "/Users/x/a.png what is it",
        "/eixt",
        "/",
        "//",
        "///",
        "/ help",
        "/help.txt what is in it",
        "/help/me",
        "/helpful",
        "please run /help",
        "/HELP",
        "// a comment in code",
    ] {
        answered(&rig.agent.turn(&session, text).await, &format!("model: {text}"));
    }
    let turn: Turn = rig.agent.turn(&session, " /help").await;
    assert!(!turn.text.trim().is_empty(), "a blank before it: {turn:#?}");
    // The text is a command only where the prompt begins with it.
    let blocks = json!([{"type": "text", "text": "look:"}, {"type": "text", "text": "/help"}]);
    let id = rig.agent.prompt_blocks(&session, blocks);
    rig.agent.response(&id).await.unwrap();
    let last = rig.server.request(rig.server.count() - 1).await.last_user();
    assert!(last.ends_with("look:\n/help"), "R13: {last}");
}

/// Runs a command in the shell whenever the prompt is `touch NAME`.
fn toucher(request: &RecordedRequest) -> Reply {
    let is_result = request.messages().last().is_some_and(|message| message["role"] == "tool");
    let prompt = asked(request);
    if prompt.starts_with("touch ") && !is_result {
        return Reply::tool("bash", json!({ "command": prompt }));
    }
    Reply::text("ok")
}

/// Runs a turn that touches a file, under a client that says no, and tells whether it was asked.
async fn is_asked(rig: &Rig, session: &str, name: &str) -> bool {
    let mark = rig.mark();
    answered(&rig.agent.turn(session, &format!("touch {name}")).await, "ok");
    let lines = rig.since(mark);
    let was_asked = lines.from_agent().any(|message| message["method"] == "session/request_permission");
    assert_eq!(rig.home.exists(name), !was_asked, "a no is a no, and what is not asked runs");
    was_asked
}

/// Case 052; contract: `/skip-permissions [on|off]`, per session.
#[tokio::test]
async fn skip_permissions_is_a_switch_of_the_session() {
    for version in [1, 2] {
        let rig = Setup::respond(toucher).policy(Policy::Deny).version(version).start().await;
        let (session, other) = (rig.session().await, rig.session().await);
        assert!(is_asked(&rig, &session, "a").await, "off at first");
        let on = rig.agent.turn(&session, "/skip-permissions on").await;
        assert_has(&on.text.to_lowercase(), "on");
        assert!(!is_asked(&rig, &session, "b").await, "on");
        assert!(is_asked(&rig, &other, "c").await, "another session is not touched");
        let status = rig.agent.turn(&session, "/skip-permissions").await;
        assert!(!status.text.trim().is_empty());
        rig.agent.turn(&session, "/skip-permissions off").await.response.unwrap();
        assert!(is_asked(&rig, &session, "d").await, "off again");
        // A word that is neither changes nothing, and is not taken for yes.
        let odd = rig.agent.turn(&session, "/skip-permissions maybe").await;
        assert!(!odd.text.trim().is_empty());
        assert!(is_asked(&rig, &session, "e").await, "still off");
    }
}

/// Case 052: the config's own word counts in an editor too, and the command takes it back.
#[tokio::test]
async fn the_config_seeds_skip_permissions() {
    let setup = Setup::respond(toucher).policy(Policy::Deny).root("dangerously_skip_permissions", true);
    let rig = setup.start().await;
    let session = rig.session().await;
    assert!(!is_asked(&rig, &session, "a").await);
    rig.agent.turn(&session, "/skip-permissions off").await.response.unwrap();
    assert!(is_asked(&rig, &session, "b").await);
}

/// A command is queued like any prompt, and waits for the turn before it.
#[tokio::test]
async fn a_command_waits_for_its_turn() {
    let gate = milk_testkit::Gate::new();
    let rig = Setup::replies([Reply::text("first").held(&gate)]).start().await;
    let session = rig.session().await;
    let first = rig.agent.prompt(&session, "go");
    let help = rig.agent.prompt(&session, "/help");
    gate.reached().await;
    rig.agent.sync().await;
    let answered = |id| {
        rig.agent
            .with_transcript(|transcript| transcript.find(0, &milk_testkit::Matcher::response(id)).is_some())
    };
    assert!(!answered(&help), "it waits");
    gate.open();
    rig.agent.response(&first).await.unwrap();
    rig.agent.response(&help).await.unwrap();
}
