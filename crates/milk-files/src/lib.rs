//! Atomic file replacement, private folders, path identity and the place of MILK_HOME.
