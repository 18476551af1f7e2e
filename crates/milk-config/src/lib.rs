//! Configuration: what can be set ([`key`]), where it comes from ([`load`]: defaults, the global file, the project's file
//! as far as it is trusted), and the immutable snapshot that the rest of milk reads ([`Config`]).
//!
//! Files are merged as raw JSON, field by field; `agents` and `mcp_servers` are merged by name, field by field too. A
//! value that cannot be used costs that one key and a [`Warning`], a file that cannot be read costs that file: there is
//! always a config. Unknown keys are kept in the raw layers and otherwise ignored.

mod admit;
mod agent;
mod check;
mod config;
pub mod key;
mod layer;
mod load;
mod merge;
pub mod provider;
mod reference;
mod secret;
mod server_url;
mod shown;
mod trust;
mod warning;

pub use agent::{Agent, Credential, Found, Limits, Prompt, PromptTier, Timeouts, Tls};
pub use config::{ClaudePermissions, Config, PromptResponse, ReplayIds, Sandbox};
pub use layer::{Layer, MAX_CONFIG_BYTES};
pub use load::{Loaded, load, load_global};
pub use merge::Origin;
pub use milk_files::{Env, MilkHome};
pub use secret::{MASK, Secret, redact};
pub use server_url::{ServerUrl, UrlError};
pub use trust::{Trust, TrustError};
pub use warning::Warning;
