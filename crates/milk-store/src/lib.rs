//! What milk keeps: sessions and grants. Implements the engine's ports; knows nothing of what is kept.

mod grants;
mod sessions;

pub use grants::DirectoryGrants;
pub use sessions::{DiskSessions, Prune, Pruned, Reindexed, synthetic};
