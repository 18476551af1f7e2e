//! Measures an ACP agent from outside, over its pipes, against the scripted model server in this process.
//!
//! `bench/run` builds milk, the floor and this program in release mode and runs it; see `bench/README.md`.

mod agent;
mod measure;
mod memory;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use milk_testkit::{ModelServer, Script};

use agent::Command;

fn main() -> ExitCode {
    let options = match Options::read() {
        Ok(options) => options,
        Err(complaint) => {
            eprintln!("{complaint}\nusage: bench --milk PATH [--floor PATH] [--json FILE] [--quick]");
            return ExitCode::from(2);
        }
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
    let server = runtime.block_on(ModelServer::start(Script::directive()));

    let mut results = Vec::new();
    for command in [Command::floor(&options.floor, &server), Command::milk(&options.milk, &server)] {
        eprintln!("measuring {}", command.name);
        results.push(measure::all(&command, &server, &runtime, options.quick));
    }
    report::print(&results[0], &results[1]);
    if let Some(path) = options.json {
        let text = report::json(&results[0], &results[1]);
        if let Err(error) = std::fs::write(&path, text) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

struct Options {
    milk: PathBuf,
    floor: PathBuf,
    json: Option<PathBuf>,
    /// A tenth of the repetitions, to see that everything works.
    quick: bool,
}

impl Options {
    fn read() -> Result<Self, String> {
        let beside = |name| std::env::current_exe().map(|own| own.with_file_name(name));
        let mut options = Self {
            milk: PathBuf::new(),
            floor: beside("floor").map_err(|error| error.to_string())?,
            json: None,
            quick: false,
        };
        let mut words = std::env::args_os().skip(1);
        while let Some(word) = words.next() {
            let mut value =
                || words.next().map(PathBuf::from).ok_or_else(|| format!("{} needs a value", word.display()));
            match word.to_str() {
                Some("--milk") => options.milk = value()?,
                Some("--floor") => options.floor = value()?,
                Some("--json") => options.json = Some(value()?),
                Some("--quick") => options.quick = true,
                _ => return Err(format!("unknown argument: {}", word.display())),
            }
        }
        for program in [&options.milk, &options.floor] {
            if !program.is_file() {
                return Err(format!("no program at {:?}", program.display().to_string()));
            }
        }
        Ok(options)
    }
}
