//! `milk doctor`: what is configured, what was found, whether it answers, and a cure for each fault.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use milk_config::provider::ProviderKind;
use milk_config::{Agent, Config, Credential, Loaded, ServerUrl};
use milk_files::resolve;
use milk_model::discover::Found;

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
    let verdict = if agent.kind == ProviderKind::ChatCompletions {
        let place = agent.url.as_ref().map(ServerUrl::host).unwrap_or_default();
        judge(agent, &place, compose::look_at(process, agent).await)
    } else {
        let state = format!("provider \"{}\" cannot be talked to by this version of milk", agent.provider);
        Verdict::bad(state, "Set `agent` to an entry with a `url`.")
    };
    let mark = match verdict.mark {
        Mark::Fault if !used => Mark::Note, // nobody will miss it
        mark => mark,
    };
    Line { mark, what, state: verdict.state, cure: verdict.cure }
}

/// What an answer of a server means for an agent.
struct Verdict {
    mark: Mark,
    state: String,
    cure: Option<String>,
}

impl Verdict {
    fn bad(state: String, cure: impl Into<String>) -> Self {
        Self { mark: Mark::Fault, state, cure: Some(cure.into()) }
    }

    fn unsure(state: String, cure: impl Into<String>) -> Self {
        Self { mark: Mark::Note, state, cure: Some(cure.into()) }
    }
}

fn judge(agent: &Agent, place: &str, found: Found) -> Verdict {
    let start = format!("Start the server, or correct `url` of the agent {}.", agent.name);
    match found {
        Found::Models(models) => judge_models(agent, place, &models),
        Found::NoModels => Verdict::bad(format!("{place} has no model"), "Load or pull a model there."),
        Found::Loading => {
            Verdict::bad(format!("{place} is still loading its model"), "Wait a moment and look again.")
        }
        Found::Unauthorized => {
            Verdict::bad(format!("{place} refuses the credential"), credential_cure(agent))
        }
        Found::NotAModelServer(said) => Verdict::unsure(
            format!("{place} answers, but does not list models ({said})"),
            format!("If prompts fail, correct `url` of the agent {}.", agent.name),
        ),
        Found::Failed(said) => {
            Verdict::bad(format!("{place} fails ({said})"), "Look at the server's own log.")
        }
        Found::Refused => Verdict::bad(format!("nothing listens at {place}"), start),
        Found::Unreachable(why) => Verdict::bad(format!("{place} cannot be reached ({why})"), start),
        Found::TimedOut => Verdict::bad(format!("{place} does not answer in time"), start),
        Found::Misconfigured(why) => {
            Verdict::bad(why, format!("Correct the entry of the agent {} in `agents`.", agent.name))
        }
    }
}

fn judge_models(agent: &Agent, place: &str, models: &[String]) -> Verdict {
    let listed = |model: &str| {
        models.iter().any(|known| known == model || known.strip_suffix(":latest") == Some(model))
    };
    match &agent.model {
        Some(model) if !listed(model) => {
            let state = format!("{place} answers, but does not have {model}");
            let cure =
                format!("Set `model` of the agent {}; the server has: {}", agent.name, some_of(models));
            // A server of one model mostly takes any name for it.
            if models.len() == 1 { Verdict::unsure(state, cure) } else { Verdict::bad(state, cure) }
        }
        Some(model) => Verdict { mark: Mark::Good, state: format!("{place} answers ({model})"), cure: None },
        None => {
            let model = models.first().map(String::as_str).unwrap_or_default();
            Verdict {
                mark: Mark::Good,
                state: format!("{place} answers ({model}, the first that it lists)"),
                cure: None,
            }
        }
    }
}

fn credential_cure(agent: &Agent) -> String {
    let name = &agent.name;
    match agent.credential {
        Credential::Command(_) => format!("Look at what `token_cmd` of the agent {name} prints."),
        Credential::Key(_) => format!("Correct `api_key` of the agent {name}."),
        Credential::None => format!("Set `api_key` or `token_cmd` of the agent {name}."),
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
        lines.push(note(
            "claude",
            format!("{} is installed; this version of milk does not use it", claude.display()),
            None,
        ));
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
