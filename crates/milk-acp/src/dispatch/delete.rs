//! `session/delete`: closes first, then removes for good.

use std::sync::Arc;

use milk_core::id::SessionId;
use serde_json::json;

use super::{Connection, Done, Reply, Request};
use crate::rpc_error::RpcError;
use crate::view::answer::result;
use crate::view::{Claim, Reservation};

const METHOD: &str = "session/delete";

/// Takes an exact id or a prefix that fits one session only. What fits none or several is unknown (contract).
pub(super) fn handle(request: &Request<'_>) -> Result<Reply, RpcError> {
    let named = request.fields.required_text("sessionId")?;
    request.spawn(METHOD, |connection, _| async move {
        let session = resolve(&connection, &named).await?;
        let reserved = close_and_reserve(&connection, &session).await;
        let deleted = connection.engine.delete_session(&session).await;
        drop(reserved);
        deleted.map_err(|error| RpcError::from_open(error, METHOD))?;
        connection.registry.note_closed(session.as_str());
        Ok(Done::from(result(&json!({}))?))
    })
}

async fn resolve(connection: &Connection, named: &str) -> Result<SessionId, RpcError> {
    if let Some(session) = connection.registry.get(named).and_then(|view| view.binding()) {
        return Ok(session);
    }
    let stored = connection.engine.sessions(None).await.map_err(RpcError::Failed)?;
    let mut fitting =
        stored.into_iter().map(|session| session.id).filter(|id| id.as_str().starts_with(named));
    let unknown = || RpcError::unknown_session(METHOD, named);
    let first = fitting.next().ok_or_else(unknown)?;
    let mut rest = fitting.peekable();
    if rest.peek().is_none() {
        return Ok(first);
    }
    // Several begin so; one of them may be it exactly.
    std::iter::once(first).chain(rest).find(|id| id.as_str() == named).ok_or_else(unknown)
}

/// Ends the session's view, if it has one, and keeps others from the session.
async fn close_and_reserve(connection: &Arc<Connection>, session: &SessionId) -> Reservation {
    loop {
        match connection.registry.claim(session) {
            Claim::Mine(reserved) => return reserved,
            Claim::Busy(done) => done.cancelled().await,
            Claim::Live(view) => {
                if let Some(reserved) = connection.registry.take_out(&view) {
                    view.close().await;
                    return reserved;
                }
            }
        }
    }
}
