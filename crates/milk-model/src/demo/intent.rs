//! The few plain forms that the demo agent understands.

use milk_core::JsonObject;

/// A wish that was understood, as the tool call that fulfils it.
#[derive(Debug, PartialEq)]
pub(super) struct Intent {
    /// What the demo agent says before it calls.
    pub(super) announcement: &'static str,
    /// The tool's name.
    pub(super) tool: &'static str,
    /// Its arguments.
    pub(super) arguments: JsonObject,
}

/// Reads what stands behind a verb; `None` when it does not have this form.
type Reader = fn(&str) -> Option<Intent>;

/// What a prompt may begin with, and who reads the rest. Longer verbs stand before their beginnings.
const VERBS: &[(&str, Reader)] = &[
    ("read", read),
    ("show", read),
    ("cat", read),
    ("list", list),
    ("ls", list),
    ("find", find),
    ("search for", search),
    ("search", search),
    ("grep", search),
    ("run", run),
    ("$", run),
    ("write", write),
    ("create", create),
    ("delete", delete),
    ("remove", delete),
    ("rename", rename),
    ("move", rename),
    ("replace", replace),
];

/// Words of courtesy before a wish.
const COURTESIES: &[&str] = &["please", "can you", "could you", "would you", "now", "then", "milk,"];

/// The wish in a text, if it has one of the forms.
pub(super) fn parse(text: &str) -> Option<Intent> {
    let text = unquoted(without_leading(text.trim(), COURTESIES), &['`']);
    VERBS.iter().find_map(|(verb, reader)| reader(after_word(text, verb)?.trim()))
}

fn read(rest: &str) -> Option<Intent> {
    let path = name(without_leading(rest, &["me", "the", "file", "contents of", "content of", "the"]))?;
    Some(intent("I will read it.", "read_file", [("path", path)]))
}

fn list(rest: &str) -> Option<Intent> {
    let fillers = ["me", "the", "all", "files", "of", "in", "the", "folder", "directory"];
    let path = match without_leading(rest.trim_end_matches(['.', '?', '!']).trim(), &fillers) {
        "" if !rest.starts_with('.') => ".",
        "" => rest,
        named => name(named)?,
    };
    Some(intent("I will look.", "list_dir", [("path", path)]))
}

fn find(rest: &str) -> Option<Intent> {
    let (wanted, path) = with_place(rest);
    let fillers = ["me", "all", "the", "files", "file", "named", "called", "matching", "like"];
    let pattern = name(without_leading(wanted, &fillers))?;
    Some(intent("I will look for it.", "find_files", [("path", path), ("pattern", pattern)]))
}

fn search(rest: &str) -> Option<Intent> {
    let (wanted, path) = with_place(rest);
    let pattern = unquoted(without_leading(wanted, &["for"]), &['"', '\'', '`']);
    Some(intent("I will search.", "grep", [("pattern", some(pattern)?), ("path", path)]))
}

fn run(rest: &str) -> Option<Intent> {
    let line = without_leading(rest, &["the command", "command"]);
    let command = unquoted(line, &['`']).trim_start_matches("$ ");
    let is_prose = ["the", "it", "this", "that", "my"].iter().any(|word| after_word(command, word).is_some());
    if is_prose || command.contains('\n') {
        return None;
    }
    Some(intent("I will run that.", "bash", [("command", some(command)?)]))
}

fn write(rest: &str) -> Option<Intent> {
    let (content, path) = rest.rsplit_once(" to ")?;
    Some(written(name(without_leading(path, &["the", "file"]))?, content))
}

fn create(rest: &str) -> Option<Intent> {
    let rest = without_leading(rest, &["a", "the", "file", "named", "called"]);
    let (path, content) = rest.split_once(" with ").unwrap_or((rest, ""));
    Some(written(name(path)?, without_leading(content, &["the", "text", "content"])))
}

fn written(path: &str, content: &str) -> Intent {
    let content = unquoted(content.trim(), &['"', '\'', '`']);
    intent("I will write it.", "write_file", [("path", path), ("content", content)])
}

fn delete(rest: &str) -> Option<Intent> {
    let path = name(without_leading(rest, &["the", "file"]))?;
    Some(intent("I will delete it.", "delete_file", [("path", path)]))
}

fn rename(rest: &str) -> Option<Intent> {
    let (source, destination) = rest.rsplit_once(" to ")?;
    let source = name(without_leading(source, &["the", "file"]))?;
    Some(intent("I will move it.", "move_file", [("source", source), ("destination", name(destination)?)]))
}

fn replace(rest: &str) -> Option<Intent> {
    let (old, rest) = rest.split_once(" with ")?;
    let (new, path) = rest.rsplit_once(" in ")?;
    let quotes = ['"', '\'', '`'];
    let (old, new) = (some(unquoted(old, &quotes))?, unquoted(new, &quotes));
    let arguments = [("path", name(path)?), ("old_string", old), ("new_string", new)];
    Some(intent("I will change it.", "edit_file", arguments))
}

fn intent<const N: usize>(
    announcement: &'static str,
    tool: &'static str,
    arguments: [(&str, &str); N],
) -> Intent {
    let arguments = arguments.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    Intent { announcement, tool, arguments }
}

/// Splits `WHAT in PLACE`; without a place it is the workspace itself.
fn with_place(rest: &str) -> (&str, &str) {
    match rest.rsplit_once(" in ").and_then(|(wanted, place)| Some((wanted.trim(), name(place)?))) {
        Some(split) => split,
        None => (rest, "."),
    }
}

/// A file name or pattern: one word or a quoted text, without the punctuation of a sentence.
fn name(text: &str) -> Option<&str> {
    let quotes = ['"', '\'', '`'];
    let text = text.trim();
    let bare = unquoted(text, &quotes);
    if bare.len() < text.len() {
        return some(bare);
    }
    let bare = text.trim_end_matches(['?', '!', ',']);
    let bare = bare
        .strip_suffix('.')
        .filter(|named| !named.is_empty() && !named.ends_with(['.', '/']))
        .unwrap_or(bare);
    some(unquoted(bare, &quotes)).filter(|word| !word.contains(char::is_whitespace))
}

fn some(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

/// The text behind a word, when it begins with that word (in either case).
fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let start = text.get(..word.len())?;
    let rest = &text[word.len()..];
    (start.eq_ignore_ascii_case(word) && (rest.is_empty() || rest.starts_with(char::is_whitespace)))
        .then_some(rest)
}

/// Drops each of these words that the text begins with, in this order.
fn without_leading<'a>(text: &'a str, words: &[&str]) -> &'a str {
    words.iter().fold(text.trim(), |text, word| after_word(text, word).map_or(text, str::trim))
}

/// Takes one pair of matching quotes off.
fn unquoted<'a>(text: &'a str, quotes: &[char]) -> &'a str {
    let inside = quotes.iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    inside.map_or(text, |inside| inside.trim_matches('`').trim())
}
