//! The engine's ports, by hand.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt, stream};
use milk_core::failure::Failure;
use milk_core::model::{
    Finish, FinishReason, ModelError, ModelErrorKind, ModelEvent, ModelInfo, ModelRequest, StreamedCall,
    ToolArguments, Vision,
};
use milk_core::ports::{
    AgentSource, Clock, CommandPolicy, ExportFormat, Exporter, Files, Grant, GrantStore, Grants, Model,
    Provisioner, ResolvedAgent, StoreError, Tool, Transcript,
};
use milk_core::record::Logged;
use milk_core::session::SessionSummary;
use milk_core::settings::{
    Agents, PermissionMode, Provision, ResumeByDefault, Settings, TextDelivery, Thoughts,
};
use milk_core::tool::{
    Effect, FileAction, FileChange, PreparedCall, ToolError, ToolKind, ToolOutcome, ToolSpec, ToolStatus,
    Workspace,
};
use milk_core::{BoxFuture, BoxStream, JsonObject};
use milk_engine::{Engine, Ports};
use milk_files::MilkHome;
use milk_store::DiskSessions;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

type ModelResult = Result<ModelEvent, ModelError>;

/// A model that plays what the test has put in its queue, a reply for each request; `ok` when the queue is empty.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    info: ModelInfo,
    replies: Arc<Mutex<VecDeque<mpsc::Receiver<ModelResult>>>>,
}

/// One reply, as far as the test has told it. Dropping it ends the stream.
#[derive(Debug)]
pub(crate) struct Reply(mpsc::Sender<ModelResult>);

impl Script {
    pub(crate) fn new() -> Self {
        let info = ModelInfo {
            agent: "main".into(),
            provider: "fake".to_owned(),
            model: "fake-1".to_owned(),
            context_window: Some(1000),
            vision: Vision::Blind,
        };
        Self { info, replies: Arc::default() }
    }

    /// A reply that the test tells bit by bit.
    pub(crate) fn open_reply(&self) -> Reply {
        let (sender, receiver) = mpsc::channel(100_000);
        self.replies.lock().unwrap().push_back(receiver);
        Reply(sender)
    }

    /// Drops the replies that no request has taken.
    pub(crate) fn forget(&self) {
        self.replies.lock().unwrap().clear();
    }

    pub(crate) fn text(&self, text: &str) {
        let reply = self.open_reply();
        reply.text(text);
        reply.finish();
    }

    /// A tool call, and nothing else.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) {
        let reply = self.open_reply();
        let Value::Object(arguments) = arguments.clone() else { panic!("arguments are an object") };
        reply.send(Ok(ModelEvent::ToolCall(StreamedCall {
            id: None,
            name: tool.to_owned(),
            arguments: ToolArguments::Object(arguments),
        })));
        reply.finish();
    }

    pub(crate) fn failure(&self) {
        self.open_reply().send(Err(ModelError {
            kind: ModelErrorKind::RateLimited,
            provider: "fake".to_owned(),
            status: Some(429),
            details: "too many requests".to_owned(),
        }));
    }
}

impl Reply {
    pub(crate) fn text(&self, text: &str) {
        self.send(Ok(ModelEvent::Text(text.to_owned())));
    }

    /// How many events the turn has not taken yet.
    pub(crate) fn left(&self) -> usize {
        self.0.max_capacity() - self.0.capacity()
    }

    pub(crate) fn thought(&self, text: &str) {
        self.send(Ok(ModelEvent::Thought(text.to_owned())));
    }

    pub(crate) fn finish(&self) {
        self.send(Ok(ModelEvent::Finished(Finish { reason: FinishReason::Complete, provider_notes: None })));
    }

    fn send(&self, event: ModelResult) {
        let _ = self.0.try_send(event); // a turn that was cancelled no longer listens
    }
}

impl Model for Script {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn respond(&self, _: ModelRequest) -> BoxStream<'static, ModelResult> {
        if let Some(events) = self.replies.lock().unwrap().pop_front() {
            return stream::unfold(events, async |mut events| Some((events.recv().await?, events))).boxed();
        }
        let finish = Finish { reason: FinishReason::Complete, provider_notes: None };
        stream::iter([Ok(ModelEvent::Text("ok".to_owned())), Ok(ModelEvent::Finished(finish))]).boxed()
    }
}

impl AgentSource for Script {
    fn resolve(&self) -> BoxFuture<'_, Result<ResolvedAgent, Failure>> {
        let model = Arc::new(self.clone());
        Box::pin(async { Ok(ResolvedAgent { model, prompt: None, announcement: None }) })
    }
}

/// `peek` looks, `write` changes a file, `run` is a command: it prints its line, and `wait` waits for the end.
#[derive(Debug)]
struct FakeTool {
    spec: ToolSpec,
    kind: ToolKind,
}

