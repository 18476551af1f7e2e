//! `list_dir`: the entries of a folder.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use milk_core::tool::{Location, PreparedCall, ToolError, ToolKind, ToolOutcome};

use crate::args::{Param, Shape};
use crate::builtin::{Call, Prepare, Row, Stop, running_on_disk};
use crate::paths::{FinalLink, Spot, reading};
use crate::snapshot::{cannot, what};
use crate::text::{cap, size, visible};

pub(crate) const ROW: Row = Row {
    name: "list_dir",
    kind: ToolKind::Read,
    about: include_str!("list_dir.md"),
    params: &[Param::optional("path", Shape::Text, "The folder; the session's directory unless given.")],
    prepare: Prepare::OnDisk(prepare),
};

/// Entries that are shown.
const SHOWN: usize = 1000;
/// Entries that are read at all.
const READ: usize = 200_000;

fn prepare(call: &Call) -> Result<PreparedCall, ToolError> {
    let path =
        call.args.text_or("path")?.filter(|path| !path.trim().is_empty()).unwrap_or_else(|| ".".to_owned());
    let spot = Spot::find(&call.shared, &call.workspace, &path, FinalLink::Followed)?;
    let effect = reading(&call.shared, &spot);
    let limit = call.shared.env.result_limit;
    Ok(PreparedCall {
        title: format!("list_dir: {}", spot.shown),
        locations: vec![Location { path: spot.real.clone(), line: None }],
        changes: Vec::new(),
        effect,
        run: running_on_disk(move |stop| match list(&spot.real, stop) {
            Ok(text) => stop.outcome(cap(text, limit)),
            Err(error) => ToolOutcome::failed(error.message),
        }),
    })
}

fn list(folder: &Path, stop: &Stop) -> Result<String, ToolError> {
    let metadata = fs::metadata(folder).map_err(|error| cannot("list", folder, &error))?;
    if !metadata.is_dir() {
        let kind = what(&metadata).unwrap_or("a file");
        return Err(ToolError::new(format!("{} is {kind}, not a folder", folder.display())));
    }
    let entries = fs::read_dir(folder).map_err(|error| cannot("list", folder, &error))?;
    let mut names: Vec<_> = entries
        .flatten()
        .take_while(|_| !stop.is_raised())
        .take(READ)
        .map(|entry| entry.file_name())
        .collect();
    names.sort_unstable();
    if names.is_empty() {
        return Ok("[the folder is empty]".to_owned());
    }
    let mut text = String::new();
    for name in names.iter().take(SHOWN) {
        let _ = writeln!(text, "{}", row(&folder.join(name), &name.to_string_lossy()));
    }
    match names.len().saturating_sub(SHOWN) {
        0 => {}
        _ if names.len() == READ => text.push_str("[a great many more entries are not shown]\n"),
        more => {
            let _ = writeln!(text, "[{more} more entries are not shown]");
        }
    }
    Ok(text)
}

/// One entry: kind, size, name.
fn row(path: &Path, name: &str) -> String {
    let name = visible(name);
    let Ok(metadata) = fs::symlink_metadata(path) else { return format!("gone   {:>10}  {name}", "") };
    match what(&metadata) {
        None => format!("file   {:>10}  {name}", size(metadata.len())),
        Some("a folder") => format!("dir    {:>10}  {name}/", ""),
        Some("a link") => {
            let target = fs::read_link(path).unwrap_or_default();
            format!("link   {:>10}  {name} → {}", "", visible(&target.to_string_lossy()))
        }
        Some(kind) => {
            let kind = kind.rsplit(' ').next().unwrap_or(kind);
            format!("{kind:<6} {:>10}  {name}", "")
        }
    }
}
