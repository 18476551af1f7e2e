//! The run over ACP v1.

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, ContentBlock, Implementation, InitializeRequest,
    NewSessionRequest, PermissionOptionKind, PromptRequest, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome, SessionId,
    SessionNotification, SessionUpdate, TextContent,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, Error, on_receive_notification, on_receive_request};
use anyhow::Result;
use serde_json::json;

use crate::plan::{Answer, Cancel, Plan, Step};
use crate::tally::{Board, in_time, say};

pub async fn play(plan: Plan) -> Result<()> {
    let (agent, board) = (plan.agent()?, Board::new());
    let (updates, questions) = (board.clone(), board.clone());
    Client
        .v1()
        .name("interop-rust-sdk")
        .on_receive_notification(
            async move |notification: SessionNotification, _: ConnectionTo<Agent>| {
                note(&updates, notification.update);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |question: RequestPermissionRequest,
                        responder: Responder<RequestPermissionResponse>,
                        _: ConnectionTo<Agent>| {
                responder.respond(answer(&question, questions.asked()))
            },
            on_receive_request!(),
        )
        .connect_with(agent, async move |connection: ConnectionTo<Agent>| {
            session(&plan, &board, &connection)
                .await
                .map_err(|error| Error::internal_error().data(format!("{error:#}")))
        })
        .await?;
    Ok(())
}

async fn session(plan: &Plan, board: &Board, connection: &ConnectionTo<Agent>) -> Result<()> {
    let limit = plan.step_limit();
    let hello =
        InitializeRequest::new(ProtocolVersion::V1).client_info(Implementation::new("interop-rust-sdk", "1"));
    let initialized =
        in_time(limit, "initialize", async { Ok(connection.send_request(hello).block_task().await?) })
            .await?;
    say(&json!({"kind": "initialized", "version": initialized.protocol_version,
        "agent": initialized.agent_info.map(|info| info.name)}));

    let opened = in_time(limit, "session/new", async {
        let request = NewSessionRequest::new(plan.cwd.clone());
        Ok(connection.send_request(request).block_task().await?)
    })
    .await?;
    say(&json!({"kind": "session", "id": opened.session_id}));

    for step in &plan.steps {
        let turn = turn(board, connection, &opened.session_id, step);
        in_time(limit, &step.name, turn).await?;
    }

    in_time(limit, "session/close", async {
        let request = CloseSessionRequest::new(opened.session_id);
        Ok(connection.send_request(request).block_task().await?)
    })
    .await?;
    say(&json!({"kind": "closed"}));
    Ok(())
}

async fn turn(
    board: &Board,
    connection: &ConnectionTo<Agent>,
    session: &SessionId,
    step: &Step,
) -> Result<()> {
    board.begin(step.answer);
    let content = vec![ContentBlock::Text(TextContent::new(step.prompt.clone()))];
    let prompt = connection.send_request(PromptRequest::new(session.clone(), content)).block_task();
    let cancel = async {
        match step.cancel {
            Cancel::Never => return Ok(()),
            Cancel::FirstText => board.first_text().await?,
            Cancel::AtOnce => (),
        }
        connection.send_notification(CancelNotification::new(session.clone()))?;
        Ok::<_, anyhow::Error>(())
    };
    let (response, ()) = tokio::try_join!(async { prompt.await.map_err(Into::into) }, cancel)?;
    board.report(&step.name, &response.stop_reason);
    Ok(())
}

fn note(board: &Board, update: SessionUpdate) {
    match update {
        SessionUpdate::AgentMessageChunk(chunk) => {
            if let ContentBlock::Text(text) = chunk.content {
                board.text(&text.text);
            }
        }
        SessionUpdate::ToolCall(call) => board.tool(&call.tool_call_id.0, Some(&call.status)),
        SessionUpdate::ToolCallUpdate(update) => {
            board.tool(&update.tool_call_id.0, update.fields.status.as_ref());
        }
        _ => (),
    }
}

fn answer(question: &RequestPermissionRequest, wanted: Answer) -> RequestPermissionResponse {
    let kind = match wanted {
        Answer::Allow => PermissionOptionKind::AllowOnce,
        Answer::Reject => PermissionOptionKind::RejectOnce,
    };
    let option = question.options.iter().find(|option| option.kind == kind);
    RequestPermissionResponse::new(match option {
        Some(option) => {
            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
        }
        None => RequestPermissionOutcome::Cancelled,
    })
}
