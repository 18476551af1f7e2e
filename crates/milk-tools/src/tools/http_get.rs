//! `http_get`: fetches an address.

use std::sync::Arc;

use milk_core::tool::{PreparedCall, ToolError, ToolKind};
use reqwest::Method;
use reqwest::header::HeaderMap;

use super::fetch::{Fetch, MAX_BYTES, URL, address, prepared, size_limit};
use crate::builtin::{Call, Prepare, Row};

pub(crate) const ROW: Row = Row {
    name: "http_get",
    kind: ToolKind::Fetch,
    about: include_str!("http_get.md"),
    params: &[URL, MAX_BYTES],
    prepare: Prepare::AtOnce(prepare),
};

fn prepare(call: &Call) -> Result<PreparedCall, ToolError> {
    let url = address(call)?;
    let max_bytes = size_limit(call)?;
    let title = format!("http_get: {url}");
    let fetch = Fetch { method: Method::GET, url, headers: HeaderMap::new(), body: None, max_bytes };
    Ok(prepared(Arc::clone(&call.shared), title, fetch))
}
