//! `session/delete`: removes a session for good.

use std::sync::Arc;

use milk_core::failure::Failure;
use milk_core::id::SessionId;
use milk_engine::ReferenceError;
use serde_json::json;

use super::{Connection, Done, Reply, Request};
use crate::rpc_error::RpcError;
use crate::view::TakenOut;
use crate::view::answer::result;

const METHOD: &str = "session/delete";

/// Takes an exact id or a prefix that fits one session only. What fits none or several is unknown (contract).
pub(super) fn handle(request: &Request<'_>) -> Result<Reply, RpcError> {
    let named = request.fields.required_text("sessionId")?;
    request.spawn(METHOD, |connection, _| async move {
        let session = resolve(&connection, &named).await?;
        close(&connection, &session).await;
        let deleted = connection.engine.delete(&session).await;
        deleted.map_err(|error| RpcError::from_open(error, METHOD))?;
        Ok(Done::from(result(&json!({}))?))
    })
}

async fn resolve(connection: &Connection, named: &str) -> Result<SessionId, RpcError> {
    if connection.registry.get(named).is_some() {
        return Ok(SessionId::from(named));
    }
    match connection.engine.by_id(named).await {
        Ok(found) => Ok(found.id),
        Err(ReferenceError::NoMatch(_) | ReferenceError::Ambiguous { .. }) => {
            Err(RpcError::unknown_session(METHOD, named))
        }
        Err(error @ ReferenceError::Failed(_)) => Err(RpcError::Failed(Failure {
            retryable: true,
            ..Failure::new("store_failed", error.to_string())
        })),
    }
}

/// Closes the view that the client knows by this id, whatever it talks to now. One that only talks to the session goes on
/// with a fresh one: the engine sees to that.
async fn close(connection: &Arc<Connection>, session: &SessionId) {
    let registry = &connection.registry;
    let Some(view) = registry.get(session.as_str()) else { return };
    if let Some(TakenOut { ids, reserved }) = registry.take_out(&view) {
        for id in &ids {
            connection.engine.note_closed(id);
        }
        view.close().await;
        drop(reserved);
    }
}
