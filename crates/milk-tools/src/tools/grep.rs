//! `grep`: lines that match a regular expression.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use milk_core::tool::{Location, PreparedCall, ToolError, ToolKind};

use super::find_files::Names;
use crate::args::{Param, Shape};
use crate::builtin::{Call, Patience, Prepare, Row, Stop, running_on_disk};
use crate::paths::{FinalLink, Spot, reading};
use crate::search::{Depth, Search, closing};
use crate::snapshot::{cannot, open_regular, what};
use crate::text::{cap, cut_line, lossy, visible};

pub(crate) const ROW: Row = Row {
    name: "grep",
    kind: ToolKind::Search,
    about: include_str!("grep.md"),
    params: &[
        Param::required("pattern", Shape::Text, "A regular expression; `(?i)` in front ignores case."),
        Param::optional(
            "path",
            Shape::Text,
            "The file or folder to search; the session's directory unless given.",
        ),
        Param::optional("recursive", Shape::Switch, "Search in sub-folders; true unless given."),
        Param::optional("include", Shape::Text, "Only files that match this name or glob, such as `*.rs`."),
    ],
    prepare: Prepare::OnDisk(prepare),
};

/// Lines that are shown.
const SHOWN: usize = 200;
/// Lines that are counted.
const COUNTED: usize = 10_000;
/// Longest part of a line that is shown, in bytes.
const LONGEST_LINE: usize = 400;
/// Longest line that is searched, in bytes: a file with a longer one is given up there.
const LONGEST_SEARCHED: usize = 16 << 20;

fn prepare(call: &Call) -> Result<PreparedCall, ToolError> {
    let pattern = call.args.text("pattern")?;
    let path =
        call.args.text_or("path")?.filter(|path| !path.trim().is_empty()).unwrap_or_else(|| ".".to_owned());
    let depth =
        if call.args.switch_or("recursive")?.unwrap_or(true) { Depth::Whole } else { Depth::OneFolder };
    let include = call.args.text_or("include")?.filter(|include| !include.trim().is_empty());
    if pattern.is_empty() {
        return Err(ToolError::new("`pattern` must not be empty"));
    }
    let matcher = RegexMatcherBuilder::new().multi_line(true).crlf(true).build(&pattern);
    let matcher = matcher.map_err(|error| {
        let error = error.to_string();
        ToolError::new(format!("the pattern is no regular expression for single lines: {error}"))
    })?;
    let spot = Spot::find(&call.shared, &call.workspace, &path, FinalLink::Followed)?;
    let metadata = std::fs::metadata(&spot.real).map_err(|error| cannot("search in", &spot.real, &error))?;
    if let Some(kind) = what(&metadata).filter(|_| !metadata.is_dir()) {
        return Err(ToolError::new(format!("{} is {kind}: only files and folders are searched", spot.shown)));
    }
    let include = include.map(|include| Names::new(&include, &spot.real)).transpose()?;
    let search = Search::new(&call.shared, &call.workspace, &spot.real);
    let effect = reading(&call.shared, &spot);
    let limit = call.shared.env.result_limit;
    Ok(PreparedCall {
        title: format!("grep: {} in {}", visible(&pattern), spot.shown),
        locations: vec![Location { path: spot.real, line: None }],
        changes: Vec::new(),
        effect,
        run: running_on_disk(move |stop| {
            let grep = Grep { matcher, search, include, depth };
            stop.outcome(cap(grep.run(stop), limit))
        }),
    })
}

struct Grep {
    matcher: RegexMatcher,
    search: Search,
    include: Option<Names>,
    depth: Depth,
}

impl Grep {
    fn run(&self, stop: &Stop) -> String {
        let patience = Search::patience(stop);
        let mut hits = Hits::default();
        let mut searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(LONGEST_SEARCHED))
            .line_terminator(LineTerminator::crlf())
            .build();
        let mut unread = 0;
        for entry in self.search.walk(self.depth) {
            if patience.is_over() || hits.count >= COUNTED {
                break;
            }
            let Ok(entry) = entry else {
                unread += 1;
                continue;
            };
            // The root may be a file itself.
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            let wanted =
                self.include.as_ref().is_none_or(|names| names.matches(entry.path(), &self.search.root));
            if is_file && wanted && self.file(&mut searcher, entry.path(), &patience, &mut hits).is_err() {
                unread += usize::from(!patience.is_over());
            }
        }
        hits.finish(&patience, unread)
    }

    fn file(
        &self,
        searcher: &mut Searcher,
        path: &Path,
        patience: &Patience,
        hits: &mut Hits,
    ) -> io::Result<()> {
        let (file, _) = open_regular(path).map_err(|error| io::Error::other(error.message))?;
        hits.file = self.search.name(path);
        searcher.search_reader(&self.matcher, Patient { file, patience }, hits)
    }
}

/// Reads until nobody waits any more.
struct Patient<'a, R> {
    file: R,
    patience: &'a Patience,
}

impl<R: Read> Read for Patient<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.patience.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

/// The lines that were found.
#[derive(Default)]
struct Hits {
    text: String,
    count: usize,
    /// The file that is being searched.
    file: String,
}

impl Hits {
    fn finish(mut self, patience: &Patience, unread: usize) -> String {
        match self.count {
            0 => self
                .text
                .push_str("[no matches; files that .gitignore excludes and binary files are not searched]\n"),
            COUNTED.. => {
                self.text.push_str("[a great many more lines match; narrow the pattern or the path]\n");
            }
            count if count > SHOWN => {
                let more = count - SHOWN;
                let _ = writeln!(self.text, "[{more} more lines match; narrow the pattern or the path]");
            }
            _ => {}
        }
        self.text.push_str(&closing(patience, unread));
        self.text
    }
}

impl Sink for &mut Hits {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.count += 1;
        if self.count <= SHOWN {
            let line = lossy(found.bytes());
            let line = cut_line(line.trim_end_matches(['\n', '\r']), LONGEST_LINE);
            let number = found.line_number().unwrap_or_default();
            let file = &self.file;
            let row = format!("{file}:{number}:{line}\n");
            self.text.push_str(&row);
        }
        Ok(self.count < COUNTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_any_more_076() {
        let stop = Stop::default();
        let patience = Search::patience(&stop);
        let mut reader = Patient { file: io::repeat(b'x'), patience: &patience };
        let mut buffer = [0; 8];
        assert_eq!(reader.read(&mut buffer).unwrap(), 8);
        stop.raise();
        assert_eq!(reader.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let text = Hits::default().finish(&patience, 0);
        assert!(text.ends_with(
            "[the search was stopped before it had seen everything: search in a smaller folder]\n"
        ));
    }
}
