//! Talking to models: one module per dialect, formats apart from transport.
//!
//! | module | holds |
//! |---|---|
//! | [`chat`] | chat completions: any OpenAI-compatible server |
//! | [`demo`] | the agent that answers when there is no model |
//! | [`discover`] | which servers answer, and with which models |
//! | [`http`] | the process's HTTP clients, and addresses |
//! | [`retry`] | when a failed request is sent again |
//! | [`sse`] | server-sent events |

pub mod chat;
mod credential;
pub mod demo;
pub mod discover;
mod failure;
pub mod http;
pub mod retry;
mod secret;
pub mod sse;

pub use chat::{ChatConfig, ChatModel};
pub use credential::{Credential, Secret};
pub use demo::DemoModel;
pub use http::HttpClients;
