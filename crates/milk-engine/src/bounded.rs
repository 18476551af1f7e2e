//! Long texts, cut to what somebody is sent of them.

/// Head and tail of a text that is over its limit, in bytes, with a mark that says how much is gone.
pub(crate) fn bounded(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let head = text.floor_char_boundary(limit / 3 * 2);
    let tail = text.ceil_char_boundary(text.len() - limit / 3);
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_head_and_tail_and_whole_characters() {
        let text = "é".repeat(1_000);
        let cut = bounded(text, 300);
        assert!(
            cut.len() < 400 && cut.starts_with('é') && cut.ends_with('é') && cut.contains("bytes left out")
        );
        assert_eq!(bounded("short".to_owned(), 300), "short");
        assert_eq!(bounded("gone".to_owned(), 0), "\n[… 4 bytes left out …]\n");
    }
}
