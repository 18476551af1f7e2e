//! The laws under any order of what clients, models, tools, people and the clock may do.
//!
//! The cases are the same in every run; `PROPTEST_CASES` makes more of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use milk_core::ask::AskOutcome;
use milk_core::event::{EventKind, PromptOutcome, StopReason};
use milk_core::id::{OptionId, PromptId};
use milk_core::model::{FinishReason, ModelErrorKind, ToolArguments};
use milk_core::settings::{Settings, TextDelivery, Thoughts};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use serde_json::json;

use crate::fakes::asking::RemoteAsk;
use crate::fakes::gate::Gate;
use crate::fakes::journal::{Nature, Seen, ToolNote};
use crate::fakes::model::Exchange;
use crate::fakes::tool::{Does, reading, shell, writing};
use crate::rig::{Rig, Setup, settings};

/// One thing that somebody does.
#[derive(Debug, Clone)]
enum Act {
    Submit(&'static str),
    Cancel,
    /// Cancels one of the prompts so far, counted from the newest.
    CancelPrompt(usize),
    Text,
    Thought,
    Call(&'static str),
    OddCall,
    Usage,
    Finish(FinishReason),
    Fail(ModelErrorKind),
    BreakOff,
    LetAToolGo,
    Answer(&'static str),
    Dismiss,
    DropTheQuestion,
    RemoteAnswer(&'static str),
    Room(bool),
    LogFails(bool),
    /// Lets the others run for a moment, not to the end.
    Yield(u8),
    /// Lets this many milliseconds pass.
    Wait(u16),
}

fn act() -> impl Strategy<Value = Act> {
    let tool = prop_oneof![
        3 => Just("read"),
        6 => Just("bash"),
        1 => Just("deaf"),
        1 => Just("buggy"),
        1 => Just("no_such_tool"),
    ];
    let option = prop_oneof![3 => Just("allow"), 2 => Just("deny"), 1 => Just("nope")];
    let reason = prop_oneof![
        12 => Just(FinishReason::Complete),
        1 => Just(FinishReason::Length),
        1 => Just(FinishReason::Refusal)
    ];
    let kind = prop_oneof![Just(ModelErrorKind::ServerFailed), Just(ModelErrorKind::ContextTooLong)];
    prop_oneof![
        6 => prop_oneof![5 => Just("hello"), 1 => Just("/help"), 1 => Just("")].prop_map(Act::Submit),
        2 => Just(Act::Cancel),
        1 => (0..4_usize).prop_map(Act::CancelPrompt),
        5 => Just(Act::Text),
        3 => Just(Act::Thought),
        10 => tool.prop_map(Act::Call),
        1 => Just(Act::OddCall),
        2 => Just(Act::Usage),
        12 => reason.prop_map(Act::Finish),
        1 => kind.prop_map(Act::Fail),
        1 => Just(Act::BreakOff),
        6 => Just(Act::LetAToolGo),
        6 => option.clone().prop_map(Act::Answer),
        1 => Just(Act::Dismiss),
        1 => Just(Act::DropTheQuestion),
        3 => option.prop_map(Act::RemoteAnswer),
        2 => any::<bool>().prop_map(Act::Room),
        1 => prop::bool::weighted(0.3).prop_map(Act::LogFails),
        12 => (0..8_u8).prop_map(Act::Yield),
        14 => (1..40_u16).prop_map(Act::Wait),
        1 => (900..1_200_u16).prop_map(Act::Wait),
    ]
}

/// How the conversation is set up.
#[derive(Debug, Clone, Copy)]
struct Shape {
    delivery: TextDelivery,
    thoughts: Thoughts,
    limit: u32,
}

fn shape() -> impl Strategy<Value = Shape> {
    let delivery = prop_oneof![Just(TextDelivery::Streamed), Just(TextDelivery::Whole)];
    let thoughts = prop_oneof![Just(Thoughts::Shown), Just(Thoughts::Hidden)];
    (delivery, thoughts, 1..6_u32).prop_map(|(delivery, thoughts, limit)| Shape { delivery, thoughts, limit })
}

/// The world, the test's side of it.
struct Stage {
    rig: Rig,
    exchange: Option<Exchange>,
    remote: Option<RemoteAsk>,
    gate: Gate,
    calls: usize,
    prompts: Vec<PromptId>,
    /// For each prompt, whether somebody cancelled it after it was submitted.
    cancelled: HashMap<PromptId, bool>,
    /// The commands that somebody said yes to.
    allowed: Vec<String>,
}

impl Stage {
    async fn set(shape: Shape) -> Self {
        let gate = Gate::shut();
        let tools = vec![
            reading("read", Does::WaitsFor(gate.clone())),
            shell(Does::WaitsFor(gate.clone())),
            writing("deaf", Does::IgnoresCancel(gate.clone())),
            reading("buggy", Does::Panics),
        ];
        let settings = Settings {
            delivery: shape.delivery,
            thoughts: shape.thoughts,
            max_model_calls: Some(shape.limit),
            ..settings()
        };
        let rig = Setup { settings, tools, remote_sides: 1, ..Setup::default() }.open().await;
        Self {
            rig,
            exchange: None,
            remote: None,
            gate,
            calls: 0,
            prompts: Vec::new(),
            cancelled: HashMap::new(),
            allowed: Vec::new(),
        }
    }

    async fn play(&mut self, act: Act) {
        self.look();
        match act {
            Act::Submit(text) => {
                let prompt = self.rig.submit(text);
                self.prompts.push(prompt);
                self.cancelled.insert(prompt, false);
            }
            Act::Cancel => self.cancel(),
            Act::CancelPrompt(back) => {
                if let Some(prompt) = self.prompts.iter().rev().nth(back) {
                    self.rig.conversation.cancel_prompt(*prompt);
                    self.cancelled.insert(*prompt, true);
                }
            }
            Act::LetAToolGo => self.gate.let_one_through(),
            Act::Room(has_room) => self.rig.screen.has_room(has_room),
            Act::LogFails(fails) => self.rig.store.fails(fails),
            Act::Yield(times) => {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
            Act::Wait(ms) => tokio::time::sleep(Duration::from_millis(ms.into())).await,
            Act::Answer(option) => self.answer(AskOutcome::Picked(OptionId::from(option))),
            Act::Dismiss => self.answer(AskOutcome::Dismissed),
            Act::DropTheQuestion => {
                if self.rig.screen.open_questions() > 0 {
                    drop(self.rig.screen.take_question());
                }
            }
            Act::RemoteAnswer(option) => {
                if let Some(ask) = self.remote.take() {
                    if option == "allow" {
                        self.allowed.push(ask.question.summary.clone());
                    }
                    ask.answer(AskOutcome::Picked(OptionId::from(option)));
                }
            }
            model => self.model(model),
        }
    }

    /// Takes up what the engine has asked for.
    fn look(&mut self) {
        if let Some(exchange) = self.rig.exchange_now() {
            self.exchange = Some(exchange);
        }
        if let Some(ask) = self.rig.remote_ask_now(0) {
            self.remote = Some(ask);
        }
    }

    fn cancel(&mut self) {
        self.rig.conversation.cancel();
        self.cancelled.values_mut().for_each(|cancelled| *cancelled = true);
    }

    fn answer(&mut self, outcome: AskOutcome) {
        if self.rig.screen.open_questions() > 0 {
            let (question, slot) = self.rig.screen.take_question();
            if outcome == AskOutcome::Picked(OptionId::from("allow")) {
                self.allowed.push(question.summary);
            }
            slot.answer(outcome);
        }
    }

    fn model(&mut self, act: Act) {
        let Some(exchange) = self.exchange.take() else { return };
        match act {
            Act::Text => exchange.text("word "),
            Act::Thought => exchange.thought("hm "),
            Act::Usage => exchange.usage(100, 10),
            Act::Call(tool) => {
                self.calls += 1; // each command is another, so that each needs its own yes
                exchange.call("same id", tool, json!({"arg": format!("command {}", self.calls)}));
            }
            Act::OddCall => exchange.streamed_call(None, "", ToolArguments::Unparsable("{".to_owned())),
            Act::Finish(reason) => return exchange.finish_as(reason),
            Act::Fail(kind) => return exchange.fail(kind),
            Act::BreakOff => return,
            other => unreachable!("{other:?} is not the model's"),
        }
        self.exchange = Some(exchange);
    }

    /// After everything: a cancel leaves nothing open within its time, and the next prompt works.
    async fn end(mut self) -> Result<(), TestCaseError> {
        self.cancel();
        tokio::time::sleep(Duration::from_secs(2)).await;
        for prompt in &self.prompts {
            let Some(outcome) = self.rig.outcome_now(*prompt) else {
                return Err(self.fault("a cancelled prompt is not answered within two seconds"));
            };
            let cut = matches!(
                outcome,
                PromptOutcome::NeverRan | PromptOutcome::Ended { stop: StopReason::Cancelled, .. }
            );
            prop_assert!(!cut || self.cancelled[prompt], "a cancel touched a later prompt");
        }
        while self.rig.exchange_now().is_some_and(|exchange| exchange.is_dropped()) {}
        self.rig.screen.has_room(true);
        let last = self.rig.submit("last");
        self.rig.exchange().await.say("it works");
        prop_assert_eq!(self.rig.stop_of(last).await, StopReason::EndTurn);
        self.rig.conversation.close().await;
        self.only_what_was_allowed_ran()?;
        let broken = self.rig.broken_laws();
        if broken.is_empty() { Ok(()) } else { Err(self.fault(&format!("{broken:#?}"))) }
    }

    fn only_what_was_allowed_ran(&self) -> Result<(), TestCaseError> {
        let entries = self.rig.journal.entries();
        for seen in entries.iter() {
            let Seen::Tool { label, nature: Nature::Acts, what: ToolNote::Starts } = seen else { continue };
            let Some(command) = label.strip_prefix("bash ") else { continue };
            prop_assert!(
                self.allowed.iter().any(|allowed| allowed == command),
                "{} ran without a yes",
                command
            );
        }
        Ok(())
    }

    fn fault(&self, what: &str) -> TestCaseError {
        TestCaseError::fail(format!("{what}\nthis happened:\n{}", self.rig.everything()))
    }
}

#[test]
fn the_laws_hold_in_any_order_of_events() {
    let config = Config { failure_persistence: None, ..Config::default() };
    let cases = config.cases as usize;
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let story = (shape(), prop::collection::vec(act(), 5..160));
    let reached = RefCell::new(Reached::default());
    let mut runner = TestRunner::new_with_rng(config, rng);
    let played = runner.run(&story, |(shape, acts)| {
        let mut clock = tokio::runtime::Builder::new_current_thread();
        let runtime = clock.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut stage = Stage::set(shape).await;
            for act in acts {
                stage.play(act).await;
            }
            reached.borrow_mut().count(&stage.rig);
            stage.end().await
        })
    });
    if let Err(fault) = played {
        panic!("{fault}");
    }
    reached.borrow().assert_everything(cases / 10);
}

/// How often the stories came to what they are about: a generator that never gets there would prove nothing.
#[derive(Debug, Default)]
struct Reached {
    ended: usize,
    cancelled: usize,
    failed: usize,
    never_ran: usize,
    questions: usize,
    withdrawn: usize,
    finished_calls: usize,
}

impl Reached {
    fn count(&mut self, rig: &Rig) {
        for seen in rig.journal.entries().iter() {
            let Seen::Event(event) = seen else { continue };
            match &event.kind {
                EventKind::PromptEnded(PromptOutcome::NeverRan) => self.never_ran += 1,
                EventKind::PromptEnded(PromptOutcome::Ended { stop, .. }) => match stop {
                    StopReason::Cancelled => self.cancelled += 1,
                    StopReason::Error => self.failed += 1,
                    _ => self.ended += 1,
                },
                EventKind::Asked { .. } => self.questions += 1,
                EventKind::AskWithdrawn(_) => self.withdrawn += 1,
                EventKind::ToolCallChanged { .. } => self.finished_calls += 1,
                _ => {}
            }
        }
    }

    fn assert_everything(&self, at_least: usize) {
        let Self { ended, cancelled, failed, never_ran, questions, withdrawn, finished_calls } = self;
        for count in [ended, cancelled, failed, never_ran, questions, withdrawn, finished_calls] {
            assert!(*count >= at_least, "the stories are too tame: {self:?}");
        }
    }
}
