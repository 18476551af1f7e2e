//! `session/resume`: attaches to a session that is open here, or opens it (contract: session/resume(X) resolution).

use std::path::Path;
use std::sync::Arc;

use agent_client_protocol_schema::{v1, v2};
use milk_core::failure::Failure;
use milk_core::id::SessionId;
use milk_core::tool::Workspace;
use milk_engine::command;
use serde_json::Value;

use super::new_session::admit;
use super::{Connection, Done, Reply, Request, Then, directory};
use crate::rpc_error::{RpcError, bad_param};
use crate::view::answer::result;
use crate::view::{Claim, Reservation, Shapes, View};
use crate::wire::receive::Fields;
use crate::wire::{self, Handle, Version};

const METHOD: &str = "session/resume";

/// Where the client wants the history from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplayFrom {
    /// It has it already.
    Nowhere,
    Start,
}

/// A view on the session, and whether the client may have known it before.
enum Attached {
    Live(Arc<View>),
    Opened(Arc<View>),
}

pub(super) fn handle(request: &Request<'_>) -> Result<Reply, RpcError> {
    let session = request.fields.required_text("sessionId")?;
    let cwd = request.fields.required_text("cwd")?;
    let from = replay_from(&request.fields)?;
    request.spawn(METHOD, move |connection, shapes| async move {
        let version = shapes.version;
        let attached = attach(&connection, shapes, &session, &cwd, from).await?;
        match version {
            Version::V1 => {
                // v1's answer has no room for the commands: they follow it.
                let result = result(&v1::ResumeSessionResponse::new())?;
                let then = match attached {
                    Attached::Live(view) => Then::Announce(view),
                    Attached::Opened(view) => {
                        view.announce_commands();
                        Then::Settle(view)
                    }
                };
                Ok(Done { result, then })
            }
            Version::V2 => {
                let commands = wire::v2::commands(command::advertised());
                let result = result(&v2::ResumeSessionResponse::new().available_commands(commands))?;
                let then = match attached {
                    Attached::Live(_) => Then::Nothing,
                    Attached::Opened(view) => Then::Settle(view),
                };
                Ok(Done { result, then })
            }
        }
    })
}

/// Omitted, null or the start; milk refuses rather than guessing (contract: History replay).
fn replay_from(fields: &Fields<'_>) -> Result<ReplayFrom, RpcError> {
    if fields.raw("replayFrom").is_none() {
        return Ok(ReplayFrom::Nowhere);
    }
    let kind = fields.value("replayFrom").and_then(|from| from.get("type").cloned());
    match kind {
        Some(Value::String(kind)) if kind == "start" => Ok(ReplayFrom::Start),
        Some(Value::String(kind)) => Err(RpcError::InvalidParams(format!(
            "{METHOD}: replayFrom: unsupported cursor type \"{}\" (only \"start\" is defined)",
            crate::visible::line(&kind.chars().take(60).collect::<String>())
        ))),
        _ => Err(bad_param(METHOD, "replayFrom", "a cursor such as {\"type\":\"start\"}")),
    }
}

/// The view on this session: the live one, else a new one.
async fn attach(
    connection: &Arc<Connection>,
    shapes: Shapes,
    session: &str,
    cwd: &str,
    from: ReplayFrom,
) -> Result<Attached, RpcError> {
    let id = SessionId::from(session);
    let asked = directory(cwd);
    loop {
        match connection.registry.claim(&id) {
            Claim::Busy(done) => done.cancelled().await,
            Claim::Mine(reserved) => {
                let view = open(connection, shapes, reserved, &id, &asked, from).await?;
                return Ok(Attached::Opened(view));
            }
            Claim::Live(view) => {
                if let Some(conversation) = view.conversation() {
                    check_cwd(&asked, conversation.workspace().cwd())?;
                }
                check_replay(from)?;
                let handle = Handle::new(session);
                connection.registry.alias(handle.clone(), &view);
                view.named(handle);
                return Ok(Attached::Live(view));
            }
        }
    }
}

async fn open(
    connection: &Arc<Connection>,
    shapes: Shapes,
    reserved: Reservation,
    id: &SessionId,
    asked: &Path,
    from: ReplayFrom,
) -> Result<Arc<View>, RpcError> {
    let engine = &connection.engine;
    let stored = engine.stored_cwd(id).await.map_err(|error| RpcError::from_open(error, METHOD))?;
    check_cwd(asked, &stored)?;
    check_replay(from)?;
    let view = View::new(Arc::clone(&connection.link), shapes);
    let conversation = engine.open_stored(id, Workspace::new(asked), Arc::<View>::clone(&view)).await;
    let conversation = conversation.map_err(|error| RpcError::from_open(error, METHOD))?;
    admit(connection, &view, conversation, Handle::new(id.as_str()), Some(reserved)).await?;
    Ok(view)
}

/// Directories are compared by what they are (R21).
fn check_cwd(asked: &Path, own: &Path) -> Result<(), RpcError> {
    if milk_files::same_place(asked, own) {
        return Ok(());
    }
    Err(RpcError::InvalidParams(format!(
        "{METHOD}: cwd \"{}\" does not match the session's cwd \"{}\"",
        asked.display(),
        own.display()
    )))
}

/// A history that cannot be replayed whole is refused, not hidden.
fn check_replay(from: ReplayFrom) -> Result<(), RpcError> {
    match from {
        ReplayFrom::Nowhere => Ok(()),
        ReplayFrom::Start => Err(RpcError::Failed(Failure::new(
            "replay_unavailable",
            "This version of milk cannot replay a session's history; resume it without replayFrom.",
        ))),
    }
}
