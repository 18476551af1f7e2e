//! Walking a tree of files: what `find_files` and `grep` have in common.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ignore::{DirEntry, Walk, WalkBuilder};
use milk_core::tool::Workspace;

use crate::builtin::{Patience, Stop};
use crate::env::Shared;
use crate::paths::{is_private, relative};
use crate::text::visible;

/// A search ends after this time with what it has found.
const LIMIT: Duration = Duration::from_secs(30);

/// Folders of the system whose files are no files.
const NO_FILES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Where a search begins and how it names what it finds.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) root: PathBuf,
    workspace: Workspace,
    private: Vec<PathBuf>,
}

impl Search {
    pub(crate) fn new(shared: &Shared, workspace: &Workspace, root: &Path) -> Self {
        // Where the search itself begins in a private place, its question was about that.
        let private = if is_private(shared, root) { Vec::new() } else { shared.private.clone() };
        Self { root: root.to_owned(), workspace: workspace.clone(), private }
    }

    pub(crate) fn patience(stop: &Stop) -> Patience {
        Patience::new(stop, LIMIT)
    }

    /// The files below, by name within their folders. Links are not followed, so that no file comes twice and no circle
    /// is walked; what `.gitignore` files exclude, `.git` itself and private places are passed by.
    pub(crate) fn walk(&self, depth: Depth) -> Walk {
        let private = self.private.clone();
        let passed_by = move |entry: &DirEntry| {
            let path = entry.path();
            entry.depth() > 0
                && (entry.file_name() == ".git"
                    || private.iter().any(|private| path == private)
                    || NO_FILES.iter().any(|folder| path == Path::new(folder))
                    || (entry.file_type().is_some_and(|kind| kind.is_dir()) && has_odd_ignore_file(path)))
        };
        let ignoring = !has_odd_ignore_file(&self.root);
        let parents = !self.root.ancestors().skip(1).any(has_odd_ignore_file);
        WalkBuilder::new(&self.root)
            .git_ignore(ignoring)
            .git_exclude(ignoring)
            .ignore(ignoring)
            .parents(parents)
            .hidden(false)
            .require_git(false)
            .follow_links(false)
            .max_depth(match depth {
                Depth::Whole => None,
                Depth::OneFolder => Some(1),
            })
            .sort_by_file_name(std::cmp::Ord::cmp)
            .filter_entry(move |entry| !passed_by(entry))
            .build()
    }

    /// A found path as the model can use it again.
    pub(crate) fn name(&self, path: &Path) -> String {
        visible(&relative(&self.workspace, path).to_string_lossy()).into_owned()
    }
}

/// Larger than any list of patterns that people write, in bytes.
const IGNORE_FILE_LIMIT: u64 = 1024 * 1024;

/// Whether this folder's lists of what to ignore cannot be read in bounded time and memory: a pipe, a device, a huge file. A
/// search that begins in such a folder ignores nothing; below, the folder is passed by.
fn has_odd_ignore_file(folder: &Path) -> bool {
    [".gitignore", ".ignore", ".git/info/exclude"].iter().any(|name| {
        let Ok(found) = std::fs::metadata(folder.join(name)) else { return false };
        !found.is_file() || found.len() > IGNORE_FILE_LIMIT
    })
}

/// How far down a search goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Whole,
    OneFolder,
}

/// The notes that close a search's result.
pub(crate) fn closing(patience: &Patience, unread: usize) -> String {
    let mut notes = String::new();
    if patience.is_over() {
        notes
            .push_str("[the search was stopped before it had seen everything: search in a smaller folder]\n");
    }
    if unread > 0 {
        let _ = writeln!(notes, "[{unread} files or folders could not be read]");
    }
    notes
}
