//! Replacing a passage of a text whose line ends may be of either kind, also mixed: passages are found whatever their
//! line ends are, and lines that do not change keep theirs.

use std::borrow::Cow;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// How many of the passages that match are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The only one; more are an error.
    Unique,
    All,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spliced {
    pub(super) text: String,
    pub(super) replacements: usize,
    /// Line of the first one, counted from 1.
    pub(super) first_line: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoSplice {
    /// The passage is not there. A line where one begins that differs in white space only is told.
    Missing { alike: Option<usize> },
    /// It is there more than once: how often, and in which lines the first few begin.
    Ambiguous { count: usize, lines: Vec<usize> },
    /// The text would grow beyond the limit.
    TooLong,
}

/// Lines of an ambiguous passage that are told.
const LINES_TOLD: usize = 5;
/// Comparing the lines of a passage takes no longer; beyond, line ends are given less cleverly.
const COMPARING: Duration = Duration::from_millis(200);

/// Replaces `old` by `new` in `text`, unless that would make more than `longest` bytes; told before any of it is made.
pub(super) fn splice(
    text: &str,
    old: &str,
    new: &str,
    scope: Scope,
    longest: usize,
) -> Result<Spliced, NoSplice> {
    let normal = Normal::of(text);
    let (old, new) = (newlines(old), newlines(new));
    let found: Vec<usize> = normal.text.match_indices(&*old).map(|(at, _)| at).collect();
    let line_of = |at: usize| normal.text[..at].matches('\n').count() + 1;
    match found.as_slice() {
        [] => return Err(NoSplice::Missing { alike: alike(&normal.text, &old) }),
        [_, _, ..] if scope == Scope::Unique => {
            let lines = found.iter().take(LINES_TOLD).map(|at| line_of(*at)).collect();
            return Err(NoSplice::Ambiguous { count: found.len(), lines });
        }
        _ => {}
    }
    let grown = new.len().saturating_sub(old.len()).saturating_mul(found.len()).saturating_add(text.len());
    if grown > longest {
        return Err(NoSplice::TooLong);
    }
    let mut result = String::with_capacity(text.len() + new.len());
    let mut copied = 0;
    for at in &found {
        let passage = normal.original(*at..at + old.len());
        result.push_str(&text[copied..passage.start]);
        if normal.carriage_returns.is_empty() {
            result.push_str(&new);
        } else {
            replace_lines(&mut result, &text[passage.clone()], &new, normal.line_end_at(*at));
        }
        copied = passage.end;
    }
    result.push_str(&text[copied..]);
    Ok(Spliced {
        text: result,
        replacements: found.len(),
        first_line: found.first().map_or(1, |at| line_of(*at)),
    })
}

/// A text with every line end as a newline alone, and where carriage returns were.
struct Normal<'a> {
    text: Cow<'a, str>,
    /// Places of newlines in `text` that had a carriage return before them.
    carriage_returns: Vec<usize>,
}

impl<'a> Normal<'a> {
    fn of(text: &'a str) -> Self {
        let carriage_returns =
            text.match_indices("\r\n").enumerate().map(|(before, (at, _))| at - before).collect();
        Self { text: newlines(text), carriage_returns }
    }

    fn original(&self, range: Range<usize>) -> Range<usize> {
        let shift = |at: usize| at + self.carriage_returns.partition_point(|place| *place < at);
        shift(range.start)..shift(range.end)
    }

    /// The line end of the line that holds this place, or of the line before if it is the last.
    fn line_end_at(&self, at: usize) -> &'static str {
        let newline = self.text[at..].find('\n').map(|offset| at + offset);
        let newline = newline.or_else(|| self.text[..at].rfind('\n'));
        match newline {
            Some(place) if self.carriage_returns.binary_search(&place).is_ok() => "\r\n",
            _ => "\n",
        }
    }
}

fn newlines(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// Writes `new` in the place of `passage`: equal lines as they were, changed ones with the line end of the line that
/// they stand for, further ones with that of their neighbour.
fn replace_lines(result: &mut String, passage: &str, new: &str, fallback: &str) {
    let original: Vec<&str> = passage.split_inclusive('\n').collect();
    let old: Vec<Cow<'_, str>> = original.iter().map(|line| newlines(line)).collect();
    let new: Vec<Cow<'_, str>> = new.split_inclusive('\n').map(Cow::Borrowed).collect();
    let line_end = |index: usize| match original.get(index) {
        Some(line) if line.ends_with("\r\n") => "\r\n",
        Some(line) if line.ends_with('\n') => "\n",
        _ => fallback,
    };
    let mut put = |line: &str, end: &str| match line.strip_suffix('\n') {
        Some(line) => {
            result.push_str(line);
            result.push_str(end);
        }
        None => result.push_str(line),
    };
    let deadline = Some(Instant::now() + COMPARING);
    for op in capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline) {
        match op {
            DiffOp::Equal { old_index, len, .. } => {
                (old_index..old_index + len).for_each(|index| put(&old[index], line_end(index)));
            }
            DiffOp::Delete { .. } => {}
            DiffOp::Insert { old_index, new_index, new_len } => {
                let end = old_index.checked_sub(1).map_or(fallback, line_end);
                (new_index..new_index + new_len).for_each(|index| put(&new[index], end));
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                let last = old_len.saturating_sub(1);
                for offset in 0..new_len {
                    put(&new[new_index + offset], line_end(old_index + offset.min(last)));
                }
            }
        }
    }
}

