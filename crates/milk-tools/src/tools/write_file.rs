//! `write_file`: a whole file, new or replaced.

use std::path::Path;
use std::sync::Arc;

use milk_core::tool::{FileAction, FileChange, Location, PreparedCall, ToolError, ToolKind, ToolOutcome};

use crate::args::{Param, Shape};
use crate::builtin::{Call, Prepare, Row, Stop, running_on_disk};
use crate::env::Shared;
use crate::paths::{FinalLink, Spot, writing};
use crate::snapshot::{Before, SHOWN_LIMIT, cannot, shown, what};

pub(crate) const ROW: Row = Row {
    name: "write_file",
    kind: ToolKind::Edit,
    about: include_str!("write_file.md"),
    params: &[
        Param::required("path", Shape::Text, "The file.").or_named("file_path"),
        Param::required("content", Shape::Document, "The whole content."),
    ],
    prepare: Prepare::OnDisk(prepare),
};

fn prepare(call: &Call) -> Result<PreparedCall, ToolError> {
    let path = call.args.filled("path")?;
    let content = call.args.text("content")?;
    if path.ends_with('/') {
        return Err(ToolError::new(format!(
            "{path} names a folder; a file is written with its folders at once"
        )));
    }
    let spot = Spot::find(&call.shared, &call.workspace, &path, FinalLink::Followed)?;
    refuse_what_is_no_file(&spot.real)?;
    let before = Before::look(&spot.real, SHOWN_LIMIT)?;
    let (content, kept) = match &before {
        Before::Text(old) => keep_conventions(old, content),
        Before::Missing | Before::Other(_) => (content, ""),
    };
    let content: Arc<str> = content.into();
    let same = matches!(&before, Before::Text(old) if *old == content);
    let (action, replaced) = match &before {
        Before::Missing => (FileAction::Create, ""),
        Before::Text(_) => (FileAction::Modify, ""),
        Before::Other(_) => (FileAction::Modify, " (replaces a file that is not shown: large or not text)"),
    };
    let (path, old_text, new_text) = (spot.real.clone(), before.shown(), shown(&content));
    let changes = if same { Vec::new() } else { vec![FileChange { action, path, old_text, new_text }] };
    let effect = writing(&[&spot]);
    let shared = Arc::clone(&call.shared);
    Ok(PreparedCall {
        title: format!("write_file: {}{replaced}", spot.judged()),
        locations: vec![Location { path: spot.real.clone(), line: None }],
        changes,
        effect,
        run: running_on_disk(move |stop| {
            if same {
                return ToolOutcome::completed(format!("{} already has this content", spot.shown));
            }
            match commit(&shared, stop, &spot.real, &before, &content) {
                Ok(()) => {
                    let lines = content.lines().count();
                    let bytes = content.len();
                    ToolOutcome::completed(format!(
                        "wrote {} ({lines} lines, {bytes} bytes{kept})",
                        spot.shown
                    ))
                }
                Err(reason) => ToolOutcome::failed(reason),
            }
        }),
    })
}

pub(super) fn refuse_what_is_no_file(real: &Path) -> Result<(), ToolError> {
    match std::fs::metadata(real).ok().as_ref().and_then(what) {
        None => Ok(()),
        Some(kind) => Err(ToolError::new(format!("{} is {kind}: only files can be written", real.display()))),
    }
}

/// Puts `content` at a real path, if what stands there is still what was seen.
pub(super) fn commit(
    shared: &Shared,
    stop: &Stop,
    real: &Path,
    before: &Before,
    content: &str,
) -> Result<(), String> {
    let _alone = shared.writing(&[real]);
    before.still(real)?;
    if stop.is_raised() {
        return Err("stopped before anything was written".to_owned());
    }
    make_parents(real)?;
    milk_files::replace(real, content.as_bytes()).map_err(|error| error.to_string())
}

/// Makes the folders above a real path.
pub(super) fn make_parents(real: &Path) -> Result<(), String> {
    let Some(parent) = real.parent() else { return Ok(()) };
    std::fs::create_dir_all(parent).map_err(|error| cannot("make the folder", parent, &error).message)
}

/// Keeps what a replaced file's other readers rely on and models leave out: CRLF line ends where all are so, and a byte
/// order mark. Returns the content and a note about it.
fn keep_conventions(old: &str, content: String) -> (String, &'static str) {
    let crlf = old.matches("\r\n").count();
    let keeps_crlf =
        crlf > 0 && crlf == old.matches('\n').count() && !content.contains('\r') && content.contains('\n');
    let keeps_mark = old.starts_with('\u{FEFF}') && !content.starts_with('\u{FEFF}');
    let content = if keeps_crlf { content.replace('\n', "\r\n") } else { content };
    let content = if keeps_mark { format!("\u{FEFF}{content}") } else { content };
    let note = match (keeps_crlf, keeps_mark) {
        (true, true) => ", CRLF line ends and byte order mark kept",
        (true, false) => ", CRLF line ends kept",
        (false, true) => ", byte order mark kept",
        (false, false) => "",
    };
    (content, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conventions_of_the_old_file_are_kept() {
        for (old, content, expected) in [
            ("a\r\nb\r\n", "x\ny\n", "x\r\ny\r\n"),
            ("a\r\nb\n", "x\ny\n", "x\ny\n"),
            ("a\nb\n", "x\r\ny\r\n", "x\r\ny\r\n"),
            ("a\r\n", "x\r\ny\n", "x\r\ny\n"),
            ("a", "x\n", "x\n"),
            ("", "x\n", "x\n"),
            ("\u{FEFF}a\r\n", "x\n", "\u{FEFF}x\r\n"),
            ("\u{FEFF}a\n", "\u{FEFF}x\n", "\u{FEFF}x\n"),
        ] {
            assert_eq!(keep_conventions(old, content.into()).0, expected, "{old:?} {content:?}");
        }
    }
}
