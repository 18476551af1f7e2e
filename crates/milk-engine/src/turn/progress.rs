//! What a turn has under way. It outlives the work, so that an interrupted turn can be closed properly.

use milk_core::id::{MessageId, ToolCallId};
use milk_core::tool::{Location, ToolKind};

/// What is under way in a turn.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The response that streams now.
    pub(super) response: Option<PartialResponse>,
    /// Calls of the newest response without a result, in the model's order.
    pub(super) open_calls: Vec<OpenCall>,
}

/// A response as far as it came.
#[derive(Debug)]
pub(super) struct PartialResponse {
    pub(super) message: MessageId,
    pub(super) thought: MessageId,
    pub(super) text: String,
    pub(super) thinking: String,
}

/// A call that has no result yet.
#[derive(Debug)]
pub(super) struct OpenCall {
    pub(super) id: ToolCallId,
    pub(super) title: String,
    pub(super) kind: ToolKind,
    pub(super) locations: Vec<Location>,
    pub(super) row: RowShown,
}

/// Whether the client has seen a call's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowShown {
    NotYet,
    Shown,
}

impl Progress {
    pub(super) fn open_call(&mut self, id: &ToolCallId) -> Option<&mut OpenCall> {
        self.open_calls.iter_mut().find(|call| call.id == *id)
    }

    pub(super) fn close_call(&mut self, id: &ToolCallId) {
        self.open_calls.retain(|call| call.id != *id);
    }
}
