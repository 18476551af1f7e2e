//! From history to what a model is sent: a form that strict servers accept, whatever happened before. Roles alternate,
//! every call is followed by its result, and nothing is sent that says nothing.

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::model::{AssistantMessage, ChatMessage, ToolArguments, UserPart, Vision};
use milk_core::record::TurnWork;
use milk_core::tool::ToolStatus;

use crate::history::{Ending, History, Step, TurnHistory};

/// What the model is told of a call that was never finished.
pub(crate) const INTERRUPTED: &str =
    "This call was interrupted before it finished; whether it had an effect is not known.";

/// Rough size of a token in bytes, for budgets where the server does not count.
const BYTES_PER_TOKEN: usize = 4;

/// How much of an old tool result is kept when the context must shrink, in bytes.
const TRIMMED_RESULT: usize = 200;

/// The conversation as a model should see it. `extra` is context for the newest prompt that is not kept in history
/// (recalled facts, open tasks).
pub(crate) fn messages(history: &History, vision: Vision, extra: Option<&str>) -> Vec<ChatMessage> {
    let mut built = Builder::default();
    let turns: Vec<&TurnHistory> =
        history.turns().iter().filter(|turn| turn.work == TurnWork::Prompt).collect();
    for (index, turn) in turns.iter().enumerate() {
        let newest = index + 1 == turns.len();
        built.user(turn.content.iter().filter_map(|block| user_part(block, vision)).collect());
        if let (true, Some(extra)) = (newest, extra) {
            built.user(vec![UserPart::Text(extra.to_owned())]);
        }
        for step in &turn.steps {
            built.step(step);
        }
        if !newest && let Some(note) = ending_note(&turn.ending) {
            built.user(vec![UserPart::Text(note)]);
        }
    }
    built.messages
}

#[derive(Default)]
struct Builder {
    messages: Vec<ChatMessage>,
}

impl Builder {
    /// Adds to the newest user message, or begins one: two in a row are refused by strict chat templates.
    fn user(&mut self, parts: Vec<UserPart>) {
        if parts.is_empty() {
            return;
        }
        if let Some(ChatMessage::User(existing)) = self.messages.last_mut() {
            existing.extend(parts);
        } else {
            self.messages.push(ChatMessage::User(parts));
        }
    }

    fn step(&mut self, step: &Step) {
        if step.said.text.is_empty() && step.said.tool_calls.is_empty() {
            return; // an assistant message with neither is refused by many servers
        }
        self.assistant(step.said.clone());
        for call in &step.said.tool_calls {
            let result = step.results.iter().find(|result| result.call == call.id);
            let output = match result {
                Some(result) if result.output.is_empty() => empty_output(result.status),
                Some(result) => result.output.clone(),
                None => INTERRUPTED.to_owned(),
            };
            self.messages.push(ChatMessage::ToolResult { call: call.id.clone(), output });
        }
    }

    /// Adds an assistant message; joins it to one before it that called nothing, so that roles alternate.
    fn assistant(&mut self, said: AssistantMessage) {
        if let Some(ChatMessage::Assistant(before)) = self.messages.last_mut()
            && before.tool_calls.is_empty()
        {
            before.text.push_str("\n\n");
            before.text.push_str(&said.text);
            before.tool_calls = said.tool_calls;
            before.provider_notes = said.provider_notes;
            return;
        }
        self.messages.push(ChatMessage::Assistant(said));
    }
}

fn empty_output(status: ToolStatus) -> String {
    match status {
        ToolStatus::Completed => "(no output)".to_owned(),
        ToolStatus::Failed => "(failed without output)".to_owned(),
        ToolStatus::Cancelled => INTERRUPTED.to_owned(),
    }
}

/// What the next model is told of a turn that did not end well.
fn ending_note(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Open => Some("[milk was stopped while the turn above ran.]".to_owned()),
        Ending::Ended { stop: StopReason::Cancelled, .. } => {
            Some("[The user cancelled the turn above.]".to_owned())
        }
        Ending::Ended { stop: StopReason::Error, failure } => {
            let details = failure.as_ref().map_or("an error", |failure| failure.details.as_str());
            Some(format!("[The turn above failed: {details}]"))
        }
        Ending::Ended { .. } => None,
    }
}