impl FakeTool {
    fn named(name: &str, kind: ToolKind) -> Arc<dyn Tool> {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: name.to_owned(),
            input_schema: json!({"type": "object"}),
        };
        Arc::new(Self { spec, kind })
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
        let argument = arguments.values().find_map(Value::as_str).unwrap_or_default().to_owned();
        let effect = match self.kind {
            ToolKind::Edit => Effect::Writes,
            ToolKind::Execute => Effect::Executes { command: argument.clone() },
            _ => Effect::ReadOnly,
        };
        let changes = match self.kind {
            ToolKind::Edit => vec![FileChange {
                action: FileAction::Create,
                path: workspace.root.join(&argument),
                old_text: None,
                new_text: Some("new\n".into()),
            }],
            _ => Vec::new(),
        };
        let title = argument.clone();
        let run: Box<dyn FnOnce(_) -> _ + Send> = Box::new(move |cx: milk_core::tool::ToolContext| {
            let running: BoxFuture<'static, ToolOutcome> = Box::pin(async move {
                (cx.output)(&format!("{argument}\n"));
                if argument == "wait" {
                    cx.cancel.cancelled().await;
                    return ToolOutcome { status: ToolStatus::Cancelled, ..ToolOutcome::failed("stopped") };
                }
                ToolOutcome::completed(format!("{argument}\n"))
            });
            running
        });
        Box::pin(async { Ok(PreparedCall { title, locations: Vec::new(), changes, effect, run }) })
    }
}

#[derive(Debug)]
struct Provisions {
    model: Script,
}

impl Provisioner for Provisions {
    fn provision<'a>(&'a self, workspace: &'a Workspace) -> BoxFuture<'a, Result<Provision, Failure>> {
        assert_ne!(workspace.root, Path::new("/panics"), "a provisioner's own bug");
        let settings = Settings {
            max_model_calls: Some(10),
            tool_time_limit: None,
            turn_time_limit: None,
            tool_result_limit: 100_000,
            permissions: PermissionMode::Ask,
            allowed_commands: Vec::new(),
            thoughts: Thoughts::Shown,
            resume: ResumeByDefault::Adopt,
            delivery: TextDelivery::Streamed,
        };
        let provision = Provision {
            agents: Agents { primary: Arc::new(self.model.clone()), escalation: None },
            tools: vec![
                FakeTool::named("peek", ToolKind::Read),
                FakeTool::named("write", ToolKind::Edit),
                FakeTool::named("run", ToolKind::Execute),
            ],
            settings,
            instructions: None,
            announcements: Vec::new(),
        };
        Box::pin(async { Ok(provision) })
    }
}

/// Nothing is granted, nothing is remembered, nothing matches; the clock counts calls.
#[derive(Debug, Default)]
struct Nothing {
    ticks: AtomicU64,
}

impl Clock for Nothing {
    fn now_ms(&self) -> u64 {
        1_790_000_000_000 + self.ticks.fetch_add(1, Ordering::Relaxed)
    }
}

impl CommandPolicy for Nothing {
    fn allows(&self, _: &str, _: &[String]) -> bool {
        false
    }
}

impl GrantStore for Nothing {
    fn grants<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Result<Grants, StoreError>> {
        Box::pin(async { Ok(Grants::default()) })
    }

    fn remember<'a>(&'a self, _: &'a Path, _: &'a Grant) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

impl Exporter for Nothing {
    fn begin(&self, _: ExportFormat, _: &SessionSummary) -> Box<dyn Transcript> {
        Box::new(NoTranscript)
    }
}

struct NoTranscript;

impl Transcript for NoTranscript {
    fn push(&mut self, _: Logged) {}

    fn finish(self: Box<Self>) -> String {
        "a transcript".to_owned()
    }
}

impl Files for Nothing {
    fn save<'a>(&'a self, _: &'a Path, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<PathBuf, Failure>> {
        Box::pin(async { Err(Failure::new("not_written", "there are no files here")) })
    }
}

/// An engine on these fakes. Its sessions live as long as the folder does.
pub(crate) fn engine(model: &Script, home: &TempDir) -> Engine {
    let nothing = Arc::new(Nothing::default());
    Engine::new(Ports {
        exporter: Arc::<Nothing>::clone(&nothing),
        files: Arc::<Nothing>::clone(&nothing),
        provisioner: Arc::new(Provisions { model: model.clone() }),
        sessions: Arc::new(DiskSessions::new(MilkHome::at(home.path()), Arc::<Nothing>::clone(&nothing))),
        grants: Arc::<Nothing>::clone(&nothing),
        commands: Arc::<Nothing>::clone(&nothing),
        ask_sources: Vec::new(),
        memory: None,
        tasks: None,
        clock: nothing,
    })
}
