//! What a chat looks like: text as it streams, one line a tool call, diffs, questions. Made for a plain terminal and for a pipe.

use std::io::{self, IsTerminal, Write};

/// Whether the output may be coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    Colours,
    Plain,
}

impl Paint {
    /// Colours on a terminal, unless `NO_COLOR` says otherwise.
    pub(super) fn for_stdout() -> Self {
        let wanted =
            io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if wanted { Self::Colours } else { Self::Plain }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::Colours => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Self::Plain => text.to_owned(),
        }
    }
}

/// What stands at the end of the output now.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Open {
    /// A new line begins.
    Nothing,
    /// The text of this message is being written.
    Text(String),
    /// The reasoning of this message is being written.
    Thought(String),
    /// A command's live output is being written.
    Output,
    /// A finished row: what follows it, unless it is another row, stands apart.
    Row,
}

/// Writes a conversation. A reader that is gone swallows what is written.
#[derive(Debug)]
pub(super) struct Screen<W> {
    out: W,
    paint: Paint,
    open: Open,
    at_line_start: bool,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W, paint: Paint) -> Self {
        Self { out, paint, open: Open::Nothing, at_line_start: true }
    }

    /// The next piece of a message. Another message begins on a line of its own, after an empty one.
    pub(super) fn text(&mut self, message: &str, piece: &str) {
        if self.open != Open::Text(message.to_owned()) {
            self.new_block();
            self.open = Open::Text(message.to_owned());
        }
        self.write(&visible(piece));
    }

    /// The next piece of reasoning.
    pub(super) fn thought(&mut self, message: &str, piece: &str) {
        if self.open != Open::Thought(message.to_owned()) {
            self.new_block();
            self.open = Open::Thought(message.to_owned());
        }
        self.painted("2;3", &visible(piece));
    }

    /// A message of the user's that the terminal has not shown.
    pub(super) fn user(&mut self, text: &str) {
        self.open = Open::Nothing;
        self.new_block();
        for line in text.lines() {
            self.painted("1", &format!("> {}", visible(line)));
            self.end_line();
        }
    }

    /// A tool call appears.
    pub(super) fn tool(&mut self, title: &str) {
        if self.open == Open::Row {
            self.open = Open::Nothing;
        }
        self.new_block();
        self.painted("36", &format!("● {}", visible(title)));
        self.end_line();
    }

    /// What a running command prints.
    pub(super) fn output(&mut self, piece: &str) {
        self.open = Open::Output;
        self.painted("2", &visible(piece));
    }

    /// A tool call ended.
    pub(super) fn tool_ended(&mut self, status: &str, output: &str) {
        let shown_live = self.open == Open::Output;
        self.end_line();
        self.open = Open::Row;
        let (code, mark) = if status == "completed" { ("32", "✓") } else { ("31", "✗") };
        let output = visible(output);
        let lines: Vec<&str> = output.trim_end().lines().collect();
        if !shown_live {
            for line in lines.iter().take(SHOWN_LINES) {
                self.painted("2", &format!("  {line}"));
                self.end_line();
            }
            if lines.len() > SHOWN_LINES {
                self.painted("2", &format!("  … {} more lines", lines.len() - SHOWN_LINES));
                self.end_line();
            }
        }
        self.painted(code, &format!("  {mark} {status}"));
        self.end_line();
    }

    /// A change to files, as a patch.
    pub(super) fn unified_diff(&mut self, text: &str) {
        self.end_line();
        for line in visible(text).lines() {
            let code = match line.as_bytes().first() {
                Some(b'+') => "32",
                Some(b'-') => "31",
                _ => "2",
            };
            self.painted(code, &format!("  {line}"));
            self.end_line();
        }
    }

    /// A question to the person. The cursor stays behind it.
    pub(super) fn question(&mut self, title: &str, detail: &str, choices: &str) {
        self.end_line();
        self.open = Open::Nothing;
        self.painted("1;33", &visible(title));
        self.end_line();
        for line in visible(detail).lines() {
            self.painted("33", &format!("  {line}"));
            self.end_line();
        }
        self.painted("1;33", &format!("  {choices} "));
        self.flush();
    }

    /// The answer was typed: a terminal has moved to the next line by itself.
    pub(super) fn answered(&mut self) {
        if io::stdin().is_terminal() {
            self.at_line_start = true;
        }
        self.end_line();
    }

    /// A line about the conversation itself.
    pub(super) fn note(&mut self, line: &str) {
        self.new_block();
        self.painted("2", &visible(line));
        self.end_line();
    }

    /// Asks for the next prompt.
    pub(super) fn prompt(&mut self) {
        self.new_block();
        self.painted("1;34", "> ");
        self.at_line_start = true;
        self.flush();
    }

    /// Ends what is open.
    pub(super) fn finish(&mut self) {
        self.end_line();
        self.open = Open::Nothing;
        self.flush();
    }

    fn new_block(&mut self) {
        let something = self.open != Open::Nothing;
        self.end_line();
        if something {
            self.write("\n");
        }
        self.open = Open::Nothing;
    }

    fn end_line(&mut self) {
        if !self.at_line_start {
            self.write("\n");
        }
    }

    fn painted(&mut self, code: &str, text: &str) {
        let ends_line = text.ends_with('\n');
        let painted = self.paint.wrap(code, text);
        let _ = self.out.write_all(painted.as_bytes());
        self.at_line_start = ends_line;
        self.flush();
    }

    fn write(&mut self, text: &str) {
        if !text.is_empty() {
            let _ = self.out.write_all(text.as_bytes());
            self.at_line_start = text.ends_with('\n');
            self.flush();
        }
    }

    fn flush(&mut self) {
        let _ = self.out.flush();
    }
}

