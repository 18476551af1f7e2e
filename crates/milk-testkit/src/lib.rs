//! milk's test kit: everything a test needs around a real `milk` process, with no network and no clock games.
//!
//! | module | stands in for |
//! |---|---|
//! | [`server`] | a model server: plays given bytes at given times, records what it got |
//! | [`client`] | an editor: spawns an ACP agent, records both directions, answers its questions |
//! | [`schema`] | a strict reader: the official JSON schemas as an oracle (feature `schema`) |
//! | [`home`] | a user's machine: a home, a config, a workspace, a clean environment |
//! | [`fault`] | the things that go wrong: processes left over, memory, refused connections |
//!
//! The whole path, from an editor to a model and back:
//!
//! ```no_run
//! use milk_testkit::{ModelServer, Reply, TestHome};
//!
//! # async fn example() {
//! let server = ModelServer::script([Reply::text("hello")]).await;
//! let home = TestHome::new();
//! home.config(&server.config());
//! let agent = home.spawn_milk("target/debug/milk", &["serve", "--acp"]);
//! agent.initialize(2).await;
//! let session = agent.new_session(home.workspace()).await;
//! let turn = agent.turn(&session, "hi").await;
//! assert_eq!(turn.text, "hello");
//! agent.shutdown().await;
//! server.assert_clean();
//! # }
//! ```
//!
//! Nothing here sleeps to get an order right: tests wait for what happened ([`ModelServer::request`],
//! [`AgentProcess::expect`]) and hold what must not happen yet ([`Gate`]). Every wait ends after
//! [`PATIENCE`] and then fails with what was seen.

pub mod client;
pub mod fault;
pub mod home;
#[cfg(feature = "schema")]
pub mod schema;
pub mod server;
mod watched;

pub use client::{AgentProcess, Answer, Launch, Matcher, Policy, Transcript};
pub use home::TestHome;
pub use server::{Gate, ModelServer, RecordedRequest, Reply, Script, Step, ToolCall};
pub use watched::PATIENCE;
