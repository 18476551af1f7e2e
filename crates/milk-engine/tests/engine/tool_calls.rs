//! Tool calls: order, rows, faults, ids and bounds (R30; bug cases 044, 068, 078, 079, 105).

use std::time::Duration;

use milk_core::event::{EventKind, StopReason};
use milk_core::model::ToolArguments;
use milk_core::settings::{PermissionMode, Settings};
use milk_core::tool::{ToolOutcome, ToolStatus};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::fakes::gate::Gate;
use crate::fakes::journal::Seen;
use crate::fakes::tool::{Does, FakeTool, reading, shell, writing};
use crate::lines::{self, assert_lines};
use crate::rig::{Rig, Setup, settings};

/// A rig in which effects run unasked.
async fn trusting(tools: Vec<FakeTool>) -> Rig {
    let settings = Settings { permissions: PermissionMode::SkipAll, ..settings() };
    Setup { settings, tools, ..Setup::default() }.open().await
}

#[tokio::test(start_paused = true)]
async fn reads_run_together_and_effects_alone_in_the_models_order() {
    let gate = Gate::shut();
    let mut rig = trusting(vec![
        reading("read", Does::WaitsFor(gate.clone())),
        writing("write", Does::WaitsFor(gate.clone())),
    ])
    .await;
    let prompt = rig.submit("do it");
    let exchange = rig.exchange().await;
    for (id, tool) in [("c1", "read"), ("c2", "read"), ("c3", "write"), ("c4", "write"), ("c5", "read")] {
        exchange.call(id, tool, json!({"arg": id}));
    }
    exchange.finish();
    let mut order = Vec::new();
    for _ in 0..5 {
        rig.settle().await;
        order.push(rig.seen_like(&["tool"]).len());
        gate.let_one_through();
    }
    rig.exchange().await.say("done");
    assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
    assert_eq!(
        rig.seen_like(&["tool"]),
        [
            "tool read c1 is prepared",
            "tool read c2 is prepared",
            "tool write c3 is prepared",
            "tool read c1 starts",
            "tool read c2 starts",
            "tool read c1 ends",
            "tool read c2 ends",
            "tool write c3 starts",
            "tool write c3 ends",
            "tool write c4 is prepared",
            "tool write c4 starts",
            "tool write c4 ends",
            "tool read c5 is prepared",
            "tool read c5 starts",
            "tool read c5 ends",
        ],
        "a preview is never older than the effect before it"
    );
    assert_eq!(order, [5, 6, 8, 11, 14]);
    assert_lines(
        &rig.work_of(prompt),
        &[
            "row c1: read c1 in_progress",
            "row c2: read c2 in_progress",
            "row c1: completed: read c1 done",
            "row c2: completed: read c2 done",
            "row c3: write c3 in_progress",
            "row c3: completed: write c3 done",
            "row c4: write c4 in_progress",
            "row c4: completed: write c4 done",
            "row c5: read c5 in_progress",
            "row c5: completed: read c5 done",
            "text: done",
        ],
    );
}

/// An effect is kept before it is shown; its row, its record and its result say the same.
#[tokio::test(start_paused = true)]
async fn an_effect_is_in_the_log_before_its_row_ends() {
    let mut rig = trusting(vec![writing("write", Does::Works)]).await;
    let prompt = rig.submit("do it");
    let exchange = rig.exchange().await;
    exchange.call("c1", "write", json!({}));
    exchange.finish();
    rig.exchange().await.say("done");
    rig.ended(prompt).await;
    assert_eq!(
        rig.seen_like(&["tool", "row", "log said", "log c1"]),
        [
            "log said: \"\" [c1]",
            "tool write is prepared",
            "row c1: write in_progress",
            "tool write starts",
            "tool write ends",
            "log c1 completed",
            "row c1: completed: write done",
            "log said: \"done\" []",
        ]
    );
}

