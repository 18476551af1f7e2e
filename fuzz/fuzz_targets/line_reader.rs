//! Any bytes on stdin become the same lines however reads cut them, and no line breaks the reader's promises.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use milk_acp::frame::LineReader;

/// Small enough for the fuzzer to find the way over it.
const LIMITS: [usize; 4] = [0, 1, 64, 1 << 20];

fuzz_target!(|input: &[u8]| {
    for limit in LIMITS {
        let whole = lines(input, limit);
        for line in &whole {
            assert!(line.len() <= limit, "a line over the limit");
            assert!(!line.contains(&b'\n'), "a line with a line end in it");
            assert!(!line.iter().all(u8::is_ascii_whitespace), "a blank line");
        }
        for size in [1, 3] {
            assert_eq!(lines(Pieces(input, size), limit), whole, "cut every {size}");
        }
    }
});

fn lines(input: impl Read, limit: usize) -> Vec<Vec<u8>> {
    let mut reader = LineReader::with_limit(input, limit);
    let mut lines = Vec::new();
    while let Some(line) = reader.next_line().expect("reading memory does not fail") {
        lines.push(line.to_vec());
    }
    lines
}

/// Gives at most so many bytes a read.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let size = self.1.min(self.0.len()).min(buffer.len());
        let (now, later) = self.0.split_at(size);
        buffer[..size].copy_from_slice(now);
        self.0 = later;
        Ok(size)
    }
}
