//! The vocabularies of the wire: what is received, read leniently ([`receive`]), and what is sent, built from the types
//! of the official schema crate ([`v1`], [`v2`]).

use std::borrow::Borrow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

pub(crate) mod delta;
pub(crate) mod patch;
pub(crate) mod receive;
pub(crate) mod v1;
pub(crate) mod v2;

/// A version of the protocol (R1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// Upstream's v1, which every editor in use speaks.
    V1,
    /// The contract's v2.
    V2,
}

/// A wire session id: how a client names a view. Not the id of a stored session, though it begins as a copy of one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Handle(Arc<str>);

impl Handle {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Borrow<str> for Handle {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A message of the schema with members that it does not have.
#[derive(Debug, Serialize)]
pub(crate) struct WithExtra<T, X> {
    #[serde(flatten)]
    pub(crate) base: T,
    #[serde(flatten)]
    pub(crate) extra: X,
}

/// A path as it can be written in JSON: what is no text is replaced.
pub(crate) fn text_path(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(_) => path.to_owned(),
        None => PathBuf::from(path.to_string_lossy().into_owned()),
    }
}
