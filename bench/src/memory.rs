//! How much memory a process has, from `/proc` (Linux).

/// Kibibytes of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Pages of its own in full, shared ones by their share.
    pub pss: u64,
    /// All pages in memory.
    pub rss: u64,
}

impl Memory {
    pub fn of(pid: u32) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
        };
        Self { pss: field("Pss:"), rss: field("Rss:") }
    }
}
