//! Updates of both versions, read by what they have in common.

use std::sync::Arc;

use milk_core::tool::{FileAction, FileChange};
use serde_json::Value;

use super::event::{AgentState, EventKind, StopReason, ToolStatus, ToolUpdate, TurnFailure};
use super::turn::{Answered, StateSeen};
use crate::peer::CallOutcome;
use crate::wire::Version;
use crate::wire::patch::git_patch;

/// What the answer to a prompt says: v1's has the stop reason, v2's has none.
pub(super) fn prompt_outcome(version: Version, outcome: CallOutcome<'_>) -> Answered {
    match (version, outcome) {
        (_, CallOutcome::Gone) => Answered::Ended(Err(TurnFailure::Gone)),
        (_, CallOutcome::Refused(error)) => Answered::Ended(Err(TurnFailure::Failed(error))),
        (Version::V2, CallOutcome::Answered(_)) => Answered::Taken,
        (Version::V1, CallOutcome::Answered(result)) => {
            let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
            Answered::Ended(Ok(stop_reason(text(&result, "stopReason"))))
        }
    }
}

fn stop_reason(word: Option<&str>) -> StopReason {
    match word {
        Some("end_turn") => StopReason::EndTurn,
        Some("cancelled") => StopReason::Cancelled,
        other => StopReason::Other(other.unwrap_or_default().to_owned()),
    }
}

/// A v2 `state_update`.
pub(super) fn state(update: &Value) -> Option<StateSeen> {
    if text(update, "sessionUpdate")? != "state_update" {
        return None;
    }
    let state = match text(update, "state")? {
        "running" => AgentState::Running,
        "requires_action" => AgentState::RequiresAction,
        "idle" => AgentState::Idle,
        _ => return None,
    };
    let stop = text(update, "stopReason").map(|word| stop_reason(Some(word)));
    Some(StateSeen { state, stop })
}

/// Any other update that this client tells of.
pub(super) fn update(update: &Value) -> Option<EventKind> {
    let message = || text(update, "messageId").map(str::to_owned);
    let said = || update.get("content").and_then(|content| text(content, "text")).map(str::to_owned);
    Some(match text(update, "sessionUpdate")? {
        "agent_message_chunk" => EventKind::Text { message: message(), text: said()? },
        "agent_thought_chunk" => EventKind::Thought { message: message(), text: said()? },
        "user_message_chunk" => EventKind::User { text: said()? },
        // Whole messages: v2 shows history in them.
        "agent_message" => EventKind::Text { message: message(), text: whole(update)? },
        "agent_thought" => EventKind::Thought { message: message(), text: whole(update)? },
        "user_message" => EventKind::User { text: whole(update)? },
        "tool_call" | "tool_call_update" => EventKind::Tool(tool(update)?),
        "tool_call_content_chunk" => {
            let appended = update.get("content").and_then(block_text)?;
            let id = text(update, "toolCallId")?.to_owned();
            EventKind::Tool(ToolUpdate { id, appended: Some(appended), ..ToolUpdate::default() })
        }
        _ => return None,
    })
}

