//! The one place where child processes start, and where they end.
//!
//! A command does not run as milk's own child. milk starts itself again as a small *supervisor* ([`supervise`]), which
//! makes a session of its own (so that nothing in it can reach a terminal), adopts every orphan below it (Linux:
//! child subreaper), starts the shell in a process group of its own, and stays until the whole tree is gone. Its standard
//! input is a pipe whose other end milk holds: when that end closes, the supervisor ends the tree. So a tree ends when
//! its call is dropped, at milk's exit, and when milk is killed in a way that it cannot notice; a descendant that changed
//! its group or session is found all the same; and the parent that a command sees has an environment without milk's keys.
//!
//! It costs one process of about a megabyte for each running command, and needs no unsafe code and no thread in milk.

mod groups;
mod launcher;
mod shell;
mod supervisor;
mod tree;

pub use groups::ProcessGroups;
pub use launcher::{Launcher, SUPERVISE};
pub use shell::{Ended, Finished, OutputSink, ShellCommand, run_shell};
pub use supervisor::supervise;
