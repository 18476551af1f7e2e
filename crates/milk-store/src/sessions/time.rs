//! Times on disk: RFC 3339 with milliseconds, so that a person reads them and they sort as text.

use jiff::Timestamp;

/// A time in milliseconds since the Unix epoch as it stands in a log.
pub(super) fn to_text(ms: u64) -> String {
    let timestamp = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", timestamp.unwrap_or(Timestamp::MAX))
}

/// The time that a log or an older version of milk wrote, with any offset from UTC. Times before the epoch are it.
pub(super) fn from_text(text: &str) -> Option<u64> {
    let timestamp: Timestamp = text.parse().ok()?;
    Some(u64::try_from(timestamp.as_millisecond()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_as_they_went() {
        for ms in [0, 1, 999, 1_796_118_136_123] {
            assert_eq!(from_text(&to_text(ms)), Some(ms), "{}", to_text(ms));
        }
        assert_eq!(to_text(1_796_118_136_123), "2026-12-01T09:42:16.123Z");
        assert_eq!(from_text("2026-12-01T10:42:16.123456789+01:00"), Some(1_796_118_136_123));
        assert_eq!(from_text("0001-01-01T00:00:00Z"), Some(0));
        assert_eq!(from_text("yesterday"), None);
        assert!(to_text(u64::MAX).starts_with("9999-"));
    }
}
