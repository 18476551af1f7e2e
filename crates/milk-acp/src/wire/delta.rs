//! The hot path: pieces of a message or of a tool's output, merged while they wait.

use agent_client_protocol_schema::{v1, v2};

use super::{Handle, Version};
use crate::peer;

/// Longest text that merging makes, in bytes: a line stays below the 64 KiB at which some clients' line readers end.
const MERGED: usize = 16 << 10;

/// The next piece of something that grows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Delta {
    pub(crate) of: Handle,
    pub(crate) shape: Shape,
    /// The message's or the tool call's id.
    pub(crate) id: std::sync::Arc<str>,
    pub(crate) text: String,
}

/// What grows, and in which version's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An agent message.
    Text(Version),
    /// A thought.
    Thought(Version),
    /// A tool call's content. v1 has no such thing.
    Output,
}

impl Delta {
    /// Takes `next` in, if it continues this piece. Gives it back if not.
    pub(crate) fn merge(&mut self, next: Delta) -> Option<Delta> {
        let continues = self.shape == next.shape
            && self.id == next.id
            && self.of == next.of
            && self.text.len() + next.text.len() <= MERGED;
        if !continues {
            return Some(next);
        }
        self.text.push_str(&next.text);
        None
    }

    /// What it costs the queue, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.text.len() + 200
    }

    pub(crate) fn into_line(self) -> Vec<u8> {
        let Self { of, shape, id, text } = self;
        match shape {
            Shape::Text(Version::V1) | Shape::Thought(Version::V1) => {
                let content = v1::ContentBlock::Text(v1::TextContent::new(text));
                let chunk = v1::ContentChunk::new(content).message_id(v1::MessageId::new(id));
                let update = match shape {
                    Shape::Text(_) => v1::SessionUpdate::AgentMessageChunk(chunk),
                    _ => v1::SessionUpdate::AgentThoughtChunk(chunk),
                };
                peer::notification("session/update", &v1::SessionNotification::new(of.shared(), update))
            }
            Shape::Text(Version::V2) => v2_line(
                &of,
                v2::SessionUpdate::AgentMessageChunk(v2::ContentChunk::new(text_block(text), id)),
            ),
            Shape::Thought(Version::V2) => v2_line(
                &of,
                v2::SessionUpdate::AgentThoughtChunk(v2::ContentChunk::new(text_block(text), id)),
            ),
            Shape::Output => {
                let content = v2::ToolCallContent::Content(Box::new(v2::Content::new(text_block(text))));
                v2_line(
                    &of,
                    v2::SessionUpdate::ToolCallContentChunk(v2::ToolCallContentChunk::new(id, content)),
                )
            }
        }
    }
}

fn text_block(text: String) -> v2::ContentBlock {
    v2::ContentBlock::Text(v2::TextContent::new(text))
}

fn v2_line(of: &Handle, update: v2::SessionUpdate) -> Vec<u8> {
    peer::notification("session/update", &v2::UpdateSessionNotification::new(of.shared(), update))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn delta(shape: Shape, id: &str, text: &str) -> Delta {
        Delta { of: Handle::new("s"), shape, id: id.into(), text: text.to_owned() }
    }

    #[test]
    fn only_pieces_of_one_thing_merge() {
        let text = Shape::Text(Version::V2);
        let mut first = delta(text, "a", "x");
        assert_eq!(first.merge(delta(text, "a", "y")), None);
        assert_eq!(first.text, "xy");
        for other in [
            delta(text, "b", "z"),
            delta(Shape::Thought(Version::V2), "a", "z"),
            delta(Shape::Text(Version::V1), "a", "z"),
            Delta { of: Handle::new("t"), ..delta(text, "a", "z") },
            delta(text, "a", &"z".repeat(MERGED)),
        ] {
            assert_eq!(first.merge(other.clone()), Some(other));
        }
    }

    #[test]
    fn each_shape_in_its_words() {
        let line = |shape| String::from_utf8(delta(shape, "id", "t\n").into_line()).unwrap();
        let update = |inner: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{{inner}}}}}}}"#
            )
        };
        let text = r#""content":{"type":"text","text":"t\n"}"#;
        assert_eq!(
            line(Shape::Text(Version::V2)),
            update(&format!(r#""sessionUpdate":"agent_message_chunk","messageId":"id",{text}"#))
        );
        assert_eq!(
            line(Shape::Thought(Version::V2)),
            update(&format!(r#""sessionUpdate":"agent_thought_chunk","messageId":"id",{text}"#))
        );
        assert_eq!(
            line(Shape::Text(Version::V1)),
            update(&format!(r#""sessionUpdate":"agent_message_chunk",{text},"messageId":"id""#))
        );
        assert_eq!(
            line(Shape::Thought(Version::V1)),
            update(&format!(r#""sessionUpdate":"agent_thought_chunk",{text},"messageId":"id""#))
        );
        assert_eq!(
            line(Shape::Output),
            update(&format!(
                r#""sessionUpdate":"tool_call_content_chunk","toolCallId":"id","content":{{"type":"content",{text}}}"#
            ))
        );
    }
}
