//! `session/close`: always `{}` (R16). The session stays stored.

use serde_json::json;

use super::{Done, Reply, Request};
use crate::rpc_error::RpcError;
use crate::view::TakenOut;
use crate::view::answer::result;

const METHOD: &str = "session/close";

/// The view disappears before the next line is read; the answer comes when everything of it has ended.
pub(super) fn handle(request: &Request<'_>) -> Result<Reply, RpcError> {
    let session = request.fields.required_text("sessionId")?;
    let registry = &request.connection.registry;
    let engine = &request.connection.engine;
    engine.note_closed(&session);
    let taken = registry.get(&session).and_then(|view| Some((registry.take_out(&view)?, view)));
    let Some((TakenOut { ids, reserved }, view)) = taken else {
        return Ok(Reply::Now(result(&json!({}))?));
    };
    for id in &ids {
        engine.note_closed(id);
    }
    request.spawn(METHOD, |_, _| async move {
        view.close().await;
        drop(reserved);
        Ok(Done::from(result(&json!({}))?))
    })
}
