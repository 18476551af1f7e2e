//! Making a conversation smaller, until it is estimated to fit.

use milk_core::model::{ChatMessage, UserPart};

use super::{BYTES_PER_TOKEN, Context, message_bytes};
use crate::bounded::bounded;

/// How much of a tool result is kept when nothing else helps, in bytes.
const TRIMMED_RESULT: usize = 200;

/// The tool results that are the last to be cut: the model has hardly read them.
const NEWEST_RESULTS: usize = 2;

const TURNS_LEFT_OUT: &str =
    "[Earlier turns are left out, because they do not fit into the model's context.]";
const STEPS_LEFT_OUT: &str =
    "[Earlier steps of this turn are left out, because they do not fit into the model's context.]";

/// Leaves something out, at least as many bytes as are said where it can choose; returns whether there was anything.
type Step<'a> = dyn Fn(&mut Context, usize) -> bool + 'a;

impl Context {
    /// Leaves out what is needed least until the conversation is estimated to fit into `limit` tokens: old tool results
    /// are cut, the oldest turns go, long results are cut, the oldest steps of the running turn go, every result is cut. The
    /// newest prompt and the newest step stay, and calls keep their results. Returns whether anything was left out.
    pub(crate) fn shrink(&mut self, system: &str, limit: u64) -> bool {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
        let steps: [&Step<'_>; 6] = [
            &|context, _| context.cut_results(NEWEST_RESULTS, TRIMMED_RESULT),
            &Self::drop_oldest_exchanges,
            &|context, _| context.drop_unanswered_prompts(),
            &|context, _| context.cut_results(0, (limit / 4).max(TRIMMED_RESULT)),
            &Self::drop_oldest_steps,
            &|context, _| context.cut_results(0, TRIMMED_RESULT),
        ];
        let mut changed = false;
        for step in steps {
            let excess = self.bytes(system).saturating_sub(limit);
            changed |= excess > 0 && step(self, excess);
        }
        changed
    }

    /// Cuts every tool result but the newest ones to about this many bytes; `false` when all are short.
    fn cut_results(&mut self, whole: usize, bytes: usize) -> bool {
        let results = self.messages.iter_mut().rev().filter_map(|message| match message {
            ChatMessage::ToolResult { output, .. } => Some(output),
            _ => None,
        });
        let mut changed = false;
        // Twice as long, so that the mark of a cut is never cut again.
        for output in results.skip(whole).filter(|output| output.len() > bytes * 2) {
            *output = bounded(std::mem::take(output), bytes);
            changed = true;
        }
        changed
    }

    /// Removes user messages and what answered them, oldest first, until this many bytes are gone or the newest prompt is
    /// reached; `false` when it is the only one.
    fn drop_oldest_exchanges(&mut self, bytes: usize) -> bool {
        let is_user = |message: &ChatMessage| matches!(message, ChatMessage::User(_));
        let end = self.enough(0, self.prompt, bytes, is_user);
        if end == 0 {
            return false;
        }
        self.messages.drain(..end);
        self.prompt -= end;
        if self.prompt == 0 && self.earlier_parts > 0 {
            self.earlier_parts += 1; // the mark
        }
        self.mark(0, Place::Beginning, TURNS_LEFT_OUT);
        true
    }

    /// Removes earlier prompts that nothing answered, so that they stand in one message with the newest.
    fn drop_unanswered_prompts(&mut self) -> bool {
        let earlier = std::mem::take(&mut self.earlier_parts);
        let Some(ChatMessage::User(parts)) = self.messages.get_mut(self.prompt).filter(|_| earlier > 0)
        else {
            return false;
        };
        parts.drain(..earlier);
        self.mark(self.prompt, Place::Beginning, TURNS_LEFT_OUT);
        true
    }

    /// Removes responses of the running turn with their results, oldest first, until this many bytes are gone or the newest
    /// is reached; `false` when it is the only one.
    fn drop_oldest_steps(&mut self, bytes: usize) -> bool {
        let first = self.prompt + 1;
        let is_response = |message: &ChatMessage| matches!(message, ChatMessage::Assistant(_));
        let Some(newest) = self.messages.iter().rposition(is_response).filter(|newest| *newest > first)
        else {
            return false;
        };
        let end = self.enough(first, newest, bytes, is_response);
        self.messages.drain(first..end);
        self.mark(self.prompt, Place::End, STEPS_LEFT_OUT);
        true
    }

    /// Where a removal from `begin` on may stop so that this many bytes go: before a message that begins something, at
    /// `last` at the latest.
    fn enough(
        &self,
        begin: usize,
        last: usize,
        bytes: usize,
        begins: impl Fn(&ChatMessage) -> bool,
    ) -> usize {
        let mut freed = 0;
        for (index, message) in self.messages.iter().enumerate().take(last).skip(begin) {
            if index > begin && freed >= bytes && begins(message) {
                return index;
            }
            freed += message_bytes(message);
        }
        last
    }

    /// Says once in a user message what is left out.
    fn mark(&mut self, at: usize, place: Place, mark: &str) {
        let Some(ChatMessage::User(parts)) = self.messages.get_mut(at) else { return };
        if parts.iter().any(|part| matches!(part, UserPart::Text(text) if text == mark)) {
            return;
        }
        let at = match place {
            Place::Beginning => 0,
            Place::End => parts.len(),
        };
        parts.insert(at, UserPart::Text(mark.to_owned()));
    }
}

/// Where a mark stands in its message.
#[derive(Debug, Clone, Copy)]
enum Place {
    Beginning,
    End,
}
