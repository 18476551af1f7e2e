//! A question of the agent's, on its way to a person.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Shared;
use crate::peer::RawId;

/// One question, unique on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PermissionId(pub(super) u64);

/// A question that waits for an answer. Dropped without one, it is dismissed, which is a no.
#[derive(Debug)]
pub struct Permission {
    /// Which question.
    pub id: PermissionId,
    /// What is asked.
    pub title: String,
    /// What it is about; empty if the title says all.
    pub description: String,
    /// The tool call that it is about.
    pub tool_call: Option<String>,
    /// The choices.
    pub options: Vec<PermissionOption>,
    reply: Option<(RawId, Arc<Shared>)>,
}

/// One choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionOption {
    /// Names it in the answer.
    pub id: String,
    /// What a person reads.
    pub name: String,
    /// What it means.
    pub kind: PermissionKind,
}

/// What a choice means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionKind {
    /// Yes, this time.
    AllowOnce,
    /// Yes, and remember it.
    AllowAlways,
    /// No, this time.
    RejectOnce,
    /// No, and remember it.
    RejectAlways,
    /// A kind that this client does not know: never a yes.
    Unknown,
}

impl Permission {
    /// Reads v2's title, description and subject, or v1's tool call.
    pub(super) fn new(id: PermissionId, params: &Value, request: RawId, shared: Arc<Shared>) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let v1_call = params.get("toolCall");
        let call = v1_call.or_else(|| params.get("subject").and_then(|subject| subject.get("toolCall")));
        let title = match params.get("title") {
            Some(title) => text(Some(title)),
            None => text(v1_call.and_then(|call| call.get("title"))),
        };
        let options = params.get("options").and_then(Value::as_array);
        Self {
            id,
            title,
            description: text(params.get("description")),
            tool_call: call
                .and_then(|call| call.get("toolCallId"))
                .and_then(Value::as_str)
                .map(str::to_owned),
            options: options.into_iter().flatten().filter_map(option).collect(),
            reply: Some((request, shared)),
        }
    }

    /// Picks a choice by its id.
    pub fn pick(mut self, option: &str) {
        self.reply(&json!({ "outcome": "selected", "optionId": option }));
    }

    /// Picks the first choice of a kind. Whether there was one; without one the question is dismissed.
    pub fn pick_kind(self, kind: PermissionKind) -> bool {
        let option = self.options.iter().find(|option| option.kind == kind).map(|option| option.id.clone());
        match option {
            Some(option) => {
                self.pick(&option);
                true
            }
            None => false,
        }
    }

    /// Answers with no choice.
    pub fn dismiss(self) {
        drop(self);
    }

    fn reply(&mut self, outcome: &Value) {
        if let Some((request, shared)) = self.reply.take() {
            shared.answer(&request, outcome);
        }
    }
}

impl Drop for Permission {
    fn drop(&mut self) {
        self.reply(&json!({ "outcome": "cancelled" }));
    }
}

fn option(option: &Value) -> Option<PermissionOption> {
    let id = option.get("optionId")?.as_str()?.to_owned();
    let name = option.get("name").and_then(Value::as_str).unwrap_or(&id).to_owned();
    let kind = match option.get("kind").and_then(Value::as_str) {
        Some("allow_once") => PermissionKind::AllowOnce,
        Some("allow_always") => PermissionKind::AllowAlways,
        Some("reject_once") => PermissionKind::RejectOnce,
        Some("reject_always") => PermissionKind::RejectAlways,
        _ => PermissionKind::Unknown,
    };
    Some(PermissionOption { id, name, kind })
}
