//! The built-in tools, the place where child processes start, and the patterns for shell commands that run unasked.
//!
//! - [`builtin_tools`] is the one table of tools, in the order that the model sees them. Each tool is a file in
//!   `tools/` with what the model reads about it beside it.
//! - [`process`] starts every child process, and ends it.
//! - [`WholeCommands`] decides whether a shell command is covered by the user's allow patterns.

mod args;
mod builtin;
mod env;
mod paths;
mod policy;
pub mod process;
mod search;
mod snapshot;
mod text;
mod tools;

pub use builtin::builtin_tools;
pub use env::{HttpBuilder, ToolEnv};
pub use policy::WholeCommands;
