//! References to sessions as people type them: a whole id, the beginning of one, a name. Never a guess (contract: Session
//! commands and view rebinding).

use std::path::Path;

use milk_core::id::SessionId;
use milk_core::ports::{SessionStore, StoreError};
use milk_core::session::SessionSummary;

use crate::text::short_id;

/// How many candidates an ambiguous reference tells.
const TOLD: usize = 5;

/// Why a reference means no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Nothing fits.
    #[error("no session matches \"{0}\" — /sessions lists what exists, /new starts fresh")]
    NoMatch(String),
    /// Several fit.
    #[error("\"{reference}\" fits several sessions ({}) — use more characters", candidates.join(", "))]
    Ambiguous {
        /// What was typed.
        reference: String,
        /// Some of those that fit.
        candidates: Vec<String>,
    },
    /// The store failed.
    #[error("the stored sessions cannot be read: {0}")]
    Failed(String),
}

impl From<StoreError> for ReferenceError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The session with this id, else the only one whose id begins like this.
pub(crate) async fn by_id(store: &dyn SessionStore, text: &str) -> Result<SessionSummary, ReferenceError> {
    match store.find(&SessionId::from(text)).await {
        Ok(found) => return Ok(found),
        Err(StoreError::Unknown(_)) => {}
        Err(error) => return Err(error.into()),
    }
    only(text, store.with_prefix(text, TOLD + 1).await?)
}

/// The session with this id, else the only one whose id begins like this, else the only one of this directory with this
/// name.
pub async fn by_id_or_name(
    store: &dyn SessionStore,
    text: &str,
    cwd: &Path,
) -> Result<SessionSummary, ReferenceError> {
    match by_id(store, text).await {
        Err(ReferenceError::NoMatch(_)) => only(text, store.with_name(cwd, text).await?),
        found => found,
    }
}

fn only(reference: &str, mut fitting: Vec<SessionSummary>) -> Result<SessionSummary, ReferenceError> {
    match fitting.len() {
        0 => Err(ReferenceError::NoMatch(crate::text::one_line(reference, 80))),
        1 => Ok(fitting.remove(0)),
        _ => {
            let told = fitting.iter().take(TOLD).map(|session| {
                let title = session.title().map(|title| format!(" {title}")).unwrap_or_default();
                format!("{}{title}", short_id(&session.id))
            });
            let more = (fitting.len() > TOLD).then(|| "…".to_owned());
            Err(ReferenceError::Ambiguous {
                reference: crate::text::one_line(reference, 80),
                candidates: told.chain(more).collect(),
            })
        }
    }
}
