//! A command line as the words that a shell would make of it, if it is one simple command and nothing in it means more
//! than it says.

/// Longest line that is looked at, in bytes.
const LONGEST: usize = 8192;

/// One word of a simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// What the program gets, but for file name patterns.
    pub(super) text: String,
    /// Whether the shell may put file names in its place.
    pub(super) pattern: bool,
}

/// Words that are syntax where a command's name is wanted, in any shell that may stand behind `sh`.
const KEYWORDS: [&str; 17] = [
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in",
    "select", "function", "time", "coproc",
];

/// The words of a line, or `None` if it is not one simple command, or not plainly so.
pub(super) fn split(line: &str) -> Option<Vec<Word>> {
    if line.is_empty() || line.len() > LONGEST || !line.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return None;
    }
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches(' ');
    while !rest.is_empty() {
        let (word, after) = word(rest)?;
        let written = rest.len() - after.len();
        // A command's name stands there in plain letters: not quoted, not to be completed by file names.
        let is_name = written == word.text.len() && !word.pattern && !word.text.contains('=');
        if words.is_empty() && (!is_name || KEYWORDS.contains(&word.text.as_str())) {
            return None;
        }
        words.push(word);
        rest = after.trim_start_matches(' ');
    }
    (!words.is_empty()).then_some(words)
}

/// Takes one word from the front of a line.
fn word(line: &str) -> Option<(Word, &str)> {
    let mut word = Word { text: String::new(), pattern: false };
    let mut rest = line;
    while let Some(c) = rest.chars().next().filter(|c| *c != ' ') {
        rest = &rest[c.len_utf8()..];
        match c {
            '\'' | '"' => {
                let (quoted, after) = rest.split_once(c)?;
                if !quoted.chars().all(is_plain_in_quotes) {
                    return None;
                }
                word.text.push_str(quoted);
                rest = after;
            }
            '*' | '?' | '[' => {
                word.pattern = true;
                word.text.push(c);
            }
            c if is_plain(c) => word.text.push(c),
            _ => return None,
        }
    }
    Some((word, rest))
}

/// Characters that mean themselves outside of quotes. A tilde is none that hides anything: it is a home folder.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./:=,+@%~]^".contains(c)
}

/// Characters that are taken in quotes. Not every one that a shell takes there as it is: programs that hand their
/// arguments to another shell, and arithmetic in shells, would still act on them.
fn is_plain_in_quotes(c: char) -> bool {
    is_plain(c) || " *?[!'\"".contains(c)
}
