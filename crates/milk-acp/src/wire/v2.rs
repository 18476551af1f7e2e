//! The contract's v2, from milk's own terms to the schema's types (R3).

use agent_client_protocol_schema::{ProtocolVersion, v2};
use milk_core::ask::{AnswerOption, OptionKind};
use milk_core::content::ContentBlock;
use milk_core::event::{Route, RouteTarget, RowStatus, State, StopReason};
use milk_core::failure::Failure;
use milk_core::session::SessionSummary;
use milk_core::tool::{FileAction, FileChange, Location, ToolKind, ToolStatus};
use milk_engine::command::CommandSpec;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::patch::git_patch;
use super::text_path;
use crate::rpc_error::turn_failure;
use crate::visible;

/// The result of `initialize`.
pub(crate) fn initialized(version: &str, meta: Map<String, Value>) -> v2::InitializeResponse {
    let prompt = v2::PromptCapabilities::new().embedded_context(v2::PromptEmbeddedContextCapabilities::new());
    let sessions = v2::SessionCapabilities::new().delete(v2::SessionDeleteCapabilities::new()).prompt(prompt);
    let capabilities = v2::AgentCapabilities::new().session(sessions).meta(meta);
    v2::InitializeResponse::new(ProtocolVersion::V2, v2::Implementation::new("milk", version).title("milk"))
        .capabilities(capabilities)
}

/// A `state_update`. The route of a model turn goes with its `idle` (contract: Routing and warnings).
pub(crate) fn state(state: &State) -> v2::StateUpdate {
    match state {
        State::Running => v2::StateUpdate::Running(v2::RunningStateUpdate::new()),
        State::RequiresAction => v2::StateUpdate::RequiresAction(v2::RequiresActionStateUpdate::new()),
        State::Idle { stop, failure, route } => {
            let meta = route
                .as_ref()
                .map(|route| Map::from_iter([("milk/route".to_owned(), json!(RouteInfo::of(route)))]));
            let stop = stop_reason(*stop, failure.as_ref());
            v2::StateUpdate::Idle(v2::IdleStateUpdate::new().stop_reason(stop).meta(meta))
        }
    }
}

fn stop_reason(stop: StopReason, failure: Option<&Failure>) -> v2::StopReason {
    match stop {
        StopReason::EndTurn => v2::StopReason::EndTurn,
        StopReason::Cancelled => v2::StopReason::Cancelled,
        StopReason::MaxTokens => v2::StopReason::MaxTokens,
        StopReason::MaxTurnRequests => v2::StopReason::MaxTurnRequests,
        StopReason::Refusal => v2::StopReason::Refusal,
        StopReason::Error => {
            v2::StopReason::Error(v2::ErrorStopReason::new().error(failure.map(turn_failure)))
        }
    }
}

/// Who handles a turn, as `_milk/route` and `_meta["milk/route"]` tell it.
#[derive(Debug, Serialize)]
pub(crate) struct RouteInfo<'a> {
    agent: &'a str,
    target: &'static str,
    reason: &'a str,
}

impl<'a> RouteInfo<'a> {
    pub(crate) fn of(route: &'a Route) -> Self {
        let target = match route.target {
            RouteTarget::Primary => "primary",
            RouteTarget::Escalation => "escalation",
        };
        Self { agent: route.agent.as_str(), target, reason: &route.reason }
    }
}

/// A user message, block by block.
pub(crate) fn user_blocks(content: &[ContentBlock]) -> Vec<v2::ContentBlock> {
    content.iter().filter_map(content_block).collect()
}

fn content_block(block: &ContentBlock) -> Option<v2::ContentBlock> {
    Some(match block {
        ContentBlock::Text { text } => text_block(text),
        ContentBlock::Link { uri, name, mime } => {
            let link = v2::ResourceLink::new(name.as_str(), uri.as_str());
            v2::ContentBlock::ResourceLink(link.mime_type(mime.clone().map(v2::MediaType::from)))
        }
        ContentBlock::EmbeddedText { uri, mime, text } => {
            let text = v2::TextResourceContents::new(&**text, uri.as_str())
                .mime_type(mime.clone().map(v2::MediaType::from));
            resource(v2::EmbeddedResourceResource::TextResourceContents(text))
        }
        ContentBlock::EmbeddedBlob { uri, mime, data } => {
            let blob = v2::BlobResourceContents::new(&**data, uri.as_str())
                .mime_type(mime.clone().map(v2::MediaType::from));
            resource(v2::EmbeddedResourceResource::BlobResourceContents(blob))
        }
        ContentBlock::Image { mime, data } => {
            v2::ContentBlock::Image(v2::ImageContent::new(&**data, mime.as_str()))
        }
        ContentBlock::Unknown { .. } => return None,
    })
}

