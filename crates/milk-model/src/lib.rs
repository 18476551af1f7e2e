//! Talking to models: one module per dialect, formats apart from transport.

pub mod demo;
pub mod sse;

pub use demo::DemoModel;
