//! `read_file`: a page of a text file.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

use milk_core::tool::{Location, PreparedCall, ToolError, ToolKind, ToolOutcome};

use crate::args::{Param, Shape};
use crate::builtin::{Call, Prepare, Row, Stop, running_on_disk};
use crate::paths::{FinalLink, Spot, reading};
use crate::snapshot::{cannot, open_regular};
use crate::text::{cap, cut_line, lossy, prefix, size};

pub(crate) const ROW: Row = Row {
    name: "read_file",
    kind: ToolKind::Read,
    about: include_str!("read_file.md"),
    params: &[
        Param::required("path", Shape::Text, "The file.").or_named("file_path"),
        Param::optional("offset", Shape::Count, "Lines to skip; 0 unless given."),
        Param::optional("limit", Shape::Count, "Lines to read; 500 unless given."),
    ],
    prepare: Prepare::OnDisk(prepare),
};

const DEFAULT_LINES: u64 = 500;
/// Longest line that is shown whole, in bytes.
const LONGEST_LINE: usize = 2000;
/// How far into a file a call reads at most, in bytes: about a second's work.
const REACH: u64 = 256 << 20;
/// Bytes from which is told whether a file is text.
const SAMPLE: usize = 8192;
/// Kept free in a result for the closing notes, in bytes.
const NOTES: usize = 300;

fn prepare(call: &Call) -> Result<PreparedCall, ToolError> {
    let path = call.args.filled("path")?;
    let skip = call.args.count_or("offset")?.unwrap_or(0);
    let lines = call.args.count_or("limit")?.unwrap_or(DEFAULT_LINES).max(1);
    let spot = Spot::find(&call.shared, &call.workspace, &path, FinalLink::Followed)?;
    let effect = reading(&call.shared, &spot);
    let first = u32::try_from(skip.saturating_add(1)).ok();
    let limit = call.shared.env.result_limit;
    Ok(PreparedCall {
        title: format!("read_file: {}", spot.shown),
        locations: vec![Location { path: spot.real.clone(), line: first }],
        changes: Vec::new(),
        effect,
        run: running_on_disk(move |stop| {
            let page = Page { skip, lines, room: limit - NOTES };
            match page.read(&spot.real, stop) {
                Ok(text) => stop.outcome(cap(text, limit)),
                Err(error) => ToolOutcome::failed(error.message),
            }
        }),
    })
}

/// A page of a file that is asked for.
struct Page {
    skip: u64,
    lines: u64,
    /// Bytes of text that fit.
    room: usize,
}

impl Page {
    fn read(&self, real: &Path, stop: &Stop) -> Result<String, ToolError> {
        let (mut file, metadata) = open_regular(real)?;
        let fail = |error| cannot("read", real, &error);
        if let Some(kind) = not_text(&mut file).map_err(fail)? {
            let size = size(metadata.len());
            return Err(ToolError::new(format!(
                "{} is {kind} ({size}): its bytes are not shown",
                real.display()
            )));
        }
        let mut lines = Lines::new(file);
        while lines.done < self.skip {
            if stop.is_raised() || !lines.skip().map_err(fail)? {
                return Ok(self.nothing_there(&lines));
            }
        }
        self.collect(&mut lines, stop).map_err(fail)
    }

    fn nothing_there(&self, lines: &Lines) -> String {
        match lines.end {
            End::OutOfReach => format!(
                "[line {} lies more than {} into the file; read there with a shell command such as `tail -n +{} FILE | head`]",
                self.skip + 1,
                size(REACH),
                self.skip + 1
            ),
            _ if lines.done == 0 => "[the file is empty]".to_owned(),
            _ => format!("[the file has {} lines: none after the offset {}]", lines.done, self.skip),
        }
    }

    fn collect(&self, lines: &mut Lines, stop: &Stop) -> io::Result<String> {
        let mut text = String::new();
        let mut shown = self.skip;
        let mut full = false;
        let mut marred = false;
        while shown - self.skip < self.lines && !full && !stop.is_raised() {
            let Some(line) = lines.next()? else { break };
            let row = format!("{}\t{}\n", shown + 1, line.text);
            full = !text.is_empty() && text.len() + row.len() > self.room;
            if !full {
                text.push_str(&row);
                marred |= line.marred;
                shown += 1;
            }
        }
        if shown == self.skip {
            return Ok(self.nothing_there(lines));
        }
        let more = full || !lines.at_end()?;
        if lines.end == End::OutOfReach {
            let _ = writeln!(text, "[only the first {} of a file are read]", size(REACH));
        } else if more {
            let first = self.skip + 1;
            let _ =
                writeln!(text, "[lines {first} to {shown} shown; more follow: read on with offset {shown}]");
        }
        if marred {
            text.push_str("[the file is not UTF-8: what is not is shown as \u{FFFD}]\n");
        }
        Ok(text)
    }
}

