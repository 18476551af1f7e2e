//! Which shell commands run unasked (R29). The patterns are the user's, so a mistake here runs what nobody allowed:
//! whatever is not understood completely is asked about.
//!
//! - Only one simple command without any shell syntax is ever matched: no operator, redirection, substitution, variable,
//!   assignment, comment, brace, backslash, line break or character beyond printable ASCII. Plain quotes and file name
//!   patterns are fine ([`words`]).
//! - A pattern is the words of a command: `git status` is that command alone. With a `*` at its end it is the beginning of
//!   a command, up to the end of a word: `git status*` and `git status *` cover `git status -s` (the first one `git status`
//!   too), and neither covers `git statusx`. `*` alone covers every command that `*` can.
//! - A command that runs other commands or writes through its options (`sudo`, `xargs`, `find -exec`, `sort -o`) is covered
//!   only by a pattern that is the complete text of it ([`danger`]).

mod danger;
mod words;

#[cfg(test)]
mod tests;

use milk_core::ports::CommandPolicy;

use words::{Word, split};

/// Matches whole simple commands against the user's patterns.
#[derive(Debug, Clone, Copy, Default)]
pub struct WholeCommands;

impl CommandPolicy for WholeCommands {
    fn allows(&self, command: &str, patterns: &[String]) -> bool {
        let command = command.trim_ascii();
        let Some(words) = split(command) else { return false };
        let dangerous = danger::runs_or_writes(&words);
        let mut patterns =
            patterns.iter().map(|pattern| pattern.trim_ascii()).filter(|pattern| !pattern.is_empty());
        patterns.any(|pattern| pattern == command || (!dangerous && covers(pattern, &words)))
    }
}

fn covers(pattern: &str, command: &[Word]) -> bool {
    let Some(beginning) = pattern.strip_suffix('*') else {
        return split(pattern).is_some_and(|pattern| pattern == command);
    };
    let Some(pattern) = split_beginning(beginning) else { return false };
    let further_word = beginning.ends_with(' ');
    command.starts_with(&pattern) && (!further_word || command.len() > pattern.len())
}

fn split_beginning(beginning: &str) -> Option<Vec<Word>> {
    let beginning = beginning.trim_ascii();
    if beginning.is_empty() { Some(Vec::new()) } else { split(beginning) }
}
