//! Nothing that has an effect runs without a yes, a grant or a switch (contract: Tool permissions; R28, R30; bug cases
//! 039, 050 to 053, 058).

use milk_core::ask::{AskOutcome, OptionKind};
use milk_core::event::StopReason;
use milk_core::id::OptionId;
use milk_core::ports::Grant;
use milk_core::settings::Settings;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::fakes::model::Exchange;
use crate::fakes::tool::{
    Does, FakeTool, external, fetching, reading, reading_anywhere, shell, writing, writing_anywhere,
};
use crate::lines::assert_lines;
use crate::rig::{Rig, Setup, settings};

/// One of every effect.
fn tools() -> Vec<FakeTool> {
    vec![
        reading("read", Does::Works),
        writing("write", Does::Works),
        shell(Does::Works),
        fetching("fetch", Does::Works),
        writing_anywhere("copy", Does::Works),
        reading_anywhere("peek", Does::Works),
        external("mcp", Does::Works),
    ]
}

/// How a question goes.
#[derive(Debug, Clone)]
enum Reply {
    Pick(&'static str),
    Outcome(AskOutcome),
    /// The front end drops the question.
    Drop,
}

impl Reply {
    async fn give(self, rig: &Rig) {
        match self {
            Self::Pick(option) => rig.pick(option).await,
            Self::Outcome(outcome) => rig.answer(outcome).await,
            Self::Drop => {
                rig.settle().await;
                drop(rig.screen.take_question());
            }
        }
    }
}

async fn one_call(rig: &mut Rig, tool: &str, arg: &str) -> Exchange {
    let exchange = rig.exchange().await;
    exchange.call("", tool, json!({"arg": arg}));
    exchange
}

/// Has the model make this call in a turn of its own; denies it if it is asked about; tells whether it was.
async fn asks(rig: &mut Rig, tool: &str, arg: &str) -> bool {
    let prompt = rig.submit("do it");
    one_call(rig, tool, arg).await.finish();
    rig.settle().await;
    let asks = rig.screen.open_questions() > 0;
    if asks {
        rig.pick("deny").await;
    }
    rig.exchange().await.say("done");
    rig.ended(prompt).await;
    asks
}

/// The same, but it must be asked about, and this is the answer.
async fn answered(rig: &mut Rig, tool: &str, arg: &str, option: &str) {
    let prompt = rig.submit("do it");
    one_call(rig, tool, arg).await.finish();
    rig.pick(option).await;
    rig.exchange().await.say("done");
    rig.ended(prompt).await;
}

#[tokio::test(start_paused = true)]
async fn a_yes_runs_the_call_behind_a_pending_row() {
    let mut rig = Setup::with_tools(tools()).open().await;
    let prompt = rig.submit("build it");
    let exchange = rig.exchange().await;
    exchange.text("I build.");
    exchange.call("c1", "bash", json!({"arg": "make"}));
    exchange.finish();
    rig.settle().await;
    assert_eq!(rig.seen_like(&["tool"]), ["tool bash make is prepared"], "nothing runs before the yes");
    rig.pick("allow").await;
    let exchange = rig.exchange().await;
    assert_eq!(
        crate::lines::chat(&exchange.request),
        ["user: build it", "assistant: I build. [c1 bash {\"arg\":\"make\"}]", "result c1: bash make done"]
    );
    exchange.say("Built.");
    assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
    assert_lines(
        &rig.work_of(prompt),
        &[
            "text: I build.",
            "row c1: bash make pending",
            "requires_action",
            "asked: Allow bash? make [allow allow_always deny]",
            "running",
            "row c1: runs",
            "row c1: completed: bash make done",
            "text: Built.",
        ],
    );
}

/// Bug case 050: every reply that is no clear yes.
#[tokio::test(start_paused = true)]
async fn anything_but_a_clear_yes_is_a_no_and_the_turn_goes_on() {
    let picked = |option: &str| Reply::Outcome(AskOutcome::Picked(OptionId::from(option)));
    let unanswered =
        Reply::Outcome(AskOutcome::Unanswered { cause: "the client does not know the method".to_owned() });
    for reply in [
        Reply::Pick("deny"),
        picked("nope"),
        picked(""),
        picked("Allow"),
        picked("allow_once"),
        Reply::Outcome(AskOutcome::Dismissed),
        unanswered.clone(),
        Reply::Drop,
    ] {
        let mut rig = Setup::with_tools(tools()).open().await;
        let prompt = rig.submit("do it");
        one_call(&mut rig, "write", "a").await.finish();
        reply.clone().give(&rig).await;
        let exchange = rig.exchange().await;
        let result = crate::lines::chat(&exchange.request).pop().unwrap();
        assert!(result.contains("denied"), "the model is told after {reply:?}: {result}");
        exchange.say("As you wish.");
        assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn, "{reply:?}");
        assert_eq!(rig.seen_like(&["tool"]), ["tool write a is prepared"], "nothing ran after {reply:?}");
        let work = rig.work_of(prompt);
        let told = work.iter().any(|line| line.starts_with("notice: [milk] write was denied"));
        let could_not_ask = matches!(reply, Reply::Drop | Reply::Outcome(AskOutcome::Unanswered { .. }));
        assert_eq!(told, could_not_ask, "a client that cannot ask is named: {work:#?}");
        assert!(work.contains(&"running".to_owned()));
        assert!(asks(&mut rig, "write", "a").await, "a no is not a grant");
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_is_shown_as_a_failed_row() {
    let mut rig = Setup::with_tools(tools()).open().await;
    let prompt = rig.submit("do it");
    let exchange = rig.exchange().await;
    exchange.call("c1", "write", json!({"arg": "a"}));
    exchange.finish();
    rig.pick("deny").await;
    rig.exchange().await.say("As you wish.");
    rig.ended(prompt).await;
    assert_lines(
        &rig.work_of(prompt),
        &[
            "row c1: write a pending",
            "requires_action",
            "asked: Allow write? write a [allow allow_always deny]",
            "running",
            "row c1: failed: tool write was denied by user",
            "text: As you wish.",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn the_options_have_the_kinds_of_the_contract() {
    let mut rig = Setup::with_tools(tools()).open().await;
    let prompt = rig.submit("do it");
    one_call(&mut rig, "bash", "make  all").await.finish();
    rig.settle().await;
    let (question, slot) = rig.screen.take_question();
    let kinds: Vec<OptionKind> = question.options.iter().map(|option| option.kind).collect();
    assert_eq!(kinds, [OptionKind::AllowOnce, OptionKind::AllowAlways, OptionKind::RejectOnce]);
    assert!(question.options[1].label.contains("`make all`"), "{}", question.options[1].label);
    assert_eq!(question.summary, "make  all", "the whole command, exactly");
    slot.answer(AskOutcome::Dismissed);
    rig.exchange().await.say("done");
    rig.ended(prompt).await;
}

/// What is asked about and what is not, before anything was allowed.
#[tokio::test(start_paused = true)]
async fn every_effect_asks_and_looking_does_not() {
    for (tool, arg, wanted) in [
        ("read", "a", false),
        ("peek", "a", false),
        ("write", "a", true),
        ("bash", "ls", true),
        ("fetch", "http://x", true),
        ("copy", "a", true),
        ("copy", "/outside/a", true),
        ("peek", "/private/key", true),
        ("mcp", "a", true),
    ] {
        let mut rig = Setup::with_tools(tools()).open().await;
        assert_eq!(asks(&mut rig, tool, arg).await, wanted, "{tool} {arg}");
        let settings = Settings { permissions: milk_core::settings::PermissionMode::SkipAll, ..settings() };
        let mut rig = Setup { settings, tools: tools(), ..Setup::default() }.open().await;
        assert!(!asks(&mut rig, tool, arg).await, "{tool} {arg} with the questions switched off");
    }
}

/// R28: what one `allow` and one `allow_always` cover. Each row: the call that is allowed, then calls and whether they ask.
#[tokio::test(start_paused = true)]
async fn a_yes_covers_what_it_says_and_no_more() {
    type Call = (&'static str, &'static str);
    let table: &[(Call, &[(Call, bool)])] = &[
        (("write", "a"), &[(("write", "b"), false), (("bash", "ls"), true), (("copy", "a"), true)]),
        (("bash", "ls"), &[(("bash", "ls"), false), (("bash", "ls -a"), true), (("write", "a"), true)]),
        (("fetch", "http://x"), &[(("fetch", "http://y"), false)]),
        (("mcp", "a"), &[(("mcp", "b"), false)]),
        (("copy", "a"), &[(("copy", "b"), false), (("copy", "/outside/a"), true)]),
    ];
    for option in ["allow", "allow_always"] {
        for ((tool, arg), later) in table {
            let mut rig = Setup::with_tools(tools()).open().await;
            answered(&mut rig, tool, arg, option).await;
            for ((other, other_arg), wanted) in *later {
                let asked = asks(&mut rig, other, other_arg).await;
                assert_eq!(asked, *wanted, "{other} {other_arg} after {option} of {tool} {arg}");
            }
            let stored = rig.grants.all();
            match (option, *tool) {
                ("allow", _) => assert_eq!(stored, []),
                (_, "bash") => assert_eq!(stored, [Grant::Command((*arg).to_owned())]),
                _ => assert_eq!(stored, [Grant::Tool((*tool).to_owned())]),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn outside_and_private_places_are_asked_for_one_by_one_and_never_for_good() {
    for (tool, place, other) in [("copy", "/outside/a", "/outside/b"), ("peek", "/private/a", "/private/b")] {
        let mut rig = Setup::with_tools(tools()).open().await;
        let prompt = rig.submit("do it");
        one_call(&mut rig, tool, place).await.finish();
        rig.settle().await;
        let (question, slot) = rig.screen.take_question();
        let options: Vec<&str> = question.options.iter().map(|option| option.id.as_str()).collect();
        assert_eq!(options, ["allow", "deny"]);
        assert!(question.summary.contains(place), "the real path is shown: {}", question.summary);
        slot.answer(AskOutcome::Picked(OptionId::from("allow")));
        rig.exchange().await.say("done");
        rig.ended(prompt).await;
        assert!(asks(&mut rig, tool, other).await, "{other} was not allowed");
        answered(&mut rig, tool, other, "allow_always").await;
        assert!(asks(&mut rig, tool, other).await, "what was not offered is a no");
        let ran = rig.seen_like(&[&format!("tool {tool} {other} starts")]);
        assert_eq!(ran, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn stored_grants_count_inside_the_workspace_and_never_for_the_shell_as_a_whole() {
    let grants = ["write", "copy", "peek", "bash"].map(|tool| Grant::Tool(tool.to_owned())).into();
    let mut rig = Setup { grants, tools: tools(), ..Setup::default() }.open().await;
    for (tool, arg, wanted) in [
        ("write", "a", false),
        ("copy", "a", false),
        ("copy", "/outside/a", true),
        ("peek", "/private/a", true),
        ("bash", "ls", true),
        ("fetch", "http://x", true),
    ] {
        assert_eq!(asks(&mut rig, tool, arg).await, wanted, "{tool} {arg}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_for_a_command_is_for_exactly_that_command() {
    let grants = vec![Grant::Command("make test".to_owned())];
    let mut rig = Setup { grants, tools: tools(), ..Setup::default() }.open().await;
    for (command, wanted) in [
        ("make test", false),
        ("make", true),
        ("make test; rm -rf .", true),
        ("make  test", true),
        ("", true),
    ] {
        assert_eq!(asks(&mut rig, "bash", command).await, wanted, "{command:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn allowed_commands_are_for_the_shell_alone() {
    let settings = Settings { allowed_commands: vec!["ls".to_owned()], ..settings() };
    let mut rig = Setup { settings, tools: tools(), ..Setup::default() }.open().await;
    for (tool, arg, wanted) in [("bash", "ls", false), ("bash", "lsof", true), ("write", "ls", true)] {
        assert_eq!(asks(&mut rig, tool, arg).await, wanted, "{tool} {arg}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_store_that_is_broken_makes_milk_ask_and_say_so() {
    let grants = vec![Grant::Tool("write".to_owned())];
    let mut rig = Setup { grants, tools: tools(), ..Setup::default() }.open().await;
    assert!(!asks(&mut rig, "write", "a").await);
    rig.grants.break_down();
    assert!(asks(&mut rig, "write", "a").await, "what cannot be read allows nothing");
    answered(&mut rig, "write", "a", "allow_always").await;
    assert!(
        rig.lines().iter().any(|line| line.starts_with("notice: [milk] the permission could not be saved"))
    );
    assert!(!asks(&mut rig, "write", "b").await, "it holds in this session");
}

/// Bug case 058: three writes in one response, each with its own answer.
#[tokio::test(start_paused = true)]
async fn each_answer_goes_to_its_own_call() {
    let mut rig = Setup::with_tools(tools()).open().await;
    let prompt = rig.submit("do it");
    let exchange = rig.exchange().await;
    for (id, arg) in [("c1", "one"), ("c2", "two"), ("c3", "three")] {
        exchange.call(id, "bash", json!({"arg": arg}));
    }
    exchange.finish();
    for option in ["deny", "allow", "deny"] {
        rig.pick(option).await;
        rig.settle().await;
        assert!(rig.screen.open_questions() <= 1);
    }
    let exchange = rig.exchange().await;
    let results = crate::lines::chat(&exchange.request).split_off(2);
    assert_eq!(
        results,
        [
            "result c1: tool bash was denied by user",
            "result c2: bash two done",
            "result c3: tool bash was denied by user"
        ]
    );
    exchange.say("done");
    rig.ended(prompt).await;
}

/// An answer that comes after the cancel changes nothing (bug case 039).
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_nobodys() {
    let mut rig = Setup::with_tools(tools()).open().await;
    let prompt = rig.submit("do it");
    one_call(&mut rig, "write", "a").await.finish();
    rig.settle().await;
    let (_, late) = rig.screen.take_question();
    rig.conversation.cancel();
    assert_eq!(rig.stop_of(prompt).await, StopReason::Cancelled);
    let prompt = rig.submit("again");
    one_call(&mut rig, "write", "b").await.finish();
    rig.settle().await;
    late.answer(AskOutcome::Picked(OptionId::from("allow")));
    rig.settle().await;
    assert_eq!(rig.outcome_now(prompt), None, "the second question waits for its own answer");
    rig.pick("deny").await;
    rig.exchange().await.say("done");
    rig.ended(prompt).await;
    assert_eq!(rig.seen_like(&["tool write a starts", "tool write b starts"]), Vec::<String>::new());
}
