//! Large texts go to files of their own beside the log, and the line says where. So a line stays readable, and a history
//! can be looked through without its bulk.
//!
//! A line with such texts has a list `spilled` at its end: where in the line each text belongs (a JSON pointer, RFC 6901),
//! in which file it is, and how many bytes it has. In its place the text's beginning stays. What a model or a user wrote
//! can therefore never be taken for such a reference.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::line::to_line;
use super::source::open_regular;

/// The key of the list.
pub(super) const SPILLED: &str = "spilled";
/// Texts above this many bytes are spilled; lines up to it are not looked at.
pub(super) const SPILL_AT: usize = 32 * 1024;
/// How much of a spilled text stays in the line, in bytes: enough for a title.
const PREVIEW: usize = 4 * 1024;
/// A line that is still longer than this, in bytes, is spilled whole.
const WHOLE_AT: usize = 1024 * 1024;
/// Longest text that is read back, in bytes. What milk is sent and what it sends is shorter.
const TEXT_LIMIT: u64 = 128 * 1024 * 1024;
/// How much of each end of a text is read where its whole is not allowed, in bytes.
const END: u64 = 8 * 1024;
/// Names that are tried for one text before the folder is given up.
const NAMES_TRIED: u32 = 1000;

/// A text that is kept beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spilled {
    /// Where it belongs; empty for the whole record.
    at: String,
    /// Its file, in the session's folder.
    file: String,
    /// Its length.
    #[serde(default)]
    pub(super) bytes: u64,
}

/// How many bytes of large texts may be fetched. What is beyond is fetched by its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowance {
    left: u64,
}

impl Allowance {
    pub(super) fn new(bytes: u64) -> Self {
        Self { left: bytes }
    }

    fn take(&mut self, bytes: u64) -> bool {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}

/// A line whose large texts are on disk.
#[derive(Debug)]
pub(super) struct Shrunk {
    /// The line, with its end.
    pub(super) line: Vec<u8>,
    /// The new files.
    pub(super) files: Vec<PathBuf>,
}

/// Writes the large texts of a line to files in `folder`, named after `stem`. After an error none of them is left.
pub(super) fn shrink(line: &[u8], folder: &Path, stem: &str) -> io::Result<Shrunk> {
    let mut spiller = Spiller { folder, stem, made: Vec::new(), spilled: Vec::new() };
    match spiller.shrink(line) {
        Ok(line) => Ok(Shrunk { line, files: spiller.made }),
        Err(error) => {
            discard(&spiller.made);
            Err(error)
        }
    }
}

/// Removes files that no line will mention.
pub(super) fn discard(files: &[PathBuf]) {
    for file in files {
        // One that stays takes room and is never read.
        let _ = std::fs::remove_file(file);
    }
}

struct Spiller<'a> {
    folder: &'a Path,
    stem: &'a str,
    made: Vec<PathBuf>,
    spilled: Vec<Spilled>,
}

