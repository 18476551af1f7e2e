//! One HTTP exchange for `http_get` and `http_request`.

use std::error::Error as _;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use milk_core::tool::{Effect, PreparedCall, ToolError, ToolOutcome};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Method, Response, StatusCode};
use url::{Host, Url};

use crate::args::{Param, Shape};
use crate::builtin::{Call, running};
use crate::env::Shared;
use crate::text::{cap, lossy, size, visible};

pub(super) const URL: Param = Param::required("url", Shape::Text, "An http or https address.");
pub(super) const MAX_BYTES: Param =
    Param::optional("max_bytes", Shape::Count, "Bytes of the body to return; 8192 unless given.");

const DEFAULT_BYTES: u64 = 8192;
/// The whole exchange, redirects included.
const TIME_LIMIT: Duration = Duration::from_mins(1);
const MOST_REDIRECTS: usize = 5;
/// Headers that a model can use.
const SHOWN_HEADERS: [&str; 8] = [
    "content-type",
    "content-length",
    "last-modified",
    "etag",
    "location",
    "retry-after",
    "www-authenticate",
    "allow",
];
/// Kept free in a result for status, headers and notes, in bytes.
const NOTES: u64 = 700;

/// A request that is ready to be sent.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<String>,
    pub(super) max_bytes: u64,
}

/// The address of a call.
pub(super) fn address(call: &Call) -> Result<Url, ToolError> {
    let text = call.args.filled("url")?;
    let text = text.trim();
    let wrong =
        |why: &str| ToolError::new(format!("`url` is no http or https address: {} ({why})", visible(text)));
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("scheme"));
    }
    Ok(url)
}

/// How much of the body a call wants.
pub(super) fn size_limit(call: &Call) -> Result<u64, ToolError> {
    let fits = call.shared.env.result_limit as u64 - NOTES;
    Ok(call.args.count_or("max_bytes")?.unwrap_or(DEFAULT_BYTES).min(fits))
}

pub(super) fn prepared(shared: Arc<Shared>, title: String, fetch: Fetch) -> PreparedCall {
    PreparedCall {
        title,
        locations: Vec::new(),
        changes: Vec::new(),
        effect: Effect::Network { url: fetch.url.to_string() },
        run: running(async move {
            let exchange = tokio::time::timeout(TIME_LIMIT, fetch.run(&shared));
            let limit = TIME_LIMIT.as_secs();
            let result =
                exchange.await.unwrap_or_else(|_| Err(format!("no complete answer within {limit} s")));
            match result {
                Ok(text) => ToolOutcome::completed(cap(text, shared.env.result_limit)),
                Err(reason) => ToolOutcome::failed(reason),
            }
        }),
    }
}

impl Fetch {
    async fn run(mut self, shared: &Shared) -> Result<String, String> {
        let client = shared.http()?;
        let mut text = String::new();
        for redirects in 0.. {
            let mut request =
                client.request(self.method.clone(), self.url.clone()).headers(self.headers.clone());
            if let Some(body) = &self.body {
                request = request.body(body.clone());
            }
            let response = request.send().await.map_err(|error| self.failure(&error))?;
            match self.redirect(&response, redirects) {
                Hop::Follow(url) => {
                    let _ = writeln!(text, "[redirected: {} to {url}]", response.status().as_u16());
                    self.follow(response.status(), url);
                }
                Hop::Stay(note) => {
                    self.describe(response, &mut text).await?;
                    text.push_str(&note);
                    break;
                }
            }
        }
        Ok(text)
    }

    /// What went wrong, without the address: it may hold a key.
    fn failure(&self, error: &reqwest::Error) -> String {
        let mut reason = String::new();
        let mut cause = error.source();
        while let Some(error) = cause {
            let _ = write!(reason, ": {error}");
            cause = error.source();
        }
        let host = self.url.host_str().unwrap_or_default();
        let what = if error.is_connect() { "cannot connect to" } else { "the exchange failed with" };
        format!("{what} {host}{reason}")
    }

