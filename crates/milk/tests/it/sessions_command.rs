//! `milk sessions` on the command line, over sessions that a real milk has stored.

use std::process::{Command, Output};

use milk_testkit::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{MILK, Rig, Setup, assert_has, assert_lacks};

/// Runs `milk sessions` in the workspace of a rig.
fn sessions(rig: &Rig, arguments: &[&str]) -> Output {
    let mut command = Command::new(MILK);
    command.arg("sessions").args(arguments).current_dir(rig.home.workspace());
    command.env_clear().env("MILK_HOME", rig.home.milk_home()).env("HOME", rig.home.root());
    command.output().unwrap()
}

fn text(rig: &Rig, arguments: &[&str]) -> String {
    let output = sessions(rig, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn parsed(rig: &Rig, arguments: &[&str]) -> Value {
    serde_json::from_str(&text(rig, arguments)).unwrap()
}

#[tokio::test]
async fn stored_sessions_are_listed_shown_exported_and_deleted() {
    let rig = Setup::echo().start().await;
    let (first, second) = (rig.session().await, rig.session().await);
    rig.agent.turn(&first, "about apples").await;
    rig.agent.turn(&second, "about pears").await;
    let elsewhere = rig.home.another_workspace("elsewhere");
    let third = rig.session_in(&elsewhere).await;
    rig.agent.turn(&third, "about plums").await;

    let here = parsed(&rig, &["list", "--json"]);
    let ids: Vec<&str> = here.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [second.as_str(), first.as_str()], "last use first, this directory only");
    assert_eq!(parsed(&rig, &["list", "--all", "--json"]).as_array().unwrap().len(), 3);
    let rows = text(&rig, &["list"]);
    assert_has(&rows, &format!("{}  about pears", &second[..8]));
    assert_lacks(&rows, "plums");

    let shown = text(&rig, &["show", &first[..8]]);
    assert_has(&shown, "you said about apples");
    let page = rig.home.root().join("page.html");
    sessions(&rig, &["export", &first, "-o", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") || page.starts_with("<!doctype html>"), "{}", &page[..80]);
    assert_has(&page, "you said about apples");
    assert_eq!(parsed(&rig, &["export", &first, "--json"])["session"]["id"], first.as_str());

    let open = sessions(&rig, &["delete", &first]);
    assert!(!open.status.success(), "it is open in milk serve");
    assert_has(&String::from_utf8_lossy(&open.stderr), &rig.agent.pid().to_string());
    rig.agent.shutdown().await;
    let unknown = sessions(&rig, &["delete", &first, "nothing"]);
    assert!(!unknown.status.success());
    assert_has(&String::from_utf8_lossy(&unknown.stderr), "no session matches");
    assert_eq!(
        parsed(&rig, &["list", "--json"]).as_array().unwrap().len(),
        2,
        "a mistyped one deletes nothing"
    );
    assert_eq!(parsed(&rig, &["delete", &first, "--json"]), json!({"deleted": [first]}));
    assert_eq!(parsed(&rig, &["list", "--json"]).as_array().unwrap().len(), 1);
    assert_eq!(parsed(&rig, &["reindex", "--json"])["sessions"], 2);
    assert_eq!(parsed(&rig, &["prune", "--json"])["removed"], json!([]));
    let pruned = parsed(&rig, &["prune", "--unused-for", "0", "--json"]);
    assert_eq!(pruned["removed"].as_array().unwrap().len(), 2, "{pruned}");
}

/// R37.
#[tokio::test]
async fn no_secret_is_in_an_export() {
    let rig = Setup::replies([Reply::text("your key is hunter2-very-secret"), Reply::text("ok")])
        .agent("api_key", "hunter2-very-secret")
        .start()
        .await;
    let session = rig.session().await;
    rig.agent.turn(&session, "what is in config.json? hunter2-very-secret?").await;
    for form in [&["show", &session][..], &["show", &session, "--json"], &["export", &session, "--html"]] {
        let told = text(&rig, form);
        assert_lacks(&told, "hunter2");
        assert_has(&told, "your key is");
    }
    let chat = rig.agent.turn(&session, "/export").await;
    assert_lacks(&chat.text, "hunter2");
}
