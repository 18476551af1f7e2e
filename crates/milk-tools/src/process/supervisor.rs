//! The supervisor: a process between milk and one command. See the module above for why.
//!
//! Its streams: standard input is milk's hand (nothing is ever sent; its end means "end the tree"), standard output is
//! the pipe that the command's output goes to, standard error takes one line for milk about how the shell ended.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};

use super::launcher::SUPERVISE;
use super::tree;

/// The shell that runs commands.
const SHELL: &str = "/bin/sh";

/// How long a tree has to end itself (to remove its lock files) before it is killed.
const GRACE: Duration = Duration::from_millis(250);
/// How long killing is tried: what is still there then belongs to another user or hangs in the kernel.
const KILLING: Duration = Duration::from_secs(5);
/// Between two looks at a tree that is being killed.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Becomes a supervisor if the program's arguments (the program's name first) ask for it, and returns its exit code.
/// To be called before anything else in `main`: no thread may run and no runtime be up.
pub fn supervise(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != SUPERVISE {
        return None;
    }
    Some(run(&arguments.next().unwrap_or_default()))
}

fn run(command: &OsString) -> ExitCode {
    // Fails only for the leader of a process group, which a fresh child is not.
    let _ = rustix::process::setsid();
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));

    let leader = match start(command) {
        Ok(leader) => leader,
        Err(error) => {
            report(&format!("error {error}"));
            return ExitCode::FAILURE;
        }
    };
    // From here on only the tree holds the pipe, so that its end says that all of it is closed.
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
    std::thread::spawn(move || {
        wait_for_milk_to_let_go();
        end_tree(leader);
        std::process::exit(1);
    });
    reap_all(leader);
    ExitCode::SUCCESS
}

/// Starts the shell. It is reaped with all others in [`reap_all`].
fn start(command: &OsString) -> io::Result<Pid> {
    let output = || io::stdout().as_fd().try_clone_to_owned().map(Stdio::from);
    let mut shell = Command::new(SHELL);
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(output()?).stderr(output()?).process_group(0);
    let child = shell.spawn()?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no process id"))
}

/// Reaps whatever ends below, until nothing is left, and tells how the shell ended.
fn reap_all(leader: Pid) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == leader => report(&outcome(status)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn outcome(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "error the shell ended in an unknown way".to_owned(),
    }
}

fn report(line: &str) {
    // If milk is gone there is nobody to tell.
    let _ = writeln!(io::stderr(), "{line}");
}

fn wait_for_milk_to_let_go() {
    let mut byte = [0];
    loop {
        match io::stdin().read(&mut byte) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// Ends every process below. `reap_all` ends this process as soon as none is left.
fn end_tree(leader: Pid) {
    signal_tree(leader, Signal::TERM);
    // A stopped process notices nothing else.
    signal_tree(leader, Signal::CONT);
    std::thread::sleep(GRACE);
    let until = Instant::now() + KILLING;
    while Instant::now() < until {
        signal_tree(leader, Signal::KILL);
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn signal_tree(leader: Pid, signal: Signal) {
    // Also where there is no table of processes to read.
    let _ = kill_process_group(leader, signal);
    tree::signal_descendants(rustix::process::getpid(), signal);
}
