//! `session/prompt` (R6, R7): handed over here, answered by its view when the turn has ended.

use super::{Reply, Request};
use crate::rpc_error::RpcError;
use crate::wire::Handle;

pub(super) fn handle(request: &Request<'_>) -> Result<Reply, RpcError> {
    let session = request.fields.required_text("sessionId")?;
    let content = request.fields.content("prompt")?;
    let view = request.view("session/prompt", &session)?;
    let handle = Handle::new(&session);
    view.named(handle.clone());
    view.prompt(handle, request.id.clone(), content);
    Ok(Reply::Later)
}
