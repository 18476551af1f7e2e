//! The bytes of a log, from its file and from memory, read forwards and backwards by whole lines. Never holds more than
//! one line and one block, and lines have a limit.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use memchr::{memchr, memrchr};

/// Longest line of a file that is read, in bytes. milk's own are shorter: what is large is kept beside the log.
pub(super) const LINE_LIMIT: usize = 4 * 1024 * 1024;
/// Bytes read at a time at first.
const BLOCK: usize = 64 * 1024;
/// Bytes read at a time at most.
const LARGE_BLOCK: usize = 1024 * 1024;

/// Opens a regular file for reading. Never waits for a pipe or a device.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    open_checked(path, OpenOptions::new().read(true))
}

/// Opens a regular file as `options` say.
pub(super) fn open_checked(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Asked before opening, because opening a device can have effects; asked again of what was really opened.
    if !std::fs::metadata(path)?.is_file() {
        return Err(not_regular());
    }
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = options.custom_flags(nonblocking).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// A log as it was at one moment: the beginning of a file, and what is not written yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Source {
    file: Option<Arc<File>>,
    file_len: u64,
    rest: Vec<u8>,
}

impl Source {
    /// The first `len` bytes of a file, followed by `rest`, which is whole lines.
    pub(super) fn new(file: Option<Arc<File>>, len: u64, rest: Vec<u8>) -> Self {
        Self { file, file_len: len, rest }
    }

    /// A file as long as it is now.
    pub(super) fn of_file(file: Arc<File>) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self::new(Some(file), len, Vec::new()))
    }

    /// Lines in memory.
    pub(super) fn of_lines(lines: Vec<u8>) -> Self {
        Self::new(None, 0, lines)
    }

    /// Its length, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.file_len.saturating_add(length(&self.rest))
    }

    /// The lines in memory.
    pub(super) fn into_lines(self) -> Vec<u8> {
        self.rest
    }

    /// The lines from `offset` on, where a line must begin.
    pub(super) fn lines(&self, offset: u64) -> Lines<'_> {
        Lines { source: self, read: offset, buffer: Vec::new(), taken: 0, block: BLOCK }
    }

    /// The lines from the last one back.
    pub(super) fn lines_back(&self) -> io::Result<LinesBack<'_>> {
        let mut lines = LinesBack { source: self, start: self.len(), buffer: Vec::new(), block: BLOCK };
        lines.pass_over_unfinished()?;
        Ok(lines)
    }

    /// Fills `buffer` with the bytes at `offset` as far as there are any. A file that became shorter meanwhile ends there.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(left) = buffer.get_mut(done..).filter(|left| !left.is_empty()) {
            let at = offset.saturating_add(u64::try_from(done).unwrap_or(u64::MAX));
            let count = if at < self.file_len {
                let in_file = usize::try_from(self.file_len - at).unwrap_or(usize::MAX).min(left.len());
                match &self.file {
                    Some(file) => file.read_at(&mut left[..in_file], at)?,
                    None => 0,
                }
            } else {
                let from = usize::try_from(at - self.file_len).unwrap_or(usize::MAX);
                let rest = self.rest.get(from..).unwrap_or_default();
                let count = rest.len().min(left.len());
                left[..count].copy_from_slice(&rest[..count]);
                count
            };
            if count == 0 {
                break;
            }
            done += count;
        }
        Ok(done)
    }

    /// Longest line that may begin at `offset`, in bytes. What is in memory already is as long as it is.
    fn limit(&self, offset: u64) -> usize {
        if offset < self.file_len { LINE_LIMIT } else { usize::MAX }
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// One whole line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Where it begins.
    pub(super) start: u64,
    /// Where the next one begins.
    pub(super) end: u64,
    /// Its bytes without the line end; `None` where it is longer than any line that milk writes.
    pub(super) text: Option<Vec<u8>>,
}

/// Reads lines in order. An unfinished last line is not one.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    source: &'a Source,
    /// How far has been read.
    read: u64,
    /// What has been read.
    buffer: Vec<u8>,
    /// How much of it was given.
    taken: usize,
    block: usize,
}

impl Lines<'_> {
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let start = self.read - length(&self.buffer) + u64::try_from(self.taken).unwrap_or_default();
        let limit = self.source.limit(start);
        let mut too_long = false;
        let mut searched = self.taken;
        loop {
            if let Some(n) = memchr(b'\n', &self.buffer[searched..]) {
                let text = self.buffer[self.taken..searched + n].to_vec();
                self.taken = searched + n + 1;
                let end = self.read - length(&self.buffer) + u64::try_from(self.taken).unwrap_or_default();
                let text = (!too_long && text.len() <= limit).then_some(text);
                return Ok(Some(Line { start, end, text }));
            }
            if self.buffer.len() - self.taken > limit {
                too_long = true;
                self.taken = self.buffer.len();
            }
            self.buffer.drain(..self.taken);
            self.taken = 0;
            searched = self.buffer.len();
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    fn fill(&mut self) -> io::Result<bool> {
        let left = self.source.len().saturating_sub(self.read);
        let mut block = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(self.block)];
        let count = self.source.read_at(&mut block, self.read)?;
        block.truncate(count);
        if self.buffer.is_empty() {
            self.buffer = block;
        } else {
            self.buffer.append(&mut block);
        }
        self.read += u64::try_from(count).unwrap_or_default();
        self.block = LARGE_BLOCK.min(self.block * 2);
        Ok(count > 0)
    }
}

