//! `/export` (contract: Exploring after resume).

use std::path::Path;

use milk_core::BoxFuture;
use milk_core::id::SessionId;
use milk_core::ports::{ExportFormat, StoreError};
use milk_core::session::SessionSummary;

use super::outcome::Outcome;
use crate::conversation::ConversationState;
use crate::reference;
use crate::text::{plural, short_id};
use crate::transcript::transcript;

/// Longest transcript that is printed into a chat, in bytes.
const PRINTED: usize = 1024 * 1024;

const USAGE: &str = "usage: /export [session <id|prefix>] [json|html <path>|<path>]";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Request<'a> {
    /// Another session than the conversation's.
    session: Option<&'a str>,
    format: ExportFormat,
    /// Where to; printed where there is none.
    path: Option<&'a str>,
}

pub(super) fn export<'a>(state: &'a mut ConversationState, arguments: &'a str) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let Some(request) = parse(arguments) else { return Outcome::said(USAGE) };
        let id = match request.session {
            None => state.binding.session.clone(),
            Some(text) => match reference::by_id(&*state.ports().sessions, text).await {
                Ok(found) => found.id,
                Err(error) => return Outcome::said(error.to_string()),
            },
        };
        match document(state, &id, request.format).await {
            Err(error) => Outcome::said(format!("session {} cannot be exported: {error}", short_id(&id))),
            Ok((summary, document)) => match request.path {
                Some(path) => save(state, &summary, path, &document).await,
                None => print(&summary, document),
            },
        }
    })
}

/// `[session <ref>] [json | html <path> | <path>]`. A path may hold spaces; its ending decides the format where none is said.
fn parse(arguments: &str) -> Option<Request<'_>> {
    let (session, rest) = match word(arguments) {
        ("session", rest) => match word(rest) {
            ("", _) => return None,
            (reference, rest) => (Some(reference), rest),
        },
        _ => (None, arguments.trim()),
    };
    let (format, path) = match word(rest) {
        ("", _) => (ExportFormat::Text, None),
        ("json", "") => (ExportFormat::Json, None),
        ("json", path) => (ExportFormat::Json, Some(path)),
        ("html", "") => return None,
        ("html", path) => (ExportFormat::Html, Some(path)),
        _ => (by_ending(rest), Some(rest)),
    };
    Some(Request { session, format, path })
}

fn by_ending(path: &str) -> ExportFormat {
    let ending = Path::new(path).extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("json") => ExportFormat::Json,
        Some("html" | "htm") => ExportFormat::Html,
        _ => ExportFormat::Text,
    }
}

/// The first word and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

async fn document(
    state: &ConversationState,
    id: &SessionId,
    format: ExportFormat,
) -> Result<(SessionSummary, String), StoreError> {
    let ports = state.ports();
    let summary = ports.sessions.find(id).await?;
    let document = transcript(&*ports.sessions, &*ports.exporter, &summary, format).await?;
    Ok((summary, document))
}

async fn save(state: &ConversationState, session: &SessionSummary, path: &str, document: &str) -> Outcome {
    let saved = state.ports().files.save(state.workspace.cwd(), path, document).await;
    Outcome::said(match saved {
        Ok(path) => {
            format!("wrote the transcript of session {} to {}", short_id(&session.id), path.display())
        }
        Err(failure) => format!("the transcript was not written: {failure}"),
    })
}

/// Printed transcripts are not recorded: a log that holds itself would double with each of them.
fn print(session: &SessionSummary, mut document: String) -> Outcome {
    if document.len() > PRINTED {
        document.truncate(document.floor_char_boundary(PRINTED));
        document
            .push_str("\n\n[… the rest is left out: /export <path> writes the whole transcript to a file]");
    }
    let entries = plural(session.entries, "entry").replace("entrys", "entries");
    let kept = format!("[the transcript of session {}, {entries}]", short_id(&session.id));
    Outcome::Said { text: document, kept: Some(kept) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_understood() {
        let of = |session, format, path| Some(Request { session, format, path });
        for (typed, wanted) in [
            ("", of(None, ExportFormat::Text, None)),
            ("json", of(None, ExportFormat::Json, None)),
            ("json out put.json", of(None, ExportFormat::Json, Some("out put.json"))),
            ("notes.txt", of(None, ExportFormat::Text, Some("notes.txt"))),
            ("a b.HTML", of(None, ExportFormat::Html, Some("a b.HTML"))),
            ("x.json", of(None, ExportFormat::Json, Some("x.json"))),
            ("html page", of(None, ExportFormat::Html, Some("page"))),
            ("session a1b2", of(Some("a1b2"), ExportFormat::Text, None)),
            ("session  a1b2  json", of(Some("a1b2"), ExportFormat::Json, None)),
            ("session a1b2 out.txt", of(Some("a1b2"), ExportFormat::Text, Some("out.txt"))),
            ("html", None),
            ("session", None),
        ] {
            assert_eq!(parse(typed), wanted, "{typed:?}");
        }
    }
}
