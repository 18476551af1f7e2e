//! The milk binary.
fn main() {}
