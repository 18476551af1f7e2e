//! Where a model server is: base addresses as people write them, and the paths of its API.

use url::{Host, Url};

/// The path of the chat-completions call, unless an agent's `chat_path` says otherwise.
pub const CHAT_PATH: &str = "/v1/chat/completions";

/// A server's base address: `http` or `https`, with a host. Forms that people write all lead to the same place:
/// with or without scheme, slash at the end, `/v1`, or the whole path of the call.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl {
    url: Url,
}

/// Why an address cannot be used. Does not repeat the address, which may hold a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// Nothing is written there.
    #[error("the url is empty")]
    Empty,
    /// It does not parse.
    #[error("the url cannot be read ({0}); write it like http://localhost:11434/v1")]
    Unreadable(String),
    /// It is not an address of the web.
    #[error("the url begins with `{0}:`; only http and https are spoken")]
    Scheme(String),
}

impl std::fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BaseUrl({}://{}{})", self.url.scheme(), place(&self.url), self.url.path())
    }
}

impl BaseUrl {
    /// Reads an address. One without a scheme is taken as `http` when it is on this machine or a bare IP address,
    /// else as `https`.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let text = text.trim();
        if text.is_empty() {
            return Err(BadAddress::Empty);
        }
        let read = |text: &str| Url::parse(text).map_err(|error| BadAddress::Unreadable(error.to_string()));
        let url = if text.contains("://") {
            read(text)?
        } else {
            let plain = read(&format!("http://{text}"))?;
            if is_near(&plain) { plain } else { read(&format!("https://{text}"))? }
        };
        match url.scheme() {
            "http" | "https" => Ok(Self { url }),
            other => Err(BadAddress::Scheme(other.to_owned())),
        }
    }

    /// The address of the chat call.
    pub fn chat(&self, chat_path: Option<&str>) -> Url {
        match chat_path.map(str::trim).filter(|path| !path.is_empty()) {
            Some(path) => self.join(path),
            None if self.names_the_call() => self.url.clone(),
            None => self.join(if self.is_versioned() { "/chat/completions" } else { CHAT_PATH }),
        }
    }

    /// The address of the list of models.
    pub fn models(&self) -> Url {
        if self.names_the_call() {
            let mut base = self.url.clone();
            base.set_path(self.url.path().trim_end_matches('/').trim_end_matches("chat/completions"));
            return Self { url: base }.join("/models");
        }
        self.join(if self.is_versioned() { "/models" } else { "/v1/models" })
    }

    /// `host` or `host:port`, for people: no credential, no query.
    pub fn place(&self) -> String {
        place(&self.url)
    }

    /// The port, written or implied.
    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.url)
    }

    /// The parts of the address that may be secret: a password in it, and the values of its query.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let query = self.url.query_pairs().map(|(_, value)| value.into_owned());
        let password = self.url.password().map(str::to_owned);
        query.chain(password).filter(|secret| !secret.is_empty()).collect()
    }

    /// Whether the address already has the path of the chat call in it.
    fn names_the_call(&self) -> bool {
        self.url.path().trim_end_matches('/').ends_with("/chat/completions")
    }

    /// Whether a segment of the path is a version (`v1`, `v1beta`, `v4`), so that none is to be added.
    fn is_versioned(&self) -> bool {
        let is_version = |part: &str| {
            part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        self.url.path().split('/').any(is_version)
    }

    /// Appends a path; segments that the address already ends with are not doubled. Both may have a query.
    fn join(&self, path: &str) -> Url {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let segments =
            |path: &str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let (base, added): (Vec<String>, Vec<String>) = (segments(self.url.path()), segments(path));
        let most = base.len().min(added.len());
        let shared = (0..=most).rev().find(|count| base.ends_with(&added[..*count])).unwrap_or(0);
        let mut url = self.url.clone();
        url.set_path(&[&base[..], &added[shared..]].concat().join("/"));
        let queries: Vec<&str> =
            [self.url.query(), query].into_iter().flatten().filter(|q| !q.is_empty()).collect();
        url.set_query(Some(queries.join("&")).filter(|query| !query.is_empty()).as_deref());
        url
    }
}

/// `host` or `host:port` of an address.
pub(crate) fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether an address is on this machine: `localhost`, 127/8, `[::1]`, or an unspecified address.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => {
            let mapped = address.to_ipv4_mapped().is_some_and(|address| address.is_loopback());
            address.is_loopback() || address.is_unspecified() || mapped
        }
        None => false,
    }
}

