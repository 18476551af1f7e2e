//! Chat completions: the dialect of OpenAI's API that nearly every model server speaks.

pub(crate) mod format;
