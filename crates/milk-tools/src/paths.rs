//! Where a path of a call leads, and what touching it means.

use std::path::{Component, Path, PathBuf};

use milk_core::tool::{Effect, ToolError, Workspace};

use crate::env::Shared;
use crate::text::visible;

/// Folders inside a workspace whose files make programs run (hooks, milk's own project settings): changing them asks
/// like a change outside, whatever was granted.
const GUARDED: [&str; 2] = [".git", ".milk"];

/// One path of a call.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    /// As the model wrote it, fit to be shown.
    pub(crate) shown: String,
    /// Absolute, every link resolved: what is judged and what is touched.
    pub(crate) real: PathBuf,
    border: Border,
}

/// Which side of the workspace's border a spot is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Border {
    Inside,
    Guarded,
    Outside,
}

/// Whether a link at the very end of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinalLink {
    /// Yes: reading and writing reach what it points to.
    Followed,
    /// No: deleting and moving act on the link.
    Itself,
}

/// Longest path that is looked at; systems stop at 4096.
const LONGEST_PATH: usize = 4096;

impl Spot {
    /// Looks at the disk for links.
    pub(crate) fn find(
        shared: &Shared,
        workspace: &Workspace,
        path: &str,
        link: FinalLink,
    ) -> Result<Self, ToolError> {
        if path.contains('\0') || path.len() > LONGEST_PATH {
            return Err(ToolError::new("this is no path: it holds a NUL or is too long"));
        }
        let folders = milk_files::Workspace::new(&workspace.root, workspace.extra.iter().cloned());
        let folders = folders.with_home(shared.env.home.as_deref());
        let place = match link {
            FinalLink::Followed => folders.locate(Path::new(path)),
            FinalLink::Itself => folders.locate_entry(Path::new(path)),
        };
        let real = place.real().to_owned();
        let border = if !place.is_inside() {
            Border::Outside
        } else if is_private(shared, &real) || within(workspace, &real).components().any(is_guarded) {
            Border::Guarded
        } else {
            Border::Inside
        };
        Ok(Self { shown: visible(path).into_owned(), real, border })
    }

    /// How the path is named where a person must judge it: with the real path wherever a change would ask for
    /// reasons of its own.
    pub(crate) fn judged(&self) -> String {
        match self.border {
            Border::Inside => self.shown.clone(),
            Border::Guarded => format!("{} (protected)", self.shown),
            Border::Outside => {
                let real = self.real.to_string_lossy();
                let real = visible(&real);
                if real == self.shown {
                    format!("{real} (outside the workspace)")
                } else {
                    format!("{} → {real} (outside the workspace)", self.shown)
                }
            }
        }
    }
}

fn is_guarded(part: Component<'_>) -> bool {
    // Some file systems do not tell case apart.
    GUARDED.iter().any(|guarded| part.as_os_str().eq_ignore_ascii_case(guarded))
}

/// The part of a real path that is below the workspace's folder: where that folder lies does not count.
fn within<'a>(workspace: &Workspace, real: &'a Path) -> &'a Path {
    let folders = std::iter::once(&workspace.root).chain(&workspace.extra);
    let mut folders = folders.map(|folder| milk_files::resolve(folder, Path::new("/")));
    folders.find_map(|folder| real.strip_prefix(folder).ok()).unwrap_or(real)
}

/// Whether a real path is one of the user's private places, or shows the inside of a process (milk's own environment
/// holds keys).
pub(crate) fn is_private(shared: &Shared, real: &Path) -> bool {
    shared.private.iter().any(|private| real.starts_with(private)) || is_process(real)
}

fn is_process(real: &Path) -> bool {
    let Ok(rest) = real.strip_prefix("/proc") else { return false };
    let first = rest.components().next();
    first.is_some_and(|part| part.as_os_str().as_encoded_bytes().iter().all(u8::is_ascii_digit))
}

/// The effect of reading at a spot.
pub(crate) fn reading(shared: &Shared, spot: &Spot) -> Effect {
    if is_private(shared, &spot.real) {
        Effect::ReadsPrivate { path: spot.real.clone() }
    } else {
        Effect::ReadOnly
    }
}

/// The effect of changing these spots.
pub(crate) fn writing(spots: &[&Spot]) -> Effect {
    let beyond = spots.iter().filter(|spot| spot.border != Border::Inside);
    let paths: Vec<_> = beyond.map(|spot| spot.real.clone()).collect();
    if paths.is_empty() { Effect::Writes } else { Effect::WritesOutside { paths } }
}

/// A path as results name it: relative to the session's directory where it is in there, so that the model can use it in
/// its next call.
pub(crate) fn relative<'a>(workspace: &Workspace, path: &'a Path) -> &'a Path {
    path.strip_prefix(workspace.cwd()).unwrap_or(path)
}
