//! What a user sends: the blocks of a prompt (R13).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One block of a prompt, in the order that the user sent it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Plain text.
    Text {
        /// The text, untouched.
        text: Arc<str>,
    },
    /// A mention of something that the agent may look at; its content is not included.
    Link {
        /// Where it is, usually a `file:` address.
        uri: String,
        /// How the user's editor names it.
        name: String,
        /// Media type, if the editor said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
    },
    /// A text that the editor sent along (an open buffer, a selection).
    EmbeddedText {
        /// Where the text came from.
        uri: String,
        /// Media type, if the editor said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        /// The text, verbatim.
        text: Arc<str>,
    },
    /// Bytes that the editor sent along; named to the model, not shown to it.
    EmbeddedBlob {
        /// Where the bytes came from.
        uri: String,
        /// Media type, if the editor said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        /// Base64 text, as it was sent.
        data: Arc<str>,
    },
    /// A picture. Reaches a model that can see; otherwise the user is told.
    Image {
        /// Media type such as `image/png`.
        mime: String,
        /// Base64 text.
        data: Arc<str>,
    },
    /// A kind of block that milk does not know; noted to the model by its name.
    Unknown {
        /// The block's `type`.
        kind: String,
    },
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// The text blocks joined by a newline: what a slash command, a title and the echo are made from (R13).
pub fn plain_text(blocks: &[ContentBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(&**text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
