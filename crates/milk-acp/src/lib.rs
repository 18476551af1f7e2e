//! The Agent Client Protocol front end: framing, JSON-RPC peer, v1 and v2 vocabularies, views and handles.
