//! Tools that do what the test says, and note in the journal what they do.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use milk_core::tool::{
    Effect, Location, PreparedCall, ToolContext, ToolError, ToolKind, ToolOutcome, ToolSpec, ToolStatus,
    Workspace,
};
use milk_core::{BoxFuture, JsonObject, ports::Tool};
use serde_json::json;

use super::gate::Gate;
use super::journal::{Journal, Nature, Seen, ToolNote};

/// A tool. Its calls take one argument, `arg`: a path, a command or an address, as its effect needs it.
#[derive(Debug)]
pub(crate) struct FakeTool {
    spec: ToolSpec,
    kind: ToolKind,
    effect: EffectOf,
    does: Does,
    journal: Journal,
    contexts: Contexts,
}

/// The contexts of the calls that began, for tests that keep talking through them.
pub(crate) type Contexts = Arc<Mutex<Vec<ToolContext>>>;

/// What a call with this argument would do.
#[derive(Debug, Clone, Copy)]
enum EffectOf {
    Reads,
    Writes,
    Executes,
    Fetches,
    Outside,
    Private,
    External,
}

/// What a call does when it runs.
#[derive(Debug, Clone)]
pub(crate) enum Does {
    /// Says that it is done.
    Works,
    /// Fails with this text.
    Fails(&'static str),
    /// Works once the gate lets it through; a cancel ends it.
    WaitsFor(Gate),
    /// Works once the gate lets it through, whatever is cancelled.
    IgnoresCancel(Gate),
    /// Prints these and works.
    Prints(Vec<String>),
    /// Gives this outcome.
    Gives(ToolOutcome),
    /// Has a bug.
    Panics,
    /// Has a bug before anything runs.
    PanicsWhilePreparing,
    /// Refuses its arguments.
    Refuses(&'static str),
}

/// A tool that only looks.
pub(crate) fn reading(name: &str, does: Does) -> FakeTool {
    FakeTool::new(name, ToolKind::Read, EffectOf::Reads, does)
}

/// A tool that changes files in the workspace.
pub(crate) fn writing(name: &str, does: Does) -> FakeTool {
    FakeTool::new(name, ToolKind::Edit, EffectOf::Writes, does)
}

/// A shell.
pub(crate) fn shell(does: Does) -> FakeTool {
    FakeTool::new("bash", ToolKind::Execute, EffectOf::Executes, does)
}

/// A tool that talks to another machine.
pub(crate) fn fetching(name: &str, does: Does) -> FakeTool {
    FakeTool::new(name, ToolKind::Fetch, EffectOf::Fetches, does)
}

/// A tool that changes files outside the workspace when its argument begins with `/outside`, else inside.
pub(crate) fn writing_anywhere(name: &str, does: Does) -> FakeTool {
    FakeTool::new(name, ToolKind::Edit, EffectOf::Outside, does)
}

/// A tool that looks at something private when its argument begins with `/private`, else it only looks.
pub(crate) fn reading_anywhere(name: &str, does: Does) -> FakeTool {
    FakeTool::new(name, ToolKind::Read, EffectOf::Private, does)
}

/// A tool that milk cannot see into.
pub(crate) fn external(name: &str, does: Does) -> FakeTool {
    FakeTool::new(name, ToolKind::Other, EffectOf::External, does)
}

impl FakeTool {
    fn new(name: &str, kind: ToolKind, effect: EffectOf, does: Does) -> Self {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: format!("The tool {name} of the tests."),
            input_schema: json!({"type": "object", "properties": {"arg": {"type": "string"}}}),
        };
        let journal = Journal::default();
        Self { spec, kind, effect, does, journal, contexts: Contexts::default() }
    }

    /// Notes in this journal from here on.
    pub(crate) fn noting_in(mut self, journal: Journal) -> Self {
        self.journal = journal;
        self
    }

    pub(crate) fn contexts(&self) -> Contexts {
        Arc::clone(&self.contexts)
    }

    fn effect(&self, argument: &str) -> Effect {
        let path = PathBuf::from(argument);
        match self.effect {
            EffectOf::Outside if argument.starts_with("/outside") => {
                Effect::WritesOutside { paths: vec![path] }
            }
            EffectOf::Private if argument.starts_with("/private") => Effect::ReadsPrivate { path },
            EffectOf::Reads | EffectOf::Private => Effect::ReadOnly,
            EffectOf::Writes | EffectOf::Outside => Effect::Writes,
            EffectOf::Executes => Effect::Executes { command: argument.to_owned() },
            EffectOf::Fetches => Effect::Network { url: argument.to_owned() },
            EffectOf::External => Effect::External,
        }
    }
}

impl Tool for FakeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> ToolKind {
        self.kind
    }

