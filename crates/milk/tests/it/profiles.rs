//! What known clients cannot bear: R39, R40; case 048.

use milk_testkit::{Reply, TestHome};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{Setup, answered, refused, said, story};

/// Whether a client of this name and version sees its own message again.
async fn is_echoed(setup: Setup) -> bool {
    let rig = setup.start().await;
    let session = rig.session().await;
    answered(&rig.agent.turn(&session, "hello").await, "you said hello");
    let transcript = rig.agent.transcript();
    let echoes: Vec<&str> = transcript.kinds(&session);
    echoes.iter().any(|kind| kind.starts_with("user_message"))
}

/// R39: echo of the user's message.
#[tokio::test]
async fn the_echo_is_left_out_for_clients_that_show_it_twice() {
    assert!(is_echoed(Setup::echo().v1().client("an-unknown-editor")).await);
    assert!(!is_echoed(Setup::echo().v1().client("Toad")).await);
    assert!(!is_echoed(Setup::echo().v1().client("toad")).await, "names in any case");
    assert!(
        is_echoed(Setup::echo().client("an-unknown-editor")).await,
        "an unknown v2 client gets everything"
    );
    assert!(is_echoed(Setup::echo().v1().client("agent-shell")).await);
}

/// R39: overridable in the config.
#[tokio::test]
async fn the_config_changes_what_a_client_gets() {
    let off = json!({"an-unknown-editor": {"echo": false}});
    assert!(!is_echoed(Setup::echo().v1().client("an-unknown-editor").root("acp_clients", off)).await);
    let on = json!({"toad": {"echo": true}});
    assert!(is_echoed(Setup::echo().v1().client("Toad").root("acp_clients", on)).await);
}

/// A home whose workspace has a config that is not trusted: milk says so in a notice.
fn untrusted() -> TestHome {
    let home = TestHome::new();
    home.project_config(&json!({"dangerously_skip_permissions": true}));
    home
}

/// Case 048, R39: for an unknown v1 client a notice is held for the next turn, for agent-shell anyway.
#[tokio::test]
async fn a_v1_client_gets_notices_in_the_next_turn() {
    for client in ["an-unknown-editor", "agent-shell"] {
        let rig = Setup::echo().v1().client(client).start_in(untrusted()).await;
        let mark = rig.mark();
        let session = rig.session().await;
        rig.agent.sync().await;
        assert_eq!(said(&rig.since(mark)), "", "{client}: nothing while idle");
        let mark = rig.mark();
        let turn = rig.agent.turn(&session, "hello").await;
        assert!(turn.text.contains("you said hello"), "{turn:#?}");
        assert!(turn.text.contains("trust"), "{client}: the notice comes within the turn: {turn:#?}");
        let told = story(&rig.since(mark));
        assert_eq!(told.last().map(String::as_str), Some("result"), "{told:?}");
        let texts = rig.since(mark).texts(&session);
        let notice = texts.iter().find(|message| message.text.contains("trust")).unwrap();
        assert!(!notice.text.contains("you said"), "a message of its own: {notice:?}");
    }
}

/// R39: agent-shell calls any update outside a turn a bug.
#[tokio::test]
async fn agent_shell_gets_nothing_out_of_turn() {
    let setup = Setup::replies([Reply::text("one"), Reply::text("two")]).v1().client("agent-shell");
    let rig = setup.start_in(untrusted()).await;
    let session = rig.session().await;
    for _ in 0..2 {
        let turn = rig.agent.turn(&session, "hello").await;
        turn.response.unwrap();
    }
    rig.agent.sync().await;
    let transcript = rig.agent.transcript();
    let mut in_turn = false;
    for entry in &transcript.entries {
        let message = &entry.json;
        if message["method"] == "session/prompt" {
            in_turn = true;
        } else if message["result"]["stopReason"].is_string() {
            in_turn = false;
        } else if message["method"] == "session/update" {
            let kind = message["params"]["update"]["sessionUpdate"].as_str().unwrap();
            // The list of commands is no part of a turn for any client (contract: sent right after session/new).
            assert!(in_turn || kind == "available_commands_update", "out of turn: {message}");
        }
    }
}

/// R40
#[tokio::test]
async fn session_load_is_not_offered_to_clients_that_can_resume() {
    for (client, version) in [("an-unknown-editor", 1), ("Toad", 2)] {
        let rig = Setup::echo().version(version).client(client).start().await;
        let session = rig.session().await;
        let params = json!({"sessionId": session, "cwd": rig.home.workspace(), "mcpServers": []});
        refused(rig.agent.request("session/load", params).await, -32601);
    }
}