    /// What an answer's redirect leads to. The person said yes to one address: a hop that leads to a machine of the
    /// local network, or carries a body to another machine, is left to a question of its own.
    fn redirect(&self, response: &Response, redirects: usize) -> Hop {
        let status = response.status();
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let Some(location) = location.filter(|_| is_redirect(status)) else {
            return Hop::Stay(String::new());
        };
        let stay = |why: &str| Hop::Stay(format!("[redirect not followed: {why}]\n"));
        let Ok(url) = self.url.join(location) else { return stay("its address is not valid") };
        if !matches!(url.scheme(), "http" | "https") {
            return stay("it leaves http");
        }
        if redirects >= MOST_REDIRECTS {
            return stay("there were too many");
        }
        if self.url.scheme() == "https" && url.scheme() == "http" {
            return stay("it leaves https; ask for it by its own address");
        }
        if url.host() != self.url.host() && is_local(&url) {
            return stay("it leads into the local network; ask for it by its own address");
        }
        if url.origin() != self.url.origin() && !becomes_get(&self.method, status) {
            return stay("it would carry the request to another machine; ask for it by its own address");
        }
        Hop::Follow(url)
    }

    fn follow(&mut self, status: StatusCode, url: Url) {
        if url.origin() != self.url.origin() {
            // They were meant for the first machine, and may hold a key.
            self.headers.clear();
        }
        if becomes_get(&self.method, status) && self.method != Method::HEAD {
            self.method = Method::GET;
            self.body = None;
            self.headers.remove(CONTENT_TYPE);
        }
        self.url = url;
    }

    async fn describe(&self, mut response: Response, text: &mut String) -> Result<(), String> {
        let _ = writeln!(text, "{:?} {}", response.version(), response.status());
        for name in SHOWN_HEADERS {
            if let Some(value) = response.headers().get(name) {
                let value = lossy(value.as_bytes());
                let _ = writeln!(text, "{name}: {}", crate::text::cut_line(&visible(&value), 200));
            }
        }
        text.push('\n');
        let length = header(&response, &CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let kind = header(&response, &CONTENT_TYPE);
        let mut body = Vec::new();
        let mut more = false;
        let limit = usize::try_from(self.max_bytes).unwrap_or(usize::MAX);
        while !more {
            let Some(piece) = response.chunk().await.map_err(|error| self.failure(&error))? else { break };
            let room = limit - body.len();
            more = piece.len() > room;
            body.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        text.push_str(&body_text(&body, kind.as_deref(), more, length));
        Ok(())
    }
}

enum Hop {
    Follow(Url),
    /// The answer is the last; a note may say why.
    Stay(String),
}

fn header(response: &Response, name: &reqwest::header::HeaderName) -> Option<String> {
    response.headers().get(name).map(|value| lossy(value.as_bytes()))
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Whether the next request only fetches, as browsers do it (RFC 9110, 15.4).
fn becomes_get(method: &Method, status: StatusCode) -> bool {
    match *method {
        Method::GET | Method::HEAD => true,
        Method::POST => matches!(status.as_u16(), 301..=303),
        _ => status == StatusCode::SEE_OTHER,
    }
}

/// Whether a host is this machine or one of its own network by its name. Names that resolve there are not looked up.
fn is_local(url: &Url) -> bool {
    let address = match url.host() {
        None => return true,
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            let last = name.rsplit('.').next().unwrap_or(name);
            return name == last
                || matches!(last, "localhost" | "local" | "internal" | "lan" | "home" | "arpa");
        }
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).to_canonical(),
    };
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            let shared = a == 100 && (64..128).contains(&b);
            v4.is_private() || v4.is_loopback() || v4.is_link_local() || a == 0 || v4.is_broadcast() || shared
        }
        IpAddr::V6(v6) => {
            v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local() || v6.is_unicast_link_local()
        }
    }
}

