//! `session/list`: stored sessions, last use first, 50 a page (contract; R21, R23).

use agent_client_protocol_schema::{v1, v2};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use milk_core::id::SessionId;
use milk_core::session::{SessionPage, SessionQuery, SessionSummary, Worth};

use super::{Connection, Done, Reply, Request, directory};
use crate::rpc_error::RpcError;
use crate::view::answer::result;
use crate::wire::{self, Version};

const METHOD: &str = "session/list";
const PAGE: usize = 50;

pub(super) fn handle(request: &Request<'_>) -> Result<Reply, RpcError> {
    let cwd = request.fields.text("cwd")?.filter(|cwd| !cwd.is_empty());
    let offset = match request.fields.text("cursor").map_err(|_| bad_cursor())? {
        Some(cursor) => offset_of(&cursor).ok_or_else(bad_cursor)?,
        None => 0,
    };
    request.spawn(METHOD, move |connection, shapes| async move {
        let cwd = cwd.as_deref().map(directory);
        let open = open_sessions(&connection);
        let query = SessionQuery { cwd, worth: Worth::Used { open }, offset, limit: PAGE };
        let SessionPage { sessions, more } =
            connection.engine.list(&query).await.map_err(RpcError::Failed)?;
        let page = sessions.iter();
        let next = more.then(|| cursor(offset.saturating_add(PAGE)));
        Ok(Done::from(match shapes.version {
            Version::V1 => {
                let page = page.map(|session| wire::v1::session_info(session, updated_at(session))).collect();
                result(&v1::ListSessionsResponse::new(page).next_cursor(next))?
            }
            Version::V2 => {
                let page = page.map(|session| wire::v2::session_info(session, updated_at(session))).collect();
                let next = next.map(v2::SessionListCursor::new);
                result(&v2::ListSessionsResponse::new(page).next_cursor(next))?
            }
        }))
    })
}

/// What is open is listed whatever it holds (R23).
fn open_sessions(connection: &Connection) -> Vec<SessionId> {
    connection.registry.views().iter().filter_map(|view| view.binding()).collect()
}

/// RFC 3339 in UTC; nothing for a time that is none.
fn updated_at(session: &SessionSummary) -> Option<String> {
    let ms = i64::try_from(session.last_used_ms).ok()?;
    Timestamp::from_millisecond(ms).ok().map(|time| time.to_string())
}

fn cursor(offset: usize) -> String {
    BASE64_STANDARD.encode(format!("o:{offset}"))
}

fn offset_of(cursor: &str) -> Option<usize> {
    let text = String::from_utf8(BASE64_STANDARD.decode(cursor).ok()?).ok()?;
    let digits = text.strip_prefix("o:")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn bad_cursor() -> RpcError {
    RpcError::InvalidParams(format!("{METHOD}: invalid cursor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_an_offset_and_nothing_else() {
        assert_eq!(cursor(50), "bzo1MA==");
        assert_eq!(offset_of("bzo1MA=="), Some(50));
        assert_eq!(offset_of(&BASE64_STANDARD.encode("o:999999")), Some(999_999));
        for text in ["o:-1", "o:", "o:+1", "p:3", "o:1x", "3", "o:99999999999999999999999", ""] {
            assert_eq!(offset_of(&BASE64_STANDARD.encode(text)), None, "{text}");
        }
        for cursor in ["x", "", "bzo1MA", "//\u{fffd}"] {
            assert_eq!(offset_of(cursor), None, "{cursor}");
        }
    }

    #[test]
    fn times_are_rfc_3339_in_utc() {
        let session = |last_used_ms| SessionSummary {
            id: "s".into(),
            cwd: "/w".into(),
            name: None,
            first_prompt: None,
            turns: 0,
            entries: 0,
            created_ms: 0,
            last_used_ms,
        };
        assert_eq!(updated_at(&session(1_790_000_000_123)).as_deref(), Some("2026-09-21T14:13:20.123Z"));
        assert_eq!(updated_at(&session(0)).as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(updated_at(&session(u64::MAX)), None);
    }
}
