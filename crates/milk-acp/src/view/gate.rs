//! The silence of a new view: updates for an id that the client has not registered yet would be lost (R22).

use crate::writer::{Outgoing, Writer};

/// Lets a view's messages through, in order, once the client can know whom they are for.
#[derive(Debug)]
pub(super) enum Gate {
    Open,
    /// What has come so far.
    Shut(Vec<Outgoing>),
    /// The view is closed: nothing more is said.
    Sealed,
}

impl Gate {
    pub(super) fn shut() -> Self {
        Self::Shut(Vec::new())
    }

    /// Opens; what has waited goes first.
    pub(super) fn open(&mut self, writer: &Writer) {
        if let Self::Shut(waiting) = self {
            for message in waiting.drain(..) {
                writer.push(message);
            }
            *self = Self::Open;
        }
    }

    /// Ends all that the view says; what waits is dropped.
    pub(super) fn seal(&mut self) {
        *self = Self::Sealed;
    }

    /// Lets a message through although the gate is shut: the client asked for it under a name that it knows.
    pub(super) fn pass_by(&self, message: Outgoing, writer: &Writer) {
        match self {
            Self::Open | Self::Shut(_) => writer.push(message),
            Self::Sealed => {}
        }
    }

    pub(super) fn pass(&mut self, message: Outgoing, writer: &Writer) {
        match self {
            Self::Open => writer.push(message),
            Self::Shut(waiting) => waiting.push(message),
            Self::Sealed => {}
        }
    }
}
