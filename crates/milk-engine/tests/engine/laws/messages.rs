//! Message ids: one for each message, never for two; the pieces of a message come together; no piece is empty (R8, R9).

use std::collections::HashSet;

use milk_core::event::EventKind;
use milk_core::id::MessageId;

use super::Broken;
use crate::fakes::journal::Seen;
use crate::lines;

pub(super) fn check(entries: &[Seen], broken: &mut Broken) {
    let mut used: HashSet<MessageId> = HashSet::new();
    let mut text: Option<MessageId> = None;
    let mut thought: Option<MessageId> = None;
    for seen in entries {
        let Seen::Event(event) = seen else { continue };
        let holds = match &event.kind {
            EventKind::UserMessage { id, .. } => used.insert(id.clone()),
            EventKind::Notice { id, text } => used.insert(id.clone()) && !text.is_empty(),
            EventKind::AgentText { id, text: piece } => {
                goes_on(&mut text, &mut used, id) && !piece.is_empty()
            }
            EventKind::AgentThought { id, text: piece } => {
                goes_on(&mut thought, &mut used, id) && !piece.is_empty()
            }
            // What the model says after its tools is another response.
            EventKind::ToolCallStarted(_) => {
                (text, thought) = (None, None);
                true
            }
            _ => true,
        };
        broken.unless(holds, || {
            format!("a message has one id of its own and comes in one run: {:?}", lines::event(event))
        });
    }
}

/// Whether this piece goes on with the newest message, or begins one that was never there.
fn goes_on(newest: &mut Option<MessageId>, used: &mut HashSet<MessageId>, id: &MessageId) -> bool {
    if newest.as_ref() == Some(id) {
        return true;
    }
    *newest = Some(id.clone());
    used.insert(id.clone())
}
