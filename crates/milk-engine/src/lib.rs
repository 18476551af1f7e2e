//! The product: conversations, turns, permissions and commands.
//!
//! A front end opens a [`Conversation`], submits prompts to it and renders the events that come back through its
//! [`EventSink`](milk_core::ports::EventSink). The engine knows no wire, no terminal, no HTTP and no disk: it reaches them
//! through the ports in [`Ports`].

mod ask;
mod bindings;
mod bounded;
pub mod command;
mod context;
mod conversation;
mod emit;
mod engine;
mod history;
mod ids;
mod permission;
mod reference;
mod replay;
mod system_prompt;
pub mod text;
mod transcript;
mod turn;

pub use conversation::Conversation;
pub use engine::{Engine, OpenError, Opened, Origin, Ports, Start};
pub use ids::next_prompt_id;
pub use reference::{ReferenceError, by_id_or_name as find_session};
pub use transcript::transcript;