fn is_near(url: &Url) -> bool {
    is_loopback(url) || matches!(url.host(), Some(Host::Ipv4(_) | Host::Ipv6(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn chat(base: &str) -> String {
        BaseUrl::parse(base).unwrap().chat(None).to_string()
    }

    #[test]
    fn case_097_every_form_of_a_base_address_leads_to_the_call() {
        let cases = [
            ("http://127.0.0.1:5", "http://127.0.0.1:5/v1/chat/completions"),
            ("http://127.0.0.1:5/", "http://127.0.0.1:5/v1/chat/completions"),
            ("http://127.0.0.1:5/v1", "http://127.0.0.1:5/v1/chat/completions"),
            ("http://127.0.0.1:5/v1//", "http://127.0.0.1:5/v1/chat/completions"),
            ("http://[::1]:5/v1", "http://[::1]:5/v1/chat/completions"),
            (" localhost:5/v1 ", "http://localhost:5/v1/chat/completions"),
            ("127.0.0.1:5", "http://127.0.0.1:5/v1/chat/completions"),
            ("192.168.1.5:8080", "http://192.168.1.5:8080/v1/chat/completions"),
            ("api.example.com", "https://api.example.com/v1/chat/completions"),
            ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/chat/completions"),
            ("https://openrouter.ai/api", "https://openrouter.ai/api/v1/chat/completions"),
            ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
            ("https://h/v1beta/openai/", "https://h/v1beta/openai/chat/completions"),
            ("https://h/api/paas/v4", "https://h/api/paas/v4/chat/completions"),
            ("https://h/x/chat/completions?api-version=1", "https://h/x/chat/completions?api-version=1"),
            ("https://h/v1?key=k", "https://h/v1/chat/completions?key=k"),
        ];
        for (base, expected) in cases {
            assert_eq!(chat(base), expected, "{base}");
        }
    }

    #[test]
    fn a_configured_path_is_taken_and_shared_segments_are_not_doubled() {
        let cases = [
            ("http://h", "/v1/chat/completions", "http://h/v1/chat/completions"),
            ("http://h/v1/", "v1/chat/completions", "http://h/v1/chat/completions"),
            ("http://h/v1", "/chat/completions", "http://h/v1/chat/completions"),
            (
                "http://h/d/x",
                "/chat/completions?api-version=2",
                "http://h/d/x/chat/completions?api-version=2",
            ),
            ("http://h?a=1", "/c?b=2", "http://h/c?a=1&b=2"),
            ("http://h", "", "http://h/v1/chat/completions"),
        ];
        for (base, path, expected) in cases {
            assert_eq!(BaseUrl::parse(base).unwrap().chat(Some(path)).as_str(), expected, "{base} + {path}");
        }
    }

    #[test]
    fn the_list_of_models_stands_beside_the_call() {
        let cases = [
            ("http://h", "http://h/v1/models"),
            ("http://h/v1/", "http://h/v1/models"),
            ("http://h/v1/chat/completions", "http://h/v1/models"),
            ("http://h/v1beta/openai", "http://h/v1beta/openai/models"),
        ];
        for (base, expected) in cases {
            assert_eq!(BaseUrl::parse(base).unwrap().models().as_str(), expected, "{base}");
        }
    }

    #[test]
    fn case_097_loopback_is_recognised() {
        let here = [
            "localhost:1",
            "http://LOCALHOST",
            "http://a.localhost",
            "http://127.9.9.9",
            "http://[::1]:1",
            "http://0.0.0.0:1",
            "http://[::ffff:127.0.0.1]",
        ];
        let elsewhere =
            ["http://localhost.example.com", "http://128.0.0.1", "http://[::2]", "http://127.0.0.1.nip.io"];
        assert!(here.iter().all(|text| BaseUrl::parse(text).unwrap().is_loopback()));
        assert!(!elsewhere.iter().any(|text| BaseUrl::parse(text).unwrap().is_loopback()));
    }

    #[test]
    fn what_cannot_be_an_address_is_refused_without_being_repeated() {
        assert_eq!(BaseUrl::parse("  "), Err(BadAddress::Empty));
        assert_eq!(BaseUrl::parse("ftp://h"), Err(BadAddress::Scheme("ftp".into())));
        let error = BaseUrl::parse("http://user:sk-SECRET@h:99999/").unwrap_err();
        assert!(
            matches!(error, BadAddress::Unreadable(_)) && !error.to_string().contains("SECRET"),
            "{error}"
        );
    }

    #[test]
    fn case_137_nothing_secret_is_shown_of_an_address() {
        let base = BaseUrl::parse("https://user:pass@h:8443/v1?key=sk-SECRET").unwrap();
        assert_eq!(format!("{base:?} {}", base.place()), "BaseUrl(https://h:8443/v1) h:8443");
        assert_eq!(base.secrets(), ["sk-SECRET", "pass"]);
    }
}
