//! The vocabulary that every room of milk shares: ids, messages, tool calls, model requests and events,
//! turn events, questions and answers, and the ports through which the engine reaches the world.
//!
//! Plain data and traits: no runtime, no I/O, no wire. The engine depends on this crate alone; models, tools and
//! stores implement its ports; a front end sends commands to the engine and renders [`event::Event`]s.

pub mod ask;
pub mod content;
pub mod event;
pub mod failure;
pub mod id;
pub mod model;
pub mod ports;
pub mod record;
pub mod session;
pub mod settings;
pub mod tool;

/// A boxed future that a port returns, so that the ports stay object-safe.
pub use futures_util::future::BoxFuture;
/// A boxed stream that a model returns.
pub use futures_util::stream::BoxStream;

/// A JSON object whose keys keep their order.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