/// The texts of a whole message.
fn whole(update: &Value) -> Option<String> {
    let blocks = update.get("content")?.as_array()?;
    let texts: Vec<&str> = blocks.iter().filter_map(|block| text(block, "text")).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn tool(update: &Value) -> Option<ToolUpdate> {
    let owned = |name: &str| text(update, name).map(str::to_owned);
    let content = update.get("content").and_then(Value::as_array);
    let printed: Option<Vec<String>> = content.map(|content| content.iter().filter_map(block_text).collect());
    let printed = printed.filter(|texts| !texts.is_empty()).map(|texts| texts.join("\n"));
    Some(ToolUpdate {
        id: owned("toolCallId")?,
        name: owned("name"),
        title: owned("title"),
        kind: owned("kind"),
        status: text(update, "status").and_then(status),
        output: printed.or_else(|| update.get("rawOutput").and_then(raw_output)),
        appended: None,
        patch: content.and_then(|content| patch(content)),
    })
}

fn status(word: &str) -> Option<ToolStatus> {
    Some(match word {
        "pending" => ToolStatus::Pending,
        "in_progress" => ToolStatus::Running,
        "completed" => ToolStatus::Completed,
        "failed" => ToolStatus::Failed,
        "cancelled" => ToolStatus::Cancelled,
        _ => return None,
    })
}

/// A text item of a tool call's content.
fn block_text(item: &Value) -> Option<String> {
    text(item.get("content")?, "text").map(str::to_owned)
}

/// A string, or the object that wraps one.
fn raw_output(output: &Value) -> Option<String> {
    match output {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(text(other, "output").map_or_else(|| other.to_string(), str::to_owned)),
    }
}

/// The diffs of a tool call's content: v2's patches as they are, v1's texts compared.
fn patch(content: &[Value]) -> Option<String> {
    let diffs = content.iter().filter(|item| text(item, "type") == Some("diff"));
    let patches: Vec<String> = diffs.filter_map(one_patch).collect();
    (!patches.is_empty()).then(|| patches.concat())
}

fn one_patch(diff: &Value) -> Option<String> {
    if let Some(patch) = diff.get("patch").and_then(|patch| text(patch, "text")) {
        return Some(patch.to_owned());
    }
    let old = text(diff, "oldText").map(Arc::from);
    let new: Arc<str> = text(diff, "newText")?.into();
    let action = if old.is_some() { FileAction::Modify } else { FileAction::Create };
    let path = text(diff, "path")?.into();
    git_patch(&[FileChange { action, path, old_text: old, new_text: Some(new) }])
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn tool_of(value: &Value) -> ToolUpdate {
        match update(value) {
            Some(EventKind::Tool(tool)) => tool,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_row_of_either_version() {
        let v2 = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "name": "bash", "title": "ls",
            "kind": "execute", "status": "completed", "rawOutput": "a\n"});
        let v1 = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "name": "bash", "title": "ls",
            "kind": "execute", "status": "completed", "rawOutput": {"output": "a\n", "exitCode": 0},
            "content": [{"type": "content", "content": {"type": "text", "text": "a\n"}}]});
        let expected = ToolUpdate {
            id: "c".into(),
            name: Some("bash".into()),
            title: Some("ls".into()),
            kind: Some("execute".into()),
            status: Some(ToolStatus::Completed),
            output: Some("a\n".into()),
            ..ToolUpdate::default()
        };
        assert_eq!(tool_of(&v2), expected);
        assert_eq!(tool_of(&v1), expected);
    }

    #[test]
    fn a_diff_of_either_version_is_a_patch() {
        let v1 = json!({"sessionUpdate": "tool_call", "toolCallId": "c",
            "content": [{"type": "diff", "path": "/w/a", "oldText": "x\n", "newText": "y\n"}]});
        let patch = tool_of(&v1).patch.unwrap();
        assert!(patch.contains("\n-x\n+y\n"), "{patch}");
        let v2 = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [{"type": "diff",
            "changes": [{"operation": "modify", "path": "/w/a"}], "patch": {"format": "git_patch", "text": patch}}]});
        assert_eq!(tool_of(&v2).patch, Some(patch));
    }

    #[test]
    fn history_of_either_version_is_read() {
        let user = json!({"sessionUpdate": "user_message", "messageId": "hist-u0",
            "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]});
        assert!(matches!(update(&user), Some(EventKind::User { text }) if text == "a\nb"));
        let agent = json!({"sessionUpdate": "agent_message", "messageId": "hist-a1",
            "content": [{"type": "text", "text": "c"}]});
        assert!(matches!(update(&agent), Some(EventKind::Text { text, .. }) if text == "c"));
        let chunk = json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "d"}});
        assert!(matches!(update(&chunk), Some(EventKind::User { text }) if text == "d"));
    }

    #[test]
    fn what_is_odd_or_unknown_is_passed_over() {
        for odd in [
            json!(null),
            json!({}),
            json!({"sessionUpdate": 5}),
            json!({"sessionUpdate": "plan", "entries": []}),
            json!({"sessionUpdate": "agent_message_chunk"}),
            json!({"sessionUpdate": "agent_message_chunk", "content": [{"type": "text"}]}),
            json!({"sessionUpdate": "tool_call"}),
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": {"type": "diff"}}),
        ] {
            assert!(update(&odd).is_none(), "{odd}");
            assert!(state(&odd).is_none());
        }
        assert!(state(&json!({"sessionUpdate": "state_update", "state": "dreaming"})).is_none());
    }
}