impl Spiller<'_> {
    fn shrink(&mut self, line: &[u8]) -> io::Result<Vec<u8>> {
        let mut value: Value = serde_json::from_slice(line)?;
        self.walk(&mut value, String::new())?;
        if self.spilled.is_empty() {
            return self.bounded(line.to_vec(), &value);
        }
        if let Value::Object(object) = &mut value {
            object.insert(SPILLED.to_owned(), serde_json::to_value(&self.spilled)?);
        }
        let shrunk = to_line(&value);
        self.bounded(shrunk, &value)
    }

    fn walk(&mut self, value: &mut Value, at: String) -> io::Result<()> {
        match value {
            Value::String(text) if text.len() > SPILL_AT => {
                let file = self.write(text.as_bytes(), "txt")?;
                self.spilled.push(Spilled { at, file, bytes: length(text.as_bytes()) });
                text.truncate(text.floor_char_boundary(PREVIEW));
                text.shrink_to_fit();
            }
            Value::Array(items) => {
                for (n, item) in items.iter_mut().enumerate() {
                    self.walk(item, format!("{at}/{n}"))?;
                }
            }
            Value::Object(fields) => {
                for (key, field) in fields {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    self.walk(field, format!("{at}/{key}"))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The line, or, where it is too long all the same, one that names a file with all of it.
    fn bounded(&mut self, line: Vec<u8>, value: &Value) -> io::Result<Vec<u8>> {
        if line.len() <= WHOLE_AT {
            return Ok(line);
        }
        let file = self.write(&line, "json")?;
        let mut outline = serde_json::Map::new();
        for key in ["at", "entry", "record", "turn", "work"] {
            if let Some(field) = value.get(key) {
                outline.insert(key.to_owned(), field.clone());
            }
        }
        let whole = Spilled { at: String::new(), file, bytes: length(&line) };
        outline.insert(SPILLED.to_owned(), json!([whole]));
        Ok(to_line(&outline))
    }

    fn write(&mut self, text: &[u8], extension: &str) -> io::Result<String> {
        match DirBuilder::new().mode(0o700).create(self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // A name may be taken by a text whose line was lost.
        for n in 0..NAMES_TRIED {
            let name = format!("{}.{n}.{extension}", self.stem);
            let path = self.folder.join(&name);
            let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            match created {
                Ok(mut file) => {
                    self.made.push(path);
                    file.write_all(text)?;
                    return Ok(name);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Puts the large texts of a line back into it.
pub(super) fn restore(value: &mut Value, spilled: Value, folder: &Path, allowance: &mut Allowance) {
    let Ok(spilled) = Vec::<Spilled>::deserialize(spilled) else { return };
    for item in spilled {
        if item.at.is_empty() {
            restore_whole(value, &item, folder, allowance);
        } else {
            restore_text(value, &item, folder, allowance);
        }
    }
}

/// A record that was spilled whole. Its own large texts are in further files.
fn restore_whole(value: &mut Value, item: &Spilled, folder: &Path, allowance: &mut Allowance) {
    // It is of use whole or not at all, and its large texts are not in it.
    let whole = fetch(item, folder, &mut Allowance::new(u64::MAX)).ok();
    let Some(Value::Object(mut object)) = whole.and_then(|text| serde_json::from_str(&text).ok()) else {
        return;
    };
    object.remove("at");
    object.remove("entry");
    let inner = object.remove(SPILLED);
    *value = Value::Object(object);
    for item in inner.and_then(|inner| Vec::<Spilled>::deserialize(inner).ok()).unwrap_or_default() {
        if !item.at.is_empty() {
            restore_text(value, &item, folder, allowance);
        }
    }
}

fn restore_text(value: &mut Value, item: &Spilled, folder: &Path, allowance: &mut Allowance) {
    let fetched = fetch(item, folder, allowance);
    let Some(Value::String(place)) = value.pointer_mut(&item.at) else { return };
    let text = match fetched {
        Ok(text) => {
            *place = text;
            return;
        }
        Err(Missing::Middle { head, tail, bytes }) if !is_data(&item.at) => {
            format!("{head}\n[… {bytes} bytes not loaded …]\n{tail}")
        }
        Err(Missing::Middle { bytes, .. }) => format!("[{bytes} bytes of data, not loaded]"),
        Err(Missing::All(reason)) if !is_data(&item.at) => {
            format!("{place}\n[… the rest is missing: {} ({reason})]", item.file)
        }
        Err(Missing::All(reason)) => format!("[the data is missing: {} ({reason})]", item.file),
    };
    // Half of a picture is none: a text about it stands in for the block.
    let whole = item.at.strip_suffix("/data").filter(|_| is_data(&item.at)).map(str::to_owned);
    match whole.and_then(|block| value.pointer_mut(&block)) {
        Some(block) => *block = json!({ "type": "text", "text": text }),
        None => {
            if let Some(place) = value.pointer_mut(&item.at) {
                *place = Value::String(text);
            }
        }
    }
}

/// Whether this is the data of a block that the user sent.
fn is_data(pointer: &str) -> bool {
    let inner = pointer.strip_prefix("/content/").and_then(|rest| rest.strip_suffix("/data"));
    inner.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Why a text is not whole.
enum Missing {
    /// It is there, and too much.
    Middle { head: String, tail: String, bytes: u64 },
    /// It cannot be read.
    All(String),
}

fn fetch(item: &Spilled, folder: &Path, allowance: &mut Allowance) -> Result<String, Missing> {
    let file = open(item, folder).map_err(|error| Missing::All(error.to_string()))?;
    let bytes = item.bytes;
    if bytes > TEXT_LIMIT || !allowance.take(bytes) {
        let read = |from: u64| part(&file, from, END.min(bytes));
        let ends = read(0).and_then(|head| Ok((head, read(bytes.saturating_sub(END))?)));
        let (head, tail) = ends.map_err(|error| Missing::All(error.to_string()))?;
        let left_out = bytes.saturating_sub(2 * END);
        return Err(Missing::Middle { head, tail, bytes: left_out });
    }
    let mut text = vec![0; usize::try_from(bytes).unwrap_or_default()];
    file.read_exact_at(&mut text, 0).map_err(|error| Missing::All(error.to_string()))?;
    String::from_utf8(text).map_err(|_| Missing::All("it is not text".to_owned()))
}

fn open(item: &Spilled, folder: &Path) -> io::Result<File> {
    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if item.file.starts_with('.') || item.file.is_empty() || !item.file.bytes().all(safe) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = open_regular(&folder.join(&item.file))?;
    if file.metadata()?.len() < item.bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(file)
}

fn part(file: &File, from: u64, bytes: u64) -> io::Result<String> {
    let mut text = vec![0; usize::try_from(bytes).unwrap_or_default()];
    file.read_exact_at(&mut text, from)?;
    Ok(String::from_utf8_lossy(&text).trim_matches('\u{FFFD}').to_owned())
}
