//! Shortening texts, on the boundaries of characters.

/// The first `limit` characters, and whether that was not all.
pub(crate) fn head(text: &str, limit: usize) -> (&str, bool) {
    match text.char_indices().nth(limit) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}

/// The first and the last part of a text that is longer than `limit` bytes, two thirds and one third, and how many
/// bytes are left out between them.
pub(crate) fn ends(text: &str, limit: usize) -> Option<(&str, usize, &str)> {
    if text.len() <= limit {
        return None;
    }
    let first = text.floor_char_boundary(limit / 3 * 2);
    let last = text.ceil_char_boundary(text.len() - limit / 3);
    Some((&text[..first], last - first, &text[last..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_keep_characters_whole() {
        assert_eq!(head("åßç", 2), ("åß", true));
        assert_eq!(head("åßç", 3), ("åßç", false));
    }

    #[test]
    fn ends_keep_characters_whole() {
        assert_eq!(ends("short", 5), None);
        assert_eq!(ends("aaaaaaßßbbb", 9), Some(("aaaaaa", 4, "bbb")));
        assert_eq!(ends("aaaaaßßßbb", 9), Some(("aaaaa", 6, "bb")));
    }
}
