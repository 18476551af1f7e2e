//! A git patch of file changes, for v2's diffs.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use milk_core::tool::{FileAction, FileChange};
use similar::TextDiff;

/// Texts of more bytes, old and new together, get no patch: the protocol lets it be left out.
const LIMIT: usize = 512 << 10;

/// After this time a coarser diff is good enough.
const TIME: Duration = Duration::from_millis(50);

/// The patch of those changes that are text and of bearable size; `None` where nothing is left. Paths are written
/// from the root, without its slash.
pub(crate) fn git_patch(changes: &[FileChange]) -> Option<String> {
    let mut patch = String::new();
    for change in changes {
        if is_text(change) {
            // Writing to a String cannot fail.
            let _ = write_change(&mut patch, change);
        }
    }
    (!patch.is_empty()).then_some(patch)
}

fn is_text(change: &FileChange) -> bool {
    let size = |text: &Option<std::sync::Arc<str>>| text.as_ref().map_or(0, |text| text.len());
    let expected = match change.action {
        FileAction::Create => change.new_text.is_some(),
        FileAction::Delete => change.old_text.is_some(),
        FileAction::Modify | FileAction::Move { .. } => {
            change.old_text.is_some() && change.new_text.is_some()
        }
    };
    expected && size(&change.old_text) + size(&change.new_text) <= LIMIT
}

fn write_change(patch: &mut String, change: &FileChange) -> std::fmt::Result {
    let from = match &change.action {
        FileAction::Move { from } => from,
        _ => &change.path,
    };
    let (a, b) = (name("a", from), name("b", &change.path));
    writeln!(patch, "diff --git {a} {b}")?;
    match &change.action {
        FileAction::Create => writeln!(patch, "new file mode 100644")?,
        FileAction::Delete => writeln!(patch, "deleted file mode 100644")?,
        FileAction::Modify => {}
        FileAction::Move { from } => {
            writeln!(patch, "rename from {}", name("", from))?;
            writeln!(patch, "rename to {}", name("", &change.path))?;
        }
    }
    let old = change.old_text.as_deref().unwrap_or_default();
    let new = change.new_text.as_deref().unwrap_or_default();
    if old == new {
        return Ok(());
    }
    let a = if matches!(change.action, FileAction::Create) { "/dev/null" } else { &a };
    let b = if matches!(change.action, FileAction::Delete) { "/dev/null" } else { &b };
    let diff = TextDiff::configure().timeout(TIME).diff_lines(old, new);
    write!(patch, "--- {a}\n+++ {b}\n{}", diff.unified_diff().context_radius(3))
}

/// A path as git writes it: quoted where it holds what would break the line.
fn name(side: &str, path: &Path) -> String {
    let path = path.to_string_lossy();
    let path = path.trim_start_matches('/');
    let plain = if side.is_empty() { path.to_owned() } else { format!("{side}/{path}") };
    if !plain.contains(|c: char| c.is_control() || matches!(c, '"' | '\\')) {
        return plain;
    }
    let mut quoted = String::from("\"");
    for c in plain.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(quoted, "\\{byte:03o}");
                }
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn change(action: FileAction, path: &str, old: Option<&str>, new: Option<&str>) -> FileChange {
        FileChange { action, path: path.into(), old_text: old.map(Into::into), new_text: new.map(Into::into) }
    }

    #[test]
    fn a_patch_of_every_action() {
        let changes = [
            change(FileAction::Modify, "/w/a.txt", Some("1\n2\n3\n"), Some("1\nzwei\n3\n")),
            change(FileAction::Create, "/w/new", None, Some("hi")),
            change(FileAction::Delete, "/w/gone", Some("bye\n"), None),
            change(FileAction::Move { from: "/w/x".into() }, "/w/y", Some("same\n"), Some("same\n")),
            change(FileAction::Create, "/w/binary", None, None),
        ];
        assert_eq!(
            git_patch(&changes).unwrap(),
            "diff --git a/w/a.txt b/w/a.txt\n--- a/w/a.txt\n+++ b/w/a.txt\n@@ -1,3 +1,3 @@\n 1\n-2\n+zwei\n 3\n\
             diff --git a/w/new b/w/new\nnew file mode 100644\n--- /dev/null\n+++ b/w/new\n@@ -0,0 +1 @@\n+hi\n\
             \\ No newline at end of file\n\
             diff --git a/w/gone b/w/gone\ndeleted file mode 100644\n--- a/w/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n\
             diff --git a/w/x b/w/y\nrename from w/x\nrename to w/y\n"
        );
    }

    #[test]
    fn no_patch_where_there_is_nothing_to_show() {
        assert_eq!(git_patch(&[]), None);
        assert_eq!(git_patch(&[change(FileAction::Modify, "/w/b", None, None)]), None);
        let big = "x\n".repeat(LIMIT);
        assert_eq!(git_patch(&[change(FileAction::Create, "/w/big", None, Some(&big))]), None);
    }

    #[test]
    fn a_name_cannot_break_out_of_its_line() {
        let patch =
            git_patch(&[change(FileAction::Create, "/w/a\n+++ b/etc\t\"", None, Some("x\n"))]).unwrap();
        assert!(patch.starts_with("diff --git \"a/w/a\\n+++ b/etc\\t\\\"\" "), "{patch}");
        assert_eq!(patch.lines().count(), 6, "{patch}");
    }
}
