//! The agent's side over pipes: an engine on hand-driven ports, and a test that writes and reads lines. Every message of
//! the agent's is checked against the schema of the version that was agreed on.

mod fakes;
mod rig;

mod cancel;
mod client;
mod end;
mod negotiation;
mod prompts;
mod questions;
mod sessions;
mod slow_client;
mod wire;
