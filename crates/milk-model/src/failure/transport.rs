//! Failures below HTTP: no connection, no name, no trust, a connection that broke.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use milk_core::model::ModelErrorKind;

use super::{Failed, Reporter, cures, one_line, sentences};
use crate::discover::Found;
use crate::retry::Again;

impl Reporter {
    /// The request could not be sent, or no status line came back.
    pub(crate) fn not_sent(&self, error: &reqwest::Error, connect_timeout: Duration) -> Failed {
        let place = self.base.place();
        if error.is_timeout() && error.is_connect() {
            let seconds = connect_timeout.as_secs_f64();
            let what = format!("no connection to {place} within {seconds} s");
            let details = sentences(&[&what, &cures::for_silence(&self.base, &self.agent)]);
            return self.failed(ModelErrorKind::TimedOut, Again::Quickly, &details);
        }
        if !error.is_connect() {
            let details = format!("the connection to {place} broke: {}", innermost(error));
            return self.failed(ModelErrorKind::BrokenStream, Again::Later, &details);
        }
        let (what, again) = match io_kind(error) {
            Some(io::ErrorKind::ConnectionRefused) => {
                (format!("nothing answers at {place} (connection refused)"), Again::Quickly)
            }
            _ if error.is_dns() => {
                (format!("the name {place} is not known: {}", innermost(error)), Again::Quickly)
            }
            Some(io::ErrorKind::InvalidData) => {
                (format!("no secure connection to {place}: {}", innermost(error)), Again::Never)
            }
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof) => {
                (format!("{place} closed the connection before it stood"), Again::Later)
            }
            _ => (format!("no connection to {place}: {}", innermost(error)), Again::Quickly),
        };
        let details = sentences(&[&what, &cures::for_silence(&self.base, &self.agent)]);
        self.failed(ModelErrorKind::Unreachable, again, &details)
    }

    /// The connection broke in the middle of the answer.
    pub(crate) fn connection_lost(&self, error: &reqwest::Error) -> Failed {
        self.broken(&format!("the connection was lost ({})", innermost(error)))
    }
}

/// What a probe found where its request came to nothing.
pub(crate) fn unreached(error: &reqwest::Error) -> Found {
    match io_kind(error) {
        Some(io::ErrorKind::ConnectionRefused) => Found::Refused,
        _ if error.is_timeout() => Found::TimedOut,
        _ => Found::Unreachable(one_line(&innermost(error))),
    }
}

/// The last cause of an error: the first ones name the address, which may hold a credential.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(deeper) = cause.and_then(|cause| cause.source()) {
        cause = Some(deeper);
    }
    cause.map_or_else(|| "no cause is known".to_owned(), ToString::to_string)
}

/// The kind of the first I/O error among the causes.
fn io_kind(error: &reqwest::Error) -> Option<io::ErrorKind> {
    let mut cause = error.source();
    while let Some(current) = cause {
        if let Some(error) = current.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = current.source();
    }
    None
}
