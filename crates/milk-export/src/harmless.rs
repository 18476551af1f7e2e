//! Characters that could repaint a terminal, reorder a line or cut a text short, made visible instead.

/// What stands for a character that does something other than showing itself; `None` for all others. Line feeds and
/// tabs are left alone, and so are the marks and joiners that right-to-left writing and emoji need.
pub(crate) fn stand_in(c: char) -> Option<&'static str> {
    Some(match c {
        '\n' | '\t' => return None,
        // The pictures of the control characters stand at U+2400 in the same order.
        '\0'..='\u{1f}' => CONTROL_PICTURES[c as usize],
        '\u{7f}' => "␡",
        '\u{80}'..='\u{9f}' => "\u{fffd}",
        '\u{2028}' | '\u{2029}' => "\n",
        '\u{202a}' => "[U+202A]",
        '\u{202b}' => "[U+202B]",
        '\u{202c}' => "[U+202C]",
        '\u{202d}' => "[U+202D]",
        '\u{202e}' => "[U+202E]",
        '\u{2066}' => "[U+2066]",
        '\u{2067}' => "[U+2067]",
        '\u{2068}' => "[U+2068]",
        '\u{2069}' => "[U+2069]",
        _ => return None,
    })
}

const CONTROL_PICTURES: [&str; 32] = [
    "␀", "␁", "␂", "␃", "␄", "␅", "␆", "␇", "␈", "␉", "␊", "␋", "␌", "␍", "␎", "␏", "␐", "␑", "␒", "␓", "␔",
    "␕", "␖", "␗", "␘", "␙", "␚", "␛", "␜", "␝", "␞", "␟",
];

/// A text of many lines: line ends become line feeds, everything else that is dangerous becomes visible.
pub(crate) fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\r' && rest.peek() == Some(&'\n') {
            continue;
        }
        match stand_in(c) {
            Some(shown) => out.push_str(shown),
            None => out.push(c),
        }
    }
    out
}

/// A text as one line: white space collapsed, everything that is dangerous visible.
pub(crate) fn line(text: &str) -> String {
    lines(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_repaints_or_reorders() {
        assert_eq!(lines("a\x1b[2J\0b\x7f\u{9b}31m"), "a␛[2J␀b␡\u{fffd}31m");
        assert_eq!(lines("one\r\ntwo\rthree\tfour"), "one\ntwo␍three\tfour");
        assert_eq!(lines("x\u{202e}y\u{2066}z"), "x[U+202E]y[U+2066]z");
        assert_eq!(line("  a\n\tb\u{2028}c  "), "a b c");
    }

    #[test]
    fn ordinary_writing_is_left_alone() {
        let text = "עברית\u{200f}! 👨‍👩‍👧 naïve ﷽ 日本語";
        assert_eq!(lines(text), text);
    }
}
