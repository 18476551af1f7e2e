//! milk: a coding agent for every editor that speaks the Agent Client Protocol.

mod chat;
mod cli;
mod clock;
mod compose;
mod doctor;
mod exit;
mod log;
mod mock;
mod serve;
mod sessions;
mod stdio;
mod trust;

use std::process::ExitCode;

fn main() -> ExitCode {
    // A supervisor of one shell command is this same program, and must begin before anything else does.
    if let Some(code) = milk_tools::process::supervise(std::env::args_os()) {
        return code;
    }
    cli::run()
}
