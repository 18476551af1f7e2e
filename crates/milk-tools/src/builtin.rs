//! The table of built-in tools, and what all of them have in common.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use milk_core::ports::Tool;
use milk_core::tool::{PreparedCall, ToolContext, ToolError, ToolKind, ToolOutcome, ToolSpec, Workspace};
use milk_core::{BoxFuture, JsonObject};

use crate::args::{Args, Param, schema};
use crate::env::{Shared, ToolEnv};
use crate::tools;

/// Every built-in tool, in the order that the model sees them.
const TABLE: [&Row; 11] = [
    &tools::bash::ROW,
    &tools::read_file::ROW,
    &tools::write_file::ROW,
    &tools::edit_file::ROW,
    &tools::delete_file::ROW,
    &tools::move_file::ROW,
    &tools::list_dir::ROW,
    &tools::find_files::ROW,
    &tools::grep::ROW,
    &tools::http_get::ROW,
    &tools::http_request::ROW,
];

/// One tool.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) kind: ToolKind,
    /// For the model.
    pub(crate) about: &'static str,
    pub(crate) params: &'static [Param],
    pub(crate) prepare: Prepare,
}

/// How a call is prepared.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Prepare {
    /// From the arguments alone.
    AtOnce(fn(&Call) -> Result<PreparedCall, ToolError>),
    /// By looking at the disk: done beside the runtime, which must never wait for one.
    OnDisk(fn(&Call) -> Result<PreparedCall, ToolError>),
}

/// One call that is being prepared.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    pub(crate) args: Args,
    pub(crate) workspace: Workspace,
}

/// The built-in tools, in the order that the model sees them.
pub fn builtin_tools(env: ToolEnv) -> Vec<Arc<dyn Tool>> {
    let shared = Arc::new(Shared::new(env));
    TABLE.into_iter().map(|row| Arc::new(Builtin::new(row, Arc::clone(&shared))) as Arc<dyn Tool>).collect()
}

#[derive(Debug)]
struct Builtin {
    row: &'static Row,
    spec: ToolSpec,
    shared: Arc<Shared>,
}

impl Builtin {
    fn new(row: &'static Row, shared: Arc<Shared>) -> Self {
        let spec = ToolSpec {
            name: row.name.to_owned(),
            description: row.about.trim_end().to_owned(),
            input_schema: schema(row.params),
        };
        Self { row, spec, shared }
    }
}

impl Tool for Builtin {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> ToolKind {
        self.row.kind
    }

    fn prepare<'a>(
        &'a self,
        arguments: &'a JsonObject,
        workspace: &'a Workspace,
    ) -> BoxFuture<'a, Result<PreparedCall, ToolError>> {
        let call = Call {
            shared: Arc::clone(&self.shared),
            args: Args::new(self.row.params, arguments),
            workspace: workspace.clone(),
        };
        match self.row.prepare {
            Prepare::AtOnce(prepare) => Box::pin(std::future::ready(prepare(&call))),
            Prepare::OnDisk(prepare) => Box::pin(async move {
                let prepared = tokio::task::spawn_blocking(move || prepare(&call)).await;
                prepared.unwrap_or_else(|error| Err(ToolError::new(crashed(&error))))
            }),
        }
    }
}

fn crashed(error: &tokio::task::JoinError) -> String {
    tracing::error!(%error, "a tool did not come to its end");
    "the tool itself failed; this is a fault of milk".to_owned()
}

/// Boxes what a prepared call does, ended by the call's time limit.
pub(crate) fn running<F, Run>(
    run: Run,
) -> Box<dyn FnOnce(ToolContext) -> BoxFuture<'static, ToolOutcome> + Send>
where
    Run: FnOnce(ToolContext) -> F + Send + 'static,
    F: Future<Output = ToolOutcome> + Send + 'static,
{
    Box::new(move |context| {
        let limit = context.time_limit;
        let work = run(context);
        Box::pin(async move {
            let Some(limit) = limit else { return work.await };
            let stopped = |_| ToolOutcome::failed(format!("stopped after {} s", limit.as_secs_f32()));
            tokio::time::timeout(limit, work).await.unwrap_or_else(stopped)
        })
    })
}

/// Boxes what a prepared call does on the disk, beside the runtime. Dropping the future raises the flag that the work
/// gets.
pub(crate) fn running_on_disk(
    work: impl FnOnce(&Stop) -> ToolOutcome + Send + 'static,
) -> Box<dyn FnOnce(ToolContext) -> BoxFuture<'static, ToolOutcome> + Send> {
    running(move |_| async move {
        let stop = Stop::default();
        let _raised_on_drop = RaiseOnDrop(stop.clone());
        let done = tokio::task::spawn_blocking(move || work(&stop)).await;
        done.unwrap_or_else(|error| ToolOutcome::failed(crashed(&error)))
    })
}

/// Tells work on another thread that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct RaiseOnDrop(Stop);

impl Drop for RaiseOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// Work that ends when it is stopped or when its time is up.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    stop: Stop,
    until: Instant,
}

impl Patience {
    pub(crate) fn new(stop: &Stop, limit: Duration) -> Self {
        Self { stop: stop.clone(), until: Instant::now() + limit }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_raised() || Instant::now() >= self.until
    }
}
