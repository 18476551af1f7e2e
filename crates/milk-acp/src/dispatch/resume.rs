//! `session/resume`: attaches to a session that is open here, or opens it (contract: session/resume(X) resolution).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::{v1, v2};
use milk_core::id::SessionId;
use milk_core::tool::Workspace;
use milk_engine::{OpenError, command};
use serde_json::Value;

use super::new_session::admit;
use super::{Connection, Done, Reply, Request, Then, directory};
use crate::profile::SessionLoad;
use crate::rpc_error::{RpcError, bad_param};
use crate::view::answer::result;
use crate::view::{Claim, Reservation, Shapes, View};
use crate::wire::receive::Fields;
use crate::wire::{self, Handle, Version};

const METHOD: &str = "session/resume";
const LOAD: &str = "session/load";

/// How often a session that another conversation is just leaving or entering is tried for, and how long between.
const TRIES: u32 = 200;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

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

impl Attached {
    fn view(&self) -> &Arc<View> {
        match self {
            Self::Live(view) | Self::Opened(view) => view,
        }
    }

    /// What follows the answer: the commands where the answer has no room for them, and what the view has to say.
    fn afterwards(self, commands: CommandsTold) -> Then {
        match (self, commands) {
            (Self::Live(_), CommandsTold::InTheAnswer) => Then::Nothing,
            (Self::Live(view), CommandsTold::AfterIt) => Then::Announce(view),
            (Self::Opened(view), CommandsTold::InTheAnswer) => Then::Settle(view),
            (Self::Opened(view), CommandsTold::AfterIt) => {
                view.announce_commands();
                Then::Settle(view)
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandsTold {
    InTheAnswer,
    AfterIt,
}

pub(super) fn handle(request: &Request<'_>) -> Result<Reply, RpcError> {
    let session = request.fields.required_text("sessionId")?;
    let cwd = request.fields.required_text("cwd")?;
    let from = replay_from(METHOD, &request.fields)?;
    request.spawn(METHOD, move |connection, shapes| async move {
        let version = shapes.version;
        let attached = attach(METHOD, &connection, shapes, &session, &cwd, from).await?;
        Ok(match version {
            Version::V1 => Done {
                result: result(&v1::ResumeSessionResponse::new())?,
                then: attached.afterwards(CommandsTold::AfterIt),
            },
            Version::V2 => {
                let commands = wire::v2::commands(command::advertised());
                Done {
                    result: result(&v2::ResumeSessionResponse::new().available_commands(commands))?,
                    then: attached.afterwards(CommandsTold::InTheAnswer),
                }
            }
        })
    })
}

/// `session/load`, for the v1 clients that restore sessions in no other way (R40): a resume with a replay.
pub(super) fn load(request: &Request<'_>) -> Result<Reply, RpcError> {
    if request.shapes.version != Version::V1 || request.shapes.profile.session_load == SessionLoad::Refused {
        return Err(RpcError::method_not_found(LOAD));
    }
    let session = request.fields.required_text("sessionId")?;
    let cwd = request.fields.required_text("cwd")?;
    request.spawn(LOAD, move |connection, shapes| async move {
        let attached = attach(LOAD, &connection, shapes, &session, &cwd, ReplayFrom::Start).await?;
        Ok(Done {
            result: result(&v1::LoadSessionResponse::new())?,
            then: attached.afterwards(CommandsTold::AfterIt),
        })
    })
}

/// Omitted, null or the start; milk refuses rather than guessing (contract: History replay).
fn replay_from(method: &str, fields: &Fields<'_>) -> Result<ReplayFrom, RpcError> {
    if fields.raw("replayFrom").is_none() {
        return Ok(ReplayFrom::Nowhere);
    }
    let kind = fields.value("replayFrom").and_then(|from| from.get("type").cloned());
    match kind {
        Some(Value::String(kind)) if kind == "start" => Ok(ReplayFrom::Start),
        Some(Value::String(kind)) => Err(RpcError::InvalidParams(format!(
            "{method}: replayFrom: unsupported cursor type \"{}\" (only \"start\" is defined)",
            crate::visible::line(&kind.chars().take(60).collect::<String>())
        ))),
        _ => Err(bad_param(method, "replayFrom", "a cursor such as {\"type\":\"start\"}")),
    }
}

/// The view on this session, the live one or a new one, with its history shown where that was asked for.
async fn attach(
    method: &'static str,
    connection: &Arc<Connection>,
    shapes: Shapes,
    session: &str,
    cwd: &str,
    from: ReplayFrom,
) -> Result<Attached, RpcError> {
    let id = SessionId::from(session);
    let asked = directory(cwd);
    let handle = Handle::new(session);
    let failed = |error| RpcError::from_open(error, method);
    let mut from = from;
    let mut tries = 0;
    let attached = loop {
        match connection.registry.claim(&id) {
            Claim::Busy(done) => done.cancelled().await,
            Claim::Mine(reserved) => {
                match open(method, connection, shapes.clone(), reserved, &id, &asked).await {
                    Ok(view) => break Attached::Opened(view),
                    // A conversation is on its way to this session or away from it.
                    Err(Refusal::Open(OpenError::Taken(_))) if tries < TRIES => {
                        tries += 1;
                        tokio::time::sleep(BETWEEN_TRIES).await;
                    }
                    Err(Refusal::Open(error)) => return Err(failed(error)),
                    Err(Refusal::Rpc(error)) => return Err(error),
                }
            }
            Claim::Live(view) => {
                let Some(conversation) = view.conversation().cloned() else { continue };
                let own = if conversation.session() == id {
                    conversation.workspace().root
                } else {
                    connection.engine.find(&id).await.map_err(failed)?.cwd
                };
                check_cwd(method, &asked, &own)?;
                connection.registry.alias(handle.clone(), &view);
                view.named(handle.clone());
                if conversation.session() != id {
                    // The conversation that began there goes back, which shows its history whatever was asked.
                    conversation.go_to(&id).await.map_err(failed)?;
                    if from == ReplayFrom::Start {
                        view.replay_is_complete(&handle);
                        from = ReplayFrom::Nowhere;
                    }
                }
                break Attached::Live(view);
            }
        }
    };
    if from == ReplayFrom::Start {
        let view = attached.view();
        view.replay(handle.clone()).await.map_err(failed)?;
        view.replay_is_complete(&handle);
    }
    Ok(attached)
}

/// Why a session did not open.
enum Refusal {
    Open(OpenError),
    Rpc(RpcError),
}

impl From<RpcError> for Refusal {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

async fn open(
    method: &'static str,
    connection: &Arc<Connection>,
    shapes: Shapes,
    reserved: Reservation,
    id: &SessionId,
    asked: &Path,
) -> Result<Arc<View>, Refusal> {
    let engine = &connection.engine;
    check_cwd(method, asked, &engine.find(id).await?.cwd)?;
    let view = View::new(Arc::clone(&connection.link), shapes);
    let conversation = engine.open_stored(id, Workspace::new(asked), Arc::<View>::clone(&view)).await?;
    admit(connection, &view, conversation, Handle::new(id.as_str()), Some(reserved)).await?;
    Ok(view)
}

/// Directories are compared by what they are (R21).
fn check_cwd(method: &str, asked: &Path, own: &Path) -> Result<(), RpcError> {
    if milk_files::same_place(asked, own) {
        return Ok(());
    }
    Err(RpcError::InvalidParams(format!(
        "{method}: cwd \"{}\" does not match the session's cwd \"{}\"",
        asked.display(),
        own.display()
    )))
}
