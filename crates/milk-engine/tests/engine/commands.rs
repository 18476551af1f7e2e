//! Slash commands: run by milk itself, as turns like any other (contract: Slash commands; R26).

use milk_core::event::StopReason;
use milk_core::settings::{PermissionMode, Settings};
use milk_engine::command;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::fakes::tool::{Does, shell};
use crate::lines::assert_lines;
use crate::rig::{Rig, Setup, settings};

#[tokio::test(start_paused = true)]
async fn a_command_is_a_turn_without_a_model() {
    let mut rig = Setup::default().open().await;
    let prompt = rig.submit(" //help ");
    assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
    assert_lines(
        &rig.lines(),
        &[
            "user:  //help ",
            "running",
            "text: Commands available over ACP:…",
            "idle: end_turn",
            "ended: end_turn",
        ],
    );
    assert_eq!(rig.request_count(), 0);
    let help = rig.lines()[2].clone();
    for row in command::advertised() {
        assert!(help.contains(&format!("/{}", row.name)), "/help lists {}", row.name);
    }
    let sent = rig.next_prompt_works().await;
    assert_eq!(sent, ["user: and now?"], "no model ever sees a command");
}

#[tokio::test(start_paused = true)]
async fn slash_text_that_is_no_command_goes_to_the_model() {
    let mut rig = Setup::default().open().await;
    for text in ["/etc/hosts explain this", "/eixt", "/", "/HELP", "please run /help"] {
        let prompt = rig.submit(text);
        let exchange = rig.exchange().await;
        assert!(crate::lines::chat(&exchange.request).last().unwrap().ends_with(text));
        exchange.say("ok");
        assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
    }
}

#[tokio::test(start_paused = true)]
async fn every_advertised_command_says_something_in_both_spellings() {
    let rig = Setup::default().open().await;
    for row in command::advertised() {
        for slashes in ["/", "//"] {
            let prompt = rig.submit(&format!("{slashes}{}", row.name));
            assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
            assert!(rig.lines_of(prompt)[2].starts_with("text: "), "{} is silent", row.name);
        }
    }
}

/// Whether a command of the shell is asked about now.
async fn asks(rig: &mut Rig, command: &str) -> bool {
    let prompt = rig.submit("run it");
    let exchange = rig.exchange().await;
    exchange.call(command, "bash", json!({"arg": command}));
    exchange.finish();
    rig.settle().await;
    let asks = rig.screen.open_questions() > 0;
    if asks {
        rig.pick("deny").await;
    }
    rig.exchange().await.say("done");
    rig.ended(prompt).await;
    asks
}

#[tokio::test(start_paused = true)]
async fn skip_permissions_switches_the_questions_off_and_on() {
    for (seed, first) in [(PermissionMode::Ask, true), (PermissionMode::SkipAll, false)] {
        let settings = Settings { permissions: seed, ..settings() };
        let mut rig = Setup { settings, tools: vec![shell(Does::Works)], ..Setup::default() }.open().await;
        assert_eq!(asks(&mut rig, "a").await, first, "the seed is {seed:?}");
        for (argument, wanted) in
            [("on", Some(false)), ("off", Some(true)), ("maybe", Some(true)), ("", None)]
        {
            let prompt = rig.submit(format!("/skip-permissions {argument}").trim_end());
            rig.ended(prompt).await;
            if let Some(wanted) = wanted {
                assert_eq!(asks(&mut rig, &format!("after {argument}")).await, wanted, "after {argument:?}");
            }
        }
        assert!(rig.lines().iter().any(|line| line.starts_with("text: usage: /skip-permissions")));
        assert!(rig.lines().iter().any(|line| line.contains("is OFF")));
    }
}

/// R12: a cancel works from the instant that the prompt was read, for commands too.
#[tokio::test(start_paused = true)]
async fn a_command_that_is_cancelled_before_it_runs_does_nothing() {
    let mut rig = Setup::with_tools([shell(Does::Works)]).open().await;
    let prompt = rig.submit("/skip-permissions on");
    rig.conversation.cancel();
    assert_eq!(rig.stop_of(prompt).await, StopReason::Cancelled);
    assert_lines(
        &rig.lines(),
        &["user: /skip-permissions on", "running", "idle: cancelled", "ended: cancelled"],
    );
    assert!(asks(&mut rig, "a").await, "the switch was not moved");
}
