//! Upstream's v1, from milk's own terms to the schema's types (R2).

use std::sync::Arc;

use agent_client_protocol_schema::{ProtocolVersion, v1};
use milk_core::ask::{AnswerOption, OptionKind};
use milk_core::content::ContentBlock;
use milk_core::event::{RowStatus, StopReason};
use milk_core::session::SessionSummary;
use milk_core::tool::{FileAction, FileChange, Location, ToolKind, ToolStatus};
use milk_engine::command::CommandSpec;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::text_path;
use crate::profile::SessionLoad;
use crate::visible;

/// A file's text of more bytes is not sent as a diff, which v1 wants whole, twice.
const DIFF_LIMIT: usize = 1 << 20;

/// The result of `initialize`.
pub(crate) fn initialized(
    version: &str,
    session_load: SessionLoad,
    meta: Map<String, Value>,
) -> v1::InitializeResponse {
    let sessions = v1::SessionCapabilities::new()
        .list(v1::SessionListCapabilities::new())
        .resume(v1::SessionResumeCapabilities::new())
        .close(v1::SessionCloseCapabilities::new())
        .delete(v1::SessionDeleteCapabilities::new());
    let capabilities = v1::AgentCapabilities::new()
        .load_session(session_load == SessionLoad::Offered)
        .prompt_capabilities(v1::PromptCapabilities::new().embedded_context(true))
        .session_capabilities(sessions)
        .meta(meta);
    v1::InitializeResponse::new(ProtocolVersion::V1)
        .agent_info(v1::Implementation::new("milk", version).title("milk"))
        .agent_capabilities(capabilities)
        .auth_methods(Vec::new())
}

/// The stop reason of a prompt's response; `None` for an error, which v1 has as an error response.
pub(crate) fn stop_reason(stop: StopReason) -> Option<v1::StopReason> {
    Some(match stop {
        StopReason::EndTurn => v1::StopReason::EndTurn,
        StopReason::Cancelled => v1::StopReason::Cancelled,
        StopReason::MaxTokens => v1::StopReason::MaxTokens,
        StopReason::MaxTurnRequests => v1::StopReason::MaxTurnRequests,
        StopReason::Refusal => v1::StopReason::Refusal,
        StopReason::Error => return None,
    })
}

/// A user message as chunks: neighbouring texts as one, joined by a newline (R13).
pub(crate) fn user_blocks(content: &[ContentBlock]) -> Vec<v1::ContentBlock> {
    let mut blocks = Vec::new();
    let mut texts: Vec<&str> = Vec::new();
    for block in content {
        if let ContentBlock::Text { text } = block {
            texts.push(text);
            continue;
        }
        if !texts.is_empty() {
            blocks.push(text_block(&std::mem::take(&mut texts).join("\n")));
        }
        blocks.extend(content_block(block));
    }
    if !texts.is_empty() {
        blocks.push(text_block(&texts.join("\n")));
    }
    blocks
}

fn content_block(block: &ContentBlock) -> Option<v1::ContentBlock> {
    Some(match block {
        ContentBlock::Text { text } => text_block(text),
        ContentBlock::Link { uri, name, mime } => {
            let link = v1::ResourceLink::new(name.as_str(), uri.as_str());
            v1::ContentBlock::ResourceLink(link.mime_type(mime.clone()))
        }
        ContentBlock::EmbeddedText { uri, mime, text } => {
            let text = v1::TextResourceContents::new(&**text, uri.as_str()).mime_type(mime.clone());
            resource(v1::EmbeddedResourceResource::TextResourceContents(text))
        }
        ContentBlock::EmbeddedBlob { uri, mime, data } => {
            let blob = v1::BlobResourceContents::new(&**data, uri.as_str()).mime_type(mime.clone());
            resource(v1::EmbeddedResourceResource::BlobResourceContents(blob))
        }
        ContentBlock::Image { mime, data } => {
            v1::ContentBlock::Image(v1::ImageContent::new(&**data, mime.as_str()))
        }
        ContentBlock::Unknown { .. } => return None,
    })
}

fn resource(resource: v1::EmbeddedResourceResource) -> v1::ContentBlock {
    v1::ContentBlock::Resource(v1::EmbeddedResource::new(resource))
}

pub(crate) fn text_block(text: &str) -> v1::ContentBlock {
    v1::ContentBlock::Text(v1::TextContent::new(text))
}

