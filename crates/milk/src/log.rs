//! Words for people, on standard error: stdout may be a protocol stream.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

/// Starts logging to standard error: warnings, or what `MILK_LOG` asks for. Other programs' `RUST_LOG` is not milk's.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("MILK_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let started =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Stderr).with_ansi(false).try_init();
    debug_assert!(started.is_ok(), "logging starts once");
}

/// Says one line. A terminal that is gone is no reason to stop.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Standard error that never fails: a closed one swallows what is written.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
