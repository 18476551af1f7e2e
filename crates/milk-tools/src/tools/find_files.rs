//! `find_files`: files by name.

use std::fmt::Write as _;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use milk_core::tool::{Location, PreparedCall, ToolError, ToolKind};

use crate::args::{Param, Shape};
use crate::builtin::{Call, Prepare, Row, Stop, running_on_disk};
use crate::paths::{FinalLink, Spot, reading};
use crate::search::{Depth, Search, closing};
use crate::snapshot::{cannot, what};
use crate::text::{cap, visible};

pub(crate) const ROW: Row = Row {
    name: "find_files",
    kind: ToolKind::Search,
    about: include_str!("find_files.md"),
    params: &[
        Param::required("pattern", Shape::Text, "A name or glob: `main.rs`, `*.ts`, `src/**/*_test.go`."),
        Param::optional("path", Shape::Text, "The folder to search; the session's directory unless given."),
    ],
    prepare: Prepare::OnDisk(prepare),
};

/// Paths that are shown.
const SHOWN: usize = 500;

fn prepare(call: &Call) -> Result<PreparedCall, ToolError> {
    let pattern = call.args.filled("pattern")?;
    let path =
        call.args.text_or("path")?.filter(|path| !path.trim().is_empty()).unwrap_or_else(|| ".".to_owned());
    let spot = Spot::find(&call.shared, &call.workspace, &path, FinalLink::Followed)?;
    let metadata = std::fs::metadata(&spot.real).map_err(|error| cannot("search in", &spot.real, &error))?;
    if !metadata.is_dir() {
        let kind = what(&metadata).unwrap_or("a file");
        return Err(ToolError::new(format!("{} is {kind}, not a folder to search in", spot.shown)));
    }
    let names = Names::new(&pattern, &spot.real)?;
    let search = Search::new(&call.shared, &call.workspace, &spot.real);
    let effect = reading(&call.shared, &spot);
    let limit = call.shared.env.result_limit;
    Ok(PreparedCall {
        title: format!("find_files: {} in {}", visible(&pattern), spot.shown),
        locations: vec![Location { path: spot.real, line: None }],
        changes: Vec::new(),
        effect,
        run: running_on_disk(move |stop| stop.outcome(cap(find(&search, &names, stop), limit))),
    })
}

fn find(search: &Search, names: &Names, stop: &Stop) -> String {
    let patience = Search::patience(stop);
    let mut text = String::new();
    let (mut found, mut unread) = (0_usize, 0);
    for entry in search.walk(Depth::Whole) {
        if patience.is_over() {
            break;
        }
        let Ok(entry) = entry else {
            unread += 1;
            continue;
        };
        let path = entry.path();
        let kind = entry.file_type();
        if !kind.is_some_and(|kind| kind.is_file() || kind.is_symlink()) || !names.matches(path, &search.root)
        {
            continue;
        }
        // A link is found under its own name if it leads to a file.
        if kind.is_some_and(|kind| kind.is_symlink()) && !path.is_file() {
            continue;
        }
        found += 1;
        if found <= SHOWN {
            text.push_str(&search.name(path));
            text.push('\n');
        }
    }
    if found == 0 {
        text.push_str("[no files match; files that .gitignore excludes are not searched]\n");
    } else if found > SHOWN {
        let _ = writeln!(text, "[{} more files match; narrow the pattern or the path]", found - SHOWN);
    }
    text.push_str(&closing(&patience, unread));
    text
}

/// Which files are wanted.
#[derive(Debug)]
pub(super) enum Names {
    /// Those whose own name matches, wherever they are.
    Name(GlobMatcher),
    /// Those whose path below the searched folder matches.
    Path(GlobMatcher),
}

impl Names {
    /// A pattern without a slash is for names, as in `.gitignore` and `find -name`.
    pub(super) fn new(pattern: &str, root: &Path) -> Result<Self, ToolError> {
        let below = Path::new(pattern).strip_prefix(root).ok().and_then(Path::to_str);
        let pattern = below.unwrap_or(pattern).trim_start_matches("./");
        let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
        let glob = glob.map_err(|error| ToolError::new(format!("the pattern is no glob: {error}")))?;
        let matcher = glob.compile_matcher();
        Ok(if below.is_some() || pattern.contains('/') { Self::Path(matcher) } else { Self::Name(matcher) })
    }

    pub(super) fn matches(&self, path: &Path, root: &Path) -> bool {
        match self {
            Self::Name(glob) => path.file_name().is_some_and(|name| glob.is_match(name)),
            Self::Path(glob) => glob.is_match(path.strip_prefix(root).unwrap_or(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let root = Path::new("/w");
        for (pattern, path, matches) in [
            ("*.ts", "/w/a/b/c.ts", true),
            ("*.ts", "/w/c.tsx", false),
            ("**/*.ts", "/w/c.ts", true),
            ("**/*.ts", "/w/a/b/c.ts", true),
            ("src/*.ts", "/w/src/c.ts", true),
            ("src/*.ts", "/w/src/a/c.ts", false),
            ("src/**/c.ts", "/w/src/a/b/c.ts", true),
            ("./src/*.ts", "/w/src/c.ts", true),
            ("/w/src/*.ts", "/w/src/c.ts", true),
            ("/w/*.ts", "/w/src/c.ts", false),
            ("main.rs", "/w/x/main.rs", true),
            ("main.rs", "/w/x/domain.rs", false),
            ("*.{js,ts}", "/w/x/a.js", true),
            ("[ab].c", "/w/b.c", true),
            ("*", "/w/.hidden", true),
            ("é*", "/w/ete", false),
            ("é*", "/w/élan", true),
        ] {
            assert_eq!(
                Names::new(pattern, root).unwrap().matches(Path::new(path), root),
                matches,
                "{pattern} {path}"
            );
        }
        assert!(Names::new("[", root).unwrap_err().message.contains("no glob"));
    }
}
