//! Times as documents write them: UTC, from milliseconds since the Unix epoch.

use jiff::Timestamp;

/// `YYYY-MM-DD HH:MM:SS`; a word for what no calendar holds.
pub(crate) fn plain(ms: u64) -> String {
    timestamp(ms).map_or_else(|| "unknown time".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// RFC 3339 with milliseconds, for programs.
pub(crate) fn rfc3339(ms: u64) -> Option<String> {
    timestamp(ms).map(|at| format!("{at:.3}"))
}

/// How long something took, for people: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 4 min`.
pub(crate) fn span(from_ms: u64, to_ms: u64) -> Option<String> {
    let ms = to_ms.checked_sub(from_ms)?;
    let seconds = ms / 1000;
    Some(match seconds {
        0..10 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    })
}

fn timestamp(ms: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_and_bounded() {
        assert_eq!(plain(1_767_323_045_678), "2026-01-02 03:04:05");
        assert_eq!(rfc3339(1_767_323_045_678).as_deref(), Some("2026-01-02T03:04:05.678Z"));
        assert_eq!(rfc3339(1_767_323_045_000).as_deref(), Some("2026-01-02T03:04:05.000Z"));
        assert_eq!(plain(u64::MAX), "unknown time");
        assert_eq!(rfc3339(u64::MAX), None);
        assert_eq!(rfc3339(i64::MAX as u64), None);
    }

    #[test]
    fn spans_are_short() {
        assert_eq!(span(1000, 1450).as_deref(), Some("0.4 s"));
        assert_eq!(span(0, 12_900).as_deref(), Some("12 s"));
        assert_eq!(span(0, 185_000).as_deref(), Some("3 min 5 s"));
        assert_eq!(span(0, 7_440_000).as_deref(), Some("2 h 4 min"));
        assert_eq!(span(5, 4), None);
    }
}
