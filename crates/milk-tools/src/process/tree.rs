//! The processes below one process, and how they are ended.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// One row of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
}

/// Sends a signal to every descendant of a process. Returns how many there were; zombies are none.
pub(super) fn signal_descendants(root: Pid, signal: Signal) -> usize {
    let table = table();
    let found = descendants(&table, root.as_raw_pid());
    for pid in &found {
        send(*pid, signal);
    }
    found.len()
}

/// Kills every process of a session. Returns how many there were; one that they started meanwhile may be left.
pub(super) fn kill_session(session: Pid) -> usize {
    let mut of_session = table();
    of_session.retain(|process| process.session == session.as_raw_pid());
    for process in &of_session {
        send(process.pid, Signal::KILL);
    }
    of_session.len()
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may be gone, or another user's: nothing can be done about either.
        let _ = kill_process(pid, signal);
    }
}

/// The living processes that this one may see. Empty where there is no `/proc`.
fn table() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let stat = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // Names of programs may be any bytes.
        let stat = fs::read(entry.path().join("stat")).ok()?;
        parse(pid, &String::from_utf8_lossy(&stat))
    };
    entries.flatten().filter_map(stat).collect()
}

/// Reads `/proc/<pid>/stat`; see proc(5). The second field is the program's name in parentheses, and may hold anything.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let _group = fields.next()?;
    let session = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(Process { pid, parent, session })
}

fn descendants(table: &[Process], root: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in table {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = Vec::new();
    let mut todo = vec![root];
    while let Some(pid) = todo.pop() {
        // Taken out, so that a table that was read while it changed cannot lead in a circle.
        let below = children.remove(&pid).unwrap_or_default();
        found.extend_from_slice(&below);
        todo.extend(below);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        Process { pid, parent, session: 1 }
    }

    #[test]
    fn names_of_programs_cannot_confuse() {
        for (stat, expected) in [
            ("5 (sleep) S 4 5 3 0 -1 0", Some((4, 3))),
            ("5 (a) b) R 4 5 3 0 -1 0", Some((4, 3))),
            ("5 () S 1 1 1) S 4 5 3 0", Some((4, 3))),
            ("5 (sleep) Z 4 5 3 0 -1 0", None),
            ("5 (sleep) S", None),
            ("", None),
        ] {
            let got = parse(5, stat).map(|process| (process.parent, process.session));
            assert_eq!(got, expected, "{stat}");
        }
    }

    #[test]
    fn all_below_and_nothing_else() {
        let table =
            [process(2, 1), process(3, 2), process(4, 2), process(5, 3), process(6, 1), process(7, 6)];
        let mut found = descendants(&table, 2);
        found.sort_unstable();
        assert_eq!(found, [3, 4, 5]);
        assert!(descendants(&table, 9).is_empty());
    }

    #[test]
    fn a_circle_ends() {
        let mut found = descendants(&[process(2, 3), process(3, 2), process(1, 1)], 2);
        found.sort_unstable();
        assert_eq!(found, [2, 3]);
        assert_eq!(descendants(&[process(1, 1)], 1), [1]);
    }

    #[test]
    fn this_process_is_in_the_table() {
        if std::path::Path::new("/proc/self/stat").exists() {
            let own = i32::try_from(std::process::id()).unwrap();
            assert!(table().iter().any(|process| process.pid == own));
        }
    }
}
