//! The store of sessions as the engine sees it: through the port, on real files.

mod basics;
mod kit;
