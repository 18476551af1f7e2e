//! From what went wrong to what a person reads and a caller decides on.

mod cures;
mod server_error;
mod transport;

use std::time::Duration;

use milk_core::model::{ModelError, ModelErrorKind};
use reqwest::StatusCode;

pub(crate) use server_error::{ServerError, html_summary};
pub(crate) use transport::unreached;

use crate::http::BaseUrl;
use crate::retry::Again;
use crate::secret::Masker;

/// A failure, and whether another try is worth it.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: ModelError,
    pub(crate) again: Again,
}

/// Writes failures of one server down. Knows the server's secrets, to keep them out.
#[derive(Debug)]
pub(crate) struct Reporter {
    pub(crate) provider: String,
    pub(crate) agent: String,
    pub(crate) model: String,
    pub(crate) base: BaseUrl,
    pub(crate) masker: Masker,
    pub(crate) has_credential: bool,
}

impl Failed {
    /// The error where the server asks for a longer wait than milk sits through.
    pub(crate) fn asked_too_much(self, wait: Duration) -> ModelError {
        let minutes = wait.as_secs().div_ceil(60);
        let details = format!("{}. It asks to wait {minutes} minutes, so milk does not", self.error.details);
        ModelError { details, ..self.error }
    }
}

/// What milk waited for when time ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The first byte of the answer.
    ForTheFirstByte,
    /// The next byte of it.
    ForTheNextByte,
}

impl Reporter {
    /// A failure of this kind; `details` may hold secrets, which are taken out here.
    pub(crate) fn failed(&self, kind: ModelErrorKind, again: Again, details: &str) -> Failed {
        self.with_status(kind, again, None, details)
    }

    fn with_status(&self, kind: ModelErrorKind, again: Again, status: Option<u16>, details: &str) -> Failed {
        let details = one_line(&self.masker.mask(details));
        Failed { error: ModelError { kind, provider: self.provider.clone(), status, details }, again }
    }

    /// The server was silent for too long. Not repeated: what took minutes once takes minutes again, and the server
    /// may still be at it.
    pub(crate) fn silent(&self, waited: Waited, limit: Duration) -> Failed {
        let place = self.base.place();
        let seconds = limit.as_secs_f64();
        let details = match waited {
            Waited::ForTheFirstByte => format!("{place} sent nothing for {seconds} s"),
            Waited::ForTheNextByte => {
                format!("{place} went silent for {seconds} s in the middle of its answer")
            }
        };
        self.failed(ModelErrorKind::TimedOut, Again::Never, &details)
    }

    /// The answer broke off, or cannot be understood.
    pub(crate) fn broken(&self, what: &str) -> Failed {
        let details = format!("the answer of {} is broken: {what}", self.base.place());
        self.failed(ModelErrorKind::BrokenStream, Again::Later, &details)
    }

    /// A page came in place of an answer: the address leads to a server of another kind, or to its front page.
    pub(crate) fn not_an_api(&self, page: &str) -> Failed {
        let (place, agent) = (self.base.place(), &self.agent);
        let details =
            format!("{place} answers with {page}, not as a model server. Check `url` of the agent `{agent}`");
        self.failed(ModelErrorKind::NotFound, Again::Never, &details)
    }

    /// The server answered with an error status.
    pub(crate) fn refused(&self, status: StatusCode, error: &ServerError, asked: Option<Duration>) -> Failed {
        let kind = error.kind_for(Some(status.as_u16()));
        let again = again_for(kind, Some(status.as_u16()), error, asked);
        let said = error.message().map_or_else(|| reason(status), str::to_owned);
        let details = self.explain(kind, Some(status.as_u16()), &said, error);
        self.with_status(kind, again, Some(status.as_u16()), &details)
    }

    /// The server reported an error in the middle of an answer that began well.
    pub(crate) fn in_stream(&self, error: &ServerError) -> Failed {
        let kind = error.kind_for(error.status());
        let again = again_for(kind, error.status(), error, None);
        let said = error.message().unwrap_or("an error without a message");
        let details = self.explain(kind, error.status(), said, error);
        self.with_status(kind, again, error.status(), &details)
    }

    fn explain(&self, kind: ModelErrorKind, status: Option<u16>, said: &str, error: &ServerError) -> String {
        let place = self.base.place();
        let code = status.map_or_else(String::new, |status| format!(" ({status})"));
        let what = match kind {
            ModelErrorKind::Unauthorized if !self.has_credential => {
                format!("{place} wants a credential{code}: {said}")
            }
            ModelErrorKind::Unauthorized => format!("{place} refused the credential{code}: {said}"),
            ModelErrorKind::RateLimited => format!("{place} is asked too much{code}: {said}"),
            ModelErrorKind::NotFound => format!("{place} does not have it{code}: {said}"),
            ModelErrorKind::ContextTooLong => {
                format!("the conversation does not fit the model{code}: {said}")
            }
            ModelErrorKind::ServerFailed => format!("{place} failed{code}: {said}"),
            _ => format!("{place} refused the request{code}: {said}"),
        };
        let numbers = match error.context_numbers() {
            Some((size, Some(wanted))) => format!(" (context of {size} tokens, request of {wanted})"),
            Some((size, None)) => format!(" (context of {size} tokens)"),
            None => String::new(),
        };
        sentences(&[&format!("{what}{numbers}"), &self.cure(kind, error)])
    }

    /// What to do about it.
    fn cure(&self, kind: ModelErrorKind, error: &ServerError) -> String {
        let agent = &self.agent;
        match kind {
            ModelErrorKind::Unauthorized if self.has_credential => {
                format!("Check `api_key`, `token_cmd` or `headers` of the agent `{agent}`")
            }
            ModelErrorKind::Unauthorized => format!("Set `api_key` or `token_cmd` of the agent `{agent}`"),
            ModelErrorKind::NotFound => cures::for_not_found(&self.base, &self.model, agent),
            _ => cures::for_message(error.message().unwrap_or_default(), &self.model).unwrap_or_default(),
        }
    }
}

/// Whether the same request may succeed later (bug case 092).
fn again_for(
    kind: ModelErrorKind,
    status: Option<u16>,
    error: &ServerError,
    asked: Option<Duration>,
) -> Again {
    let may_pass = match status {
        Some(status) => matches!(status, 408 | 429 | 500..=599),
        None => kind.retry_can_help(),
    };
    match asked {
        _ if !may_pass || error.is_permanent() => Again::Never,
        Some(wait) => Again::Asked(wait),
        None => Again::Later,
    }
}

fn reason(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("no reason given").to_owned()
}

/// Joins sentences that may lack their full stop; empty ones are left out.
fn sentences(parts: &[&str]) -> String {
    let parts = parts.iter().map(|part| part.trim().trim_end_matches('.')).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(". ")
}

/// Makes one readable line of any text, at most [`LINE`] characters long.
pub(crate) fn one_line(text: &str) -> String {
    /// Longest line that a person is shown.
    const LINE: usize = 500;
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(visible).collect();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
