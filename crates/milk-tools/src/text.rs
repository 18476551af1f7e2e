//! Text that is fit to be shown: bounded, valid, and with nothing in it that repaints a screen.

use std::borrow::Cow;
use std::collections::VecDeque;

/// The text on one line, with everything escaped that a terminal or an editor would act on instead of showing it:
/// control characters, direction overrides, invisible characters. For titles, where a person judges by what is seen.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => shown.push('⏎'),
            c if is_hidden(c) => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

/// Bytes as text: what is not UTF-8 becomes replacement marks, and so does NUL, which some model servers cannot take.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text.into_owned() }
}

/// At most `limit` bytes of a text, plus a mark: its head, a mark that counts what is left out, and its tail.
pub(crate) fn cap(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let mut ends = Ends::new(limit);
    ends.push(text.as_bytes());
    ends.finish()
}

/// The longest prefix of at most `limit` bytes that ends between characters.
pub(crate) fn prefix(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

/// One line of at most `limit` bytes; a longer one ends with a mark.
pub(crate) fn cut_line(line: &str, limit: usize) -> Cow<'_, str> {
    if line.len() <= limit {
        return Cow::Borrowed(line);
    }
    let kept = prefix(line, limit);
    Cow::Owned(format!("{kept}… [{} more bytes in this line]", line.len() - kept.len()))
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = 0;
    let mut tenths = u128::from(bytes) * 10 / 1024;
    while tenths >= 10240 && unit < UNITS.len() - 1 {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// The two ends of a stream of bytes whose middle may be arbitrarily long: memory stays below its limit.
#[derive(Debug)]
pub(crate) struct Ends {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Ends {
    /// Keeps `limit` bytes, half of them from each end.
    pub(crate) fn new(limit: usize) -> Self {
        Self { half: limit / 2, head: Vec::new(), tail: VecDeque::new(), left_out: 0 }
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        let room = self.half - self.head.len();
        if room > 0 {
            let (first, rest) = bytes.split_at(room.min(bytes.len()));
            self.head.extend_from_slice(first);
            bytes = rest;
        }
        let surplus = (self.tail.len() + bytes.len()).saturating_sub(self.half);
        if surplus == 0 {
            self.tail.extend(bytes);
            return;
        }
        self.left_out += surplus as u64;
        let from_tail = surplus.min(self.tail.len());
        self.tail.drain(..from_tail);
        self.tail.extend(&bytes[surplus - from_tail..]);
    }

    /// What was kept, as text of at most the limit, plus a mark where something is left out.
    pub(crate) fn finish(self) -> String {
        let (a, b) = self.tail.as_slices();
        let tail = [a, b].concat();
        if self.left_out == 0 {
            let text = lossy(&[self.head, tail].concat());
            // Replacement marks are longer than what they stand for.
            return if text.len() <= self.half * 2 { text } else { joined(&text, &text, self.half, 0) };
        }
        let head = &self.head[..whole_characters(&self.head)];
        // A character that the cut went through leaves at most three bytes of itself.
        let start = tail.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count();
        let left_out = self.left_out + (self.head.len() - head.len() + start) as u64;
        joined(&lossy(head), &lossy(&tail[start..]), self.half, left_out)
    }
}

/// The head of one text and the tail of another, `half` bytes of each, and a mark between them. Both may be the same text;
/// `left_out` bytes lay between them.
fn joined(head: &str, tail: &str, half: usize, left_out: u64) -> String {
    let kept_head = prefix(head, half);
    let kept_tail = &tail[tail.ceil_char_boundary(tail.len().saturating_sub(half))..];
    let dropped = if std::ptr::eq(head, tail) {
        head.len() - kept_head.len() - kept_tail.len()
    } else {
        head.len() - kept_head.len() + tail.len() - kept_tail.len()
    };
    let left_out = left_out + dropped as u64;
    let line_end = if kept_head.ends_with('\n') { "" } else { "\n" };
    format!("{kept_head}{line_end}[… {left_out} bytes left out …]\n{kept_tail}")
}

/// How much of these bytes is not the beginning of a character that is still to be completed.
fn whole_characters(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(3);
    let lead = bytes[start..].iter().rposition(|byte| !(0x80..0xC0).contains(byte));
    let Some(lead) = lead.map(|at| start + at) else { return bytes.len() };
    let length = match bytes[lead] {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    };
    if lead + length > bytes.len() { lead } else { bytes.len() }
}

/// Turns a stream of bytes into pieces of text; a character that comes in two reads stays whole.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    begun: Vec<u8>,
}

impl Decoder {
    /// The text that is complete with these bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let rest = self.begun.split_off(whole_characters(&self.begun));
        lossy(&std::mem::replace(&mut self.begun, rest))
    }

    /// What was begun and never completed.
    pub(crate) fn finish(&mut self) -> String {
        lossy(&std::mem::take(&mut self.begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repaints_is_shown_escaped_056() {
        for (text, shown) in [
            ("ls -la", "ls -la"),
            ("rm -rf build\r\u{1b}[2Kls -la", r"rm -rf build\r\u{1b}[2Kls -la"),
            ("a\u{202e}b", r"a\u{202e}b"),
            ("a\0b", r"a\u{0}b"),
            ("\u{1b}]52;c;aGk=\u{7}", r"\u{1b}]52;c;aGk=\u{7}"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("a\u{200b}\u{2066}\u{e0041}b", r"a\u{200b}\u{2066}\u{e0041}b"),
            ("a\nb\tc", "a⏎b\\tc"),
            ("é 漢 👩‍👧", "é 漢 👩\\u{200d}👧"),
        ] {
            assert_eq!(visible(text), shown, "{text:?}");
        }
    }

    #[test]
    fn caps_keep_both_ends_and_whole_characters_t10() {
        assert_eq!(cap("short".into(), 100), "short");
        for limit in 10..40 {
            let capped = cap("é漢👩".repeat(100), limit);
            assert!(!capped.contains('\u{FFFD}'), "{limit}: {capped}");
            assert!(capped.starts_with('é') && capped.ends_with('👩'), "{limit}: {capped}");
            assert!(capped.contains("bytes left out"), "{limit}: {capped}");
            assert!(capped.len() <= limit + 40, "{limit}: {}", capped.len());
        }
        let capped = cap("0123456789".repeat(10), 20);
        assert_eq!(capped, "0123456789\n[… 80 bytes left out …]\n0123456789");
    }

    #[test]
    fn replacement_marks_do_not_break_the_limit() {
        for length in [90, 100, 150, 300, 1000, 10_000] {
            let mut ends = Ends::new(300);
            ends.push(&vec![0xFF; length]);
            let text = ends.finish();
            assert!(text.len() <= 300 + 40, "{length}: {}", text.len());
            assert_eq!(text.contains("left out"), length > 100, "{length}");
        }
    }

    #[test]
    fn ends_do_not_depend_on_the_reads() {
        let all: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let mut whole = Ends::new(300);
        whole.push(&all);
        let whole = whole.finish();
        for size in [1, 7, 149, 150, 151, 299, 300, 1024] {
            let mut ends = Ends::new(300);
            all.chunks(size).for_each(|piece| ends.push(piece));
            assert!(ends.head.len() + ends.tail.len() <= 300);
            assert_eq!(ends.finish(), whole, "{size}");
        }
    }

    #[test]
    fn what_fits_is_kept_to_the_byte() {
        for length in [0, 1, 149, 150, 151, 299, 300] {
            let text = "x".repeat(length);
            let mut ends = Ends::new(300);
            ends.push(text.as_bytes());
            assert_eq!(ends.finish(), text);
        }
    }

    #[test]
    fn characters_survive_being_split() {
        let text = "aé漢👩z\n".repeat(3);
        for size in 1..8 {
            let mut decoder = Decoder::default();
            let mut got: String = text.as_bytes().chunks(size).map(|piece| decoder.push(piece)).collect();
            got.push_str(&decoder.finish());
            assert_eq!(got, text, "{size}");
        }
    }

    #[test]
    fn bad_bytes_are_marked_and_never_held_back_069() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"\xff\xfeA\xf0B"), "\u{FFFD}\u{FFFD}A\u{FFFD}B");
        assert_eq!(decoder.push(b"\x80\x80\x80\x80"), "\u{FFFD}".repeat(4));
        assert_eq!(decoder.push(b"x\xf0\x9f"), "x");
        assert_eq!(decoder.finish(), "\u{FFFD}");
        assert_eq!(lossy(b"a\0b"), "a\u{FFFD}b");
    }

    #[test]
    fn sizes_and_lines_for_people() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
        assert_eq!(cut_line("short", 10), "short");
        assert_eq!(cut_line("ééé", 3), "é… [4 more bytes in this line]");
    }
}
