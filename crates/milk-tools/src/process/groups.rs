//! The commands that run, so that all of them can be ended.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::process::{Child, ChildStdin};

use super::tree;

/// Every command of this process that still has a living process, in the foreground or left behind by its call.
#[derive(Debug, Default)]
pub struct ProcessGroups {
    running: Mutex<Running>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Running {
    /// Ended for good: nothing starts any more.
    closed: bool,
    commands: HashMap<u64, Command>,
}

#[derive(Debug)]
struct Command {
    supervisor: Pid,
    /// Closing it ends the tree.
    hold: Option<ChildStdin>,
}

impl Command {
    /// Tells the supervisor to end the tree.
    fn let_go(&mut self) {
        drop(self.hold.take());
        wake(self.supervisor);
    }
}

/// Between two looks at supervisors that are to end.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

impl ProcessGroups {
    /// No commands yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// How many commands have a living process.
    pub fn count(&self) -> usize {
        self.lock().commands.len()
    }

    /// Ends every command with its whole tree, and lets none start any more: for the exit of the process. Waits until
    /// all are gone, at most `patience`; what is not gone then (it takes its 250 ms of grace, or hangs in the kernel) is
    /// ended by its supervisor, which outlives this process. Returns how many were left. Blocks; needs no runtime.
    pub fn kill_all(&self, patience: Duration) -> usize {
        let mut supervisors: Vec<Pid> = {
            let mut running = self.lock();
            running.closed = true;
            running.commands.values_mut().for_each(Command::let_go);
            running.commands.values().map(|command| command.supervisor).collect()
        };
        let until = Instant::now() + patience;
        loop {
            supervisors.retain(|pid| is_alive(*pid));
            if supervisors.is_empty() || Instant::now() >= until {
                supervisors.iter().copied().for_each(wake);
                return supervisors.len();
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Whether [`kill_all`](Self::kill_all) was called.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes charge of a supervisor. A task waits for its end and forgets it then.
    pub(super) fn keep(self: &Arc<Self>, mut child: Child, supervisor: Pid, hold: ChildStdin) -> Kept {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut running = self.lock();
        // Closed while this one started: letting go of `hold` ends it at once.
        let hold = (!running.closed).then_some(hold);
        running.commands.insert(id, Command { supervisor, hold });
        drop(running);
        let groups = Arc::clone(self);
        let (ended, gone) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let _ = child.wait().await;
            groups.lock().commands.remove(&id);
            let _ = ended.send(());
        });
        Kept { groups: Arc::clone(self), id, gone, ends: true }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a child of this process still runs. It is not reaped here: the runtime does that.
fn is_alive(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

/// Lets a supervisor that its own command has stopped go on: it would never see that it is to end.
fn wake(supervisor: Pid) {
    if is_alive(supervisor) {
        let _ = kill_process(supervisor, Signal::CONT); // it may end this instant
    }
}

/// A call's hold on its command: dropping it ends the whole tree.
#[derive(Debug)]
pub(super) struct Kept {
    groups: Arc<ProcessGroups>,
    id: u64,
    /// Resolves when the whole tree is gone.
    pub(super) gone: tokio::sync::oneshot::Receiver<()>,
    ends: bool,
}

impl Kept {
    /// Ends the tree.
    pub(super) fn end(&self) {
        if let Some(command) = self.groups.lock().commands.get_mut(&self.id) {
            command.let_go();
        }
    }

    /// Kills the tree without the supervisor's help, if that one is still there: a command may stop it again and again.
    pub(super) fn force(&self) {
        let supervisor = self.groups.lock().commands.get(&self.id).map(|command| command.supervisor);
        if let Some(supervisor) = supervisor.filter(|pid| is_alive(*pid)) {
            tree::signal_descendants(supervisor, Signal::KILL);
            wake(supervisor);
        }
    }

    /// Leaves what still runs to itself, until the process exits.
    pub(super) fn leave_running(mut self) {
        self.ends = false;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.ends {
            self.end();
        }
    }
}