fn resource(resource: v2::EmbeddedResourceResource) -> v2::ContentBlock {
    v2::ContentBlock::Resource(v2::EmbeddedResource::new(resource))
}

pub(crate) fn text_block(text: &str) -> v2::ContentBlock {
    v2::ContentBlock::Text(v2::TextContent::new(text))
}

pub(crate) fn kind(kind: ToolKind) -> v2::ToolKind {
    match kind {
        ToolKind::Read => v2::ToolKind::Read,
        ToolKind::Edit => v2::ToolKind::Edit,
        ToolKind::Delete => v2::ToolKind::Delete,
        ToolKind::Move => v2::ToolKind::Move,
        ToolKind::Search => v2::ToolKind::Search,
        ToolKind::Execute => v2::ToolKind::Execute,
        ToolKind::Think => v2::ToolKind::Think,
        ToolKind::Fetch => v2::ToolKind::Fetch,
        ToolKind::Other => v2::ToolKind::Other,
    }
}

pub(crate) fn status(status: RowStatus) -> v2::ToolCallStatus {
    match status {
        RowStatus::Pending => v2::ToolCallStatus::Pending,
        RowStatus::InProgress => v2::ToolCallStatus::InProgress,
        RowStatus::Ended(ToolStatus::Completed) => v2::ToolCallStatus::Completed,
        RowStatus::Ended(ToolStatus::Failed) => v2::ToolCallStatus::Failed,
        RowStatus::Ended(ToolStatus::Cancelled) => v2::ToolCallStatus::Cancelled,
    }
}

pub(crate) fn locations(locations: &[Location]) -> Vec<v2::ToolCallLocation> {
    let one = |location: &Location| {
        // Lines count from 1; a 0 is no line.
        let line = location.line.filter(|line| *line > 0);
        v2::ToolCallLocation::new(text_path(&location.path)).line(line)
    };
    locations.iter().map(one).collect()
}

/// File changes as one diff: what happens to which file, and a git patch of what is text.
pub(crate) fn diff(changes: &[FileChange]) -> Option<v2::ToolCallContent> {
    if changes.is_empty() {
        return None;
    }
    let listed = changes.iter().map(diff_change).collect();
    Some(v2::ToolCallContent::Diff(match git_patch(changes) {
        Some(patch) => v2::Diff::patch(patch, listed),
        None => v2::Diff::new(listed),
    }))
}

fn diff_change(change: &FileChange) -> v2::DiffChange {
    let path = text_path(&change.path);
    let listed = match &change.action {
        FileAction::Create => v2::DiffChange::add(path),
        FileAction::Modify => v2::DiffChange::modify(path),
        FileAction::Delete => v2::DiffChange::delete(path),
        FileAction::Move { from } => v2::DiffChange::move_file(text_path(from), path),
    };
    let is_text = change.old_text.is_some() || change.new_text.is_some();
    listed.file_type(is_text.then_some(v2::DiffFileType::Text))
}

pub(crate) fn options(options: &[AnswerOption]) -> Vec<v2::PermissionOption> {
    let one = |option: &AnswerOption| {
        let kind = match option.kind {
            OptionKind::AllowOnce => v2::PermissionOptionKind::AllowOnce,
            OptionKind::AllowAlways => v2::PermissionOptionKind::AllowAlways,
            OptionKind::RejectOnce => v2::PermissionOptionKind::RejectOnce,
        };
        v2::PermissionOption::new(
            option.id.as_str().to_owned(),
            visible::line(&option.label).into_owned(),
            kind,
        )
    };
    options.iter().map(one).collect()
}

/// The advertised commands, bare names with their type (R26).
pub(crate) fn commands(commands: &[CommandSpec]) -> Vec<v2::AvailableCommand> {
    let one = |spec: &CommandSpec| {
        let input = spec.hint.map(|hint| v2::AvailableCommandInput::Text(v2::TextCommandInput::new(hint)));
        v2::AvailableCommand::Command(v2::Command::new(spec.name, spec.help).input(input))
    };
    commands.iter().map(one).collect()
}

pub(crate) fn session_info(session: &SessionSummary, updated_at: Option<String>) -> v2::SessionInfo {
    v2::SessionInfo::new(session.id.as_str().to_owned(), text_path(&session.cwd))
        .title(session.title().map(|title| visible::line(title).into_owned()))
        .updated_at(updated_at)
}