fn body_text(body: &[u8], kind: Option<&str>, more: bool, length: Option<u64>) -> String {
    let all = match length {
        Some(length) if more => format!(" of {}", size(length)),
        _ => String::new(),
    };
    if body.is_empty() && !more {
        return "[no body]\n".to_owned();
    }
    // A character that the cut went through is left out.
    let mut decoder = crate::text::Decoder::default();
    let mut text = decoder.push(body);
    if !more {
        text.push_str(&decoder.finish());
    }
    if is_binary(body, &text, kind) {
        let read = if more { "more than " } else { "" };
        let kind = kind.map_or_else(|| "of unknown type".to_owned(), |kind| visible(kind).into_owned());
        return format!("[binary body, {kind}, {read}{}{all}: not shown]\n", size(body.len() as u64));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if more {
        let _ = writeln!(text, "[only the first {} bytes{all} are shown; max_bytes gives more]", body.len());
    }
    text
}

/// Types whose bytes are no text, by their beginning.
const BINARY: [&str; 9] = [
    "image/",
    "audio/",
    "video/",
    "font/",
    "application/pdf",
    "application/zip",
    "application/gzip",
    "application/wasm",
    "application/vnd.",
];

fn is_binary(body: &[u8], text: &str, kind: Option<&str>) -> bool {
    let kind = kind.unwrap_or_default().trim().to_ascii_lowercase();
    let textual = ["json", "xml", "text/"].iter().any(|part| kind.contains(part));
    let declared = !textual && BINARY.iter().any(|binary| kind.starts_with(binary));
    // Characters of an old encoding are rare bytes in text; elsewhere they are the rule.
    let bad = text.matches('\u{FFFD}').count();
    declared || body.contains(&0) || bad * 10 > body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_hosts() {
        for (url, local) in [
            ("http://localhost/", true),
            ("http://a.localhost./", true),
            ("http://intranet/", true),
            ("http://printer.local/", true),
            ("http://metadata.google.internal/", true),
            ("http://127.0.0.1:8080/", true),
            ("http://127.1/", true),
            ("http://2130706433/", true),
            ("http://0.0.0.0/", true),
            ("http://10.1.2.3/", true),
            ("http://192.168.0.1/", true),
            ("http://172.16.0.1/", true),
            ("http://169.254.169.254/latest/meta-data", true),
            ("http://100.100.100.200/", true),
            ("http://[::1]/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://[fe80::1]/", true),
            ("http://[fd00::1]/", true),
            ("http://example.org/", false),
            ("http://93.184.216.34/", false),
            ("http://172.32.0.1/", false),
            ("http://100.128.0.1/", false),
            ("http://[2606:2800::1]/", false),
        ] {
            assert_eq!(is_local(&Url::parse(url).unwrap()), local, "{url}");
        }
    }

    #[test]
    fn bodies() {
        for (body, kind, more, length, expected) in [
            (b"hello".as_slice(), Some("text/plain"), false, None, "hello\n"),
            (b"", None, false, None, "[no body]\n"),
            (b"\x89PNG", Some("image/png"), false, None, "[binary body, image/png, 4 B: not shown]\n"),
            (b"a\0b", None, false, None, "[binary body, of unknown type, 3 B: not shown]\n"),
            (b"<svg/>", Some("image/svg+xml"), false, None, "<svg/>\n"),
            (b"caf\xe9 au lait", Some("text/plain"), false, None, "caf\u{FFFD} au lait\n"),
            (b"{}", Some("application/vnd.api+json"), false, None, "{}\n"),
            (
                b"abc\xc3",
                Some("text/html"),
                true,
                Some(2048),
                "abc\n[only the first 4 bytes of 2.0 KiB are shown; max_bytes gives more]\n",
            ),
        ] {
            assert_eq!(body_text(body, kind, more, length), expected);
        }
    }
}
