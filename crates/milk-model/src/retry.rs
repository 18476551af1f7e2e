//! When a failed request is sent again, and after how long.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// How often and how patiently a request is repeated. Requests are repeated only while nothing of an answer has been
/// shown, and never where the same request must fail again.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// How often a request is sent at most, the first time included. 4 unless set.
    pub tries: u32,
    /// The same where nothing listens at the address: a server that is not there fails fast. 2 unless set.
    pub refused_tries: u32,
    /// The wait before the second try; it doubles for each further one. 500 ms unless set.
    pub first_wait: Duration,
    /// The longest wait that milk chooses. 8 s unless set.
    pub longest_wait: Duration,
    /// The longest wait that a server may ask for (`Retry-After`); beyond it milk gives up at once. 60 s unless set.
    pub longest_asked: Duration,
    /// Where in its range a wait falls.
    pub jitter: Jitter,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            tries: 4,
            refused_tries: 2,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(8),
            longest_asked: Duration::from_mins(1),
            jitter: Jitter::Random,
        }
    }
}

/// Where in its range a wait falls, so that many clients of one server do not come back together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
    /// Anywhere.
    Random,
    /// Always here: 0 is the shortest, 1 the longest.
    Fixed(f64),
}

/// Whether a failure is worth another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// The same request would fail again.
    Never,
    /// Nothing listens there: one quick look more.
    Quickly,
    /// After a wait of milk's own.
    Later,
    /// The server asked for this wait.
    Asked(Duration),
}

/// What the policy says about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Wait this long, then send attempt `attempt` of at most `limit`.
    Retry { attempt: u32, limit: u32, wait: Duration },
    /// That was it.
    GiveUp,
    /// The server asked for a wait that nobody would sit through.
    AskedTooMuch(Duration),
}

impl RetryPolicy {
    /// Judges a failure of attempt number `made` (from 1).
    pub(crate) fn judge(&self, again: Again, made: u32) -> Verdict {
        let (limit, wait) = match again {
            Again::Never => return Verdict::GiveUp,
            Again::Asked(asked) if asked > self.longest_asked => return Verdict::AskedTooMuch(asked),
            Again::Quickly => (self.refused_tries.min(self.tries), self.own_wait(1) / 2),
            Again::Later => (self.tries, self.own_wait(made)),
            Again::Asked(asked) => (self.tries, self.own_wait(made).max(asked)),
        };
        if made >= limit { Verdict::GiveUp } else { Verdict::Retry { attempt: made + 1, limit, wait } }
    }

    /// Between half and the whole of the wait for this attempt.
    fn own_wait(&self, made: u32) -> Duration {
        let doubled = self.first_wait.saturating_mul(1 << made.saturating_sub(1).min(16));
        let whole = doubled.min(self.longest_wait);
        whole.mul_f64(0.5 + 0.5 * self.jitter.fraction())
    }
}

impl Jitter {
    fn fraction(self) -> f64 {
        match self {
            // A fresh hasher has random keys: enough to keep clients apart, with no generator to carry about.
            Self::Random => {
                f64::from((RandomState::new().build_hasher().finish() >> 32) as u32) / f64::from(u32::MAX)
            }
            Self::Fixed(fraction) => fraction.clamp(0.0, 1.0),
        }
    }
}

/// The wait that a server asks for (RFC 9110, section 10.2.3): seconds or a date. Nonsense is no wish.
/// A date is compared with the server's own clock where the response tells it.
pub(crate) fn asked_wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text: &str| text.parse::<u64>().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    let asked = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = asked.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = httpdate::parse_http_date(asked).ok()?;
    let now = text(DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn asked(headers: &[(&'static str, String)]) -> Option<Duration> {
        let headers =
            headers.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect();
        asked_wait(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000))
    }

    fn date(seconds: u64) -> String {
        httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[test]
    fn case_092_retry_after_in_every_form() {
        let seconds = |n| Some(Duration::from_secs(n));
        let cases = [
            (vec![("retry-after", "2".to_owned())], seconds(2)),
            (vec![("retry-after", " 2.5 ".to_owned())], Some(Duration::from_millis(2_500))),
            (vec![("retry-after", date(1_000_002))], seconds(2)),
            (vec![("retry-after", date(999_000))], seconds(0)),
            (vec![("retry-after", date(500_002)), ("date", date(500_000))], seconds(2)),
            (vec![("retry-after", "86400".to_owned())], seconds(86_400)),
            (
                vec![("retry-after-ms", "150".to_owned()), ("retry-after", "9".to_owned())],
                Some(Duration::from_millis(150)),
            ),
            (vec![("retry-after", "banana".to_owned())], None),
            (vec![("retry-after", "-1".to_owned())], None),
            (vec![("retry-after", "1e300".to_owned())], None),
            (vec![("retry-after", "NaN".to_owned())], None),
            (vec![("retry-after", String::new())], None),
            (vec![], None),
        ];
        for (headers, expected) in cases {
            assert_eq!(asked(&headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn case_092_waits_grow_and_tries_are_bounded() {
        let policy = RetryPolicy { jitter: Jitter::Fixed(1.0), ..RetryPolicy::default() };
        let retry = |attempt, limit, milliseconds| {
            let wait = Duration::from_millis(milliseconds);
            Verdict::Retry { attempt, limit, wait }
        };
        assert_eq!(policy.judge(Again::Later, 1), retry(2, 4, 500));
        assert_eq!(policy.judge(Again::Later, 2), retry(3, 4, 1_000));
        assert_eq!(policy.judge(Again::Later, 3), retry(4, 4, 2_000));
        assert_eq!(policy.judge(Again::Later, 4), Verdict::GiveUp);
        assert_eq!(policy.judge(Again::Quickly, 1), retry(2, 2, 250));
        assert_eq!(policy.judge(Again::Quickly, 2), Verdict::GiveUp);
        assert_eq!(policy.judge(Again::Never, 1), Verdict::GiveUp);
        assert_eq!(policy.judge(Again::Asked(Duration::from_secs(2)), 1), retry(2, 4, 2_000));
        assert_eq!(policy.judge(Again::Asked(Duration::ZERO), 2), retry(3, 4, 1_000));
        let day = Duration::from_hours(24);
        assert_eq!(policy.judge(Again::Asked(day), 1), Verdict::AskedTooMuch(day));
        let many = RetryPolicy { tries: 40, jitter: Jitter::Fixed(0.0), ..policy };
        assert_eq!(many.judge(Again::Later, 39), retry(40, 40, 4_000));
    }

    #[test]
    fn jitter_stays_in_its_range() {
        let policy = RetryPolicy::default();
        for _ in 0..100 {
            let wait = policy.own_wait(1);
            assert!((Duration::from_millis(250)..=Duration::from_millis(500)).contains(&wait), "{wait:?}");
        }
        assert!((0..20).map(|_| policy.own_wait(1)).collect::<std::collections::HashSet<_>>().len() > 1);
    }
}
