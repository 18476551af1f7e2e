//! The product: conversations, turns, permissions and commands. Knows no wire, no terminal, no HTTP, no disk.
