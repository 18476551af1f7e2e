//! The queue behind the writer: order, weight and merging.

use std::collections::HashMap;

use super::Outgoing;
use crate::wire::Handle;

/// What a message costs beside its bytes.
const OVERHEAD: usize = 64;

/// Messages in the order in which they were pushed.
#[derive(Debug, Default)]
pub(super) struct Queue {
    messages: Vec<Outgoing>,
    /// Where each session's latest message stands.
    latest: HashMap<Handle, usize>,
    weight: usize,
}

/// What [`Queue::take`] took.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) messages: Vec<Outgoing>,
    /// In bytes, about.
    pub(super) weight: usize,
}

impl Queue {
    /// Appends a message, or merges it into its session's latest. Passing over other sessions' messages that way is
    /// harmless: nothing of its own session is passed over.
    pub(super) fn push(&mut self, message: Outgoing) {
        let message = match message {
            Outgoing::Delta(delta) => {
                let added = delta.text.len();
                let latest = self.latest.get(&delta.of).and_then(|at| self.messages.get_mut(*at));
                let unmerged = match latest {
                    Some(Outgoing::Delta(waiting)) => waiting.merge(delta),
                    _ => Some(delta),
                };
                let Some(delta) = unmerged else {
                    self.weight += added;
                    return;
                };
                Outgoing::Delta(delta)
            }
            line @ Outgoing::Line { .. } => line,
        };
        self.weight += weight(&message);
        let of = match &message {
            Outgoing::Line { of, .. } => of.as_ref(),
            Outgoing::Delta(delta) => Some(&delta.of),
        };
        if let Some(of) = of {
            self.latest.insert(of.clone(), self.messages.len());
        }
        self.messages.push(message);
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Everything, if there is anything.
    pub(super) fn take(&mut self) -> Option<Batch> {
        if self.messages.is_empty() {
            return None;
        }
        self.latest.clear();
        Some(Batch { messages: std::mem::take(&mut self.messages), weight: std::mem::take(&mut self.weight) })
    }
}

fn weight(message: &Outgoing) -> usize {
    OVERHEAD
        + match message {
            Outgoing::Line { line, .. } => line.len(),
            Outgoing::Delta(delta) => delta.weight(),
        }
}
