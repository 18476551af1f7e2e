//! The engine seen from outside: hand-driven models, tools, stores and front ends stand on its ports, and every test reads
//! one journal of everything that happened, in its order. The laws that hold for every turn are in [`laws`] and are
//! checked whenever a rig is dropped, whatever the test was about.
//!
//! Time is tokio's paused clock: it moves only when nothing else can, so that waiting costs nothing and orders are exact.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test; the lints' exception for tests covers test functions only"
)]

mod fakes;
mod laws;
mod lines;
mod rig;

mod ask_race;
mod cancel;
mod close;
mod commands;
mod context;
mod faults;
mod interleavings;
mod limits;
mod permissions;
mod rebinding;
mod replay;
mod threads;
mod tool_calls;
mod turns;
