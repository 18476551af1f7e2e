//! `session/cancel` and `$/cancel_request` (R12, R20).

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Connection, Reply, Request};
use crate::peer::RequestKey;
use crate::rpc_error::RpcError;
use crate::view::View;
use crate::view::answer::result;
use crate::wire::Handle;
use crate::wire::receive::Fields;

/// `session/cancel` sent as a request: cancels all the same.
pub(super) fn handle(request: &Request<'_>) -> Result<Reply, RpcError> {
    let session = request.fields.required_text("sessionId")?;
    let view = request.view("session/cancel", &session)?;
    cancel(&view, &session);
    Ok(Reply::Now(result(&serde_json::json!({}))?))
}

/// A notification. Those that milk does not know, and those that name nothing, have no effect.
pub(super) fn notified(connection: &Arc<Connection>, method: &str, params: Option<&RawValue>) {
    match method {
        "session/cancel" => {
            let session = Fields::read_any("session/cancel", params).text("sessionId").ok().flatten();
            let found = session.and_then(|session| Some((connection.registry.get(&session)?, session)));
            if let Some((view, session)) = found {
                cancel(&view, &session);
            }
        }
        "$/cancel_request" => {
            let Some(request) = Fields::read_any("$/cancel_request", params).raw("requestId") else { return };
            let key = RequestKey::of(request);
            connection.registry.views().iter().any(|view| view.cancel_request(&key));
        }
        _ => {}
    }
}

fn cancel(view: &View, session: &str) {
    view.named(Handle::new(session));
    if let Some(conversation) = view.conversation() {
        conversation.cancel();
    }
}
