//! Prints a made-up session as a document: `page [text|json|html] [sample|hostile]`. The interop suite looks at the pages
//! in a browser.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use milk_core::id::SessionId;
use milk_core::ports::{ExportFormat, Exporter as _};
use milk_core::session::SessionSummary;
use milk_export::Documents;

mod hostile;
mod log;
mod sample;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let format = match () {
        () if has("text") => ExportFormat::Text,
        () if has("json") => ExportFormat::Json,
        () => ExportFormat::Html,
    };
    let (name, records) = match () {
        () if has("hostile") => ("</title><script>alert(1)</script>\u{202e}evil", hostile::records()),
        () => ("Retry budget for the sync client", sample::records()),
    };
    let session = SessionSummary {
        id: SessionId::new("7c1d9a52-4f0e-4b6a-9a63-0d5c2f9b1e77"),
        cwd: PathBuf::from("/home/ada/projects/harbour-sync"),
        name: Some(name.to_owned()),
        first_prompt: None,
        turns: 0,
        entries: 0,
        created_ms: log::BEGIN_MS,
        last_used_ms: log::BEGIN_MS + 5_400_000,
    };
    let mut document = Documents::new(Arc::new(str::to_owned)).begin(format, &session);
    for record in records {
        document.push(record);
    }
    io::stdout().write_all(document.finish().as_bytes())
}
