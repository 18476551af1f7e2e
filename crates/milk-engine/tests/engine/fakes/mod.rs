//! The world on milk's ports, driven by hand.

pub(crate) mod agent;
pub(crate) mod asking;
pub(crate) mod gate;
pub(crate) mod journal;
pub(crate) mod knowledge;
pub(crate) mod model;
pub(crate) mod screen;
pub(crate) mod store;
pub(crate) mod tool;
