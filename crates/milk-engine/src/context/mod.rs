//! From history to what a model is sent: a form that strict servers accept, whatever happened before. Roles alternate,
//! every call is followed by its result, names and texts are such as every server takes, and nothing is sent that says
//! nothing.

mod shrink;

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::model::{AssistantMessage, ChatMessage, UserPart, Vision};
use milk_core::record::TurnWork;
use milk_core::tool::ToolStatus;

use crate::history::{Ending, History, Step, TurnHistory, argument_bytes};

/// What the model is told of a call that was never finished.
pub(crate) const INTERRUPTED: &str =
    "This call was interrupted before it finished; whether it had an effect is not known.";

/// Stands for a prompt without a word in it: a server refuses an empty message.
const EMPTY_PROMPT: &str = "[The user sent an empty message.]";

/// Stands for the turns that are in the log alone.
const EARLIER: &str = "[The conversation is long; its earlier turns are left out here.]";

/// Longest name of a function that servers take, in characters.
const NAME_LIMIT: usize = 64;

/// Rough size of a token in bytes, for budgets where the server does not count.
const BYTES_PER_TOKEN: usize = 4;

/// The conversation as a model should see it.
#[derive(Debug)]
pub(crate) struct Context {
    messages: Vec<ChatMessage>,
    /// Where the newest prompt stands: it and what follows is the running turn.
    prompt: usize,
    /// How many parts of the newest prompt's message are older prompts that nothing answered.
    earlier_parts: usize,
}

impl Context {
    /// The context that this history makes. `extra` rides with the newest prompt and is not kept in history (recalled facts,
    /// open tasks).
    pub(crate) fn new(history: &History, vision: Vision, extra: Option<&str>) -> Self {
        let mut built = Builder::default();
        let mut earlier_parts = 0;
        let mut prompt = 0;
        let turns: Vec<&TurnHistory> = history.turns().filter(|turn| turn.work == TurnWork::Prompt).collect();
        if history.earlier_turns() > 0 {
            built.user(vec![UserPart::Text(EARLIER.to_owned())]);
        }
        for (index, turn) in turns.iter().enumerate() {
            let newest = index + 1 == turns.len();
            if let (true, Some(ChatMessage::User(parts))) = (newest, built.messages.last()) {
                earlier_parts = parts.len();
            }
            built.prompt(&turn.content, vision);
            if newest {
                prompt = built.messages.len().saturating_sub(1);
                built.user(extra.map(|extra| UserPart::Text(extra.to_owned())).into_iter().collect());
            }
            for step in &turn.steps {
                built.step(step);
            }
            if !newest && let Some(note) = ending_note(&turn.ending) {
                built.user(vec![UserPart::Text(note)]);
            }
        }
        Self { messages: built.messages, prompt, earlier_parts }
    }

    /// Adds a line from milk to the end without breaking the alternation of roles.
    pub(crate) fn add_note(&mut self, note: String) {
        let mut built = Builder { messages: std::mem::take(&mut self.messages) };
        built.user(vec![UserPart::Text(note)]);
        self.messages = built.messages;
    }

    /// What goes into a request.
    pub(crate) fn messages(&self) -> Vec<ChatMessage> {
        self.messages.clone()
    }

    /// Estimated size in tokens, with this system message.
    pub(crate) fn estimate(&self, system: &str) -> u64 {
        (self.bytes(system) / BYTES_PER_TOKEN) as u64
    }

    fn bytes(&self, system: &str) -> usize {
        system.len() + self.messages.iter().map(message_bytes).sum::<usize>()
    }
}

#[derive(Default)]
struct Builder {
    messages: Vec<ChatMessage>,
}

impl Builder {
    fn prompt(&mut self, content: &[ContentBlock], vision: Vision) {
        let mut parts: Vec<UserPart> = Vec::new();
        let mut after_text = false;
        for block in content {
            let is_text = matches!(block, ContentBlock::Text { .. });
            match (parts.last_mut(), user_part(block, vision)) {
                // Neighbouring text blocks are one text, joined by a newline (R13).
                (Some(UserPart::Text(before)), Some(UserPart::Text(text))) if is_text && after_text => {
                    before.push('\n');
                    before.push_str(&text);
                }
                (_, part) => parts.extend(part),
            }
            after_text = is_text;
        }
        if parts.is_empty() {
            parts.push(UserPart::Text(EMPTY_PROMPT.to_owned()));
        }
        self.user(parts);
    }

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
        if step.said.text.trim().is_empty() && step.said.tool_calls.is_empty() {
            return; // an assistant message with neither is refused by many servers
        }
        let mut said = step.said.clone();
        for call in &mut said.tool_calls {
            call.name = acceptable_name(&call.name);
        }
        self.assistant(said);
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
            if !said.text.is_empty() {
                before.text.push_str("\n\n");
                before.text.push_str(&said.text);
            }
            before.tool_calls = said.tool_calls;
            before.provider_notes = said.provider_notes;
            return;
        }
        self.messages.push(ChatMessage::Assistant(said));
    }
}

/// A call's name as servers take it back: one that a model made up would be refused with the whole conversation.
fn acceptable_name(name: &str) -> String {
    if name.is_empty() {
        return "unnamed".to_owned();
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    name.chars().map(plain).take(NAME_LIMIT).collect()
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
        ContentBlock::Text { text } => (!text.trim().is_empty()).then(|| text.to_string())?,
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
