//! Answers to prompts (R6, R8, R11, R12), and the list of commands.

use agent_client_protocol_schema::{v1, v2};
use milk_core::event::{PromptOutcome, StopReason};
use milk_core::failure::Failure;
use milk_core::id::MessageId;
use milk_engine::command;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::map::Update;
use crate::rpc_error::RpcError;
use crate::wire::{self, Version, WithExtra};

/// A result, ready to be sent.
pub(crate) fn result(result: &impl Serialize) -> Result<Box<RawValue>, RpcError> {
    to_raw_value(result).map_err(|error| RpcError::Failed(Failure::new("internal", error.to_string())))
}

/// The answer to a prompt that has ended.
pub(super) fn prompt(version: Version, outcome: PromptOutcome) -> Result<Box<RawValue>, RpcError> {
    match (version, outcome) {
        (_, PromptOutcome::Rejected(failure)) => Err(RpcError::Failed(failure)),
        (_, PromptOutcome::Ended { stop: StopReason::Error, failure, .. }) => {
            Err(RpcError::Failed(failure.unwrap_or_else(|| Failure::new("internal", "The turn failed."))))
        }
        (Version::V2, PromptOutcome::Ended { message, .. }) => accepted(&message),
        (Version::V2, PromptOutcome::NeverRan) => Err(RpcError::Cancelled),
        (Version::V1, PromptOutcome::Ended { message, stop, .. }) => {
            stopped(wire::v1::stop_reason(stop), Some(message.as_str()))
        }
        (Version::V1, PromptOutcome::NeverRan) => stopped(Some(v1::StopReason::Cancelled), None),
    }
}

/// v2's answer: the id of the user message.
pub(super) fn accepted(message: &MessageId) -> Result<Box<RawValue>, RpcError> {
    result(&v2::PromptResponse::new(message.as_str().to_owned()))
}

/// v1's answer, with the message's id as an addition.
fn stopped(stop: Option<v1::StopReason>, message: Option<&str>) -> Result<Box<RawValue>, RpcError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Extra<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<&'a str>,
    }
    let base = v1::PromptResponse::new(stop.unwrap_or(v1::StopReason::EndTurn));
    result(&WithExtra { base, extra: Extra { message_id: message } })
}

/// The commands that a client is told of.
pub(super) fn commands_update(version: Version) -> Update {
    let commands = command::advertised();
    match version {
        Version::V1 => Update::V1(v1::SessionUpdate::AvailableCommandsUpdate(
            v1::AvailableCommandsUpdate::new(wire::v1::commands(commands)),
        )),
        Version::V2 => Update::V2(v2::SessionUpdate::AvailableCommandsUpdate(
            v2::AvailableCommandsUpdate::new(wire::v2::commands(commands)),
        )),
    }
}
