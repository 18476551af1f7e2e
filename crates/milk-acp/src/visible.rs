//! Text that a person decides by, made safe to look at: what could repaint, reorder or hide a part of it is shown as an
//! escape.

use std::borrow::Cow;
use std::fmt::Write as _;

/// For titles: one line. Line breaks and tabs are escaped too.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// For descriptions: line breaks and tabs stay.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let deceives = |c: char| is_deceptive(c) && !keep(c);
    if !text.contains(deceives) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !deceives(c) => shown.push(c),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            // Writing to a String cannot fail.
            c => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    Cow::Owned(shown)
}

/// Control characters, direction overrides, and characters that take no room. Joiners stay: emoji and several
/// scripts need them.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061C}'
                | '\u{200B}'
                | '\u{200E}'
                | '\u{200F}'
                | '\u{2028}'..='\u{202E}'
                | '\u{2060}'..='\u{2069}'
                | '\u{FEFF}'
                | '\u{FFF9}'..='\u{FFFB}'
                | '\u{E0000}'..='\u{E007F}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_repaint_a_question_is_shown_as_an_escape() {
        let cases = [
            ("ls -la", "ls -la", "ls -la"),
            ("rm -rf build\r\u{1b}[2Kls", r"rm -rf build\r\u{1b}[2Kls", r"rm -rf build\r\u{1b}[2Kls"),
            ("a\u{202E}b", r"a\u{202e}b", r"a\u{202e}b"),
            ("a\0b", r"a\u{0}b", r"a\u{0}b"),
            ("\u{1b}]52;c;aGk=\u{7}", r"\u{1b}]52;c;aGk=\u{7}", r"\u{1b}]52;c;aGk=\u{7}"),
            ("\u{9b}2J\u{85}", r"\u{9b}2J\u{85}", r"\u{9b}2J\u{85}"),
            ("cat <<E\n\tx\nE", r"cat <<E\n\tx\nE", "cat <<E\n\tx\nE"),
            ("👨‍👩‍👧 naïve", "👨‍👩‍👧 naïve", "👨‍👩‍👧 naïve"),
        ];
        for (text, as_line, as_lines) in cases {
            assert_eq!(line(text), as_line);
            assert_eq!(lines(text), as_lines);
        }
    }
}