pub(crate) fn kind(kind: ToolKind) -> v1::ToolKind {
    match kind {
        ToolKind::Read => v1::ToolKind::Read,
        ToolKind::Edit => v1::ToolKind::Edit,
        ToolKind::Delete => v1::ToolKind::Delete,
        ToolKind::Move => v1::ToolKind::Move,
        ToolKind::Search => v1::ToolKind::Search,
        ToolKind::Execute => v1::ToolKind::Execute,
        ToolKind::Think => v1::ToolKind::Think,
        ToolKind::Fetch => v1::ToolKind::Fetch,
        ToolKind::Other => v1::ToolKind::Other,
    }
}

pub(crate) fn status(status: RowStatus) -> v1::ToolCallStatus {
    match status {
        RowStatus::Pending => v1::ToolCallStatus::Pending,
        RowStatus::InProgress => v1::ToolCallStatus::InProgress,
        RowStatus::Ended(ToolStatus::Completed) => v1::ToolCallStatus::Completed,
        // v1 has no word for cancelled (R12).
        RowStatus::Ended(ToolStatus::Failed | ToolStatus::Cancelled) => v1::ToolCallStatus::Failed,
    }
}

/// A row's first update. The schema's type leaves its defaults out; not every client fills them in.
#[derive(Debug, Serialize)]
pub(crate) struct FirstRow {
    #[serde(rename = "sessionUpdate")]
    tag: &'static str,
    #[serde(flatten)]
    call: v1::ToolCall,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<v1::ToolKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<v1::ToolCallStatus>,
}

impl FirstRow {
    pub(crate) fn new(call: v1::ToolCall) -> Self {
        let kind = (call.kind == v1::ToolKind::default()).then_some(call.kind);
        let status = (call.status == v1::ToolCallStatus::default()).then_some(call.status);
        Self { tag: "tool_call", call, kind, status }
    }
}

pub(crate) fn locations(locations: &[Location]) -> Vec<v1::ToolCallLocation> {
    let one = |location: &Location| v1::ToolCallLocation::new(text_path(&location.path)).line(location.line);
    locations.iter().map(one).collect()
}

/// File changes as v1's diffs. What is no text, or too much of it, is left out.
pub(crate) fn diffs(changes: &[FileChange]) -> Vec<v1::ToolCallContent> {
    changes.iter().filter_map(diff).map(v1::ToolCallContent::Diff).collect()
}

fn diff(change: &FileChange) -> Option<v1::Diff> {
    let fits = |text: &Arc<str>| text.len() <= DIFF_LIMIT;
    let path = text_path(&change.path);
    match (&change.action, &change.old_text, &change.new_text) {
        (FileAction::Create, _, Some(new)) if fits(new) => Some(v1::Diff::new(path, &**new)),
        (FileAction::Delete, Some(old), _) if fits(old) => Some(v1::Diff::new(path, "").old_text(&**old)),
        (FileAction::Modify | FileAction::Move { .. }, Some(old), Some(new))
            if old != new && fits(old) && fits(new) =>
        {
            Some(v1::Diff::new(path, &**new).old_text(&**old))
        }
        _ => None,
    }
}

/// A tool's output, as the object that v1 clients expect.
pub(crate) fn raw_output(output: &str, exit_code: Option<i32>) -> Value {
    match exit_code {
        Some(code) => json!({ "output": output, "exitCode": code }),
        None => json!({ "output": output }),
    }
}

pub(crate) fn options(options: &[AnswerOption]) -> Vec<v1::PermissionOption> {
    let one = |option: &AnswerOption| {
        let kind = match option.kind {
            OptionKind::AllowOnce => v1::PermissionOptionKind::AllowOnce,
            OptionKind::AllowAlways => v1::PermissionOptionKind::AllowAlways,
            OptionKind::RejectOnce => v1::PermissionOptionKind::RejectOnce,
        };
        let id = v1::PermissionOptionId::new(option.id.as_str());
        v1::PermissionOption::new(id, visible::line(&option.label).into_owned(), kind)
    };
    options.iter().map(one).collect()
}

/// The advertised commands, bare names (R26).
pub(crate) fn commands(commands: &[CommandSpec]) -> Vec<v1::AvailableCommand> {
    let one = |spec: &CommandSpec| {
        let hint = spec.hint.map(v1::UnstructuredCommandInput::new);
        v1::AvailableCommand::new(spec.name, spec.help)
            .input(hint.map(v1::AvailableCommandInput::Unstructured))
    };
    commands.iter().map(one).collect()
}

pub(crate) fn session_info(session: &SessionSummary, updated_at: Option<String>) -> v1::SessionInfo {
    v1::SessionInfo::new(session.id.as_str().to_owned(), text_path(&session.cwd))
        .title(session.title().map(|title| visible::line(title).into_owned()))
        .updated_at(updated_at)
}
