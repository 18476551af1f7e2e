//! Talking to models: one module per dialect, formats apart from transport.

pub mod chat;
mod credential;
pub mod demo;
mod failure;
pub mod http;
pub mod retry;
mod secret;
pub mod sse;

pub use credential::{Credential, Secret};
pub use demo::DemoModel;
