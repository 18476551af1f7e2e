//! The store of sessions as the engine sees it: through the port, on real files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod basics;
mod damage;
mod disk;
mod index;
mod kit;
mod large;
mod long;
mod old;
mod processes;
mod prune;
