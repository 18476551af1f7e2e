//! One independent client: the official Rust SDK, driven by a plan.
//!
//! `interop-rust-sdk PLAN.json` starts the plan's agent, plays its steps over ACP v1 or v2 and prints one JSON
//! object a line: what the SDK's typed API handed over. It judges nothing; the caller compares the lines with what
//! it expects. The exit status is 1 when the SDK refused a message, a request failed, or a step ran out of time.

mod plan;
mod tally;
mod v1;
mod v2;

use anyhow::{Context as _, Result, bail};
use plan::Plan;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).context("usage: interop-rust-sdk PLAN.json")?;
    let plan: Plan = serde_json::from_slice(&std::fs::read(path)?)?;
    match plan.version {
        1 => v1::play(plan).await,
        2 => v2::play(plan).await,
        other => bail!("no such protocol version: {other}"),
    }
}