/// Lines of a finished tool's output that are shown.
const SHOWN_LINES: usize = 12;

/// A text with its control characters made visible, so that a model or a file cannot repaint the terminal.
fn visible(text: &str) -> String {
    let harmless = |c: char| c == '\n' || c == '\t' || !(c.is_control() || is_override(c));
    if text.chars().all(harmless) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\r' => {}
            c if harmless(c) => shown.push(c),
            c => shown.extend(c.escape_unicode()),
        }
    }
    shown
}

fn is_override(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen() -> Screen<Vec<u8>> {
        Screen::new(Vec::new(), Paint::Plain)
    }

    fn shown(screen: Screen<Vec<u8>>) -> String {
        String::from_utf8(screen.out).unwrap()
    }

    #[test]
    fn pieces_join_and_messages_stand_apart() {
        let mut screen = screen();
        screen.text("a", "Let me ");
        screen.text("a", "look.");
        screen.tool("read_file a.txt");
        screen.tool_ended("completed", "1\thello");
        screen.text("b", "Found it.");
        screen.finish();
        let text = shown(screen);
        assert_eq!(text, "Let me look.\n\n● read_file a.txt\n  1\thello\n  ✓ completed\n\nFound it.\n");
    }

    #[test]
    fn long_output_is_cut_and_live_output_is_not_repeated() {
        let mut screen = screen();
        screen.tool("seq 20");
        let lines: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
        screen.tool_ended("completed", &lines.join("\n"));
        screen.tool("echo hi");
        screen.output("hi\n");
        screen.tool_ended("completed", "hi");
        let text = shown(screen);
        assert!(text.contains("… 8 more lines") && !text.contains("\n  13\n"));
        assert_eq!(text.matches("hi").count(), 2, "title and live output: {text}");
    }

    #[test]
    fn a_crafted_text_cannot_repaint_the_terminal() {
        let mut screen = screen();
        screen.text("a", "x\u{1b}[2Jy\u{202e}z\r\n");
        assert_eq!(shown(screen), "x\\u{1b}[2Jy\\u{202e}z\n");
    }

    #[test]
    fn a_patch_is_indented_and_harmless() {
        let mut screen = screen();
        screen.unified_diff("-two\n+2\u{1b}[2J\n");
        assert_eq!(shown(screen), "  -two\n  +2\\u{1b}[2J\n");
    }
}
