//! Nothing side-effecting runs without a clear yes (contract: Tool permissions; R28, R30).
//!
//! Cases that need more than stands:
//!
//! | case | needs |
//! |---|---|
//! | 049 background agents must be able to ask | background agents |
//! | 053, its part on patterns in a grant | grants that are patterns |
//! | 056, its part on Telegram | remote oversight |
//! | 059 editor and remote answer race | remote oversight |

mod answers;
mod diffs;
mod grants;
mod questions;
