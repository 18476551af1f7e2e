//! `delete_file`: one file or empty folder removed.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use milk_core::tool::{FileAction, FileChange, Location, PreparedCall, ToolError, ToolKind, ToolOutcome};

use crate::args::{Param, Shape};
use crate::builtin::{Call, Prepare, Row, Stop, running_on_disk};
use crate::env::Shared;
use crate::paths::{FinalLink, Spot, writing};
use crate::snapshot::{Before, SHOWN_LIMIT, cannot, what};

pub(crate) const ROW: Row = Row {
    name: "delete_file",
    kind: ToolKind::Delete,
    about: include_str!("delete_file.md"),
    params: &[Param::required("path", Shape::Text, "The file or empty folder.").or_named("file_path")],
    prepare: Prepare::OnDisk(prepare),
};

fn prepare(call: &Call) -> Result<PreparedCall, ToolError> {
    let path = call.args.filled("path")?;
    let spot = Spot::find(&call.shared, &call.workspace, &path, FinalLink::Itself)?;
    let metadata = fs::symlink_metadata(&spot.real).map_err(|error| cannot("delete", &spot.real, &error))?;
    if metadata.is_dir() && !is_empty(&spot.real)? {
        return Err(ToolError::new(format!(
            "{path} is a folder with something in it: only files and empty folders go"
        )));
    }
    let before = Before::look(&spot.real, SHOWN_LIMIT)?;
    let kind = what(&metadata).map(|kind| format!(" ({kind})")).unwrap_or_default();
    let effect = writing(&[&spot]);
    let change = FileChange {
        action: FileAction::Delete,
        path: spot.real.clone(),
        old_text: before.shown(),
        new_text: None,
    };
    let shared = Arc::clone(&call.shared);
    Ok(PreparedCall {
        title: format!("delete_file: {}{kind}", spot.judged()),
        locations: vec![Location { path: spot.real.clone(), line: None }],
        changes: vec![change],
        effect,
        run: running_on_disk(move |stop| match delete(&shared, stop, &spot.real, &before) {
            Ok(()) => ToolOutcome::completed(format!("deleted {}", spot.shown)),
            Err(reason) => ToolOutcome::failed(reason),
        }),
    })
}

fn is_empty(folder: &Path) -> Result<bool, ToolError> {
    let mut entries = fs::read_dir(folder).map_err(|error| cannot("look into", folder, &error))?;
    Ok(entries.next().is_none())
}

fn delete(shared: &Shared, stop: &Stop, real: &Path, before: &Before) -> Result<(), String> {
    let _alone = shared.writing(&[real]);
    before.still(real)?;
    if stop.is_raised() {
        return Err("stopped before anything was deleted".to_owned());
    }
    let is_folder = fs::symlink_metadata(real).is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_folder { fs::remove_dir(real) } else { fs::remove_file(real) };
    removed.map_err(|error| cannot("delete", real, &error).message)
}
