//! The machine's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use milk_core::ports::Clock;

/// The machine's clock; before 1970 it says 1970.
#[derive(Debug)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
