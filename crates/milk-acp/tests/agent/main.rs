//! The agent's side over pipes: an engine on hand-driven ports, and a test that writes and reads lines. Every message of
//! the agent's is checked against the schema of the version that was agreed on.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test; the lints' exception for tests covers test functions only"
)]

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
