//! The folders in which a session works, and which side of their border a path is on.

use std::path::{Component, Path, PathBuf};

use crate::identity::{Followed, expand_tilde, follow, resolve};

/// Where a path really leads. `real` has every link resolved; act on it rather than on the path that was asked about,
/// so that what was judged is what is touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In one of the workspace's folders, or one of them itself.
    Inside {
        /// The real path.
        real: PathBuf,
    },
    /// Anywhere else.
    Outside {
        /// The real path, to show to the person who is asked.
        real: PathBuf,
    },
}

impl Place {
    /// The path with every link resolved.
    pub fn real(&self) -> &Path {
        match self {
            Self::Inside { real } | Self::Outside { real } => real,
        }
    }

    /// Whether the path is in the workspace.
    pub fn is_inside(&self) -> bool {
        matches!(self, Self::Inside { .. })
    }
}

/// A session's folders: its working directory and the additional ones. They are what they were when the workspace was
/// made: a root that is a link and is pointed elsewhere later takes nothing new into the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    root: PathBuf,
    extra: Vec<PathBuf>,
    real: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl Workspace {
    /// A workspace of `root` and `extra` folders. `root` is absolute; a relative extra one is taken from it.
    pub fn new(root: impl Into<PathBuf>, extra: impl IntoIterator<Item = PathBuf>) -> Self {
        let root = root.into();
        let extra: Vec<PathBuf> = extra.into_iter().map(|dir| root.join(dir)).collect();
        let slash = Path::new("/");
        let real = std::iter::once(&root).chain(&extra).map(|dir| resolve(dir, slash)).collect();
        Self { root, extra, real, home: None }
    }

    /// The same, with the home folder that a leading `~` in a path stands for.
    #[must_use]
    pub fn with_home(mut self, home: Option<&Path>) -> Self {
        self.home = home.map(Path::to_owned);
        self
    }

    /// The working directory as it was given.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The additional folders, absolute.
    pub fn extra(&self) -> &[PathBuf] {
        &self.extra
    }

    /// The path as written by a model or person, made absolute: `~` expanded, relative to [`root`](Self::root). Links and
    /// `..` stay.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.root.join(expand_tilde(path, self.home.as_deref()))
    }

    /// Where reading or writing at `path` leads. A link is followed to its end, so one that leaves the workspace is
    /// outside; a path that does not exist yet is judged by where it would be created.
    pub fn locate(&self, path: &Path) -> Place {
        self.judge(follow(&self.absolute(path), Path::new("/")))
    }

    /// Where the directory entry at `path` is: as [`locate`](Self::locate), but a link at the very end is not followed.
    /// For deleting and moving, which act on the link and not on what it points to.
    pub fn locate_entry(&self, path: &Path) -> Place {
        let absolute = self.absolute(path);
        match (absolute.parent(), absolute.components().next_back()) {
            (Some(parent), Some(Component::Normal(name))) => {
                self.judge(match follow(parent, Path::new("/")) {
                    Followed::ToTheEnd(real) => Followed::ToTheEnd(real.join(name)),
                    Followed::TooManyLinks(real) => Followed::TooManyLinks(real.join(name)),
                })
            }
            _ => self.locate(path),
        }
    }

    fn judge(&self, followed: Followed) -> Place {
        let real = match followed {
            Followed::ToTheEnd(real) => real,
            // What is left of the links may lead anywhere.
            Followed::TooManyLinks(real) => return Place::Outside { real },
        };
        if self.real.iter().any(|dir| real.starts_with(dir)) {
            Place::Inside { real }
        } else {
            Place::Outside { real }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Tree {
        _dir: tempfile::TempDir,
        base: PathBuf,
    }

    /// `w/` with links that stay (`in`), leave (`out`, `out-file`, `dangling`), `w2/` as an additional folder, `w-else/` as a
    /// neighbour whose name begins alike, and `door -> w`.
    fn tree() -> Tree {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["w/sub", "w2", "w-else", "home"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        fs::write(base.join("w-else/secret"), "").unwrap();
        symlink("sub", base.join("w/in")).unwrap();
        symlink("../w-else", base.join("w/out")).unwrap();
        symlink(base.join("w-else/secret"), base.join("w/out-file")).unwrap();
        symlink("../w-else/new", base.join("w/dangling")).unwrap();
        symlink("w", base.join("door")).unwrap();
        symlink("../w/sub", base.join("w-else/back")).unwrap();
        Tree { _dir: dir, base }
    }

    #[test]
    fn links_decide_which_side_a_path_is_on() {
        let tree = tree();
        let home = tree.base.join("home");
        for root in ["w", "door", "w/", "door/sub/.."] {
            let extra = [PathBuf::from("../w2")];
            let workspace = Workspace::new(tree.base.join(root), extra).with_home(Some(&home));
            for (path, inside, real) in [
                ("a.txt", true, "w/a.txt"),
                ("", true, "w"),
                (".", true, "w"),
                ("sub/../new/deep/x", true, "w/new/deep/x"),
                ("in/x", true, "w/sub/x"),
                ("out/back/x", true, "w/sub/x"),
                ("../w2/x", true, "w2/x"),
                ("out/x", false, "w-else/x"),
                ("out-file", false, "w-else/secret"),
                ("dangling", false, "w-else/new"),
                ("../w-else/x", false, "w-else/x"),
                ("..", false, ""),
                ("~/x", false, "home/x"),
            ] {
                let place = workspace.locate(Path::new(path));
                let real = tree.base.join(real).components().collect::<PathBuf>();
                assert_eq!(place.real(), real, "{root} {path}");
                assert_eq!(place.is_inside(), inside, "{root} {path}");
            }
        }
    }

    #[test]
    fn an_entry_is_judged_where_it_lies() {
        let tree = tree();
        let workspace = Workspace::new(tree.base.join("door"), []);
        for (path, inside, real) in [
            ("out-file", true, "w/out-file"),
            ("dangling", true, "w/dangling"),
            ("out/secret", false, "w-else/secret"),
            ("out/..", false, ""),
            ("sub/.", true, "w/sub"),
        ] {
            let place = workspace.locate_entry(Path::new(path));
            let real = tree.base.join(real).components().collect::<PathBuf>();
            assert_eq!((place.real(), place.is_inside()), (real.as_path(), inside), "{path}");
        }
    }

    #[test]
    fn a_root_pointed_elsewhere_later_takes_nothing_in() {
        let tree = tree();
        let door = tree.base.join("door");
        let workspace = Workspace::new(door.clone(), []);
        fs::remove_file(&door).unwrap();
        symlink("w-else", &door).unwrap();
        assert!(!workspace.locate(Path::new("secret")).is_inside());
    }

    #[test]
    fn a_chain_of_links_too_long_to_follow_is_outside() {
        let tree = tree();
        let at = |n: usize| tree.base.join(format!("w/chain{n}"));
        symlink("../w-else/secret", at(0)).unwrap();
        (1..60).for_each(|n| symlink(at(n - 1), at(n)).unwrap());
        let workspace = Workspace::new(tree.base.join("w"), []);
        for n in [10, 38, 39, 40, 41, 50, 59] {
            assert!(!workspace.locate(&at(n)).is_inside(), "{n}");
        }
    }

    #[test]
    fn the_root_of_the_system_holds_everything() {
        let workspace = Workspace::new("/", []);
        assert!(workspace.locate(Path::new("/etc/passwd")).is_inside());
    }

    #[test]
    fn absolute_keeps_the_spelling() {
        let workspace = Workspace::new("/w", []).with_home(Some(Path::new("/home/me")));
        for (path, expected) in [("a/../b", "/w/a/../b"), ("/x", "/x"), ("~/y", "/home/me/y")] {
            assert_eq!(workspace.absolute(Path::new(path)), Path::new(expected));
        }
    }
}