/// The first line where a passage begins that is `old` but for white space at the ends of lines.
fn alike(text: &str, old: &str) -> Option<usize> {
    let wanted: Vec<&str> = old.trim().lines().map(str::trim).collect();
    let first = wanted.first().filter(|line| !line.is_empty())?;
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = |at: &usize| lines[*at] == *first && lines[*at..].starts_with(&wanted);
    (0..lines.len()).find(begins).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: usize = 1 << 20;

    #[test]
    fn line_ends_stay_072() {
        for (text, old, new, expected) in [
            // The three of the case.
            ("a\r\nb\r\nc\r\n", "b\nc", "B\nC", "a\r\nB\r\nC\r\n"),
            ("\u{FEFF}a\nb", "b", "B", "\u{FEFF}a\nB"),
            ("a\r\nb\nc\r\n", "b", "B", "a\r\nB\nc\r\n"),
            // And around them.
            ("\u{FEFF}a\r\nb", "a\nb", "x\ny\nz", "\u{FEFF}x\r\ny\r\nz"),
            ("a\nb\nc\n", "a\r\nb", "A\r\nB", "A\nB\nc\n"),
            ("a\r\nb\nc\r\n", "a\nb\nc\n", "a\nb\nc\nd\n", "a\r\nb\nc\r\nd\r\n"),
            ("a\r\nb\nc\r\n", "a\nb\nc\n", "a\nx\nb\nc\n", "a\r\nx\r\nb\nc\r\n"),
            ("a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", "a\r\nB\nc\r\n"),
            ("a\r\nb\r\nc\r\n", "b\n", "", "a\r\nc\r\n"),
            ("a\r\nb\r\n", "b", "b1\nb2", "a\r\nb1\r\nb2\r\n"),
            ("a\r\nb", "b", "b1\nb2", "a\r\nb1\r\nb2"),
            ("one", "one", "one\ntwo", "one\ntwo"),
            ("a\r\nb\r\n", "\nb\n", "\nB\n", "a\r\nB\r\n"),
            ("x\r\ny\r\n", "x\r\ny", "z", "z\r\n"),
            ("lone\rcr\n", "cr", "CR", "lone\rCR\n"),
        ] {
            let got = splice(text, old, new, Scope::Unique, LONGEST).unwrap();
            assert_eq!(got.text, expected, "{text:?} {old:?} → {new:?}");
        }
    }

    #[test]
    fn all_or_one() {
        let text = "x = 1\r\ny\r\nx = 1\r\n";
        let all = splice(text, "x = 1", "x = 2", Scope::All, LONGEST).unwrap();
        assert_eq!(all.text, "x = 2\r\ny\r\nx = 2\r\n");
        assert_eq!((all.replacements, all.first_line), (2, 1));
        assert_eq!(
            splice(text, "x = 1", "x = 2", Scope::Unique, LONGEST),
            Err(NoSplice::Ambiguous { count: 2, lines: vec![1, 3] })
        );
        let one = splice(text, "y\nx", "y\nz", Scope::Unique, LONGEST).unwrap();
        assert_eq!((one.text.as_str(), one.first_line), ("x = 1\r\ny\r\nz = 1\r\n", 2));
    }

    #[test]
    fn the_limit_counts_before_anything_is_made() {
        let all = |longest| splice("aba", "a", "xyz", Scope::All, longest);
        assert_eq!(all(7).unwrap().text, "xyzbxyz");
        assert_eq!(all(6), Err(NoSplice::TooLong));
        let many = "a".repeat(1 << 20);
        assert_eq!(splice(&many, "a", &many, Scope::All, 16 << 20), Err(NoSplice::TooLong));
        assert!(splice(&many, "a", "", Scope::All, many.len()).unwrap().text.is_empty());
    }

    #[test]
    fn what_is_almost_there_is_told() {
        let text = "fn a() {\n    one();\n\ttwo();\n}\n";
        for (old, alike) in [
            ("one();\ntwo();", Some(2)),
            ("    one();\n    two();\n", Some(2)),
            ("three();", None),
            ("  \n", None),
        ] {
            assert_eq!(
                splice(text, old, "", Scope::Unique, LONGEST),
                Err(NoSplice::Missing { alike }),
                "{old:?}"
            );
        }
    }

    #[test]
    fn only_the_passage_changes() {
        let lines = |end: &str| (0..3000).map(|n| format!("line {n}{end}")).collect::<Vec<_>>().concat();
        for end in ["\n", "\r\n"] {
            let text = lines(end);
            let got = splice(&text, "line 1500\nline 1501\n", "new\n", Scope::Unique, LONGEST).unwrap();
            let expected = text.replace(&format!("line 1500{end}line 1501{end}"), &format!("new{end}"));
            assert_eq!(got.text, expected);
            assert_eq!(got.first_line, 1501);
        }
    }

    /// But for line ends an edit is a plain replacement, and lines that it does not touch keep theirs: over many small
    /// texts, made by a fixed sequence.
    #[test]
    fn any_edit_is_a_replacement_but_for_line_ends() {
        let mut seed = 1_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut text = |longest: u64| {
            let length = next(longest);
            (0..length)
                .map(|_| ["a", "b", "\n", "\r\n", "\r", "é"][usize::try_from(next(6)).unwrap()])
                .collect::<String>()
        };
        let mut edits = 0;
        for _ in 0..20_000 {
            let (file, old, new) = (text(12), text(4), text(5));
            if old.is_empty() {
                continue;
            }
            let Ok(got) = splice(&file, &old, &new, Scope::All, LONGEST) else { continue };
            edits += 1;
            let plain = newlines(&file).replace(&*newlines(&old), &newlines(&new));
            assert_eq!(
                newlines(&got.text).replace('\r', ""),
                plain.replace('\r', ""),
                "{file:?} {old:?} → {new:?}"
            );
            if !file.contains("\r\n") {
                assert_eq!(got.text, plain, "{file:?} {old:?} → {new:?}");
            }
        }
        assert!(edits > 1000, "{edits}");
    }
}
