//! What the tests of the tools have in common: a temporary world and the tools in it.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use milk_core::ports::Tool;
use milk_core::tool::{PreparedCall, ToolContext, ToolError, ToolOutcome, Workspace};
use milk_tools::process::{Launcher, ProcessGroups};
use milk_tools::{ToolEnv, builtin_tools};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Longest result in the tests, in bytes.
pub const RESULT_LIMIT: usize = 20_000;

/// A folder that goes away with the test.
#[derive(Debug)]
pub struct World {
    dir: tempfile::TempDir,
    made: AtomicUsize,
}

impl World {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), made: AtomicUsize::new(0) }
    }

    /// The folder, with links resolved.
    pub fn base(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    /// Tools for a session in a new folder of this world.
    pub fn kit(&self) -> Kit {
        self.kit_with(|_| ())
    }

    pub fn kit_with(&self, change: impl FnOnce(&mut ToolEnv)) -> Kit {
        let root = self.base().join(format!("w{}", self.made.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir(&root).unwrap();
        self.kit_at(&root, change)
    }

    /// Tools for a session in a folder that exists.
    pub fn kit_at(&self, root: &Path, change: impl FnOnce(&mut ToolEnv)) -> Kit {
        let processes = ProcessGroups::new();
        let mut env = ToolEnv {
            home: Some(self.base().join("home")),
            private: vec![self.base().join("home/.milk")],
            secret_env: Vec::new(),
            result_limit: RESULT_LIMIT,
            launcher: Launcher::this_program(),
            processes: Arc::clone(&processes),
            http: Arc::new(client),
        };
        change(&mut env);
        Kit { root: root.to_owned(), workspace: Workspace::new(root), tools: builtin_tools(env), processes }
    }
}

fn client() -> reqwest::ClientBuilder {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy()
}

/// The tools of one session.
#[derive(Debug)]
pub struct Kit {
    pub root: PathBuf,
    pub workspace: Workspace,
    pub tools: Vec<Arc<dyn Tool>>,
    pub processes: Arc<ProcessGroups>,
}

impl Kit {
    pub fn tool(&self, name: &str) -> &Arc<dyn Tool> {
        self.tools.iter().find(|tool| tool.spec().name == name).unwrap()
    }

    pub async fn prepare(&self, tool: &str, arguments: Value) -> Result<PreparedCall, ToolError> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        self.tool(tool).prepare(&arguments, &self.workspace).await
    }

    /// Prepares and runs, as after a yes.
    pub async fn call(&self, tool: &str, arguments: Value) -> ToolOutcome {
        match self.prepare(tool, arguments).await {
            Ok(call) => run(call).await,
            Err(error) => ToolOutcome::failed(error.message),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }
}

/// A call that nobody watches or stops.
pub fn quiet() -> ToolContext {
    ToolContext { output: Arc::new(|_| ()), cancel: CancellationToken::new(), time_limit: None }
}

pub async fn run(call: PreparedCall) -> ToolOutcome {
    (call.run)(quiet()).await
}

type Case = fn(World) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the cases whose names hold one of the arguments (all, if there is none), one after another.
pub fn harness(arguments: &[String], cases: &[(&str, Case)]) -> ExitCode {
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(*filter));
    if arguments.iter().any(|argument| argument == "--list") {
        for (name, _) in cases {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let mut failed = Vec::new();
    for (name, case) in cases.iter().filter(|(name, _)| wanted(name)) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let passed = runtime.block_on(async { tokio::spawn(case(World::new())).await.is_ok() });
        runtime.shutdown_background();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {failed:?}");
    ExitCode::FAILURE
}
