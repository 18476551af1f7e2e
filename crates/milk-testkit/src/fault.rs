//! Small observers and faults: processes left over, memory in use, ports that refuse.
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use milk_testkit::fault;
//!
//! let me = std::process::id();
//! assert!(fault::is_alive(me));
//! assert!(fault::rss_bytes(me).unwrap() > 0);
//! assert!(fault::alive_with_marker("a-marker-that-no-process-carries-7f3a").is_empty());
//! # }
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;

/// How often a wait for processes looks: the kernel tells nobody when a process that is not one's child goes.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The processes whose command line or start environment holds `marker`, this one left out (Linux; none elsewhere).
///
/// Zombies do not count: they run no more.
pub fn alive_with_marker(marker: &str) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|pid| *pid != std::process::id() && carries(*pid, marker) && is_alive(*pid)).collect()
}

fn carries(pid: u32, marker: &str) -> bool {
    let holds = |file: &str| {
        let bytes = std::fs::read(proc_file(pid, file)).unwrap_or_default();
        !marker.is_empty() && bytes.windows(marker.len()).any(|window| window == marker.as_bytes())
    };
    holds("cmdline") || holds("environ")
}

/// Whether a process runs (and is no zombie). Linux; false elsewhere.
pub fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(proc_file(pid, "status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| !matches!(state.trim().chars().next(), Some('Z' | 'X')))
}

/// The resident memory of a process in bytes (Linux; `None` elsewhere, and for a process that is gone).
pub fn rss_bytes(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

/// The highest resident memory that a process ever had, in bytes (Linux; `None` elsewhere).
pub fn peak_rss_bytes(pid: u32) -> Option<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(proc_file(pid, "status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The number of threads of a process (Linux; `None` elsewhere).
pub fn threads(pid: u32) -> Option<usize> {
    std::fs::read_dir(proc_file(pid, "task")).ok().map(Iterator::count)
}

/// The number of open file descriptors of a process (Linux; `None` elsewhere).
pub fn open_files(pid: u32) -> Option<usize> {
    std::fs::read_dir(proc_file(pid, "fd")).ok().map(Iterator::count)
}

fn proc_file(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// Waits until no process carries `marker`; gives those that still do when `limit` has passed.
pub async fn wait_gone(marker: &str, limit: Duration) -> Result<(), Vec<u32>> {
    let deadline = Instant::now() + limit;
    loop {
        let alive = alive_with_marker(marker);
        if alive.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(alive);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until a process carries `marker`; `None` when `limit` has passed.
pub async fn wait_alive(marker: &str, limit: Duration) -> Option<u32> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(pid) = alive_with_marker(marker).first() {
            return Some(*pid);
        }
        if Instant::now() >= deadline {
            return None;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A port of 127.0.0.1 that refuses connections for as long as this lives: it is taken, and nobody listens.
#[derive(Debug)]
pub struct RefusedPort {
    _socket: TcpSocket,
    address: SocketAddr,
}

impl RefusedPort {
    /// Takes a free port.
    pub fn take() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?;
        Ok(Self { _socket: socket, address })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address that refuses.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
