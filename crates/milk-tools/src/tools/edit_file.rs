//! `edit_file`: one passage of a text file replaced.

use std::path::Path;
use std::sync::Arc;

use milk_core::tool::{FileAction, FileChange, Location, PreparedCall, ToolError, ToolKind, ToolOutcome};

use super::splice::{NoSplice, Scope, Spliced, splice};
use super::write_file::{commit, refuse_what_is_no_file};
use crate::args::{Param, Shape};
use crate::builtin::{Call, Prepare, Row, running_on_disk};
use crate::paths::{FinalLink, Spot, writing};
use crate::snapshot::{Before, shown};
use crate::text::size;

pub(crate) const ROW: Row = Row {
    name: "edit_file",
    kind: ToolKind::Edit,
    about: include_str!("edit_file.md"),
    params: &[
        Param::required("path", Shape::Text, "The file.").or_named("file_path"),
        Param::required("old_string", Shape::Text, "The text to replace, exactly as it is in the file."),
        Param::required("new_string", Shape::Text, "What takes its place."),
        Param::optional("replace_all", Shape::Switch, "Replace every occurrence; false unless given."),
    ],
    prepare: Prepare::OnDisk(prepare),
};

/// Longest file that is edited, and longest that an edit may make, in bytes.
const LONGEST_FILE: u32 = 16 << 20;

fn prepare(call: &Call) -> Result<PreparedCall, ToolError> {
    let path = call.args.filled("path")?;
    let old = call.args.text("old_string")?;
    let new = call.args.text("new_string")?;
    let scope = if call.args.switch_or("replace_all")?.unwrap_or(false) { Scope::All } else { Scope::Unique };
    if old.is_empty() {
        return Err(ToolError::new("`old_string` must not be empty; a new file is made with write_file"));
    }
    if old == new {
        return Err(ToolError::new("`old_string` and `new_string` are the same: there is nothing to change"));
    }
    let spot = Spot::find(&call.shared, &call.workspace, &path, FinalLink::Followed)?;
    let text = editable(&spot.real)?;
    let Spliced { text: edited, replacements, first_line } =
        splice(&text, &old, &new, scope, LONGEST_FILE as usize).map_err(|why| explain(&spot.shown, &why))?;
    if edited == *text {
        return Err(ToolError::new("the edit changes nothing: the file's own line ends are kept"));
    }
    let edited: Arc<str> = edited.into();
    let (old_text, new_text) = match (shown(&text), shown(&edited)) {
        (Some(old), Some(new)) => (Some(old), Some(new)),
        // Half of a change would look like a file that comes or goes.
        _ => (None, None),
    };
    let unseen = if new_text.is_none() { " (too large to show the change)" } else { "" };
    let effect = writing(&[&spot]);
    let before = Before::Text(text);
    let shared = Arc::clone(&call.shared);
    Ok(PreparedCall {
        title: format!("edit_file: {}{unseen}", spot.judged()),
        locations: vec![Location { path: spot.real.clone(), line: u32::try_from(first_line).ok() }],
        changes: vec![FileChange { action: FileAction::Modify, path: spot.real.clone(), old_text, new_text }],
        effect,
        run: running_on_disk(move |stop| match commit(&shared, stop, &spot.real, &before, &edited) {
            Ok(()) if replacements == 1 => {
                ToolOutcome::completed(format!("edited {} (line {first_line})", spot.shown))
            }
            Ok(()) => ToolOutcome::completed(format!("edited {} ({replacements} replacements)", spot.shown)),
            Err(reason) => ToolOutcome::failed(reason),
        }),
    })
}

fn editable(real: &Path) -> Result<Arc<str>, ToolError> {
    refuse_what_is_no_file(real)?;
    let name = real.display();
    match Before::look(real, LONGEST_FILE.into())? {
        Before::Text(text) => Ok(text),
        Before::Missing => {
            Err(ToolError::new(format!("{name} does not exist; a new file is made with write_file")))
        }
        Before::Other(_) => {
            // Opened to learn why: it may not be readable at all.
            let (_, metadata) = crate::snapshot::open_regular(real)?;
            let why = if metadata.len() > LONGEST_FILE.into() {
                format!("is larger than {}", size(LONGEST_FILE.into()))
            } else {
                "is not UTF-8 text, and an edit would damage it".to_owned()
            };
            Err(ToolError::new(format!("{name} {why}: use a shell command")))
        }
    }
}

fn explain(path: &str, why: &NoSplice) -> ToolError {
    ToolError::new(match why {
        NoSplice::Missing { alike: None } => {
            format!("old_string not found in {path}: read the file and copy the text exactly")
        }
        NoSplice::Missing { alike: Some(line) } => format!(
            "old_string not found in {path}, but line {line} begins a passage that differs in white space only: copy it exactly"
        ),
        NoSplice::Ambiguous { count, lines } => {
            let lines = lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!(
                "old_string is ambiguous: found {count} occurrences in {path} (first lines: {lines}); \
                 give more of the text around it, or set replace_all"
            )
        }
        NoSplice::TooLong => {
            format!(
                "the edit would make {path} larger than {}: use a shell command",
                size(LONGEST_FILE.into())
            )
        }
    })
}
