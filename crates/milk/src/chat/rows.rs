//! Tool rows as they were shown, so that each thing is shown once.

use std::collections::HashMap;
use std::io::Write;

use milk_acp::client::{ToolStatus, ToolUpdate};

use super::screen::Screen;

/// The rows of a conversation.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: HashMap<String, Row>,
}

#[derive(Debug, Default)]
struct Row {
    title: String,
    patched: bool,
    /// How much of the output has been shown live, in bytes.
    live: usize,
    output: String,
    ended: bool,
}

impl Rows {
    /// Shows what is new about a row.
    pub(super) fn show<W: Write>(&mut self, screen: &mut Screen<W>, update: ToolUpdate) {
        let first = !self.rows.contains_key(&update.id);
        let row = self.rows.entry(update.id).or_default();
        if let Some(title) = update.title.or(update.name).filter(|_| first || row.title.is_empty()) {
            screen.tool(&title);
            row.title = title;
        } else if first {
            screen.tool("tool call");
        }
        if let Some(patch) = update.patch.filter(|_| !row.patched) {
            row.patched = true;
            screen.unified_diff(&patch);
        }
        if let Some(piece) = update.appended {
            row.live += piece.len();
            row.output.push_str(&piece);
            screen.output(&piece);
        }
        if let Some(output) = update.output {
            row.output = output;
        }
        let status = match update.status {
            Some(ToolStatus::Completed) => "completed",
            Some(ToolStatus::Failed) => "failed",
            Some(ToolStatus::Cancelled) => "cancelled",
            _ => return self.show_growth(screen),
        };
        if !std::mem::replace(&mut row.ended, true) {
            // A patch says more than "wrote the file".
            let output = if row.patched && status == "completed" { "" } else { row.output.as_str() };
            screen.tool_ended(status, output);
        }
    }

    /// v1 agents send the whole output each time: only what is new is shown.
    fn show_growth<W: Write>(&mut self, screen: &mut Screen<W>) {
        for row in self.rows.values_mut().filter(|row| !row.ended && row.output.len() > row.live) {
            if let Some(new) = row.output.get(row.live..) {
                screen.output(new);
            }
            row.live = row.output.len();
        }
    }

    /// Forgets the rows of a turn that is over.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }
}
