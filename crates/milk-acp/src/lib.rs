//! The Agent Client Protocol front end: framing, JSON-RPC peer, v1 and v2 vocabularies, views and handles.
//!
//! [`serve()`] is the agent's side, on any pair of byte streams; [`client`] is a small client's side of the same protocol.

pub mod client;
mod dispatch;
pub mod frame;
mod link;
mod map;
mod peer;
pub mod profile;
mod rpc_error;
mod serve;
mod view;
mod visible;
mod wire;
mod writer;

pub use map::ReplayIds;
pub use peer::CallError;
pub use serve::{AcpSettings, PromptResponse, ServeEnd, serve};
pub use wire::Version;
