//! What milk keeps on disk: session logs, grants, locks.