/// Looks at the beginning: what the file is instead of text in a character set that holds ASCII.
fn not_text(file: &mut File) -> io::Result<Option<&'static str>> {
    let mut sample = Vec::with_capacity(SAMPLE);
    file.by_ref().take(SAMPLE as u64).read_to_end(&mut sample)?;
    // Files of /proc cannot all go back; those that cannot are read on from here, which loses nothing when empty.
    file.rewind()?;
    Ok(match sample.as_slice() {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => Some("UTF-16 text"),
        sample if sample.contains(&0) => Some("a binary file"),
        _ => None,
    })
}

/// Where reading line by line has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    Reached,
    OutOfReach,
}

struct Line {
    text: String,
    /// It holds bytes that are not UTF-8.
    marred: bool,
}

/// The lines of a file, one at a time; none is ever held whole if it is long.
struct Lines {
    file: BufReader<File>,
    reach: u64,
    done: u64,
    end: End,
}

impl Lines {
    fn new(file: File) -> Self {
        Self { file: BufReader::with_capacity(64 * 1024, file), reach: REACH, done: 0, end: End::NotYet }
    }

    /// Passes a line by. False where there is none.
    fn skip(&mut self) -> io::Result<bool> {
        Ok(self.pass(0)?.is_some())
    }

    fn next(&mut self) -> io::Result<Option<Line>> {
        let first = self.done == 0;
        let Some((mut bytes, length)) = self.pass(LONGEST_LINE * 2)? else { return Ok(None) };
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        let text = lossy(&bytes);
        let text = if first { text.strip_prefix('\u{FEFF}').unwrap_or(&text) } else { &text };
        // Two bytes of line end may be missing from `bytes`.
        let is_whole = length <= bytes.len() as u64 + 2;
        // A character that the cut went through is no fault of the file.
        let marred = std::str::from_utf8(&bytes).is_err_and(|error| is_whole || error.error_len().is_some());
        let text = if is_whole {
            cut_line(text, LONGEST_LINE).into_owned()
        } else {
            let kept = prefix(text, LONGEST_LINE);
            format!("{kept}… [a line of {}]", size(length))
        };
        Ok(Some(Line { text, marred }))
    }

    /// Passes a line by and returns its first `keep` bytes and its length.
    fn pass(&mut self, keep: usize) -> io::Result<Option<(Vec<u8>, u64)>> {
        if self.end != End::NotYet {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let kept = self.file.by_ref().take(self.reach.min(keep as u64)).read_until(b'\n', &mut bytes)? as u64;
        self.reach -= kept;
        let mut length = kept;
        let mut ended = bytes.last() == Some(&b'\n');
        if !ended {
            let (passed, at_line_end) = self.pass_rest()?;
            length += passed;
            ended = at_line_end;
        }
        if !ended {
            self.end = if self.reach == 0 { End::OutOfReach } else { End::Reached };
            if length == 0 {
                return Ok(None);
            }
        }
        self.done += 1;
        Ok(Some((bytes, length)))
    }

    /// Passes the rest of a line by: how long it was, and whether a line end came.
    fn pass_rest(&mut self) -> io::Result<(u64, bool)> {
        let mut passed = 0;
        loop {
            let buffer = self.file.fill_buf()?;
            let allowed = buffer.len().min(usize::try_from(self.reach).unwrap_or(usize::MAX));
            if allowed == 0 {
                return Ok((passed, false));
            }
            let mut looked = &buffer[..allowed];
            let used = looked.skip_until(b'\n')?;
            let ended = buffer[used - 1] == b'\n';
            self.file.consume(used);
            self.reach -= used as u64;
            passed += used as u64;
            if ended {
                return Ok((passed, true));
            }
        }
    }

    fn at_end(&mut self) -> io::Result<bool> {
        Ok(self.end == End::Reached || self.file.fill_buf()?.is_empty())
    }
}