fn user_part(block: &ContentBlock, vision: Vision) -> Option<UserPart> {
    let text = match block {
        ContentBlock::Text { text } => (!text.is_empty()).then(|| text.to_string())?,
        ContentBlock::Link { uri, name, .. } => {
            let place = file_path(uri).unwrap_or_else(|| uri.clone());
            format!("[The user mentions {name}: {place}]")
        }
        ContentBlock::EmbeddedText { uri, text, .. } => {
            let place = file_path(uri).unwrap_or_else(|| uri.clone());
            format!("[Content of {place}, sent along by the user's editor]\n{text}\n[End of {place}]")
        }
        ContentBlock::EmbeddedBlob { uri, mime, data } => {
            let kind = mime.as_deref().unwrap_or("binary data");
            format!("[Attached and not shown: {uri} ({kind}, about {} bytes)]", data.len() / 4 * 3)
        }
        ContentBlock::Image { mime, data } => match vision {
            Vision::Sees => return Some(UserPart::Image { mime: mime.clone(), data: data.clone() }),
            Vision::Blind => format!("[An image ({mime}) is attached, which this model cannot see]"),
        },
        ContentBlock::Unknown { kind } => format!("[A block of the unknown kind \"{kind}\" is left out]"),
    };
    Some(UserPart::Text(text))
}

/// The path of a `file:` address, decoded; a fragment such as `#L2:3` stays behind it.
fn file_path(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    Some(percent_decode(path))
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|digit| char::from(*digit).to_digit(16));
        if bytes[at] == b'%'
            && let (Some(high), Some(low)) = (hex(1), hex(2))
            && let Ok(byte) = u8::try_from(high * 16 + low)
        {
            decoded.push(byte);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

/// Adds a line from milk to the end of a request without breaking the alternation of roles.
pub(crate) fn add_user_note(messages: &mut Vec<ChatMessage>, note: String) {
    let mut built = Builder { messages: std::mem::take(messages) };
    built.user(vec![UserPart::Text(note)]);
    *messages = built.messages;
}

/// Estimated size of a conversation in tokens.
pub(crate) fn estimate_tokens(system: &str, messages: &[ChatMessage]) -> u64 {
    let bytes: usize = system.len() + messages.iter().map(message_bytes).sum::<usize>();
    (bytes / BYTES_PER_TOKEN) as u64
}

fn message_bytes(message: &ChatMessage) -> usize {
    match message {
        ChatMessage::User(parts) => parts
            .iter()
            .map(|part| match part {
                UserPart::Text(text) => text.len(),
                UserPart::Image { .. } => 4_000, // a picture costs about a thousand tokens, whatever its file size
            })
            .sum(),
        ChatMessage::Assistant(said) => {
            let calls = said.tool_calls.iter().map(|call| call.name.len() + argument_bytes(&call.arguments));
            said.text.len() + calls.sum::<usize>()
        }
        ChatMessage::ToolResult { output, .. } => output.len(),
    }
}

fn argument_bytes(arguments: &ToolArguments) -> usize {
    match arguments {
        ToolArguments::Object(object) => serde_json::to_string(object).map_or(0, |text| text.len()),
        ToolArguments::Unparsable(raw) => raw.len(),
    }
}

/// Makes a conversation smaller until it is estimated to fit into `limit` tokens: old tool results are cut first, then
/// the oldest turns go. The newest user text and everything after it stay whole, and calls keep their results.
/// Returns whether anything was left out.
pub(crate) fn shrink(system: &str, messages: &mut Vec<ChatMessage>, limit: u64) -> bool {
    let mut changed = false;
    if estimate_tokens(system, messages) > limit {
        changed |= trim_old_results(messages);
    }
    while estimate_tokens(system, messages) > limit && drop_oldest_exchange(messages) {
        changed = true;
    }
    changed
}

fn newest_user(messages: &[ChatMessage]) -> usize {
    messages.iter().rposition(|message| matches!(message, ChatMessage::User(_))).unwrap_or(0)
}

/// Cuts every tool result but the two newest.
fn trim_old_results(messages: &mut [ChatMessage]) -> bool {
    let mut kept = 0;
    let mut changed = false;
    for message in messages.iter_mut().rev() {
        if let ChatMessage::ToolResult { output, .. } = message {
            kept += 1;
            if kept > 2 && output.len() > TRIMMED_RESULT * 2 {
                let end = output.floor_char_boundary(TRIMMED_RESULT);
                *output = format!("{}\n[… cut: {} more bytes]", &output[..end], output.len() - end);
                changed = true;
            }
        }
    }
    changed
}

/// Removes the oldest user message and what answered it; `false` when only the newest is left.
fn drop_oldest_exchange(messages: &mut Vec<ChatMessage>) -> bool {
    let newest = newest_user(messages);
    let next =
        messages.iter().enumerate().skip(1).find(|(_, message)| matches!(message, ChatMessage::User(_)));
    let Some((next, _)) = next.filter(|(index, _)| *index <= newest) else { return false };
    messages.drain(..next);
    let marker = "[Earlier turns are left out, because they do not fit into the model's context.]";
    if let Some(ChatMessage::User(parts)) = messages.first_mut()
        && !matches!(parts.first(), Some(UserPart::Text(text)) if text == marker)
    {
        parts.insert(0, UserPart::Text(marker.to_owned()));
    }
    true
}
