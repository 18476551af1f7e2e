//! The format of chat completions, without any I/O: a request as a JSON body, and the decoding of what comes back.

mod arguments;
mod balance;
mod calls;
mod chunk;
mod decoder;
mod markup;
mod prose;
mod reasoning;
mod request;

pub(crate) use decoder::{Decoder, Progress, StreamFault};
pub use request::EmptyContent;
pub(crate) use request::{BodyOptions, ReasoningFields, UsageWish, body, reasoning_fields_of};
