//! Events in the contract's v2 (R3).

use std::collections::HashMap;

use agent_client_protocol_schema::v2;
use milk_core::ask::Question;
use milk_core::event::{EventKind, RowChange, RowStatus, ToolCallRow};
use milk_core::id::ToolCallId;

use super::{Out, Update, row_title};
use crate::profile::Echo;
use crate::visible;
use crate::wire::delta::Shape;
use crate::wire::{Handle, Version, v2 as wire};

/// The memory of a v2 view.
#[derive(Debug)]
pub(crate) struct Map {
    echo: Echo,
    /// The open rows: their later updates repeat what names them.
    rows: HashMap<ToolCallId, Named>,
}

#[derive(Debug)]
struct Named {
    name: String,
    title: String,
    kind: v2::ToolKind,
}

impl Named {
    fn update(&self, id: &ToolCallId, status: RowStatus) -> v2::ToolCallUpdate {
        v2::ToolCallUpdate::new(id.as_str().to_owned())
            .name(self.name.as_str())
            .title(self.title.as_str())
            .kind(self.kind.clone())
            .status(wire::status(status))
    }
}

impl Map {
    pub(super) fn new(echo: Echo) -> Self {
        Self { echo, rows: HashMap::new() }
    }

    pub(super) fn show(&mut self, event: EventKind, out: Out<'_>) {
        match event {
            EventKind::UserMessage { id, content } => {
                if self.echo == Echo::Sent {
                    let blocks = wire::user_blocks(&content);
                    let message = v2::UserMessage::new(id.as_str().to_owned()).content(blocks);
                    out(Update::V2(v2::SessionUpdate::UserMessage(message)));
                }
            }
            EventKind::State(state) => {
                out(Update::V2(v2::SessionUpdate::StateUpdate(wire::state(&state))));
            }
            EventKind::AgentText { id, text } | EventKind::Notice { id, text } => {
                delta(Shape::Text(Version::V2), id.as_str(), text, out);
            }
            EventKind::AgentThought { id, text } => {
                delta(Shape::Thought(Version::V2), id.as_str(), text, out);
            }
            EventKind::ToolOutput { id, text } => delta(Shape::Output, id.as_str(), text, out),
            EventKind::ToolCallStarted(row) => self.started(row, out),
            EventKind::ToolCallChanged { id, change } => self.changed(&id, change, out),
            EventKind::Routed(route) => out(Update::Route(route)),
            EventKind::UsageChanged(usage) => {
                if let Some((used, size)) = super::usage(usage) {
                    out(Update::V2(v2::SessionUpdate::UsageUpdate(v2::UsageUpdate::new(used, size))));
                }
            }
            EventKind::Replayed(_)
            | EventKind::Asked { .. }
            | EventKind::AskWithdrawn(_)
            | EventKind::PromptEnded(_) => {}
        }
    }

    fn started(&mut self, row: ToolCallRow, out: Out<'_>) {
        let title = row_title(&row.title, &row.name);
        let named = Named { name: row.name, title, kind: wire::kind(row.kind) };
        let mut update = named.update(&row.id, row.status).raw_input(row.input);
        if !row.locations.is_empty() {
            update = update.locations(wire::locations(&row.locations));
        }
        if let Some(diff) = wire::diff(&row.changes) {
            update = update.content(vec![diff]);
        }
        out(Update::V2(v2::SessionUpdate::ToolCallUpdate(update)));
        if !matches!(row.status, RowStatus::Ended(_)) {
            self.rows.insert(row.id, named);
        }
    }

    fn changed(&mut self, id: &ToolCallId, change: RowChange, out: Out<'_>) {
        let update = match change {
            RowChange::Running => match self.rows.get(id) {
                Some(named) => named.update(id, RowStatus::InProgress),
                None => bare(id, RowStatus::InProgress),
            },
            RowChange::Ended { status, output, changes, exit_code: _ } => {
                let status = RowStatus::Ended(status);
                let update = match self.rows.remove(id) {
                    Some(named) => named.update(id, status),
                    None => bare(id, status),
                };
                let update = update.raw_output(serde_json::Value::String(output));
                match wire::diff(&changes) {
                    // Replaces what was proposed by what was done.
                    Some(diff) => update.content(vec![diff]),
                    None => update,
                }
            }
        };
        out(Update::V2(v2::SessionUpdate::ToolCallUpdate(update)));
    }
}

fn bare(id: &ToolCallId, status: RowStatus) -> v2::ToolCallUpdate {
    v2::ToolCallUpdate::new(id.as_str().to_owned()).status(wire::status(status))
}

fn delta(shape: Shape, id: &str, text: String, out: Out<'_>) {
    if !text.is_empty() {
        out(Update::Delta { shape, id: id.into(), text });
    }
}

/// The question with its summary, pointing at its row (contract: Request shape).
pub(super) fn question(question: &Question, of: &Handle) -> v2::RequestPermissionRequest {
    let title = visible::line(&question.title).into_owned();
    let description = visible::lines(&question.summary).into_owned();
    let subject = question.subject.as_ref().map(|id| {
        let row = v2::ToolCallUpdate::new(id.as_str().to_owned());
        v2::RequestPermissionSubject::ToolCall(Box::new(v2::ToolCallPermissionSubject::new(row)))
    });
    v2::RequestPermissionRequest::new(of.shared(), title, wire::options(&question.options))
        .description((!description.is_empty()).then_some(description))
        .subject(subject)
}
