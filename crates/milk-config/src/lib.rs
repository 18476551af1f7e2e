//! Configuration: keys, layers with provenance, trust, edits that keep what they do not touch.
