//! The address of a model server. May hold a secret (a password, a key in the query), so it prints without those.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use crate::secret::Secret;

/// An absolute `http` or `https` URL. `Display` and `Debug` leave out user, password, query and fragment (R37).
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl(Url);

/// Why a text is no server's address. Never holds the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It does not begin with `http://` or `https://`.
    #[error("needs to begin with http:// or https://")]
    Scheme,
    /// It cannot be parsed.
    #[error("is not a valid URL")]
    Malformed,
}

impl ServerUrl {
    /// Reads an address. `http://` may be left out for this machine (`localhost:11434`).
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        if text.contains("://") {
            return Self::with_scheme(text);
        }
        let url = Self::with_scheme(&format!("http://{text}"))?;
        if url.is_loopback() { Ok(url) } else { Err(UrlError::Scheme) }
    }

    fn with_scheme(text: &str) -> Result<Self, UrlError> {
        let mut url = Url::parse(text).map_err(|_| UrlError::Malformed)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme);
        }
        url.set_fragment(None);
        Ok(Self(url))
    }

    /// The whole URL, secrets included, for the one place that sends the request.
    pub fn expose(&self) -> &str {
        self.0.as_str()
    }

    /// Host and port without a scheme's usual port, as in `localhost:11434`.
    pub fn host(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Whether requests stay on this machine: `localhost`, a name under it, or a loopback address.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(ip)) => IpAddr::from(ip).is_loopback(),
            Some(Host::Ipv6(ip)) => ip.to_canonical().is_loopback(),
            None => false,
        }
    }

    /// This base with `path` added: exactly one slash between them, the query kept. Where the base already ends with the
    /// version that the path begins with (`…/v1` and `/v1/chat/completions`), it is said once.
    pub fn join(&self, path: &str) -> Self {
        let base = self.0.path().trim_end_matches('/');
        let path = path.trim_start_matches('/');
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        let repeated = !rest.is_empty() && is_version(first) && base.rsplit('/').next() == Some(first);
        let mut url = self.0.clone();
        url.set_path(&format!("{base}/{}", if repeated { rest } else { path }));
        Self(url)
    }

    /// The parts that must not be shown: the password, and every value in the query.
    pub fn secrets(&self) -> Vec<Secret> {
        let password = self.0.password().map(|encoded| {
            // As it was typed, which is what other texts would repeat.
            url::form_urlencoded::parse(format!("p={}", encoded.replace('+', "%2B")).as_bytes())
                .map(|(_, value)| value.into_owned())
                .collect::<String>()
        });
        let query = self.0.query_pairs().map(|(_, value)| value.into_owned());
        password.into_iter().chain(query).map(Secret::new).collect()
    }

    /// Whether both addresses are one origin: scheme, host and port.
    pub fn same_origin(&self, other: &Self) -> bool {
        self.0.origin() == other.0.origin()
    }
}

fn is_version(part: &str) -> bool {
    part.strip_prefix('v').is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.0.scheme(), self.host(), self.0.path())
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, expected) in [
            ("http://127.0.0.1:8080", Ok("http://127.0.0.1:8080/")),
            (" https://api.example.com/v1/ ", Ok("https://api.example.com/v1/")),
            ("localhost:11434", Ok("http://localhost:11434/")),
            ("[::1]:8080/v1", Ok("http://[::1]:8080/v1")),
            ("api.example.com", Err(UrlError::Scheme)),
            ("ftp://example.com", Err(UrlError::Scheme)),
            ("file:///etc/passwd", Err(UrlError::Scheme)),
            ("http://", Err(UrlError::Malformed)),
            ("http://[", Err(UrlError::Malformed)),
            ("", Err(UrlError::Malformed)),
        ] {
            let read = ServerUrl::parse(text).map(|url| url.to_string());
            assert_eq!(read.as_deref(), expected.as_ref().map(|s| &**s), "{text:?}");
        }
    }

    #[test]
    fn a_path_is_joined_with_one_slash_and_one_version() {
        let chat = "/v1/chat/completions";
        for (base, path, expected) in [
            ("http://h", chat, "http://h/v1/chat/completions"),
            ("http://h/", chat, "http://h/v1/chat/completions"),
            ("http://h/v1", chat, "http://h/v1/chat/completions"),
            ("http://h/v1/", chat, "http://h/v1/chat/completions"),
            ("http://h/openai", chat, "http://h/openai/v1/chat/completions"),
            ("http://h/api/v4", "/chat/completions", "http://h/api/v4/chat/completions"),
            ("http://h", "chat", "http://h/chat"),
            ("http://h/vendor", "/vendor/chat", "http://h/vendor/vendor/chat"),
            ("http://h/v1?key=abcdef", chat, "http://h/v1/chat/completions?key=abcdef"),
        ] {
            assert_eq!(ServerUrl::parse(base).unwrap().join(path).expose(), expected, "{base} {path}");
        }
    }

    #[test]
    fn this_machine_is_known_in_every_form() {
        for (text, loopback) in [
            ("http://localhost:1", true),
            ("http://LOCALHOST", true),
            ("http://a.localhost", true),
            ("http://127.9.9.9", true),
            ("http://[::1]", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example.com", false),
        ] {
            assert_eq!(ServerUrl::parse(text).unwrap().is_loopback(), loopback, "{text}");
        }
    }

    #[test]
    fn nothing_secret_is_printed() {
        let url = ServerUrl::parse("https://me:pass%20word@h.example/v1?key=sk-SECRET-123&x=1#frag").unwrap();
        assert_eq!(format!("{url} {url:?}"), "https://h.example/v1 ServerUrl(https://h.example/v1)");
        assert_eq!(url.secrets(), ["pass word", "sk-SECRET-123", "1"].map(Secret::new));
        assert!(url.expose().contains("sk-SECRET-123"));
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let url = |text| ServerUrl::parse(text).unwrap();
        assert!(url("https://h/a").same_origin(&url("https://h:443/b")));
        assert!(!url("https://h").same_origin(&url("http://h")));
        assert!(!url("https://h").same_origin(&url("https://h.evil")));
    }
}
