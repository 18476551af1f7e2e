//! What a running tool prints, shown as it comes: up to a limit, and never after its call has ended.

use std::sync::{Arc, Mutex, PoisonError};

use milk_core::event::EventKind;
use milk_core::id::ToolCallId;

use crate::emit::Emitter;

/// How much of a running tool's output is shown live, in bytes. The finished row has head and tail of the whole.
pub(super) const LIVE_LIMIT: usize = 128 * 1024;

const MARK: &str = "\n[… more output; the finished row has its beginning and end]\n";

/// The live output of one call. It is over when this is dropped, with the call's future: whatever a tool left behind
/// prints to nobody.
pub(super) struct LiveOutput(Arc<Mutex<Shown>>);

/// What a tool calls with each new piece.
type Print = Arc<dyn Fn(&str) + Send + Sync>;

enum Shown {
    /// So many bytes.
    Bytes(usize),
    /// The limit is reached and the user has been told.
    Full,
    CallOver,
}

impl LiveOutput {
    /// The output of this call, and the function through which its tool prints.
    pub(super) fn new(emitter: Emitter, call: ToolCallId) -> (Self, Print) {
        let shown = Arc::new(Mutex::new(Shown::Bytes(0)));
        let output = Self(Arc::clone(&shown));
        let print = move |piece: &str| {
            // Held while the piece is emitted, which never blocks: the end of the call waits for a piece under way.
            let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(text) = shown.take(piece) {
                emitter.emit(EventKind::ToolOutput { id: call.clone(), text });
            }
        };
        (output, Arc::new(print))
    }
}

impl Drop for LiveOutput {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Shown::CallOver;
    }
}

impl Shown {
    /// What to show of the next piece.
    fn take(&mut self, piece: &str) -> Option<String> {
        let Self::Bytes(before) = *self else { return None };
        if piece.is_empty() {
            return None;
        }
        let left = LIVE_LIMIT - before;
        if piece.len() <= left {
            *self = Self::Bytes(before + piece.len());
            return Some(piece.to_owned());
        }
        *self = Self::Full;
        Some(format!("{}{MARK}", &piece[..piece.floor_char_boundary(left)]))
    }
}
