//! A small ACP client.
