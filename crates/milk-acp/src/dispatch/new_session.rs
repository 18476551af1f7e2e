//! `session/new` (R16, R22).

use std::sync::Arc;

use agent_client_protocol_schema::{v1, v2};
use milk_core::failure::Failure;
use milk_core::tool::Workspace;
use milk_engine::{Conversation, Opened, Origin, Start};
use serde_json::Value;

use super::{Connection, Done, Reply, Request, Then, directory};
use crate::rpc_error::RpcError;
use crate::view::answer::result;
use crate::view::{Reservation, Shapes, View};
use crate::wire::{Handle, Version};

const METHOD: &str = "session/new";

/// `mcpServers` and `additionalDirectories` are accepted in any shape and not used.
pub(super) fn handle(request: &Request<'_>) -> Result<Reply, RpcError> {
    let cwd = request.fields.required_text("cwd")?;
    // The escape hatch is exactly `true` (contract: Resume-by-default, 2).
    let fresh = request.fields.milk_meta("fresh") == Some(Value::Bool(true));
    let start = if fresh { Start::Fresh } else { Start::Default };
    request.spawn(METHOD, move |connection, shapes| open(connection, shapes, cwd, start))
}

async fn open(
    connection: Arc<Connection>,
    shapes: Shapes,
    cwd: String,
    start: Start,
) -> Result<Done, RpcError> {
    let version = shapes.version;
    let view = View::new(Arc::clone(&connection.link), shapes);
    let workspace = Workspace::new(directory(&cwd));
    let opened = connection.engine.open(workspace, start, Arc::<View>::clone(&view)).await;
    let Opened { conversation, origin } = opened.map_err(|error| RpcError::from_open(error, METHOD))?;
    let handle = Handle::new(conversation.session().as_str());
    admit(&connection, &view, conversation.clone(), handle.clone(), None).await?;
    if let Origin::Adopted(adopted) = origin {
        // The client's panel is empty: what it goes on with is announced and shown, behind the gate (R22).
        conversation.announce_adoption(&adopted);
        if let Err(error) = conversation.replay().await {
            tracing::warn!(session = %adopted.id, %error, "the adopted history cannot be shown");
        }
    }
    view.announce_commands();
    let result = match version {
        Version::V1 => result(&v1::NewSessionResponse::new(handle.shared())),
        Version::V2 => result(&v2::NewSessionResponse::new(handle.shared())),
    };
    Ok(Done { result: result?, then: Then::Settle(view) })
}

/// Binds a view to its conversation and makes it known, unless the connection has ended meanwhile.
pub(super) async fn admit(
    connection: &Connection,
    view: &Arc<View>,
    conversation: Conversation,
    handle: Handle,
    reserved: Option<Reservation>,
) -> Result<(), RpcError> {
    view.bind(conversation, handle.clone());
    if let Err(view) = connection.registry.insert(handle, Arc::clone(view), reserved) {
        view.close().await;
        return Err(RpcError::Failed(Failure::new("shutting_down", "milk is shutting down.")));
    }
    Ok(())
}
