//! The vocabulary that every room of milk shares: ids, messages, events, questions and ports.
