//! Sessions as rows and as JSON.

use milk_core::ports::Clock;
use milk_core::session::SessionSummary;
use milk_engine::text::{age, plural, short_id};
use serde_json::{Value, json};

use crate::clock::SystemClock;

/// Width of a title, in characters.
const TITLE: usize = 50;

/// Whether a row tells its session's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Told,
    /// All rows have the same.
    Known,
}

pub(super) fn now_ms() -> u64 {
    SystemClock.now_ms()
}

/// One row of a list.
pub(super) fn row(session: &SessionSummary, now_ms: u64, place: Place) -> String {
    let title: String = title(session).chars().take(TITLE).collect();
    let place = match place {
        Place::Told => format!("  {}", plain(&session.cwd.to_string_lossy())),
        Place::Known => String::new(),
    };
    format!(
        "{}  {title:<TITLE$}  {:>9}  {}{place}",
        short_id(&session.id),
        plural(session.turns, "turn"),
        age(session.last_used_ms, now_ms)
    )
}

/// A session in a sentence.
pub(super) fn line(session: &SessionSummary) -> String {
    format!("{} {}", short_id(&session.id), title(session))
}

fn title(session: &SessionSummary) -> String {
    plain(session.title().unwrap_or("(unnamed)"))
}

/// Nothing that could repaint the terminal.
fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Everything that a list knows of a session.
pub(super) fn json(session: &SessionSummary) -> Value {
    json!({
        "id": session.id.as_str(),
        "cwd": session.cwd.to_string_lossy(),
        "name": session.name,
        "title": session.title(),
        "turns": session.turns,
        "entries": session.entries,
        "created_ms": session.created_ms,
        "last_used_ms": session.last_used_ms,
    })
}
