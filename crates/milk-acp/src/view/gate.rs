//! The silence of a new view: updates for an id that the client has not registered yet would be lost (R22).

use crate::writer::{Outgoing, Writer};

/// Lets a view's messages through, in order, once the client can know whom they are for.
#[derive(Debug)]
pub(super) enum Gate {
    Open,
    /// What has come so far.
    Shut(Vec<Outgoing>),
}

impl Gate {
    pub(super) fn shut() -> Self {
        Self::Shut(Vec::new())
    }

    /// Opens for good; what has waited goes first.
    pub(super) fn open(&mut self, writer: &Writer) {
        if let Self::Shut(waiting) = std::mem::replace(self, Self::Open) {
            for message in waiting {
                writer.push(message);
            }
        }
    }

    pub(super) fn pass(&mut self, message: Outgoing, writer: &Writer) {
        match self {
            Self::Open => writer.push(message),
            Self::Shut(waiting) => waiting.push(message),
        }
    }
}
