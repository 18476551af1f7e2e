//! The table of built-in tools, and what all of them have in common.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use milk_core::ports::Tool;
use milk_core::tool::{
    PreparedCall, ToolContext, ToolError, ToolKind, ToolOutcome, ToolSpec, ToolStatus, Workspace,
};
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

/// What a prepared call does when it is run.
pub(crate) type Run = Box<dyn FnOnce(ToolContext) -> BoxFuture<'static, ToolOutcome> + Send>;

/// Boxes what a prepared call does. It ends when it is cancelled, and when the call's time is up.
pub(crate) fn running(work: impl Future<Output = ToolOutcome> + Send + 'static) -> Run {
    Box::new(move |context| {
        Box::pin(async move {
            tokio::select! {
                outcome = work => outcome,
                outcome = call_off(&context) => outcome,
            }
        })
    })
}

/// Boxes what a prepared call does on the disk, beside the runtime. A cancel, the end of the call's time and the drop of
/// the future raise the flag that the work gets; what it then returns counts, as it may have been done already.
pub(crate) fn running_on_disk(work: impl FnOnce(&Stop) -> ToolOutcome + Send + 'static) -> Run {
    Box::new(move |context| {
        Box::pin(async move {
            let stop = Stop::default();
            let raise_on_drop = RaiseOnDrop(stop.clone());
            let mut working = tokio::task::spawn_blocking(move || work(&stop));
            let done = |done: Result<ToolOutcome, _>| {
                done.unwrap_or_else(|error| ToolOutcome::failed(crashed(&error)))
            };
            tokio::select! {
                outcome = &mut working => done(outcome),
                outcome = call_off(&context) => {
                    drop(raise_on_drop);
                    let mut stopped = done(working.await);
                    if stopped.status != ToolStatus::Completed {
                        stopped.status = outcome.status;
                    }
                    stopped
                }
            }
        })
    })
}

/// Resolves when a call must end, to how it ended.
async fn call_off(context: &ToolContext) -> ToolOutcome {
    let time_is_up = async {
        match context.time_limit {
            Some(limit) => {
                tokio::time::sleep(limit).await;
                limit.as_secs_f32()
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = context.cancel.cancelled() => ToolOutcome { status: ToolStatus::Cancelled, ..ToolOutcome::failed("cancelled") },
        limit = time_is_up => ToolOutcome::failed(format!("stopped after {limit} s")),
    }
}

/// Tells work on another thread that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// What reading gave: all of it, unless it was stopped on the way.
    pub(crate) fn outcome(&self, text: String) -> ToolOutcome {
        if self.is_raised() { ToolOutcome::failed(text) } else { ToolOutcome::completed(text) }
    }

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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio_util::sync::CancellationToken;

    use super::*;

    fn context(time_limit: Option<Duration>) -> ToolContext {
        ToolContext { output: Arc::new(|_| ()), cancel: CancellationToken::new(), time_limit }
    }

    /// Work that ends only when it is told to, and then with this outcome.
    fn patient_work(outcome: ToolOutcome) -> (Run, mpsc::Receiver<()>, mpsc::Receiver<()>) {
        let (began, begun) = mpsc::channel();
        let (ended, end) = mpsc::channel();
        let run = running_on_disk(move |stop| {
            began.send(()).unwrap();
            while !stop.is_raised() {
                std::thread::yield_now();
            }
            let _ = ended.send(());
            outcome
        });
        (run, begun, end)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_cancel_is_passed_on_and_what_was_done_counts() {
        for (outcome, status) in [
            (ToolOutcome::failed("part"), ToolStatus::Cancelled),
            (ToolOutcome::completed("all"), ToolStatus::Completed),
        ] {
            let (run, begun, _end) = patient_work(outcome.clone());
            let context = context(None);
            let cancel = context.cancel.clone();
            let running = tokio::spawn(run(context));
            begun.recv().unwrap();
            cancel.cancel();
            let got = running.await.unwrap();
            assert_eq!((got.status, got.output), (status, outcome.output));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_dropped_call_stops_its_work() {
        let (run, begun, end) = patient_work(ToolOutcome::completed(""));
        let running = tokio::spawn(run(context(None)));
        begun.recv().unwrap();
        running.abort();
        end.recv().unwrap();
    }

    #[tokio::test]
    async fn the_time_limit_stops_the_work() {
        let (run, _begun, _end) = patient_work(ToolOutcome::failed("part"));
        let got = run(context(Some(Duration::from_millis(20)))).await;
        assert_eq!((got.status, got.output.as_str()), (ToolStatus::Failed, "part"));
        let got = running(std::future::pending())(context(Some(Duration::from_millis(20)))).await;
        assert_eq!((got.status, got.output.as_str()), (ToolStatus::Failed, "stopped after 0.02 s"));
    }

    #[tokio::test]
    async fn work_that_panics_is_a_failed_call() {
        let got = running_on_disk(|_| panic!("a bug"))(context(None)).await;
        assert_eq!(got.status, ToolStatus::Failed);
        assert!(got.output.contains("fault of milk"), "{}", got.output);
    }
}
