//! Finds the end of a JSON value while it is being written, looking at each byte once.

/// How deep in a value the text so far ends. Looks at brackets and strings only; what is between is not checked.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Balance {
    depth: usize,
    place: Place,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Outside,
    InString,
    BehindBackslash,
    /// The value is whole; nothing behind it counts.
    Closed,
}

impl Balance {
    /// Reads on. Gives the length of the part that belongs to the value when it ends here, once.
    pub(super) fn read(&mut self, text: &str) -> Option<usize> {
        for (at, byte) in text.bytes().enumerate() {
            self.place = match (self.place, byte) {
                (Place::Closed, _) => return None,
                (Place::InString, b'\\') => Place::BehindBackslash,
                (Place::InString, b'"') if self.depth == 0 => Place::Closed,
                (Place::InString, b'"') => Place::Outside,
                (Place::BehindBackslash, _) | (Place::Outside, b'"') => Place::InString,
                (Place::Outside, b'{' | b'[') => {
                    self.depth += 1;
                    Place::Outside
                }
                (Place::Outside, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 { Place::Closed } else { Place::Outside }
                }
                (place, _) => place,
            };
            if self.place == Place::Closed {
                return Some(at + 1);
            }
        }
        None
    }

    /// Whether the value is whole.
    pub(super) fn is_closed(self) -> bool {
        self.place == Place::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn the_end_is_found_wherever_the_text_is_cut() {
        let text = r#" {"a": ["}\"]", {"b": []}]} tail}"#;
        let end = text.find(" tail").unwrap();
        for cut in 0..text.len() {
            let mut balance = Balance::default();
            let found =
                balance.read(&text[..cut]).or_else(|| balance.read(&text[cut..]).map(|length| cut + length));
            assert_eq!((found, balance.is_closed()), (Some(end), true), "cut at {cut}");
        }
        assert_eq!(Balance::default().read(r#""{\"a\"" x"#), Some(8));
        assert_eq!(Balance::default().read(r#"{"a": "}"#), None);
    }
}
