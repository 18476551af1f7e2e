//! Events in upstream's v1 (R2): no states, rows that begin with `tool_call`, output as text and object.

use std::collections::HashMap;
use std::time::Instant;

use agent_client_protocol_schema::v1;
use milk_core::ask::Question;
use milk_core::event::{EventKind, RowChange, RowStatus, ToolCallRow};
use milk_core::id::{MessageId, ToolCallId};
use milk_core::tool::FileChange;

use super::live::Live;
use super::{Out, Update, row_title};
use crate::profile::Echo;
use crate::visible;
use crate::wire::delta::Shape;
use crate::wire::{Handle, Version, v1 as wire};

/// The memory of a v1 view.
#[derive(Debug)]
pub(crate) struct Map {
    echo: Echo,
    rows: HashMap<ToolCallId, Row>,
}

/// An open row. `content` replaces what was there, so what must stay is sent again.
#[derive(Debug)]
struct Row {
    title: String,
    titled: Titled,
    changes: Vec<FileChange>,
    live: Live,
}

/// What stands in the row's title now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Titled {
    Itself,
    /// A question's text, which clients write over the title.
    Question,
}

impl Row {
    /// Sets the title right again if a question has overwritten it.
    fn retitled(&mut self, fields: v1::ToolCallUpdateFields) -> v1::ToolCallUpdateFields {
        match std::mem::replace(&mut self.titled, Titled::Itself) {
            Titled::Itself => fields,
            Titled::Question => fields.title(self.title.as_str()),
        }
    }
}

impl Map {
    pub(super) fn new(echo: Echo) -> Self {
        Self { echo, rows: HashMap::new() }
    }

    pub(super) fn show(&mut self, event: EventKind, now: Instant, out: Out<'_>) {
        match event {
            EventKind::UserMessage { id, content } => {
                if self.echo == Echo::Sent {
                    for block in wire::user_blocks(&content) {
                        out(Update::V1(v1::SessionUpdate::UserMessageChunk(chunk(&id, block))));
                    }
                }
            }
            EventKind::AgentText { id, text } => delta(Shape::Text(Version::V1), &id, text, out),
            EventKind::AgentThought { id, text } => delta(Shape::Thought(Version::V1), &id, text, out),
            EventKind::Notice { id, mut text } => {
                // Many v1 clients know no message ids and join what follows onto the line.
                text.push_str("\n\n");
                delta(Shape::Text(Version::V1), &id, text, out);
            }
            EventKind::ToolCallStarted(row) => self.started(row, out),
            EventKind::ToolCallChanged { id, change } => self.changed(&id, change, out),
            EventKind::ToolOutput { id, text } => {
                if let Some(row) = self.rows.get_mut(&id) {
                    row.live.append(&text);
                    show_live(&id, row, now, out);
                }
            }
            EventKind::Routed(route) => out(Update::Route(route)),
            EventKind::UsageChanged(usage) => {
                if let Some((used, size)) = super::usage(usage) {
                    out(Update::V1(v1::SessionUpdate::UsageUpdate(v1::UsageUpdate::new(used, size))));
                }
            }
            EventKind::State(_)
            | EventKind::Replayed(_)
            | EventKind::Asked { .. }
            | EventKind::AskWithdrawn(_)
            | EventKind::PromptEnded(_) => {}
        }
    }

    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        self.rows.values().filter_map(|row| row.live.due(now)).min()
    }

    pub(super) fn flush(&mut self, now: Instant, out: Out<'_>) {
        for (id, row) in &mut self.rows {
            show_live(id, row, now, out);
        }
    }

    fn started(&mut self, row: ToolCallRow, out: Out<'_>) {
        let title = row_title(&row.title, &row.name);
        let call = v1::ToolCall::new(row.id.as_str().to_owned(), title.as_str())
            .name(row.name)
            .kind(wire::kind(row.kind))
            .status(wire::status(row.status))
            .content(wire::diffs(&row.changes))
            .locations(wire::locations(&row.locations))
            .raw_input(row.input);
        out(Update::V1FirstRow(Box::new(wire::FirstRow::new(call))));
        if !matches!(row.status, RowStatus::Ended(_)) {
            let open = Row { title, titled: Titled::Itself, changes: row.changes, live: Live::default() };
            self.rows.insert(row.id, open);
        }
    }

    fn changed(&mut self, id: &ToolCallId, change: RowChange, out: Out<'_>) {
        let fields = v1::ToolCallUpdateFields::new();
        let fields = match change {
            RowChange::Running => {
                let fields = fields.status(v1::ToolCallStatus::InProgress);
                match self.rows.get_mut(id) {
                    Some(row) => row.retitled(fields),
                    None => fields,
                }
            }
            RowChange::Ended { status, output, exit_code, changes } => {
                let fields = fields
                    .status(wire::status(RowStatus::Ended(status)))
                    .raw_output(wire::raw_output(&output, exit_code));
                let row = self.rows.remove(id);
                let proposed = row.as_ref().map(|row| row.changes.as_slice()).unwrap_or_default();
                let shown = if changes.is_empty() { proposed } else { &changes };
                let fields = fields.content(content(shown, &output));
                match row {
                    Some(mut row) => row.retitled(fields),
                    None => fields,
                }
            }
        };
        out(row_update(id, fields));
    }

    /// v1 shows the tool call's title and little else: the question and what it is about go there.
    pub(super) fn question(&mut self, question: &Question, of: &Handle) -> v1::RequestPermissionRequest {
        let id = match &question.subject {
            Some(id) => {
                if let Some(row) = self.rows.get_mut(id) {
                    row.titled = Titled::Question;
                }
                id.as_str().to_owned()
            }
            None => format!("permission:{}", question.title),
        };
        let title = format!("{} {}", question.title, question.summary);
        let fields = v1::ToolCallUpdateFields::new()
            .title(visible::line(title.trim()).into_owned())
            .status(v1::ToolCallStatus::Pending);
        let row = v1::ToolCallUpdate::new(id, fields);
        v1::RequestPermissionRequest::new(of.shared(), row, wire::options(&question.options))
    }
}

fn show_live(id: &ToolCallId, row: &mut Row, now: Instant, out: Out<'_>) {
    if let Some(text) = row.live.show(now) {
        let fields = v1::ToolCallUpdateFields::new().content(content(&row.changes, text));
        out(row_update(id, fields));
    }
}

fn content(changes: &[FileChange], text: &str) -> Vec<v1::ToolCallContent> {
    let mut content = wire::diffs(changes);
    if !text.is_empty() {
        content.push(v1::ToolCallContent::Content(v1::Content::new(wire::text_block(text))));
    }
    content
}

fn row_update(id: &ToolCallId, fields: v1::ToolCallUpdateFields) -> Update {
    let update = v1::ToolCallUpdate::new(id.as_str().to_owned(), fields);
    Update::V1(v1::SessionUpdate::ToolCallUpdate(update))
}

fn chunk(id: &MessageId, block: v1::ContentBlock) -> v1::ContentChunk {
    v1::ContentChunk::new(block).message_id(v1::MessageId::new(id.as_str()))
}

fn delta(shape: Shape, id: &MessageId, text: String, out: Out<'_>) {
    if !text.is_empty() {
        out(Update::Delta { shape, id: id.as_str().into(), text });
    }
}