    fn prepare<'a>(
        &'a self,
        arguments: &'a JsonObject,
        workspace: &'a Workspace,
    ) -> BoxFuture<'a, Result<PreparedCall, ToolError>> {
        Box::pin(async move {
            let argument = arguments.get("arg").and_then(|arg| arg.as_str()).unwrap_or_default().to_owned();
            let label = format!("{} {argument}", self.spec.name).trim_end().to_owned();
            match self.does {
                Does::Refuses(why) => return Err(ToolError::new(why)),
                Does::PanicsWhilePreparing => panic!("the tool's own bug"),
                _ => {}
            }
            tokio::task::yield_now().await; // a real tool looks at the disk
            let effect = self.effect(&argument);
            let nature = if effect == Effect::ReadOnly { Nature::Looks } else { Nature::Acts };
            let diary = Diary { label: label.clone(), nature, journal: self.journal.clone(), ended: true };
            diary.note(ToolNote::Prepared);
            let does = self.does.clone();
            let contexts = self.contexts();
            Ok(PreparedCall {
                title: label,
                locations: vec![Location { path: workspace.root.join(&argument), line: None }],
                changes: Vec::new(),
                effect,
                run: Box::new(move |cx| {
                    contexts.lock().unwrap().push(cx.clone());
                    Box::pin(run(does, diary, cx))
                }),
            })
        })
    }
}

async fn run(does: Does, mut diary: Diary, cx: ToolContext) -> ToolOutcome {
    diary.starts();
    let done = ToolOutcome::completed(format!("{} done", diary.label));
    let outcome = match does {
        Does::Works => done,
        Does::Fails(why) => ToolOutcome::failed(why),
        Does::Gives(outcome) => outcome,
        Does::Prints(pieces) => {
            for piece in &pieces {
                (cx.output)(piece);
            }
            done
        }
        Does::WaitsFor(gate) => tokio::select! {
            biased;
            () = cx.cancel.cancelled() => {
                ToolOutcome { status: ToolStatus::Cancelled, ..ToolOutcome::failed("stopped in the middle") }
            }
            () = gate.passed() => done,
        },
        Does::IgnoresCancel(gate) => {
            gate.passed().await;
            done
        }
        Does::Panics => panic!("the tool's own bug"),
        Does::PanicsWhilePreparing | Does::Refuses(_) => unreachable!("it was never prepared"),
    };
    diary.ends();
    outcome
}

/// Notes what one call does, and when it is dropped before it has ended.
struct Diary {
    label: String,
    nature: Nature,
    journal: Journal,
    ended: bool,
}

impl Diary {
    fn note(&self, what: ToolNote) {
        self.journal.note(Seen::Tool { label: self.label.clone(), nature: self.nature, what });
    }

    fn starts(&mut self) {
        self.ended = false;
        self.note(ToolNote::Starts);
    }

    fn ends(mut self) {
        self.ended = true;
        self.note(ToolNote::Ends);
    }
}

impl Drop for Diary {
    fn drop(&mut self) {
        if !self.ended {
            self.note(ToolNote::Dropped);
        }
    }
}
