//! When two spellings mean one place (R21): trailing slash, `.`, `..` and symbolic links make no difference, also
//! where the end of a path does not exist yet.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Links followed in one path before the rest is taken as written; Linux gives up at the same number.
const MAX_LINKS: usize = 40;

/// The one absolute path that `path` means: taken from `base` if relative, without `.` and `..`, every link resolved
/// as far as the path exists (a dangling one to where it points), and the rest as written.
///
/// A `base` that is itself relative is taken from `/`. Never fails: what the system cannot follow either (a loop of
/// links, a folder that may not be searched) is kept as written.
pub fn resolve(path: &Path, base: &Path) -> PathBuf {
    match follow(path, base) {
        Followed::ToTheEnd(real) | Followed::TooManyLinks(real) => real,
    }
}

/// How far the links of a path could be followed.
pub(crate) enum Followed {
    /// The path with every link resolved.
    ToTheEnd(PathBuf),
    /// A path in which links may be left. The system refuses the path that was asked about, but not always this one.
    TooManyLinks(PathBuf),
}

pub(crate) fn follow(path: &Path, base: &Path) -> Followed {
    let mut real = PathBuf::from("/");
    let mut todo: VecDeque<OsString> = VecDeque::new();
    if !path.is_absolute() {
        todo.extend(parts(base));
    }
    todo.extend(parts(path));
    let mut links = 0;

    while let Some(part) = todo.pop_front() {
        if part == ".." {
            real.pop();
            continue;
        }
        real.push(&part);
        // Whether it is a link is asked by reading it: one call, and no gap in between.
        let Ok(target) = fs::read_link(&real) else { continue };
        if links == MAX_LINKS {
            real.extend(todo);
            return Followed::TooManyLinks(real);
        }
        links += 1;
        real.pop();
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        for part in parts(&target).into_iter().rev() {
            todo.push_front(part);
        }
    }
    Followed::ToTheEnd(real)
}

/// The named parts of a path, `..` included, root and `.` left out.
fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// Whether two absolute paths are one place. Where both exist the system is asked too, so that names which differ only
/// in case are one on a file system that thinks so.
pub fn same_place(a: &Path, b: &Path) -> bool {
    let root = Path::new("/");
    if resolve(a, root) == resolve(b, root) {
        return true;
    }
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Replaces a leading `~` (alone, or followed by `/`) by `home`. Other users' homes (`~name`) are left as written, as
/// is everything when there is no home.
pub fn expand_tilde(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// A directory as what it is, not as it is spelled (R21): equal for every spelling of one place. Fit for a key in maps,
/// indexes and file names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirId(PathBuf);

impl DirId {
    /// The identity of an absolute path. It need not exist.
    pub fn of(path: &Path) -> Self {
        Self(resolve(path, Path::new("/")))
    }

    /// The directory's real path: absolute, no links, no trailing slash.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for DirId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// `<tmp>/real/sub/file`, `<tmp>/link -> real`, `<tmp>/up -> real/sub`, `<tmp>/gone -> real/not/yet`, and a loop.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("real/sub")).unwrap();
        fs::write(base.join("real/sub/file"), "").unwrap();
        symlink("real", base.join("link")).unwrap();
        symlink(base.join("real/sub"), base.join("up")).unwrap();
        symlink("real/not/yet", base.join("gone")).unwrap();
        symlink("loop-b", base.join("loop-a")).unwrap();
        symlink("loop-a", base.join("loop-b")).unwrap();
        (dir, base)
    }

    #[test]
    fn spellings_resolve_to_one_path() {
        let (_dir, base) = tree();
        for (spelling, expected) in [
            ("real", "real"),
            ("real/", "real"),
            ("./real/.", "real"),
            ("real//sub/..", "real"),
            ("link", "real"),
            ("link/sub/file", "real/sub/file"),
            ("up/file", "real/sub/file"),
            ("up/..", "real"), // as the system sees it, not as text
            ("real/new/deep", "real/new/deep"),
            ("real/new/../other", "real/other"),
            ("link/new/./x/", "real/new/x"),
            ("gone", "real/not/yet"),
            ("gone/../more", "real/not/more"),
            ("", ""),
        ] {
            let expected = if expected.is_empty() { base.clone() } else { base.join(expected) };
            assert_eq!(resolve(Path::new(spelling), &base), expected, "{spelling:?}");
            assert_eq!(
                resolve(&base.join(spelling), Path::new("/elsewhere")),
                expected,
                "{spelling:?} absolute"
            );
        }
    }

    #[test]
    fn an_existing_path_resolves_as_the_system_does() {
        let (_dir, base) = tree();
        for existing in ["link/sub/../sub/file", "up/../sub", "up"] {
            let path = base.join(existing);
            assert_eq!(resolve(&path, Path::new("/")), path.canonicalize().unwrap(), "{existing}");
        }
    }

    #[test]
    fn above_the_root_is_the_root() {
        assert_eq!(resolve(Path::new("/../../etc/.."), Path::new("/")), Path::new("/"));
        assert_eq!(resolve(Path::new("../../x"), Path::new("/")), Path::new("/x"));
        assert_eq!(resolve(Path::new("x"), Path::new("relative")), Path::new("/relative/x"));
    }

    #[test]
    fn what_cannot_be_followed_is_kept_as_written() {
        let (_dir, base) = tree();
        assert!(resolve(&base.join("loop-a/x"), Path::new("/")).ends_with("x"));
        let nul = Path::new("a\0b");
        assert_eq!(resolve(nul, &base), base.join(nul));
        let long = "x".repeat(10_000);
        assert_eq!(resolve(Path::new(&long), &base), base.join(&long));
    }

    #[test]
    fn one_place_is_one_identity() {
        let (_dir, base) = tree();
        let at = |name: &str| base.join(name);
        for (a, b, same) in [
            ("real", "link/", true),
            ("real/sub", "up/.", true),
            ("real/none", "link/none", true),
            ("real", "real/sub", false),
            ("real/none", "real/other", false),
        ] {
            assert_eq!(same_place(&at(a), &at(b)), same, "{a} {b}");
            assert_eq!(DirId::of(&at(a)) == DirId::of(&at(b)), same, "{a} {b}");
        }
    }

    #[test]
    fn one_inode_is_one_place() {
        let (_dir, base) = tree();
        fs::hard_link(base.join("real/sub/file"), base.join("other-name")).unwrap();
        assert!(same_place(&base.join("real/sub/file"), &base.join("other-name")));
    }

    #[test]
    fn a_tilde_is_the_given_home() {
        let home = Path::new("/home/me");
        for (path, expected) in [
            ("~", "/home/me"),
            ("~/", "/home/me"),
            ("~/a/b", "/home/me/a/b"),
            ("~you/a", "~you/a"),
            ("a/~", "a/~"),
            ("/~", "/~"),
        ] {
            assert_eq!(expand_tilde(Path::new(path), Some(home)), Path::new(expected), "{path}");
            assert_eq!(expand_tilde(Path::new(path), None), Path::new(path), "{path} without home");
        }
    }
}
