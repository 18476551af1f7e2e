//! The built-in tools, process groups and the allow patterns for shell commands.
