//! From files to a snapshot. Never fails: what cannot be used is left out and told.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use milk_files::{Env, MilkHome, same_place};
use serde_json::{Map, Value};

use crate::admit::{Admitted, admit};
use crate::agent::{Agent, Workshop};
use crate::check::{same_name, usable};
use crate::config::{Config, Snapshot};
use crate::key::fill_defaults;
use crate::layer::{Layer, read_global, read_project};
use crate::merge::{Origin, Origins, overlay};
use crate::provider;
use crate::secret::Secret;
use crate::shown::secrets_in;
use crate::trust::Trust;
use crate::warning::{Report, Warning, printable_name};

/// A config, and what there is to say about its files.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The snapshot.
    pub config: Config,
    /// What is wrong with the files; for stderr.
    pub warnings: Vec<Warning>,
    /// Keys of the project's file that do not count until its directory is trusted (R38); to be told once.
    pub held: Vec<String>,
}

impl Loaded {
    /// One sentence about the keys that were held back, if any were.
    pub fn held_notice(&self) -> Option<String> {
        if self.held.is_empty() {
            return None;
        }
        Some(format!(
            "This folder's .milk/config.json sets {}; that counts only once you trust the folder: run `milk trust` in it.",
            self.held.join(", ")
        ))
    }
}

/// Variables that children need whatever refers to them or whatever they hold.
const NEVER_SECRET: &[&str] = &["HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER"];

/// The config of a session in `cwd` (absolute): defaults, the global file, and of `<cwd>/.milk/config.json` what counts.
///
/// Reads files and blocks. Writes at most the copy of the global file; creates no config.
pub fn load(home: &MilkHome, env: &Env, cwd: &Path) -> Loaded {
    assemble(home, env, Some(cwd))
}

/// The config without any project's.
pub fn load_global(home: &MilkHome, env: &Env) -> Loaded {
    assemble(home, env, None)
}

fn assemble(home: &MilkHome, env: &Env, cwd: Option<&Path>) -> Loaded {
    let mut warnings = Vec::new();
    let global = read_global(home, &mut warnings);
    let project =
        cwd.and_then(|cwd| project_file(home, cwd)).and_then(|file| read_project(&file, &mut warnings));

    let below = checked(global.as_ref(), &mut warnings);
    let above = checked(project.as_ref(), &mut warnings);
    let Admitted { layer: above, held } = match cwd {
        Some(cwd) if !above.is_empty() => admitted(home, cwd, above, &below, &mut warnings),
        _ => Admitted::default(),
    };

    let mut origins = Origins::default();
    origins.note(&below, Origin::Global);
    origins.note(&above, Origin::Local);
    let mut merged = below;
    overlay(&mut merged, &above);
    fill_defaults(&mut merged);

    let mut complaints = Complaints { home, cwd, origins: &origins, found: Vec::new() };
    let mut referenced = BTreeSet::new();
    let agents = build_agents(&merged, env, &mut referenced, &mut complaints);
    check_names(&merged, &agents, &mut complaints);
    complaints.report(&mut warnings);

    // Of an untrusted file nothing: it must not choose what is masked in milk's words.
    let in_files =
        global.as_ref().map(|layer| secrets_in(&layer.raw)).into_iter().chain([secrets_in(&above)]);
    let secrets = known_secrets(in_files.flatten(), &agents, &referenced, env);
    let secret_env = secret_env(referenced, &secrets, env);
    let config = Config::new(Snapshot { merged, origins, global, project, agents, secrets, secret_env });
    Loaded { config, warnings, held }
}

/// Where a project's file is; `None` where that is milk's own home or global file, which is the user's already.
fn project_file(home: &MilkHome, cwd: &Path) -> Option<PathBuf> {
    let folder = cwd.join(".milk");
    let file = folder.join("config.json");
    let own = same_place(&folder, home.root()) || same_place(&file, home.config_file());
    (!own).then_some(file)
}

fn checked(layer: Option<&Layer>, warnings: &mut Vec<Warning>) -> Map<String, Value> {
    layer.map(|layer| usable(&layer.raw, &mut Report::new(&layer.file, warnings))).unwrap_or_default()
}

