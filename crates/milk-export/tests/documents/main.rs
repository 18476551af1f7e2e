//! Documents as a whole: what is in them, and what never is.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod checker;
mod hostile;
mod html;
mod interrupted;
mod json;
#[path = "../../examples/page/log.rs"]
mod log;
mod redaction;
#[path = "../../examples/page/sample.rs"]
mod sample;
mod scale;
mod text;

use std::path::PathBuf;
use std::sync::Arc;

use milk_core::id::SessionId;
use milk_core::ports::{ExportFormat, Exporter as _};
use milk_core::record::Logged;
use milk_core::session::SessionSummary;
use milk_export::Documents;

/// A session with a name.
fn session() -> SessionSummary {
    SessionSummary {
        id: SessionId::new("0b9f"),
        cwd: PathBuf::from("/home/ada/work"),
        name: Some("a name".to_owned()),
        first_prompt: Some("a prompt".to_owned()),
        turns: 0,
        entries: 0,
        created_ms: log::BEGIN_MS,
        last_used_ms: log::BEGIN_MS + 1500,
    }
}

/// The document, where nothing is secret to milk.
fn export(format: ExportFormat, records: Vec<Logged>) -> String {
    export_with(&Documents::new(Arc::new(str::to_owned)), format, &session(), records)
}

fn export_with(
    documents: &Documents,
    format: ExportFormat,
    session: &SessionSummary,
    records: Vec<Logged>,
) -> String {
    let mut document = documents.begin(format, session);
    for record in records {
        document.push(record);
    }
    document.finish()
}
