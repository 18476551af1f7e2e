//! Headers with secrets in them.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::secret::Secret;

/// Adds configured headers; an error is the name of the first one that cannot be sent.
pub(crate) fn headers(configured: &[(String, Secret)], mut headers: HeaderMap) -> Result<HeaderMap, String> {
    for (name, value) in configured {
        let (Ok(key), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(value.reveal()))
        else {
            return Err(name.clone());
        };
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// The `Authorization` header of a token; nothing if the token cannot stand in a header.
pub(crate) fn bearer(token: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal())).ok()?;
    value.set_sensitive(true);
    Some(value)
}
