//! Talking to models: one module per dialect, formats apart from transport.
