//! Live output for v1, which has no append: the whole content again, but not too often (contract: Live output).

use std::time::{Duration, Instant};

/// Shortest time between two updates of one row.
pub(super) const INTERVAL: Duration = Duration::from_millis(400);

/// Longest tail that is sent again and again, in bytes.
const TAIL: usize = 32 << 10;

/// What a running tool has printed so far.
#[derive(Debug, Default)]
pub(super) struct Live {
    tail: String,
    /// Something came that has not been shown.
    unseen: bool,
    shown_at: Option<Instant>,
}

impl Live {
    pub(super) fn append(&mut self, text: &str) {
        self.unseen = true;
        self.tail.push_str(text);
        if self.tail.len() > 2 * TAIL {
            self.trim();
        }
    }

    /// When the unseen part may be shown; `None` if there is none.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        self.unseen.then(|| self.shown_at.map_or(now, |at| at + INTERVAL))
    }

    /// The content to show, if some of it is unseen and it is time.
    pub(super) fn show(&mut self, now: Instant) -> Option<&str> {
        if self.due(now)? > now {
            return None;
        }
        self.unseen = false;
        self.shown_at = Some(now);
        self.trim();
        Some(&self.tail)
    }

    fn trim(&mut self) {
        if self.tail.len() > TAIL {
            let from = self.tail.ceil_char_boundary(self.tail.len() - TAIL);
            self.tail.drain(..from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_shown_at_once_and_then_at_most_every_interval() {
        let start = Instant::now();
        let mut live = Live::default();
        assert_eq!(live.due(start), None);
        live.append("a");
        assert_eq!(live.show(start), Some("a"));
        assert_eq!(live.show(start + INTERVAL), None, "nothing new");
        live.append("b");
        assert_eq!(live.show(start + INTERVAL / 2), None);
        assert_eq!(live.due(start), Some(start + INTERVAL));
        live.append("c");
        assert_eq!(live.show(start + INTERVAL), Some("abc"));
    }

    #[test]
    fn a_flood_keeps_its_tail() {
        let mut live = Live::default();
        for _ in 0..100_000 {
            live.append("žluťoučký ");
            assert!(live.tail.len() <= 2 * TAIL + 32);
        }
        let shown = live.show(Instant::now()).unwrap();
        assert!(shown.len() <= TAIL && shown.ends_with("žluťoučký "));
    }
}
