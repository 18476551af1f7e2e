//! Scripted model server, recording ACP client, schema oracle (tests and milk mock only).
