//! The compiled binary over real pipes, against a scripted model server: what the contract and the protocol promise.
//!
//! | module | what |
//! |---|---|
//! | [`wire`] | lines, ids, errors, and what a hostile or clumsy peer sends |
//! | [`versions`] | the handshake, and what each protocol version is given |
//! | [`stdout`] | nothing but protocol on it |
//! | [`turns`] | what a turn looks like in each version |
//! | [`order`] | who waits for whom, within a session and between sessions |
//! | [`cancel`] | everything that can be cancelled, and what is left after it |
//! | [`failures`] | model servers that fail, limits, and a client that does not read |
//! | [`profiles`] | what known clients cannot bear |
//! | [`sessions`] | list, resume, close and delete of the sessions of one process |
//! | [`lifecycle`] | starts, ends, and no process left behind |
//! | [`commands`] | slash commands |
//! | [`content`] | what of a prompt's blocks reaches the model |
//! | [`config`] | files of settings, broken, untrusted and absent |
//!
//! A number in a comment such as `case 036` is that of a public report that the test replays; `R12` is a ruling on
//! the contract. Every message of milk's in every test is held against the protocol's schema when its process ends,
//! and every request to the model against the rules that real servers refuse a conversation for.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test; the lints' exception for tests covers test functions only"
)]

mod support;

mod cancel;
mod commands;
mod config;
mod content;
mod durable;
mod failures;
mod lifecycle;
mod order;
mod profiles;
mod rebinding;
mod replay;
mod sessions;
mod sessions_command;
mod stdout;
mod turns;
mod versions;
mod wire;
