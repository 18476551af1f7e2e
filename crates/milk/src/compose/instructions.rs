//! The project's own instructions for agents: `AGENTS.md`, else `CLAUDE.md`, from the session's directory up to the
//! repository's root.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use milk_files::{read_bounded, resolve};

/// File names, the preferred one first; one of them counts in each folder.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// How much of all files together reaches the model, in bytes.
const LIMIT: usize = 12_000;
/// Largest file that is looked at, in bytes.
const FILE_LIMIT: u64 = 1024 * 1024;
/// How many folders are climbed at most.
const DEPTH: usize = 32;

/// The instructions that hold in this directory, the outermost first; `None` where there are none.
pub(super) fn find(cwd: &Path) -> Option<String> {
    let cwd = resolve(cwd, Path::new("/"));
    let mut folders: Vec<&Path> = cwd.ancestors().take(DEPTH).collect();
    let root = folders.iter().position(|folder| folder.join(".git").exists()).unwrap_or(0);
    folders.truncate(root + 1);
    let border = folders.last()?.to_path_buf();
    let mut text = String::new();
    for folder in folders.iter().rev() {
        let Some((file, content)) = in_folder(folder, &border) else { continue };
        let _ = writeln!(text, "From {}:\n{}\n", file.display(), content.trim()); // writing to a String cannot fail
    }
    if text.len() > LIMIT {
        text.truncate(text.floor_char_boundary(LIMIT));
        text.push_str("\n[The instructions go on; the rest is left out.]");
    }
    (!text.is_empty()).then_some(text)
}

/// A file counts only if it really is in the repository: a link must not carry the user's other files to a model.
fn in_folder(folder: &Path, border: &Path) -> Option<(PathBuf, String)> {
    NAMES.iter().find_map(|name| {
        let file = folder.join(name);
        if !resolve(&file, folder).starts_with(border) {
            return None;
        }
        let bytes = read_bounded(&file, FILE_LIMIT).ok()?;
        let text = String::from_utf8(bytes).ok().filter(|text| !text.trim().is_empty())?;
        Some((file, text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_count_from_the_repository_root_down_and_links_out_of_it_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("repository");
        let inner = repository.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir(repository.join(".git")).unwrap();
        fs::write(folder.path().join("AGENTS.md"), "above the repository").unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        fs::write(repository.join("AGENTS.md"), "outer").unwrap();
        fs::write(repository.join("a/CLAUDE.md"), "middle").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), inner.join("AGENTS.md")).unwrap();
        let text = find(&inner).unwrap();
        assert!(text.find("outer").unwrap() < text.find("middle").unwrap());
        assert!(!text.contains("above") && !text.contains("secret\n"));
        assert_eq!(find(folder.path().join("repository/../nothing").as_path()), None);
    }

    #[test]
    fn long_instructions_are_cut_between_characters() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("AGENTS.md"), "é".repeat(LIMIT)).unwrap();
        let text = find(folder.path()).unwrap();
        assert!(text.len() < LIMIT + 100 && text.ends_with("left out.]"));
    }
}
