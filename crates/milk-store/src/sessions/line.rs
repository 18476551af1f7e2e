//! The lines of a log: what one looks like, and what is made of one that milk did not write.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use milk_core::JsonObject;
use milk_core::id::SessionId;
use milk_core::record::{EntryNumber, Logged, Record, TurnWork};
use milk_core::tool::{FileAction, FileChange, Location};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::spill::{Allowance, SPILLED, Spilled, restore};
use super::time;

/// The format that this milk writes. A log of a higher one is listed, and not opened for writing.
pub(super) const FORMAT: u32 = 1;

/// The `record` of a log's first line.
const HEADER: &str = "session";
/// The `record`s that are a [`Record`]. Others are a newer milk's, and are passed over.
const KINDS: [&str; 6] = ["turn_started", "routed", "model_said", "tool_ended", "noted", "turn_ended"];

/// The first line of a log: what never changes about a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    record: String,
    /// See [`FORMAT`].
    pub(super) format: u32,
    /// Which session.
    pub(super) id: SessionId,
    /// Its directory as text.
    cwd: String,
    /// The directory's bytes, where they are not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd_bytes: Option<Vec<u8>>,
    /// Its name.
    #[serde(default)]
    pub(super) name: Option<String>,
    created_at: String,
    /// What an older version of milk kept beside the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) imported: Option<JsonObject>,
}

impl Header {
    pub(super) fn new(id: &SessionId, cwd: &Path, name: Option<&str>, created_ms: u64) -> Self {
        Self {
            record: HEADER.to_owned(),
            format: FORMAT,
            id: id.clone(),
            cwd: cwd.to_string_lossy().into_owned(),
            cwd_bytes: cwd.to_str().is_none().then(|| cwd.as_os_str().as_bytes().to_vec()),
            name: name.map(str::to_owned),
            created_at: time::to_text(created_ms),
            imported: None,
        }
    }

    /// The header in a log's first line, if it is one.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let header: Self = serde_json::from_slice(line).ok()?;
        (header.record == HEADER).then_some(header)
    }

    pub(super) fn cwd(&self) -> PathBuf {
        match &self.cwd_bytes {
            Some(bytes) => PathBuf::from(OsStr::from_bytes(bytes)),
            None => PathBuf::from(&self.cwd),
        }
    }

    pub(super) fn created_ms(&self) -> u64 {
        time::from_text(&self.created_at).unwrap_or_default()
    }

    /// As a line, with its end.
    pub(super) fn to_line(&self) -> Vec<u8> {
        to_line(self)
    }
}

#[derive(Serialize)]
struct RecordLine<'a> {
    at: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryNumber>,
    #[serde(flatten)]
    record: &'a Record,
}

/// A record as a line, with its end. Texts of any length are in it.
pub(super) fn encode(at_ms: u64, entry: Option<EntryNumber>, record: &Record) -> Vec<u8> {
    let at = time::to_text(at_ms);
    let whole = RecordLine { at: &at, entry, record };
    let line = to_line(&whole);
    if !line.is_empty() {
        return line;
    }
    // Only a path that is not text stops a record from being JSON.
    let record = with_readable_paths(record.clone());
    to_line(&RecordLine { at: &at, entry, record: &record })
}

/// Empty where the value cannot be JSON.
pub(super) fn to_line(value: &impl Serialize) -> Vec<u8> {
    match serde_json::to_vec(value) {
        Ok(mut line) => {
            line.push(b'\n');
            line
        }
        Err(_) => Vec::new(),
    }
}

fn with_readable_paths(mut record: Record) -> Record {
    if let Record::ToolEnded { locations, changes, .. } = &mut record {
        for Location { path, .. } in locations {
            make_readable(path);
        }
        for FileChange { action, path, .. } in changes {
            make_readable(path);
            if let FileAction::Move { from } = action {
                make_readable(from);
            }
        }
    }
    record
}

fn make_readable(path: &mut PathBuf) {
    if path.to_str().is_none() {
        *path = PathBuf::from(path.to_string_lossy().into_owned());
    }
}

/// What can be told of a line without taking it apart.
#[derive(Debug, Deserialize)]
pub(super) struct Peek<'a> {
    #[serde(borrow)]
    record: Cow<'a, str>,
    #[serde(borrow, default)]
    at: Option<Cow<'a, str>>,
    /// Its place in the history.
    #[serde(default)]
    pub(super) entry: Option<u64>,
    /// The turn that it belongs to.
    #[serde(default)]
    pub(super) turn: Option<u64>,
    #[serde(default)]
    work: Option<Value>,
    #[serde(default)]
    spilled: Vec<Spilled>,
}

