//! Commands, files and searches: what hangs, floods, breaks or escapes (R28, R29, R30).
//!
//! Cases that need more than stands:
//!
//! | case | needs |
//! |---|---|
//! | 060 and 061 under a grant in place of the config | grants that are patterns |
//! | 060 to 063, running what only a pattern allowed in a sandbox (R33) | the sandbox |
//! | 064 and 065 as background jobs | background agents |
//! | 069, its part on replay | stored sessions |
//! | 081, its part on MCP servers | MCP |

mod arguments;
mod fetch;
mod files;
mod patterns;
mod search;
mod shell;

use crate::support::{Plan, Rig};
use milk_testkit::Policy;

fn allow() -> Policy {
    Policy::Option("allow".to_owned())
}

async fn permissive() -> Rig {
    Plan::obedient().root("dangerously_skip_permissions", true).start().await
}

/// How much memory may grow under a flood.
const MEMORY: u64 = 64 << 20;
