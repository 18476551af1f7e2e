//! The chat client and the probes against a scripted server on loopback. Tests are named after the bug cases they replay.

#![expect(clippy::unwrap_used, reason = "tests: the helpers too may fail loudly")]

mod dialects;
mod discovery;
mod network;
mod retries;
mod secrets;
mod streams;
mod support;
