//! `http_request`: any HTTP request.

use std::sync::Arc;

use milk_core::tool::{PreparedCall, ToolError, ToolKind};
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::fetch::{Fetch, MAX_BYTES, URL, address, prepared, size_limit};
use crate::args::{Param, Shape};
use crate::builtin::{Call, Prepare, Row};
use crate::text::{size, visible};

pub(crate) const ROW: Row = Row {
    name: "http_request",
    kind: ToolKind::Fetch,
    about: include_str!("http_request.md"),
    params: &[
        URL,
        Param::optional("method", Shape::Text, "GET unless given."),
        Param::optional("headers", Shape::Fields, "Headers by name."),
        Param::optional("body", Shape::Document, "The body."),
        MAX_BYTES,
    ],
    prepare: Prepare::AtOnce(prepare),
};

fn prepare(call: &Call) -> Result<PreparedCall, ToolError> {
    let url = address(call)?;
    let max_bytes = size_limit(call)?;
    let method = call.args.text_or("method")?.filter(|method| !method.trim().is_empty());
    let method = method.unwrap_or_else(|| "GET".to_owned()).trim().to_ascii_uppercase();
    let method: Method = method
        .parse()
        .map_err(|_| ToolError::new(format!("`method` is no HTTP method: {}", visible(&method))))?;
    if method == Method::CONNECT {
        return Err(ToolError::new("the method CONNECT is for proxies only"));
    }
    let headers = headers(&call.args.fields("headers")?)?;
    let body = call.args.text_or("body")?.filter(|body| !body.is_empty());
    let sends = body.as_ref().map(|body| format!(" (sends {})", size(body.len() as u64))).unwrap_or_default();
    let title = format!("http_request: {method} {url}{sends}");
    let fetch = Fetch { method, url, headers, body, max_bytes };
    Ok(prepared(Arc::clone(&call.shared), title, fetch))
}

/// Headers that belong to the connection, which is not the model's to manage.
const OWN: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

fn headers(fields: &[(String, String)]) -> Result<HeaderMap, ToolError> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        if OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            continue;
        }
        let bad = || ToolError::new(format!("the header {} is not valid", visible(name)));
        let name = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|_| bad())?;
        headers.append(name, value);
    }
    Ok(headers)
}
