//! The composition: which models, tools and stores the engine gets, made from the configuration and from what is found on
//! this machine.

mod agents;
mod chat_model;
mod discovery;
mod documents;
mod instructions;
mod provision;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use milk_config::{Env, MilkHome, Warning};
use milk_core::ports::Clock;
use milk_engine::{Engine, Ports};
use milk_model::HttpClients;
use milk_store::{DirectoryGrants, DiskSessions};
use milk_tools::WholeCommands;
use milk_tools::process::ProcessGroups;

use crate::clock::SystemClock;
use crate::log::say;

pub(crate) use chat_model::look_at;
pub(crate) use discovery::{Discovery, claude_on_path};
pub(crate) use documents::Documents;

/// What the whole process shares.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) env: Env,
    pub(crate) home: MilkHome,
    pub(crate) http: HttpClients,
    /// Every shell command that runs; ended at exit.
    pub(crate) commands: Arc<ProcessGroups>,
    told: Arc<Mutex<HashSet<(PathBuf, String)>>>,
}

impl Process {
    /// The process as its environment describes it. Without a usable home, milk works in a temporary one and says so.
    pub(crate) fn from_env() -> anyhow::Result<Self> {
        let env = Env::from_process();
        let (home, problem) = MilkHome::resolve_or_temporary(&env)?;
        if let Some(problem) = problem {
            say(&format!(
                "milk: {problem}; settings are kept for this run only, in {}",
                home.root().display()
            ));
        }
        Ok(Self {
            env,
            home,
            http: HttpClients::default(),
            commands: ProcessGroups::new(),
            told: Arc::default(),
        })
    }

    /// Whether this is the first time in this process that somebody asks this about this place.
    fn is_first(&self, place: &Path, what: &str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert((place.to_owned(), what.to_owned()))
    }

    /// Says what is wrong with the config files on standard error, each thing once.
    pub(crate) fn tell(&self, warnings: &[Warning]) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings {
            if told.insert((warning.file.clone(), warning.text.clone())) {
                say(&format!("milk: {warning}"));
            }
        }
    }
}

/// The stored sessions of this home. One for a process: it has the index open.
pub(crate) fn sessions(process: &Process) -> DiskSessions {
    DiskSessions::new(process.home.clone(), Arc::new(SystemClock))
}

/// The engine of this process. Called in its runtime.
pub(crate) fn engine(process: &Process) -> Engine {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let sessions = sessions(process);
    let warming = sessions.clone();
    // The index is open and sound by the time that the first session needs it.
    tokio::spawn(async move { warming.warm_up().await });
    let documents = Arc::new(Documents::new(process.clone()));
    Engine::new(Ports {
        provisioner: Arc::new(provision::FromConfig::new(process.clone())),
        sessions: Arc::new(sessions),
        exporter: Arc::<Documents>::clone(&documents),
        files: documents,
        grants: Arc::new(DirectoryGrants::new(process.home.clone())),
        commands: Arc::new(WholeCommands),
        ask_sources: Vec::new(),
        memory: None,
        tasks: None,
        clock,
    })
}
