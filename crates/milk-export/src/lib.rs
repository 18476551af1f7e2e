//! Stored sessions as documents: plain text for a chat or a terminal, JSON for programs, and one HTML page that needs
//! nothing else.
//!
//! Pure rendering: records go in one at a time, a string comes out. There is no clock, no disk and no network here, and
//! what a document says depends on the records alone. Times are UTC.
//!
//! Everything in a log may have been written by a model or by a file that a model read, so all of it is taken for
//! hostile: nothing panics, the cost is linear in the log (diffs have a budget), and no text turns into markup of its
//! own. Every text passes through [`Documents`]' redaction on its way into any document.

mod cut;
mod fold;
mod harmless;
mod html;
mod json;
mod moment;
mod redact;
mod text;

use std::fmt;
use std::sync::Arc;

use milk_core::ports::{ExportFormat, Exporter, Transcript};
use milk_core::session::SessionSummary;

use crate::html::Page;
use crate::json::JsonDocument;
use crate::redact::Redactor;
use crate::text::TextDocument;

/// Renders sessions in every format.
///
/// - [`ExportFormat::Text`]: a header, then each entry of the history under a rule; tool results are cut to 300
///   characters, and thoughts and slash commands are left out.
/// - [`ExportFormat::Json`]: everything that the log holds. Its shape, which only grows while `format` stays 1:
///
///   ```json
///   { "format": 1,
///     "session": { "id", "name", "title", "cwd", "created_at", "last_used_at" },
///     "turns": [ { "number", "origin", "work", "message_id", "entry", "started_at", "ended_at", "content",
///                  "routes": [ { "at", "agent", "target", "reason" } ],
///                  "steps": [ { "at", "entry", "message_id", "thought_id", "agent", "provider", "model", "text",
///                               "thinking", "usage", "provider_notes",
///                               "tool_calls": [ { "id", "name", "arguments", "arguments_text", "result": { "at",
///                                 "entry", "title", "kind", "status", "output", "locations", "changes" } } ] } ],
///                  "unmatched_results": [ { "id", … as above } ],
///                  "notes": [ { "at", "message_id", "text" } ],
///                  "usage": { "input", "cached", "output" }, "stop", "failure" } ],
///     "notes": [ { "at", "message_id", "text", "after_turn" } ] }
///   ```
///
///   Every key is always there; what is not known is `null`. Times are RFC 3339 in UTC with milliseconds. A turn whose
///   `stop` is `null` has no end in the log: milk was stopped, or it was still running. A call whose `result` is `null`
///   has none. `arguments` is an object; arguments that were not one are in `arguments_text` instead. A turn's `usage` is
///   the sum over its steps.
/// - [`ExportFormat::Html`]: one page without scripts that loads nothing, folds its tool rows, and reads well on a phone
///   and on paper. Slash commands are left out; long outputs and diffs are cut, and say so.
#[derive(Clone)]
pub struct Documents {
    redact: Redactor,
}

impl Documents {
    /// Documents whose every text passes through `redact`, which masks the secrets that milk knows. It must be linear in
    /// its input and change nothing the second time. Credentials that are known by their shape (`Authorization` headers,
    /// prefixed API keys, private key blocks, passwords in addresses, …) are masked on top of it.
    pub fn new(redact: Arc<dyn Fn(&str) -> String + Send + Sync>) -> Self {
        Self { redact: Redactor::new(redact) }
    }
}

impl fmt::Debug for Documents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Documents").finish_non_exhaustive()
    }
}

impl Exporter for Documents {
    fn begin(&self, format: ExportFormat, session: &SessionSummary) -> Box<dyn Transcript> {
        let redact = self.redact.clone();
        match format {
            ExportFormat::Text => Box::new(TextDocument::new(redact, session)),
            ExportFormat::Json => Box::new(JsonDocument::new(redact, session)),
            ExportFormat::Html => Box::new(Page::new(redact, session)),
        }
    }
}