impl<'a> Peek<'a> {
    /// `None` where the line is not a record of any milk.
    pub(super) fn at(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    pub(super) fn begins_turn(&self) -> bool {
        self.record == "turn_started"
    }

    pub(super) fn begins_prompt(&self) -> bool {
        let prompt = self.work.as_ref().and_then(|work| TurnWork::deserialize(work).ok());
        self.begins_turn() && prompt == Some(TurnWork::Prompt)
    }

    pub(super) fn ends_turn(&self) -> bool {
        self.record == "turn_ended"
    }

    pub(super) fn is_tool_result(&self) -> bool {
        self.record == "tool_ended"
    }

    pub(super) fn at_ms(&self) -> Option<u64> {
        self.at.as_deref().and_then(time::from_text)
    }

    /// Bytes of the texts that are kept beside the log.
    pub(super) fn spilled_bytes(&self) -> u64 {
        self.spilled.iter().map(|spilled| spilled.bytes).fold(0, u64::saturating_add)
    }
}

/// What a line is.
#[derive(Debug, PartialEq)]
pub(super) enum Decoded {
    /// A record.
    Record(Box<Logged>),
    /// The header, or a record of a kind that this milk does not know.
    Other,
    /// Nothing that can be read.
    Broken,
}

/// Takes a line apart. Large texts are fetched from `spills` as far as `allowance` goes.
pub(super) fn decode(line: &[u8], spills: &Path, allowance: &mut Allowance) -> Decoded {
    let Some(peek) = Peek::at(line) else { return Decoded::Broken };
    if !KINDS.contains(&&*peek.record) {
        return Decoded::Other;
    }
    if !peek.spilled.is_empty() {
        return decode_spilled(line, spills, allowance);
    }
    match (peek.at_ms(), serde_json::from_slice(line)) {
        (Some(at_ms), Ok(record)) => {
            Decoded::Record(Box::new(Logged { at_ms, entry: peek.entry.map(EntryNumber), record }))
        }
        _ => Decoded::Broken,
    }
}

fn decode_spilled(line: &[u8], spills: &Path, allowance: &mut Allowance) -> Decoded {
    let Ok(Value::Object(mut object)) = serde_json::from_slice::<Value>(line) else { return Decoded::Broken };
    let spilled = object.remove(SPILLED);
    let at = object.remove("at");
    let entry = object.remove("entry").and_then(|entry| entry.as_u64()).map(EntryNumber);
    let mut value = Value::Object(object);
    if let Some(spilled) = spilled {
        restore(&mut value, spilled, spills, allowance);
    }
    let at_ms = at.as_ref().and_then(Value::as_str).and_then(time::from_text);
    match (at_ms, Record::deserialize(value)) {
        (Some(at_ms), Ok(record)) => Decoded::Record(Box::new(Logged { at_ms, entry, record })),
        _ => Decoded::Broken,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use milk_core::content::ContentBlock;
    use milk_core::id::TurnId;
    use milk_core::record::TurnOrigin;
    use milk_core::tool::{ToolKind, ToolStatus};

    use super::*;

    fn prompt(text: &str) -> Logged {
        Logged {
            at_ms: 1_796_118_136_123,
            entry: Some(EntryNumber(12)),
            record: Record::TurnStarted {
                turn: TurnId(3),
                origin: TurnOrigin::Client,
                message: "u-1".into(),
                content: vec![ContentBlock::text(text)],
                work: TurnWork::Prompt,
            },
        }
    }

    fn encode_all(logged: &Logged) -> Vec<u8> {
        encode(logged.at_ms, logged.entry, &logged.record)
    }

    fn read(line: &[u8]) -> Decoded {
        decode(line, Path::new("/none"), &mut Allowance::new(0))
    }

    #[test]
    fn a_line_is_what_a_person_expects() {
        let line = encode_all(&prompt("hello\nthere"));
        assert_eq!(
            String::from_utf8(line.clone()).unwrap(),
            concat!(
                r#"{"at":"2026-12-01T09:42:16.123Z","entry":12,"record":"turn_started","turn":3,"origin":"client","#,
                r#""message":"u-1","content":[{"type":"text","text":"hello\nthere"}],"work":"prompt"}"#,
                "\n"
            )
        );
        assert_eq!(read(&line), Decoded::Record(Box::new(prompt("hello\nthere"))));
        let peek = Peek::at(&line).unwrap();
        assert!(peek.begins_prompt() && peek.entry == Some(12) && peek.turn == Some(3));
    }

    #[test]
    fn every_kind_of_record_is_known() {
        let sample = r#"{"record":"x"}"#;
        let message =
            Record::deserialize(serde_json::from_str::<Value>(sample).unwrap()).unwrap_err().to_string();
        for kind in KINDS {
            assert!(message.contains(&format!("`{kind}`")), "{kind} in {message}");
        }
        assert_eq!(message.matches('`').count(), 2 * (KINDS.len() + 1), "none is missing: {message}");
    }

    #[test]
    fn a_newer_milks_lines_are_passed_over_and_its_fields_too() {
        assert_eq!(read(br#"{"at":"2026-12-01T09:42:16.123Z","record":"dreamt","of":1}"#), Decoded::Other);
        let line = encode_all(&prompt("x"));
        let newer = String::from_utf8(line).unwrap().replace(r#""turn":3"#, r#""turn":3,"mood":{"a":[1]}"#);
        assert_eq!(read(newer.as_bytes()), Decoded::Record(Box::new(prompt("x"))));
    }

    #[test]
    fn what_is_not_a_record_is_broken() {
        for bad in ["", "\0\0", "{", "[]", "{}", r#"{"record":1}"#, r#"{"record":"noted"}"#, r#""record""#] {
            assert_eq!(read(bad.as_bytes()), Decoded::Broken, "{bad}");
        }
    }

    #[test]
    fn a_path_that_is_no_text_does_not_cost_the_record() {
        let path = PathBuf::from(std::ffi::OsString::from_vec(b"/a/\xff".to_vec()));
        let record = Record::ToolEnded {
            turn: TurnId(1),
            call: "c".into(),
            title: "t".into(),
            kind: ToolKind::Read,
            status: ToolStatus::Completed,
            output: "o".into(),
            locations: vec![Location { path: path.clone(), line: None }],
            changes: Vec::new(),
        };
        let line = encode(1, None, &record);
        assert!(matches!(read(&line), Decoded::Record(_)), "{}", String::from_utf8_lossy(&line));
        let header = Header::new(&"a".into(), &path, None, 1);
        assert_eq!(Header::read(&header.to_line()).unwrap().cwd(), path);
    }
}