/// Reads lines from the last one back.
#[derive(Debug)]
pub(super) struct LinesBack<'a> {
    source: &'a Source,
    /// Where the buffer begins.
    start: u64,
    /// What is before the line that was given last; it ends with a line end.
    buffer: Vec<u8>,
    block: usize,
}

impl LinesBack<'_> {
    /// Where the line that was given last begins; at first, where the last whole line ends.
    pub(super) fn position(&self) -> u64 {
        self.start.saturating_add(length(&self.buffer))
    }

    fn pass_over_unfinished(&mut self) -> io::Result<()> {
        while self.start > 0 {
            self.buffer.clear();
            self.fill()?;
            if let Some(n) = memrchr(b'\n', &self.buffer) {
                self.buffer.truncate(n + 1);
                return Ok(());
            }
        }
        self.buffer.clear();
        Ok(())
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let end = self.position();
        if end == 0 {
            return Ok(None);
        }
        if self.buffer.is_empty() {
            self.fill()?;
        }
        // Without the line end of the line itself, which is the last byte.
        let mut unsearched = self.buffer.len().saturating_sub(1);
        let mut too_long = false;
        loop {
            if let Some(n) = memrchr(b'\n', &self.buffer[..unsearched]) {
                return Ok(Some(self.give(n + 1, end, too_long)));
            }
            if self.start == 0 {
                return Ok(Some(self.give(0, end, too_long)));
            }
            if self.buffer.len() > self.source.limit(self.start) {
                too_long = true;
                self.buffer.clear();
            }
            let before = self.buffer.len();
            self.fill()?;
            unsearched = self.buffer.len() - before;
        }
    }

    /// Takes the line that begins at `from` in the buffer.
    fn give(&mut self, from: usize, end: u64, too_long: bool) -> Line {
        let mut text = self.buffer.split_off(from);
        text.pop();
        let start = self.position();
        let text = (!too_long && text.len() <= self.source.limit(start)).then_some(text);
        Line { start, end, text }
    }

    /// Puts the block before the buffer in front of it.
    fn fill(&mut self) -> io::Result<()> {
        let size = usize::try_from(self.start).unwrap_or(usize::MAX).min(self.block);
        let from = self.start - u64::try_from(size).unwrap_or_default();
        let mut block = vec![0; size];
        if self.source.read_at(&mut block, from)? < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        block.append(&mut self.buffer);
        self.buffer = block;
        self.start = from;
        self.block = LARGE_BLOCK.min(self.block * 2);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn forwards(source: &Source) -> Vec<Line> {
        let mut lines = source.lines(0);
        std::iter::from_fn(|| lines.next().unwrap()).collect()
    }

    fn backwards(source: &Source) -> Vec<Line> {
        let mut lines = source.lines_back().unwrap();
        let mut found: Vec<_> = std::iter::from_fn(|| lines.next().unwrap()).collect();
        found.reverse();
        found
    }

    fn file_with(bytes: &[u8]) -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
        Arc::new(file)
    }

    proptest! {
        #[test]
        fn both_ways_give_the_same_lines(
            pieces in proptest::collection::vec((0_usize..40, 1_usize..5000), 0..60),
            cut in 0_usize..200_000,
            unfinished in 0_usize..200_000,
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (n, (short, long)) in pieces.iter().enumerate() {
                let text = vec![b'a' + u8::try_from(n % 26).unwrap(); if short % 4 == 0 { long * 20 } else { *short }];
                bytes.extend_from_slice(&text);
                bytes.push(b'\n');
                expected.push(text);
            }
            let cut = cut.min(bytes.len());
            let mut source = Source::new(Some(file_with(&bytes[..cut])), length(&bytes[..cut]), bytes[cut..].to_vec());
            source.rest.extend(vec![b'z'; unfinished]);
            let found = forwards(&source);
            prop_assert_eq!(&found, &backwards(&source));
            let texts: Vec<_> = found.into_iter().map(|line| line.text.unwrap()).collect();
            prop_assert_eq!(texts, expected);
        }
    }

    #[test]
    fn a_line_beyond_the_limit_is_passed_over() {
        let mut bytes = b"one\n".to_vec();
        bytes.extend(vec![b'x'; LINE_LIMIT + 1]);
        bytes.extend_from_slice(b"\ntwo\n");
        let source = Source::of_file(file_with(&bytes)).unwrap();
        let found = forwards(&source);
        assert_eq!(found, backwards(&source));
        let texts: Vec<_> = found.iter().map(|line| line.text.as_deref()).collect();
        assert_eq!(texts, [Some(&b"one"[..]), None, Some(b"two")]);
        let in_memory = Source::of_lines(bytes);
        assert!(forwards(&in_memory).iter().all(|line| line.text.is_some()));
        assert_eq!(forwards(&in_memory), backwards(&in_memory));
    }

    #[test]
    fn what_is_not_a_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        for path in [dir.path(), &pipe, Path::new("/dev/zero")] {
            assert!(open_regular(path).is_err(), "{}", path.display());
        }
    }
}
