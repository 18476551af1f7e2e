//! `milk serve --acp`: milk as the agent of an editor.

use std::process::ExitCode;

use anyhow::{Context, Result};
use milk_acp::profile::{ProfileOverrides, SessionLoad};
use milk_acp::{AcpSettings, PromptResponse, ReplayIds, ServeEnd};
use serde_json::{Map, Value};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::compose::{self, Process};
use crate::log::say;
use crate::{exit, stdio};

/// Threads that run conversations. Two keep a busy turn from holding up the others; more only cost memory.
const WORKERS: usize = 2;

pub(crate) fn run() -> ExitCode {
    match serve() {
        // The reader's thread may still wait for input, so the process is ended and not awaited.
        Ok(_) => std::process::exit(0),
        Err(error) => {
            say(&format!("milk serve: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<ServeEnd> {
    let (input, output) = stdio::claim().context("standard input and output cannot be used")?;
    let process = Process::from_env()?;
    let runtime = runtime().context("the runtime cannot start")?;
    let end = runtime.block_on(async {
        let stop = CancellationToken::new();
        exit::on_signal(stop.clone())?;
        exit::end_soon_after(stop.clone(), process.commands.clone());
        let reader_gone = stop.clone();
        stdio::watch_reader(&output, move || reader_gone.cancel())?;
        let engine = compose::engine(&process);
        let end = milk_acp::serve(input, output, engine, settings(&process), stop.clone()).await;
        stop.cancel();
        end
    });
    exit::end_children(&process.commands);
    Ok(end?)
}

/// The runtime of every command.
pub(crate) fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("milk")
        .enable_all()
        .build()
}

/// What the user has set for clients.
pub(crate) fn settings(process: &Process) -> AcpSettings {
    let loaded = milk_config::load_global(&process.home, &process.env);
    process.tell(&loaded.warnings);
    AcpSettings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        prompt_response: match loaded.config.acp_prompt_response() {
            milk_config::PromptResponse::Held => PromptResponse::Held,
            milk_config::PromptResponse::Accepted => PromptResponse::Accepted,
        },
        replay_ids: match loaded.config.acp_replay_ids() {
            milk_config::ReplayIds::Hist => ReplayIds::Hist,
            milk_config::ReplayIds::Live => ReplayIds::Live,
        },
        session_load: loaded
            .config
            .acp_session_load()
            .map(|offered| if offered { SessionLoad::Offered } else { SessionLoad::Refused }),
        clients: loaded.config.acp_clients().map(client_overrides).unwrap_or_default(),
    }
}

/// The user's changes to the table of client profiles; a row that cannot be used is left out and told.
fn client_overrides(rows: &Map<String, Value>) -> ProfileOverrides {
    let usable = rows.iter().filter_map(|(name, row)| match serde_json::from_value(row.clone()) {
        Ok(row) => Some((name.clone(), row)),
        Err(error) => {
            say(&format!("milk: acp_clients has a row for {name:?} that cannot be used: {error}"));
            None
        }
    });
    usable.collect()
}
