//! The compiled binary under hardship: public reports of what hurts users of such agents, replayed over real pipes
//! against a scripted model server. A test named `case_…` has the number of its report; the oracle is the contract.
//!
//! | module | whose faults |
//! |---|---|
//! | [`permissions`] | questions before side effects, and answers that are no yes |
//! | [`tools`] | commands, files and searches that hang, flood, break or escape |
//! | [`providers`] | model servers: framing, cut streams, errors, retries, proxies |
//! | [`local_models`] | small models and their servers: dialects of tool calls and reasoning |
//! | [`security`] | secrets, and repositories that are not to be trusted |
//! | [`doctor`], [`chat`] | the commands for people |
//!
//! Every message of milk's in every test is held against the protocol's schema when its process ends, and every
//! request to the model against the rules that real servers refuse a conversation for.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test; the lints' exception for tests covers test functions only"
)]

mod support;

mod chat;
mod doctor;
mod local_models;
mod permissions;
mod providers;
mod security;
mod tools;
