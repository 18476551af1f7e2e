//! `move_file`: a file or folder gets another path.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use milk_core::tool::{FileAction, FileChange, Location, PreparedCall, ToolError, ToolKind, ToolOutcome};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::write_file::make_parents;
use crate::args::{Param, Shape};
use crate::builtin::{Call, Prepare, Row, Stop, running_on_disk};
use crate::env::Shared;
use crate::paths::{FinalLink, Spot, writing};
use crate::snapshot::{Before, SHOWN_LIMIT, cannot};

pub(crate) const ROW: Row = Row {
    name: "move_file",
    kind: ToolKind::Move,
    about: include_str!("move_file.md"),
    params: &[
        Param::required("source", Shape::Text, "The file or folder."),
        Param::required("destination", Shape::Text, "Its new path, with its name."),
    ],
    prepare: Prepare::OnDisk(prepare),
};

fn prepare(call: &Call) -> Result<PreparedCall, ToolError> {
    let find = |name| {
        let path = call.args.filled(name)?;
        Spot::find(&call.shared, &call.workspace, &path, FinalLink::Itself)
    };
    let (from, to) = (find("source")?, find("destination")?);
    fs::symlink_metadata(&from.real).map_err(|error| cannot("move", &from.real, &error))?;
    if Before::look(&to.real, 0)? != Before::Missing {
        let name = from.real.file_name().unwrap_or_default().to_string_lossy();
        return Err(ToolError::new(if to.real.is_dir() {
            format!(
                "{} is a folder: give the whole new path, such as {}/{name}",
                to.shown,
                to.shown.trim_end_matches('/')
            )
        } else {
            format!("{} exists already: nothing is overwritten by a move", to.shown)
        }));
    }
    let before = Before::look(&from.real, SHOWN_LIMIT)?;
    let change = FileChange {
        action: FileAction::Move { from: from.real.clone() },
        path: to.real.clone(),
        old_text: before.shown(),
        new_text: before.shown(),
    };
    let effect = writing(&[&from, &to]);
    let location = |spot: &Spot| Location { path: spot.real.clone(), line: None };
    let shared = Arc::clone(&call.shared);
    Ok(PreparedCall {
        title: format!("move_file: {} → {}", from.judged(), to.judged()),
        locations: vec![location(&from), location(&to)],
        changes: vec![change],
        effect,
        run: running_on_disk(move |stop| match relocate(&shared, stop, &from.real, &before, &to.real) {
            Ok(()) => ToolOutcome::completed(format!("moved {} → {}", from.shown, to.shown)),
            Err(reason) => ToolOutcome::failed(reason),
        }),
    })
}

fn relocate(shared: &Shared, stop: &Stop, from: &Path, before: &Before, to: &Path) -> Result<(), String> {
    let _alone = shared.writing(&[from, to]);
    before.still(from)?;
    Before::Missing.still(to)?;
    if stop.is_raised() {
        return Err("stopped before anything was moved".to_owned());
    }
    make_parents(to)?;
    rename_new(from, to).map_err(|error| cannot("move", from, &error).message)
}

/// Renames, and never over something.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // This file system cannot promise it; the look just before must do.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => carry_over(from, to),
            renamed => renamed,
        },
        Err(Errno::XDEV) => carry_over(from, to),
        renamed => renamed.map_err(io::Error::from),
    }
}

/// Moves a file to another file system: copied whole first, removed then.
fn carry_over(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(from)?;
    if !metadata.is_file() {
        return Err(io::Error::other(
            "it would go to another file system, and only files can: use a shell command",
        ));
    }
    let mut source = File::open(from)?;
    // Not readable for others before it has the mode of its source.
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let copied = io::copy(&mut source, &mut target)
        .and_then(|_| target.set_permissions(metadata.permissions()))
        .and_then(|()| target.sync_all());
    if let Err(error) = copied {
        let _ = fs::remove_file(to);
        return Err(error);
    }
    fs::remove_file(from)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_carried_over_whole_with_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, "text").unwrap();
        fs::set_permissions(&from, fs::Permissions::from_mode(0o751)).unwrap();
        carry_over(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "text");
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o751);
        assert!(!from.exists());
    }

    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, "new").unwrap();
        fs::write(&to, "old").unwrap();
        assert!(rename_new(&from, &to).is_err());
        assert!(carry_over(&from, &to).is_err());
        assert_eq!((fs::read(&from).unwrap(), fs::read(&to).unwrap()), (b"new".to_vec(), b"old".to_vec()));
    }
}