fn admitted(
    home: &MilkHome,
    cwd: &Path,
    project: Map<String, Value>,
    global: &Map<String, Value>,
    warnings: &mut Vec<Warning>,
) -> Admitted {
    let (trust, warning) = Trust::load(home);
    warnings.extend(warning);
    if trust.is_trusted(cwd) {
        Admitted { layer: project, held: Vec::new() }
    } else {
        admit(&project, global)
    }
}

/// What is wrong with values that are right by themselves, told with the file that they came from.
struct Complaints<'a> {
    home: &'a MilkHome,
    cwd: Option<&'a Path>,
    origins: &'a Origins,
    found: Vec<(Origin, String)>,
}

impl Complaints<'_> {
    fn add(&mut self, path: &str, text: &str) {
        self.found.push((self.origins.of(path), format!("{} {text}", printable_name(path))));
    }

    fn report(self, warnings: &mut Vec<Warning>) {
        for local in [false, true] {
            let file = match self.cwd {
                Some(cwd) if local => cwd.join(".milk/config.json"),
                _ => self.home.config_file().to_owned(),
            };
            let mut report = Report::new(&file, warnings);
            for (_, text) in self.found.iter().filter(|(origin, _)| (*origin == Origin::Local) == local) {
                report.add(text.as_str());
            }
        }
    }
}

fn build_agents(
    merged: &Map<String, Value>,
    env: &Env,
    referenced: &mut BTreeSet<String>,
    complaints: &mut Complaints<'_>,
) -> Vec<Agent> {
    let entries =
        merged.get("agents").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    entries.map(|entry| build_agent(entry, merged, env, referenced, complaints)).collect()
}

fn build_agent(
    entry: &Map<String, Value>,
    root: &Map<String, Value>,
    env: &Env,
    referenced: &mut BTreeSet<String>,
    complaints: &mut Complaints<'_>,
) -> Agent {
    let name = entry.get("name").and_then(Value::as_str).unwrap_or_default().trim();
    let path = |key: &str| format!("agents[{name}].{key}");
    let folder = complaints.home.config_file().parent().unwrap_or(Path::new("/")).to_owned();
    let base_of = |key: &str| match (complaints.origins.of(&path(key)), complaints.cwd) {
        (Origin::Local, Some(cwd)) => cwd.to_owned(),
        _ => folder.clone(),
    };
    let mut problems = Vec::new();
    let agent = Workshop { env, root, base_of: &base_of, referenced, problems: &mut problems }.build(entry);
    for (key, text) in problems {
        complaints.add(&path(key), &text);
    }
    agent
}

/// Names of agents that are none. `claude` may be missing: it is built in.
fn check_names(merged: &Map<String, Value>, agents: &[Agent], complaints: &mut Complaints<'_>) {
    for key in ["agent", "escalation_agent"] {
        let name = merged.get(key).and_then(Value::as_str).unwrap_or_default();
        let known = agents.iter().any(|agent| same_name(&agent.name, name));
        if !known && !name.is_empty() && !same_name(name, "claude") {
            complaints.add(key, &format!("names {}, and there is no such agent", printable_name(name)));
        }
    }
}

fn known_secrets(
    in_files: impl Iterator<Item = Secret>,
    agents: &[Agent],
    referenced: &BTreeSet<String>,
    env: &Env,
) -> Vec<Secret> {
    let of_agents = agents.iter().flat_map(Agent::secrets);
    let variables = referenced.iter().map(String::as_str).filter(|name| !NEVER_SECRET.contains(name));
    let of_providers = provider::key_variables().map(|name| -> &str { name });
    let in_env = variables.chain(of_providers).filter_map(|name| env.get(name));
    let in_env = in_env.map(|value| Secret::new(value.trim()));
    let all: BTreeSet<Secret> = in_files.chain(of_agents).chain(in_env).filter(Secret::is_telling).collect();
    all.into_iter().collect()
}

fn secret_env(referenced: BTreeSet<String>, secrets: &[Secret], env: &Env) -> BTreeSet<String> {
    let holding = env.iter().filter(|(_, value)| {
        let value = Secret::new(value.trim());
        secrets.binary_search(&value).is_ok()
    });
    let mut names: BTreeSet<String> = holding.map(|(name, _)| name.to_owned()).collect();
    names.extend(referenced);
    names.extend(provider::key_variables().map(str::to_owned));
    names.retain(|name| !NEVER_SECRET.contains(&name.as_str()));
    names
}

#[cfg(test)]
mod tests;
