//! A failure as a front end shows it (R17).

use serde::{Deserialize, Serialize};

use crate::model::ModelError;

/// Why a turn, or another thing that a front end asked for, failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{details}")]
pub struct Failure {
    /// Machine-readable, stable: `model_unreachable`, `unauthorized`, `internal`, …
    pub kind: String,
    /// One sentence for a person: what happened, where, what to do.
    pub details: String,
    /// Whether trying again can help.
    pub retryable: bool,
    /// The provider's name, for provider failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The provider's HTTP status, where it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

impl Failure {
    /// A failure of milk's own.
    pub fn new(kind: impl Into<String>, details: impl Into<String>) -> Self {
        Self { kind: kind.into(), details: details.into(), retryable: false, provider: None, status: None }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self {
            kind: error.kind.as_str().into(),
            details: error.to_string(),
            retryable: error.kind.retry_can_help(),
            provider: Some(error.provider),
            status: error.status,
        }
    }
}
