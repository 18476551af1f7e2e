//! Stored history in the shapes of a version, under ids that are the same each time (contract: Message identity).

use agent_client_protocol_schema::{v1, v2};
use milk_core::event::{ReplayItem, Replayed, ToolCallRow};
use milk_core::id::SessionId;

use super::{Out, Update, row_title};
use crate::wire::{Version, v1 as wire1, v2 as wire2};

/// Which ids replayed messages have (R27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplayIds {
    /// By their place in the history (contract).
    #[default]
    Hist,
    /// Those that they had live, as upstream has it.
    Live,
}

/// The ids of one item.
struct Ids<'a> {
    kind: ReplayIds,
    /// `hist`, with the session's beginning behind it where that is not the view's first.
    prefix: &'a str,
    entry: u64,
}

impl Ids<'_> {
    fn message(&self, letter: &str, live: &str) -> String {
        match self.kind {
            ReplayIds::Hist => format!("{}-{letter}{}", self.prefix, self.entry),
            ReplayIds::Live => live.to_owned(),
        }
    }

    fn call(&self, ordinal: usize, live: &str) -> String {
        match self.kind {
            ReplayIds::Hist => format!("{}-t{}-{ordinal}", self.prefix, self.entry),
            ReplayIds::Live => live.to_owned(),
        }
    }
}

/// What an item becomes. `first` is the session that the view began with: only its ids are plain.
pub(crate) fn show(version: Version, kind: ReplayIds, first: &SessionId, item: ReplayItem, out: Out<'_>) {
    let ReplayItem { session, entry, what } = item;
    let prefix = if session == *first {
        "hist".to_owned()
    } else {
        let id = session.as_str();
        format!("hist-{}", &id[..id.floor_char_boundary(8)])
    };
    let ids = Ids { kind, prefix: &prefix, entry: entry.0 };
    match what {
        Replayed::User { id, content } => {
            let id = ids.message("u", id.as_str());
            match version {
                Version::V1 => {
                    for block in wire1::user_blocks(&content) {
                        out(Update::V1(v1::SessionUpdate::UserMessageChunk(chunk(&id, block))));
                    }
                }
                Version::V2 => {
                    let message = v2::UserMessage::new(id).content(wire2::user_blocks(&content));
                    out(Update::V2(v2::SessionUpdate::UserMessage(message)));
                }
            }
        }
        Replayed::Thought { id, text } => thought(version, ids.message("think", id.as_str()), &text, out),
        Replayed::AgentText { id, text } => message(version, ids.message("a", id.as_str()), &text, out),
        Replayed::ToolCall { ordinal, row, output } => {
            let id = ids.call(ordinal, row.id.as_str());
            call(version, id, row, output, out);
        }
        Replayed::Gap { omitted } => {
            let text = format!(
                "[… {omitted} earlier turns omitted from replay — /export prints the full transcript …]"
            );
            line(version, format!("{prefix}-gap"), text, out);
        }
        Replayed::Announced { id, text } => line(version, id.as_str().to_owned(), text, out),
    }
}

/// A line of milk's own. Many v1 clients know no message ids and join what follows onto it.
fn line(version: Version, id: String, mut text: String, out: Out<'_>) {
    if version == Version::V1 {
        text.push_str("\n\n");
    }
    message(version, id, &text, out);
}

fn message(version: Version, id: String, text: &str, out: Out<'_>) {
    out(match version {
        Version::V1 => Update::V1(v1::SessionUpdate::AgentMessageChunk(chunk(&id, wire1::text_block(text)))),
        Version::V2 => {
            let message = v2::AgentMessage::new(id).content(vec![wire2::text_block(text)]);
            Update::V2(v2::SessionUpdate::AgentMessage(message))
        }
    });
}

fn thought(version: Version, id: String, text: &str, out: Out<'_>) {
    out(match version {
        Version::V1 => Update::V1(v1::SessionUpdate::AgentThoughtChunk(chunk(&id, wire1::text_block(text)))),
        Version::V2 => {
            let thought = v2::AgentThought::new(id).content(vec![wire2::text_block(text)]);
            Update::V2(v2::SessionUpdate::AgentThought(thought))
        }
    });
}

fn chunk(id: &str, block: v1::ContentBlock) -> v1::ContentChunk {
    v1::ContentChunk::new(block).message_id(v1::MessageId::new(id))
}

fn call(version: Version, id: String, row: ToolCallRow, output: Option<String>, out: Out<'_>) {
    let title = row_title(&row.title, &row.name);
    match version {
        Version::V1 => {
            let mut content = wire1::diffs(&row.changes);
            if let Some(text) = output.as_ref().filter(|text| !text.is_empty()) {
                content.push(v1::ToolCallContent::Content(v1::Content::new(wire1::text_block(text))));
            }
            let mut call = v1::ToolCall::new(id, title)
                .name(row.name)
                .kind(wire1::kind(row.kind))
                .status(wire1::status(row.status))
                .content(content)
                .locations(wire1::locations(&row.locations))
                .raw_input(row.input);
            if let Some(output) = output {
                call = call.raw_output(wire1::raw_output(&output, None));
            }
            out(Update::V1FirstRow(Box::new(wire1::FirstRow::new(call))));
        }
        Version::V2 => {
            let mut update = v2::ToolCallUpdate::new(id)
                .name(row.name)
                .title(title)
                .kind(wire2::kind(row.kind))
                .status(wire2::status(row.status))
                .raw_input(row.input);
            if !row.locations.is_empty() {
                update = update.locations(wire2::locations(&row.locations));
            }
            if let Some(diff) = wire2::diff(&row.changes) {
                update = update.content(vec![diff]);
            }
            if let Some(output) = output {
                update = update.raw_output(serde_json::Value::String(output));
            }
            out(Update::V2(v2::SessionUpdate::ToolCallUpdate(update)));
        }
    }
}

/// The end of a replay that a client asked for (R22).
pub(crate) fn complete() -> Update {
    Update::V2(v2::SessionUpdate::ReplayComplete(v2::ReplayComplete::new()))
}
