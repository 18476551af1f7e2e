//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::sessions::SessionsArgs;
use crate::{chat, doctor, log, mock, serve, sessions, trust};

/// A coding agent for every editor that speaks the Agent Client Protocol.
#[derive(Debug, Parser)]
#[command(name = "milk", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run as an agent for an editor.
    Serve(ServeArgs),
    /// Talk to milk, or to another ACP agent, in this terminal.
    Chat(ChatArgs),
    /// Say what is configured, what was found and whether it works.
    Doctor,
    /// List, show, export, delete and tidy up stored sessions.
    Sessions(SessionsArgs),
    /// Let a project's own .milk/config.json count in full.
    Trust(TrustArgs),
    /// Run a model server that needs no model, to try a client or milk itself against.
    Mock(MockArgs),
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Speak the Agent Client Protocol on standard input and output.
    #[arg(long)]
    acp: bool,
}

/// What `milk chat` was asked for.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// What to say; without it, prompts are read from the terminal, one a line.
    pub(crate) prompt: Vec<String>,
    /// Talk to this agent instead: a command line that speaks ACP on its standard input and output.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) agent: Option<String>,
    /// Work in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Answer every permission question with yes.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// What `milk trust` was asked for.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The directory; this one if none is given.
    pub(crate) directory: Option<PathBuf>,
    /// Take the trust back.
    #[arg(long, conflicts_with = "list")]
    pub(crate) remove: bool,
    /// List what is trusted.
    #[arg(long)]
    pub(crate) list: bool,
}

/// What `milk mock` was asked for.
#[derive(Debug, Args)]
pub(crate) struct MockArgs {
    /// The loopback port; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
}

/// Reads the command line and does what it says.
pub(crate) fn run() -> ExitCode {
    run_with(std::env::args_os())
}

fn run_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print(); // nobody to tell if the terminal is gone
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    log::start();
    match cli.command {
        Command::Serve(ServeArgs { acp: true }) => serve::run(),
        Command::Serve(ServeArgs { acp: false }) => {
            log::say("milk serve requires --acp (no other transport is implemented yet)");
            ExitCode::from(2)
        }
        Command::Chat(arguments) => chat::run(arguments),
        Command::Doctor => doctor::run(),
        Command::Sessions(arguments) => sessions::run(arguments),
        Command::Trust(arguments) => trust::run(&arguments),
        Command::Mock(arguments) => mock::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
