//! What a strict server accepts: roles alternate from a user message on, every call is followed by its result, nothing is
//! empty, no id twice (bug cases 105, 111, 112, 125).

use std::collections::HashSet;

use milk_core::id::ToolCallId;
use milk_core::model::{ChatMessage, ModelRequest, UserPart};

use super::Broken;
use crate::lines;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
    Tool,
}

pub(super) fn check(requests: &[ModelRequest], broken: &mut Broken) {
    for request in requests {
        let fault = fault_of(request);
        broken.unless(fault.is_none(), || {
            format!("{} in the request {:#?}", fault.unwrap_or_default(), lines::chat(request))
        });
    }
}

fn fault_of(request: &ModelRequest) -> Option<&'static str> {
    let mut before: Option<Role> = None;
    let mut unanswered: Vec<&ToolCallId> = Vec::new();
    let mut ids = HashSet::new();
    for message in &request.messages {
        if !unanswered.is_empty() && !matches!(message, ChatMessage::ToolResult { .. }) {
            return Some("a call without its result");
        }
        let role = match message {
            ChatMessage::User(parts) => {
                if before == Some(Role::User) {
                    return Some("two user messages in a row");
                }
                if parts.is_empty() || parts.iter().any(|part| *part == UserPart::Text(String::new())) {
                    return Some("an empty user message");
                }
                Role::User
            }
            ChatMessage::Assistant(said) => {
                if matches!(before, None | Some(Role::Assistant)) {
                    return Some("an assistant message that answers nobody");
                }
                if said.text.is_empty() && said.tool_calls.is_empty() {
                    return Some("an assistant message with neither text nor calls");
                }
                unanswered = said.tool_calls.iter().map(|call| &call.id).rev().collect();
                if unanswered.iter().any(|id| id.as_str().is_empty() || !ids.insert(*id)) {
                    return Some("a call id that is empty or not unique");
                }
                Role::Assistant
            }
            ChatMessage::ToolResult { call, output } => {
                if unanswered.pop() != Some(call) {
                    return Some("a result that is not of the next call");
                }
                if output.is_empty() {
                    return Some("an empty result");
                }
                Role::Tool
            }
        };
        before = Some(role);
    }
    if !unanswered.is_empty() {
        return Some("a call without its result at the end");
    }
    (!matches!(before, Some(Role::User | Role::Tool))).then_some("nothing to answer")
}
