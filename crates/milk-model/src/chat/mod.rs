//! Chat completions: the dialect that nearly every model server speaks, first spoken by `OpenAI`'s.

mod client;
mod config;
mod connection;
mod exchange;
pub(crate) mod format;

pub use client::ChatModel;
pub use config::{ChatConfig, Patience};
pub use format::EmptyContent;