/// Calls that never run: each with the tool's name, its arguments and how its result begins.
#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_run_is_never_asked_about_and_tells_the_model_why() {
    let object = |text: &str| ToolArguments::Object(serde_json::from_str(text).unwrap());
    let table = [
        ("search_files", object("{}"), "unknown tool: search_files. Available tools: write, picky"),
        ("", object("{}"), "unknown tool: unnamed. Available tools: write, picky"),
        ("write", ToolArguments::Unparsable("{\"arg\": \"x".to_owned()), "invalid arguments: "),
        ("write", ToolArguments::Unparsable(String::new()), "invalid arguments: "),
        ("picky", object("{}"), "arg is missing"),
    ];
    for (tool, arguments, reason) in table {
        let tools = [writing("write", Does::Works), writing("picky", Does::Refuses("arg is missing"))];
        let mut rig = Setup::with_tools(tools).open().await;
        let prompt = rig.submit("do it");
        let exchange = rig.exchange().await;
        exchange.streamed_call(Some("c1"), tool, arguments.clone());
        exchange.finish();
        let exchange = rig.exchange().await;
        let result = lines::chat(&exchange.request).pop().unwrap();
        assert!(result.starts_with(&format!("result c1: {reason}")), "{result}");
        exchange.say("I see.");
        assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn, "{tool} {arguments:?}");
        let work = rig.work_of(prompt);
        assert_eq!(work.len(), 3, "{work:#?}");
        assert!(work[0].ends_with("pending") && work[1].starts_with("row c1: failed"), "{work:#?}");
        assert_eq!(rig.seen_like(&["tool"]), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_tool_is_the_models_to_deal_with() {
    let mut rig = trusting(vec![shell(Does::Fails("no such file"))]).await;
    let prompt = rig.submit("do it");
    let exchange = rig.exchange().await;
    exchange.call("c1", "bash", json!({"arg": "cat x"}));
    exchange.finish();
    let exchange = rig.exchange().await;
    assert_eq!(lines::chat(&exchange.request).pop().unwrap(), "result c1: no such file");
    exchange.say("It is missing.");
    assert_eq!(rig.stop_of(prompt).await, StopReason::EndTurn);
}

/// Bug case 105: two calls with ids that are missing, empty or the same, twice in a session.
#[tokio::test(start_paused = true)]
async fn call_ids_are_unique_whatever_the_provider_sends() {
    for ids in [[None, None], [Some(""), Some("")], [Some(" "), None], [Some("call_1"), Some("call_1")]] {
        let mut rig = trusting(vec![reading("read", Does::Works)]).await;
        for _ in 0..2 {
            let prompt = rig.submit("do it");
            let exchange = rig.exchange().await;
            for (id, arg) in ids.iter().zip(["a", "b"]) {
                let arguments = serde_json::from_value(json!({"arg": arg})).unwrap();
                exchange.streamed_call(*id, "read", ToolArguments::Object(arguments));
            }
            exchange.finish();
            let exchange = rig.exchange().await;
            let results = lines::chat(&exchange.request).split_off(exchange.request.messages.len() - 2);
            assert!(results[0].ends_with(": read a done") && results[1].ends_with(": read b done"));
            exchange.say("done");
            rig.ended(prompt).await;
        }
        let entries = rig.journal.entries();
        let rows = entries.iter().filter(
            |seen| matches!(seen, Seen::Event(event) if matches!(event.kind, EventKind::ToolCallStarted(_))),
        );
        assert_eq!(rows.count(), 4, "{ids:?}; that they differ is a law");
    }
}

#[tokio::test(start_paused = true)]
async fn live_output_is_bounded_and_says_that_it_was_cut() {
    let big = "é".repeat(30_000);
    let pieces: Vec<String> = (0..10).map(|_| big.clone()).collect();
    let mut rig = trusting(vec![shell(Does::Prints(pieces))]).await;
    let prompt = rig.submit("do it");
    let exchange = rig.exchange().await;
    exchange.call("c1", "bash", json!({"arg": "flood"}));
    exchange.finish();
    rig.exchange().await.say("done");
    rig.ended(prompt).await;
    let output: Vec<String> =
        rig.work_of(prompt).into_iter().filter(|line| line.starts_with("output")).collect();
    let shown: usize = output.iter().map(String::len).sum();
    assert!((100_000..140_000).contains(&shown), "{shown} bytes were shown");
    assert!(output.last().unwrap().contains("more output"));
}

/// The mark comes also when the pieces fill the limit to the byte.
#[tokio::test(start_paused = true)]
async fn live_output_that_just_fits_is_marked_when_more_comes() {
    let half = "x".repeat(64 * 1024);
    for (pieces, cut) in
        [(vec![half.clone(), half.clone()], false), (vec![half.clone(), half, "y".into()], true)]
    {
        let mut rig = trusting(vec![shell(Does::Prints(pieces))]).await;
        let prompt = rig.submit("do it");
        let exchange = rig.exchange().await;
        exchange.call("c1", "bash", json!({"arg": "flood"}));
        exchange.finish();
        rig.exchange().await.say("done");
        rig.ended(prompt).await;
        assert_eq!(rig.lines().iter().any(|line| line.contains("more output")), cut);
    }
}

/// A tool whose reader outlives it: what it prints then belongs to nobody.
#[tokio::test(start_paused = true)]
async fn output_after_the_end_of_a_call_is_not_shown() {
    let tool = shell(Does::Works);
    let contexts = tool.contexts();
    let mut rig = trusting(vec![tool]).await;
    let prompt = rig.submit("do it");
    let exchange = rig.exchange().await;
    exchange.call("c1", "bash", json!({"arg": "x"}));
    exchange.finish();
    let exchange = rig.exchange().await;
    let late = contexts.lock().unwrap().pop().unwrap();
    (late.output)("late");
    exchange.say("done");
    rig.ended(prompt).await;
    (late.output)("much too late");
    assert!(!rig.lines().iter().any(|line| line.contains("late")));
}

#[tokio::test(start_paused = true)]
async fn a_result_is_bounded_for_the_model_and_the_row() {
    let settings = Settings { tool_result_limit: 300, permissions: PermissionMode::SkipAll, ..settings() };
    let outcome = ToolOutcome::completed(format!("head {} tail", "é".repeat(5_000)));
    let tools = vec![shell(Does::Gives(outcome))];
    let mut rig = Setup { settings, tools, ..Setup::default() }.open().await;
    let prompt = rig.submit("do it");
    let exchange = rig.exchange().await;
    exchange.call("c1", "bash", json!({"arg": "x"}));
    exchange.finish();
    let exchange = rig.exchange().await;
    let result = lines::chat(&exchange.request).pop().unwrap();
    assert!(result.len() < 400 && result.contains("head") && result.ends_with("tail"), "{result}");
    exchange.say("done");
    rig.ended(prompt).await;
    assert!(rig.work_of(prompt).iter().all(|line| line.len() < 400));
}

/// A result without a word still says something to the model.
#[tokio::test(start_paused = true)]
async fn an_empty_result_is_named() {
    for status in [ToolStatus::Completed, ToolStatus::Failed] {
        let outcome = ToolOutcome { status, ..ToolOutcome::completed("") };
        let mut rig = trusting(vec![shell(Does::Gives(outcome))]).await;
        let prompt = rig.submit("do it");
        let exchange = rig.exchange().await;
        exchange.call("c1", "bash", json!({"arg": "x"}));
        exchange.finish();
        let exchange = rig.exchange().await;
        let result = lines::chat(&exchange.request).pop().unwrap();
        assert!(result.contains("output"), "{result}");
        exchange.say("done");
        rig.ended(prompt).await;
    }
}

/// A bug in a tool costs at most its turn: the rows are closed and the next prompt works.
#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_leaves_nothing_open() {
    for does in [Does::Panics, Does::PanicsWhilePreparing] {
        let gate = Gate::shut();
        let tools =
            vec![reading("slow", Does::WaitsFor(gate)), shell(does.clone()), writing("write", Does::Works)];
        let mut rig = trusting(tools).await;
        let prompt = rig.submit("do it");
        let exchange = rig.exchange().await;
        exchange.text("I try.");
        exchange.call("c1", "bash", json!({"arg": "x"}));
        exchange.call("c2", "write", json!({"arg": "y"}));
        exchange.finish();
        assert_eq!(rig.stop_of(prompt).await, StopReason::Error, "{does:?}");
        assert!(rig.lines().contains(&"idle: error internal".to_owned()));
        assert_eq!(rig.seen_like(&["tool write"]), Vec::<String>::new());
        let sent = rig.next_prompt_works().await;
        assert_eq!(sent.len(), 5, "the calls have results in history: {sent:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_told_its_time_limit() {
    for limit in [None, Some(Duration::from_secs(7))] {
        let tool = reading("look", Does::Works);
        let contexts = tool.contexts();
        let settings = Settings { tool_time_limit: limit, ..settings() };
        let mut rig = Setup { settings, tools: vec![tool], ..Setup::default() }.open().await;
        let prompt = rig.submit("do it");
        let exchange = rig.exchange().await;
        exchange.call("c1", "look", json!({}));
        exchange.finish();
        rig.exchange().await.say("done");
        rig.ended(prompt).await;
        assert_eq!(contexts.lock().unwrap()[0].time_limit, limit);
    }
}

/// Long results are much to show: the next one waits until the front end has room.
#[tokio::test(start_paused = true)]
async fn a_slow_front_end_slows_the_results_of_its_tools() {
    let mut rig = trusting(vec![reading("look", Does::Works)]).await;
    let prompt = rig.submit("do it");
    let exchange = rig.exchange().await;
    for id in ["c1", "c2"] {
        exchange.call(id, "look", json!({}));
    }
    rig.screen.has_room(false);
    exchange.finish();
    rig.settle().await;
    assert_lines(
        &rig.work_of(prompt),
        &["row c1: look in_progress", "row c2: look in_progress", "row c1: completed: look done"],
    );
    rig.screen.has_room(true);
    rig.exchange().await.say("done");
    rig.ended(prompt).await;
}
