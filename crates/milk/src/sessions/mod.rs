//! `milk sessions`: what is stored, on the command line.

mod shown;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use milk_core::ports::{ExportFormat, SessionStore};
use milk_core::session::{SessionQuery, SessionSummary, Worth};
use milk_engine::ReferenceError;
use milk_files::resolve;
use milk_store::{DiskSessions, Prune};
use serde_json::json;

use self::shown::Place;
use crate::compose::{self, Documents, Process};
use crate::log::say;
use crate::stdio::print_line;

/// Rows that are asked for at a time.
const PAGE: usize = 500;

/// What `milk sessions` was asked for.
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List the sessions of this directory, last use first.
    List {
        /// Those of every directory.
        #[arg(long, conflicts_with = "cwd")]
        all: bool,
        /// Those of this directory.
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print one session's transcript.
    Show {
        /// Its id, the beginning of its id, or its name in this directory.
        session: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write one session's transcript to a file, or print it.
    Export {
        /// Its id, the beginning of its id, or its name in this directory.
        session: String,
        /// As JSON.
        #[arg(long, conflicts_with = "html")]
        json: bool,
        /// As one web page that needs nothing else.
        #[arg(long)]
        html: bool,
        /// Where to; printed without it.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Delete sessions for good.
    Delete {
        /// Their ids, beginnings of ids, or names in this directory.
        #[arg(required = true)]
        sessions: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete sessions that hold nothing, and those that were not used for long.
    Prune {
        /// Also those without a name that were not used for so many days.
        #[arg(long, value_name = "DAYS")]
        unused_for: Option<u32>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make the index anew from the sessions' own files.
    Reindex {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// How a command tells what it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

impl Form {
    fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

pub(crate) fn run(arguments: SessionsArgs) -> ExitCode {
    let done = crate::serve::runtime()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(work(arguments.command)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("milk sessions: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn work(command: SessionsCommand) -> Result<()> {
    let process = Process::from_env()?;
    let store = compose::sessions(&process);
    let here = std::env::current_dir().context("the current directory is gone")?;
    match command {
        SessionsCommand::List { all, cwd, json } => {
            let cwd = cwd.map_or_else(|| here.clone(), |cwd| resolve(&cwd, &here));
            list(&store, (!all).then_some(cwd), Form::of(json)).await
        }
        SessionsCommand::Show { session, json } => {
            let format = if json { ExportFormat::Json } else { ExportFormat::Text };
            let found = find(&store, &session, &here).await?;
            print_line(&render(&process, &store, &found, format).await?);
            Ok(())
        }
        SessionsCommand::Export { session, json, html, output } => {
            let format = match (json, html) {
                (true, _) => ExportFormat::Json,
                (_, true) => ExportFormat::Html,
                _ => format_by_ending(output.as_deref()),
            };
            let found = find(&store, &session, &here).await?;
            let document = render(&process, &store, &found, format).await?;
            match output {
                None => print_line(&document),
                Some(path) => {
                    milk_files::replace(&here.join(&path), document.as_bytes())?;
                    say(&format!("wrote {}", path.display()));
                }
            }
            Ok(())
        }
        SessionsCommand::Delete { sessions, json } => delete(&store, &sessions, &here, Form::of(json)).await,
        SessionsCommand::Prune { unused_for, json } => prune(&store, unused_for, Form::of(json)).await,
        SessionsCommand::Reindex { json } => reindex(&store, Form::of(json)).await,
    }
}

async fn render(
    process: &Process,
    store: &DiskSessions,
    session: &SessionSummary,
    format: ExportFormat,
) -> Result<String> {
    let documents = Documents::new(process.clone());
    Ok(milk_engine::transcript(store, &documents, session, format).await?)
}

/// The ending of a file decides where nothing is said.
fn format_by_ending(output: Option<&Path>) -> ExportFormat {
    let ending = output.and_then(Path::extension).and_then(|ending| ending.to_str());
    match ending {
        Some("json") => ExportFormat::Json,
        Some("html" | "htm") => ExportFormat::Html,
        _ => ExportFormat::Text,
    }
}

/// The session that a reference means; never a guess.
async fn find(store: &DiskSessions, text: &str, here: &Path) -> Result<SessionSummary> {
    match milk_engine::find_session(store, text, here).await {
        Ok(found) => Ok(found),
        Err(ReferenceError::NoMatch(text)) => {
            bail!("no session matches {text:?}; `milk sessions list --all` shows what there is")
        }
        Err(error) => Err(error.into()),
    }
}

async fn list(store: &DiskSessions, cwd: Option<PathBuf>, form: Form) -> Result<()> {
    let mut query = SessionQuery { cwd, worth: Worth::Used { open: Vec::new() }, offset: 0, limit: PAGE };
    let mut all = Vec::new();
    loop {
        let page = store.list(&query).await?;
        query.offset += page.sessions.len();
        all.extend(page.sessions);
        if !page.more {
            break;
        }
    }
    if form == Form::Json {
        let rows: Vec<_> = all.iter().map(shown::json).collect();
        print_line(&serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    if all.is_empty() {
        let place = query.cwd.as_ref().map_or(String::new(), |cwd| format!(" for {}", cwd.display()));
        say(&format!("no sessions found{place}"));
    }
    let now = shown::now_ms();
    let place = if query.cwd.is_some() { Place::Known } else { Place::Told };
    for session in &all {
        print_line(&shown::row(session, now, place));
    }
    Ok(())
}

async fn delete(store: &DiskSessions, references: &[String], here: &Path, form: Form) -> Result<()> {
    // All are found before the first one goes: a mistyped one deletes nothing.
    let mut found = Vec::new();
    for reference in references {
        found.push(find(store, reference, here).await?);
    }
    for session in &found {
        store.delete(&session.id).await?;
        if form == Form::Text {
            print_line(&format!("deleted {}", shown::line(session)));
        }
    }
    if form == Form::Json {
        let deleted: Vec<&str> = found.iter().map(|session| session.id.as_str()).collect();
        print_line(&json!({ "deleted": deleted }).to_string());
    }
    Ok(())
}

async fn prune(store: &DiskSessions, days: Option<u32>, form: Form) -> Result<()> {
    let what = match days {
        None => Prune::Empty,
        Some(days) => Prune::UnusedFor(Duration::from_hours(u64::from(days) * 24)),
    };
    let pruned = store.prune(what).await?;
    if form == Form::Json {
        let ids = |sessions: &[SessionSummary]| -> Vec<String> {
            sessions.iter().map(|session| session.id.to_string()).collect()
        };
        let kept: Vec<_> = pruned
            .kept
            .iter()
            .map(|(session, reason)| json!({ "id": session.id.as_str(), "reason": reason }))
            .collect();
        let told = json!({ "removed": ids(&pruned.removed), "named": ids(&pruned.named), "kept": kept });
        print_line(&serde_json::to_string_pretty(&told)?);
        return Ok(());
    }
    pruned.removed.iter().for_each(|session| print_line(&format!("removed {}", shown::line(session))));
    pruned
        .named
        .iter()
        .for_each(|session| print_line(&format!("kept for its name: {}", shown::line(session))));
    for (session, reason) in &pruned.kept {
        print_line(&format!("kept {}: {reason}", shown::line(session)));
    }
    print_line(&format!("{} removed", pruned.removed.len()));
    Ok(())
}

async fn reindex(store: &DiskSessions, form: Form) -> Result<()> {
    let done = store.reindex().await?;
    if form == Form::Json {
        let damaged: Vec<_> =
            done.damaged.iter().map(|(id, lines)| json!({ "id": id.as_str(), "lines": lines })).collect();
        let bad: Vec<_> =
            done.bad.iter().map(|(id, reason)| json!({ "id": id.as_str(), "reason": reason })).collect();
        let told = json!({ "sessions": done.sessions, "damaged": damaged, "bad": bad });
        print_line(&serde_json::to_string_pretty(&told)?);
        return Ok(());
    }
    for (id, lines) in &done.damaged {
        print_line(&format!("{id}: {lines} line(s) cannot be read and are passed over"));
    }
    for (id, reason) in &done.bad {
        print_line(&format!("{id}: cannot be read: {reason}"));
    }
    print_line(&format!("{} sessions in the index", done.sessions));
    Ok(())
}
