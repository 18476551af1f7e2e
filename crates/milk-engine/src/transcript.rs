//! One stored session as a document.

use std::sync::{Arc, Mutex, PoisonError};

use milk_core::ports::{ExportFormat, Exporter, SessionStore, StoreError, Transcript};
use milk_core::session::SessionSummary;

/// The whole document about this session.
pub async fn transcript(
    sessions: &dyn SessionStore,
    exporter: &dyn Exporter,
    session: &SessionSummary,
    format: ExportFormat,
) -> Result<String, StoreError> {
    let begun: Arc<Mutex<Option<Box<dyn Transcript>>>> =
        Arc::new(Mutex::new(Some(exporter.begin(format, session))));
    let taking = Arc::clone(&begun);
    let visit = move |logged| {
        if let Some(transcript) = &mut *taking.lock().unwrap_or_else(PoisonError::into_inner) {
            transcript.push(logged);
        }
    };
    sessions.read(&session.id, Box::new(visit)).await?;
    let taken = begun.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(taken.map(Transcript::finish).unwrap_or_default())
}
