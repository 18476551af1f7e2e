//! What a call changed, as coloured lines.

use std::borrow::Cow;

use milk_core::tool::{FileAction, FileChange};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::sheet::Sheet;
use crate::cut;

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// Lines shown of one file.
const LINES_LIMIT: usize = 400;
/// Bytes shown of one line.
const LINE_LIMIT: usize = 600;
/// Files shown of one call.
const FILES_LIMIT: usize = 50;
/// Lines that differ up to which a row stands open.
const SHORT: usize = 24;
/// Most lines, old and new, between the first and the last difference that are compared one by one.
const COMPARED_LIMIT: usize = 4000;

/// The changes of a call, compared.
pub(super) struct Changes {
    files: Vec<File>,
    omitted: usize,
}

/// One file's change.
struct File {
    head: String,
    lines: Vec<Line>,
    /// Lines that are not shown.
    omitted: usize,
    added: usize,
    removed: usize,
    /// Why there are no lines, if there are none.
    silent: Option<&'static str>,
}

enum Line {
    Gap(usize, usize),
    Same(String),
    Added(String),
    Removed(String),
}

impl Changes {
    pub(super) fn of(sheet: &mut Sheet, changes: &[FileChange]) -> Self {
        let files = changes.iter().take(FILES_LIMIT).map(|change| File::of(sheet, change)).collect();
        Self { files, omitted: changes.len().saturating_sub(FILES_LIMIT) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether they are few enough to be seen without a tap.
    pub(super) fn are_short(&self) -> bool {
        let sum: usize = self.files.iter().map(|file| file.added + file.removed).sum();
        !self.is_empty() && sum <= SHORT && self.files.len() <= 3
    }
}

impl File {
    fn of(sheet: &mut Sheet, change: &FileChange) -> Self {
        let full = sheet.redact().path(&change.path);
        let path = sheet.near(&full);
        let head = match &change.action {
            FileAction::Create => format!("new {path}"),
            FileAction::Modify => path.to_owned(),
            FileAction::Delete => format!("deleted {path}"),
            FileAction::Move { from } => format!("{} → {path}", sheet.near(&sheet.redact().path(from))),
        };
        let head = sheet.one_line(&head, 1000);
        let mut file = Self { head, lines: Vec::new(), omitted: 0, added: 0, removed: 0, silent: None };
        // Redacted whole, as a secret may stand on several lines.
        let old = change.old_text.as_deref().map(|text| sheet.redact().clean(text));
        let new = change.new_text.as_deref().map(|text| sheet.redact().clean(text));
        match (&old, &new) {
            (None, None) => file.silent = Some("Not a text that is shown here."),
            _ if old == new => file.silent = Some("The text is the same."),
            _ => file.compare(sheet, old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default()),
        }
        file
    }

    fn compare(&mut self, sheet: &mut Sheet, old: &str, new: &str) {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let same_head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let rest = old.len().min(new.len()) - same_head;
        let pairs = old.iter().rev().zip(new.iter().rev()).take(rest);
        let same_tail = pairs.take_while(|(old, new)| old == new).count();
        let old_middle = &old[same_head..old.len() - same_tail];
        let new_middle = &new[same_head..new.len() - same_tail];
        let mut at = 0;
        for op in compared(sheet, old_middle, new_middle) {
            let (kind, was, is) = op.as_tag_tuple();
            if kind == similar::DiffTag::Equal {
                continue;
            }
            let (from, to) = (same_head + was.start, same_head + was.end);
            self.context(&old, at, from, same_head + is.start);
            self.removed += was.len();
            self.added += is.len();
            for line in &old_middle[was] {
                self.push(Line::Removed(shown_changed(line)));
            }
            for line in &new_middle[is] {
                self.push(Line::Added(shown_changed(line)));
            }
            at = to;
        }
        let tail_end = (at + CONTEXT).min(old.len());
        for line in &old[at..tail_end] {
            self.push(Line::Same(shown(line)));
        }
    }

    /// The unchanged lines between the last change, which ended at `at`, and the next, which begins at `next`.
    fn context(&mut self, old: &[&str], at: usize, next: usize, next_in_new: usize) {
        let after = if at == 0 && self.lines.is_empty() { 0 } else { CONTEXT };
        if next - at <= after + CONTEXT {
            for line in &old[at..next] {
                self.push(Line::Same(shown(line)));
            }
            return;
        }
        for line in &old[at..at + after] {
            self.push(Line::Same(shown(line)));
        }
        let start = next - CONTEXT;
        self.push(Line::Gap(start + 1, (next_in_new + 1).saturating_sub(CONTEXT)));
        for line in &old[start..next] {
            self.push(Line::Same(shown(line)));
        }
    }

    fn push(&mut self, line: Line) {
        if self.lines.len() < LINES_LIMIT { self.lines.push(line) } else { self.omitted += 1 }
    }
}

/// The differences, or one large one where finding them would cost too much.
fn compared(sheet: &mut Sheet, old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let lines = old.len() + new.len();
    let cost = (lines as u64).saturating_mul(lines as u64);
    if lines > COMPARED_LIMIT || !sheet.take_diff_steps(cost) {
        return vec![DiffOp::Replace { old_index: 0, old_len: old.len(), new_index: 0, new_len: new.len() }];
    }
    capture_diff_slices(Algorithm::Myers, old, new)
}

fn shown(line: &str) -> String {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = match cut::ends(line, LINE_LIMIT) {
        Some((first, _, last)) => Cow::Owned(format!("{first} … {last}")),
        None => Cow::Borrowed(line),
    };
    line.into_owned()
}

/// A line that changed, which may be in nothing but its end.
fn shown_changed(line: &str) -> String {
    let end = if line.ends_with('\n') { "" } else { " [no line feed at the end]" };
    shown(line) + end
}

/// How many lines came and went, in the row's summary.
pub(super) fn write_counts(sheet: &mut Sheet, changes: &Changes) {
    let (added, removed) = changes
        .files
        .iter()
        .fold((0, 0), |(added, removed), file| (added + file.added, removed + file.removed));
    if added + removed == 0 {
        return;
    }
    sheet.raw(" ·");
    if added > 0 {
        sheet.raw(" <span class=\"plus\">+");
        sheet.number(added as u64);
        sheet.raw("</span>");
    }
    if removed > 0 {
        sheet.raw(" <span class=\"minus\">−");
        sheet.number(removed as u64);
        sheet.raw("</span>");
    }
}

/// Writes the changes of a call.
pub(super) fn write(sheet: &mut Sheet, changes: &Changes) {
    for file in &changes.files {
        sheet.raw("<p class=\"label\"><code>");
        sheet.clean_text(&file.head);
        sheet.raw("</code></p>\n");
        match file.silent {
            Some(why) => {
                sheet.raw("<p class=\"quiet\">");
                sheet.raw(why);
                sheet.raw("</p>\n");
            }
            None => write_lines(sheet, file),
        }
    }
    if changes.omitted > 0 {
        sheet.raw("<p class=\"cut\">");
        sheet.number(changes.omitted as u64);
        sheet.raw(" more files are left out here.</p>\n");
    }
}

fn write_lines(sheet: &mut Sheet, file: &File) {
    sheet.raw("<pre class=\"diff\" tabindex=\"0\"><code>");
    for line in &file.lines {
        let (opening, sign, text) = match line {
            Line::Gap(old, new) => {
                sheet.raw("<span class=\"gap\">⋯ line ");
                sheet.bare_number((*old).max(1) as u64);
                sheet.raw(", now ");
                sheet.bare_number((*new).max(1) as u64);
                sheet.raw("</span>");
                continue;
            }
            Line::Same(text) => ("<span>", " ", text),
            Line::Added(text) => ("<ins>", "+", text),
            Line::Removed(text) => ("<del>", "-", text),
        };
        sheet.raw(opening);
        sheet.raw(sign);
        sheet.clean_text(text);
        sheet.raw(match sign {
            "+" => "\n</ins>",
            "-" => "\n</del>",
            _ => "\n</span>",
        });
    }
    sheet.raw("</code></pre>\n");
    if file.omitted > 0 {
        sheet.raw("<p class=\"cut\">");
        sheet.number(file.omitted as u64);
        sheet.raw(" more lines are left out here.</p>\n");
    }
}
