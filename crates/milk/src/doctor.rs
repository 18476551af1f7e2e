//! `milk doctor`: what is configured, what was found, whether it answers, and a cure for each fault.

use std::process::ExitCode;

use milk_config::provider::ProviderKind;
use milk_config::{Agent, Config, Loaded};
use milk_files::resolve;
use std::path::{Path, PathBuf};

use crate::compose::{self, Discovery, Process, claude_on_path};
use crate::log::say;
use crate::stdio::print_line;

/// How a line came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Good,
    Note,
    Fault,
}

/// One line of the table.
#[derive(Debug)]
struct Line {
    mark: Mark,
    what: String,
    state: String,
    cure: Option<String>,
}

pub(crate) fn run() -> ExitCode {
    let process = match Process::from_env() {
        Ok(process) => process,
        Err(error) => {
            say(&format!("milk doctor: {error:#}"));
            return ExitCode::FAILURE;
        }
    };
    let lines = match crate::serve::runtime() {
        Ok(runtime) => runtime.block_on(examine(&process)),
        Err(error) => vec![fault("milk", format!("cannot start: {error}"), "Free some memory or processes.")],
    };
    let lines: Vec<Line> = lines.into_iter().map(|line| redacted(line, &process)).collect();
    print(&lines);
    if lines.iter().any(|line| line.mark == Mark::Fault) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

async fn examine(process: &Process) -> Vec<Line> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let here = resolve(&here, Path::new("/"));
    let loaded = milk_config::load(&process.home, &process.env, &here);
    let mut lines = files(process, &loaded);
    match loaded.config.primary() {
        Some(agent) => {
            let used = agent.name.clone();
            for agent in loaded.config.agents() {
                lines.push(configured(process, agent, agent.name == used).await);
            }
        }
        None => lines.extend(found(process, &loaded.config).await),
    }
    lines
}

fn files(process: &Process, loaded: &Loaded) -> Vec<Line> {
    let file = process.home.config_file().display().to_string();
    let mut lines = vec![match loaded.config.global() {
        Some(_) => good("config", file),
        None => note("config", format!("{file} is not there; defaults hold"), None),
    }];
    for warning in &loaded.warnings {
        lines.push(note("config", warning.to_string(), None));
    }
    if let Some(project) = loaded.config.project() {
        lines.push(good("project config", project.file.display().to_string()));
    }
    if let Some(held) = loaded.held_notice() {
        lines.push(note("project config", held, None));
    }
    lines
}

/// A configured agent: does its server answer, and does it have the model?
async fn configured(process: &Process, agent: &Agent, used: bool) -> Line {
    let what = if used { format!("agent {} (used)", agent.name) } else { format!("agent {}", agent.name) };
    let bad = |state: String, cure: &str| {
        let mark = if used { Mark::Fault } else { Mark::Note };
        Line { mark, what: what.clone(), state, cure: Some(cure.to_owned()) }
    };
    if agent.kind != ProviderKind::ChatCompletions {
        return bad(
            format!("provider \"{}\" cannot be talked to by this version of milk", agent.provider),
            "Set `agent` to an entry with a `url`.",
        );
    }
    let Some(url) = &agent.url else {
        return bad("has no usable url".to_owned(), "Set `url` to the server's address, such as http://localhost:11434.");
    };
    match compose::list_models(process, agent).await {
        Err(problem) => bad(problem.to_string(), "Start the server, or correct `url`, `api_key` or `token_cmd`."),
        Ok(models) => match &agent.model {
            None if models.is_empty() => bad(format!("{} has no model", url.host()), "Load a model, or set `model`."),
            Some(model) if !models.is_empty() && !models.contains(model) => {
                // Some servers take names that they do not list, so this is no fault.
                let state = format!("{} answers, but does not list {model}", url.host());
                let cure = format!("It lists: {}", some_of(&models));
                Line { mark: Mark::Note, what, state, cure: Some(cure) }
            }
            model => good(what, format!("{} answers ({})", url.host(), model.as_ref().unwrap_or(&models[0]))),
        },
    }
}

/// What would answer, for someone who has configured nothing.
async fn found(process: &Process, config: &Config) -> Vec<Line> {
    let mut lines = Vec::new();
    match Discovery::new(process.clone()).look(config).await {
        Some(found) => {
            lines.push(note("agents", "none is configured".to_owned(), None));
            lines.push(configured(process, &found.agent, true).await);
        }
        None => lines.push(note(
            "agents",
            "none is configured and no model was found; milk's demo agent answers".to_owned(),
            Some(format!(
                "Start Ollama, llama.cpp's server or LM Studio, or set a key such as OPENROUTER_API_KEY, or write an agent \
                 into {}.",
                process.home.config_file().display()
            )),
        )),
    }
    if let Some(claude) = claude_on_path(process) {
        lines.push(note("claude", format!("{} is installed; this version of milk does not use it", claude.display()), None));
    }
    lines
}

fn some_of(models: &[String]) -> String {
    let shown: Vec<&str> = models.iter().take(5).map(String::as_str).collect();
    let more = if models.len() > shown.len() { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

fn good(what: impl Into<String>, state: impl Into<String>) -> Line {
    Line { mark: Mark::Good, what: what.into(), state: state.into(), cure: None }
}

fn note(what: impl Into<String>, state: String, cure: Option<String>) -> Line {
    Line { mark: Mark::Note, what: what.into(), state, cure }
}

fn fault(what: impl Into<String>, state: String, cure: &str) -> Line {
    Line { mark: Mark::Fault, what: what.into(), state, cure: Some(cure.to_owned()) }
}

fn redacted(line: Line, process: &Process) -> Line {
    let config = milk_config::load_global(&process.home, &process.env).config;
    let Line { mark, what, state, cure } = line;
    Line { mark, what, state: config.redact(&state), cure: cure.map(|cure| config.redact(&cure)) }
}

fn print(lines: &[Line]) {
    let width = lines.iter().map(|line| line.what.chars().count()).max().unwrap_or(0);
    for Line { mark, what, state, cure } in lines {
        let mark = match mark {
            Mark::Good => "ok   ",
            Mark::Note => "note ",
            Mark::Fault => "FAULT",
        };
        print_line(&format!("{mark}  {what:width$}  {state}"));
        if let Some(cure) = cure {
            print_line(&format!("       {:width$}  → {cure}", ""));
        }
    }
    let works = !lines.iter().any(|line| line.mark == Mark::Fault);
    print_line(if works { "A prompt would be answered." } else { "A prompt would fail." });
}
