//! Lines out of bytes: newline-delimited, bounded, tolerant of what launchers and shells put between them.

use std::io::{self, BufRead, BufReader, Read};

/// Longest line that is read, in bytes without its newline (R18). A longer one is dropped while it streams past.
pub const MAX_LINE: usize = 64 << 20;

/// Room that is kept between lines; what a longer line needed is given back.
const KEEP: usize = 256 << 10;

const BYTE_ORDER_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

/// Reads lines of at most [`MAX_LINE`] bytes. Blank lines and too long ones are skipped, `\r\n` ends a line as `\n` does,
/// a byte-order mark before the first line is dropped, and a last line without its newline counts.
#[derive(Debug)]
pub struct LineReader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
    at_start: bool,
}

impl<R: Read> LineReader<R> {
    /// A reader with the protocol's limit.
    pub fn new(input: R) -> Self {
        Self::with_limit(input, MAX_LINE)
    }

    /// A reader with another limit, in bytes.
    pub fn with_limit(input: R, limit: usize) -> Self {
        Self { input: BufReader::with_capacity(64 << 10, input), line: Vec::new(), limit, at_start: true }
    }

    /// The next line that is neither blank nor too long; `None` at the end of the input. Waits for input.
    ///
    /// Fails when the input does. The bytes need not be valid text.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            match self.read_one()? {
                Read1::End => return Ok(None),
                Read1::TooLong => {
                    self.input.skip_until(b'\n')?;
                }
                Read1::Line => {
                    if !self.line.iter().all(u8::is_ascii_whitespace) {
                        return Ok(Some(&self.line));
                    }
                }
            }
        }
    }

    fn read_one(&mut self) -> io::Result<Read1> {
        self.line.clear();
        self.line.shrink_to(KEEP);
        let limit = self.limit as u64 + 1;
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(Read1::End);
        }
        let first = std::mem::take(&mut self.at_start);
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read > self.limit {
            return Ok(Read1::TooLong);
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if first && self.line.starts_with(BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Read1::Line)
    }
}

enum Read1 {
    Line,
    TooLong,
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8], limit: usize) -> Vec<Vec<u8>> {
        let mut reader = LineReader::with_limit(OneByOne(input), limit);
        let mut all = Vec::new();
        while let Some(line) = reader.next_line().unwrap() {
            all.push(line.to_vec());
        }
        all
    }

    /// Gives one byte a read, so that no test depends on how the bytes were cut.
    struct OneByOne<'a>(&'a [u8]);

    impl Read for OneByOne<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.split_first() {
                Some((first, rest)) => {
                    buffer[0] = *first;
                    self.0 = rest;
                    Ok(1)
                }
                None => Ok(0),
            }
        }
    }

    #[test]
    fn lines_come_without_their_endings() {
        let cases: &[(&[u8], &[&[u8]])] = &[
            (b"", &[]),
            (b"a\nb\n", &[b"a", b"b"]),
            (b"a\r\nb", &[b"a", b"b"]),
            (b"\n\n  \t\r\na\n\n", &[b"a"]),
            (b"\xEF\xBB\xBFa\n\xEF\xBB\xBFb\n", &[b"a", b"\xEF\xBB\xBFb"]),
            (b"\xEF\xBB\xBF\na\n", &[b"a"]),
            (b"a\rb\n", &[b"a\rb"]),
            (b"\xFF\xFE\n", &[b"\xFF\xFE"]),
            (b"a\0b\n", &[b"a\0b"]),
        ];
        for (input, expected) in cases {
            assert_eq!(lines(input, 100), *expected, "{:?}", String::from_utf8_lossy(input));
        }
    }

    #[test]
    fn a_line_over_the_limit_is_dropped_and_the_next_one_works() {
        assert_eq!(lines(b"12345\n123456\n1234567890123\nok\n", 5), [b"12345".as_slice(), b"ok"]);
        assert_eq!(lines(b"123456", 5), Vec::<Vec<u8>>::new());
        assert_eq!(lines(b"12345", 5), [b"12345"]);
        assert_eq!(lines(b"\xEF\xBB\xBF123456\nok", 5), [b"ok"]);
    }

    #[test]
    fn a_long_line_does_not_keep_its_memory() {
        let mut input = vec![b'x'; 4 << 20];
        input.extend_from_slice(b"\nnext\n");
        let mut reader = LineReader::new(input.as_slice());
        assert_eq!(reader.next_line().unwrap().unwrap().len(), 4 << 20);
        assert_eq!(reader.next_line().unwrap(), Some(b"next".as_slice()));
        assert!(reader.line.capacity() <= KEEP);
    }

    /// What a fuzzer found, or was given, replayed as an ordinary test.
    #[test]
    fn the_fuzz_corpus_holds() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/line_reader");
        for entry in std::fs::read_dir(corpus).into_iter().flatten() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            for limit in [0, 1, 7, 1 << 20] {
                for line in lines(&bytes, limit) {
                    assert!(line.len() <= limit && !line.contains(&b'\n'));
                }
            }
        }
    }
}
