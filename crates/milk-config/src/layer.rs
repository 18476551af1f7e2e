//! One config file as its author wrote it, and what to do when it cannot be read.

use std::path::{Path, PathBuf};

use milk_files::{FileError, MilkHome, read_bounded, replace_private};
use serde_json::{Map, Value};

use crate::warning::{Report, Warning};

/// Largest config file that is read, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// A file's content: every key, known or not, in its order.
#[derive(Clone, PartialEq)]
pub struct Layer {
    /// The file that the content counts for.
    pub file: PathBuf,
    /// The content.
    pub raw: Map<String, Value>,
}

impl std::fmt::Debug for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be secrets (R37).
        let keys: Vec<&String> = self.raw.keys().collect();
        f.debug_struct("Layer").field("file", &self.file).field("keys", &keys).finish()
    }
}

/// Why a file gives no layer.
enum Fault {
    Missing,
    /// Nothing but blanks.
    Empty,
    Unreadable(FileError),
    Broken {
        line: Option<usize>,
        reason: String,
    },
}

impl Fault {
    fn of(error: FileError) -> Self {
        if error.is_not_found() { Self::Missing } else { Self::Unreadable(error) }
    }

    fn line(&self) -> Option<usize> {
        match self {
            Self::Broken { line, .. } => *line,
            _ => None,
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::Missing => "is missing".to_owned(),
            Self::Empty => "is empty".to_owned(),
            Self::Unreadable(FileError::Io { source, .. }) => format!("cannot be read ({source})"),
            Self::Unreadable(FileError::NotRegular { .. }) => "is not a regular file".to_owned(),
            Self::Unreadable(FileError::TooLarge { limit, .. }) => format!("is larger than {limit} bytes"),
            Self::Unreadable(error) => format!("cannot be read ({error})"),
            Self::Broken { reason, .. } => format!("is not valid JSON ({reason})"),
        }
    }
}

/// Reads the global file. One that cannot be used is replaced, for now, by the copy of the last good one; the file itself
/// is left for its owner to mend. A good one becomes that copy. A missing file is nothing to tell, unless `MILK_CONFIG`
/// names it.
pub(crate) fn read_global(home: &MilkHome, warnings: &mut Vec<Warning>) -> Option<Layer> {
    let file = home.config_file();
    let mut report = Report::new(file, warnings);
    let fault = match read(file) {
        Ok((layer, bytes)) => {
            keep_backup(&home.config_backup(), &bytes);
            return Some(layer);
        }
        Err(Fault::Missing) => {
            if home.config_is_moved() {
                report.add("is named by MILK_CONFIG and does not exist; the defaults count");
            }
            return None;
        }
        Err(fault) => fault,
    };
    let reason = fault.reason();
    let backup = home.config_backup();
    if let Ok((layer, _)) = read(&backup) {
        let name = backup.file_name().unwrap_or_default().to_string_lossy();
        let text = format!(
            "{reason}; recovered from {name}, which holds the last good one. Mend it, or write {{}} to start afresh"
        );
        report.add_at(fault.line(), text);
        return Some(Layer { file: file.to_owned(), raw: layer.raw });
    }
    report.add_at(fault.line(), format!("{reason}; the defaults count"));
    None
}

/// Reads a project's file. One that cannot be used counts as missing, with a warning.
pub(crate) fn read_project(file: &Path, warnings: &mut Vec<Warning>) -> Option<Layer> {
    match read(file) {
        Ok((layer, _)) => Some(layer),
        Err(Fault::Missing) => None,
        Err(fault) => {
            Report::new(file, warnings).add_at(fault.line(), format!("{}; it is left out", fault.reason()));
            None
        }
    }
}

fn read(file: &Path) -> Result<(Layer, Vec<u8>), Fault> {
    let bytes = read_bounded(file, MAX_CONFIG_BYTES).map_err(Fault::of)?;
    let raw = parse_object(&bytes)?;
    Ok((Layer { file: file.to_owned(), raw }, bytes))
}

/// A JSON object, with or without a byte order mark.
fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, Fault> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(Fault::Empty);
    }
    match serde_json::from_slice(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(Fault::Broken { line: None, reason: "an object is wanted".to_owned() }),
        // Errors of the parser name the place and what it expected, never content.
        Err(error) => Err(Fault::Broken { line: Some(error.line()), reason: error.to_string() }),
    }
}

/// Keeps the copy up to date. It is an aid: where it cannot be written, nothing else suffers.
fn keep_backup(backup: &Path, bytes: &[u8]) {
    let current = read_bounded(backup, MAX_CONFIG_BYTES);
    if current.is_ok_and(|current| current == bytes) {
        return;
    }
    if let Err(error) = replace_private(backup, bytes) {
        tracing::debug!(%error, "the copy of the config was not written");
    }
}

#[cfg(test)]
mod tests;
