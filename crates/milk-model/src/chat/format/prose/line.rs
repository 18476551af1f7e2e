//! Where in a Markdown text the next character stands: at the start of a line, in inline code, in a fence.

/// Follows a text character by character.
#[derive(Debug)]
pub(super) struct Line {
    /// Only white space so far in this line.
    is_blank: bool,
    run: Run,
    /// The length of the backtick run that opened inline code; it ends with its line.
    code: Option<usize>,
    fence: Option<Fence>,
}

/// A run of backticks or tildes that may still grow.
#[derive(Debug, Default, Clone, Copy)]
struct Run {
    mark: char,
    length: usize,
    leads: bool,
}

/// What opened a fence: it is closed by a run of the same mark that is at least as long.
#[derive(Debug, Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
}

impl Line {
    /// At the start of a text.
    pub(super) fn new() -> Self {
        Self { is_blank: true, run: Run::default(), code: None, fence: None }
    }

    /// Goes past a character.
    pub(super) fn pass(&mut self, c: char) {
        match c {
            '`' | '~' if self.run.mark == c => self.run.length += 1,
            '`' | '~' => {
                self.end_run();
                self.run = Run { mark: c, length: 1, leads: self.is_blank };
                self.is_blank = false;
            }
            '\n' => {
                self.end_run();
                (self.is_blank, self.code) = (true, None);
            }
            _ => {
                self.end_run();
                self.is_blank &= c.is_whitespace();
            }
        }
    }

    /// Says that the text goes on as if a line began: a block that is not shown ended here.
    pub(super) fn restart(&mut self) {
        self.end_run();
        self.is_blank = true;
    }

    /// Whether the next character is the first visible one of its line.
    pub(super) fn is_blank(&self) -> bool {
        self.is_blank
    }

    /// Whether the next character, which is no backtick, stands in code.
    pub(super) fn is_code(&mut self) -> bool {
        self.end_run();
        self.fence.is_some() || self.code.is_some()
    }

    /// Whether the next character stands in a fence.
    pub(super) fn is_fenced(&self) -> bool {
        self.fence.is_some()
    }

    fn end_run(&mut self) {
        let Run { mark, length, leads } = std::mem::take(&mut self.run);
        match self.fence {
            _ if length == 0 => {}
            Some(fence) if leads && mark == fence.mark && length >= fence.length => self.fence = None,
            None if leads && length >= 3 => self.fence = Some(Fence { mark, length }),
            None if mark == '`' => {
                self.code = match self.code {
                    None => Some(length),
                    Some(open) if open == length => None,
                    open => open,
                };
            }
            Some(_) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str) -> Line {
        let mut line = Line::new();
        text.chars().for_each(|c| line.pass(c));
        line
    }

    #[test]
    fn code_is_known() {
        for text in ["`", "a ``b` ", "```\nx\n", "```rust\n", "  ~~~\n```\n", "````\n```\n", "text\n```"] {
            assert!(after(text).is_code(), "{text:?}");
        }
        for text in ["", "`a`", "``a`b``", "```\nx\n```\n", "~~~\n~~~~\n", "`\n", "a ~ b", "a ```", "~~"] {
            let is_code = after(text).is_code();
            assert!(is_code == (text == "a ```"), "{text:?}");
        }
    }

    #[test]
    fn line_starts_are_known() {
        assert!(["", "\n", "a\n  "].iter().all(|text| after(text).is_blank()));
        assert!(!["a", "\n`", "é"].iter().any(|text| after(text).is_blank()));
    }
}
