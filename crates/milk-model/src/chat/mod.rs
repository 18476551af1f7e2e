//! Chat completions: the dialect of OpenAI's API that nearly every model server speaks.

mod client;
mod config;
mod connection;
mod exchange;
pub(crate) mod format;

pub use client::ChatModel;
pub use config::{ChatConfig, Patience};
pub use format::EmptyContent;
