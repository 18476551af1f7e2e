//! Parts of a history: its newest turns, its two ends, all of it. The first two cost what they give.

use std::io;
use std::path::Path;

use milk_core::record::{Logged, Record};
use milk_core::session::HistoryWindow;

use super::line::{Decoded, Peek, decode};
use super::source::{Line, Source};
use super::spill::Allowance;

/// How much of a log's end is loaded when a session is opened, in bytes, large texts counted in. About a million tokens:
/// more than a model can be told.
pub(super) const RECENT_BYTES: u64 = 4 * 1024 * 1024;
/// How far back the beginning of the last turn is looked for, in bytes of lines.
const TURN_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes of large texts that one window holds whole; what is beyond is given by its ends.
const WINDOW_TEXTS: u64 = 32 * 1024 * 1024;
/// Bytes of large texts that one record holds whole where records are given one at a time.
const RECORD_TEXTS: u64 = 256 * 1024 * 1024;

/// The newest turns of a history.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Recent {
    /// Their records, in order, from the beginning of a turn on.
    pub(super) records: Vec<Logged>,
    /// Turns before them.
    pub(super) earlier_turns: u64,
    /// The number that the next entry gets, as far as it can be told from these records.
    pub(super) entries: Option<u64>,
    /// Lines among them that cannot be read.
    pub(super) broken: u64,
    /// Whether the last turn was too long to be loaded.
    pub(super) too_long: bool,
}

/// A line that was looked at.
struct Looked {
    text: Vec<u8>,
    begins_turn: bool,
}

/// Reads the newest turns.
pub(super) fn recent(source: &Source, spills: &Path) -> io::Result<Recent> {
    let mut recent = Recent::default();
    let mut looked: Vec<Looked> = Vec::new();
    let (mut bytes, mut line_bytes) = (0_u64, 0_u64);
    let mut newest_turn = None;
    // How many of the lines looked at are wanted, and how many of the lines before them are broken.
    let (mut wanted, mut broken) = (0, 0);
    let mut lines = source.lines_back()?;
    while let Some(Line { start, end, text }) = lines.next()? {
        bytes = bytes.saturating_add(end - start);
        line_bytes = line_bytes.saturating_add(end - start);
        let peek = text.as_deref().and_then(Peek::at);
        bytes = bytes.saturating_add(peek.as_ref().map_or(0, Peek::spilled_bytes));
        let begins_turn = peek.as_ref().is_some_and(Peek::begins_turn);
        if let Some(peek) = &peek {
            recent.entries = recent.entries.max(peek.entry.map(|entry| entry.saturating_add(1)));
            newest_turn = newest_turn.max(peek.turn);
        } else {
            broken += 1;
        }
        if (bytes > RECENT_BYTES && wanted > 0) || line_bytes > TURN_BYTES {
            break;
        }
        let readable = peek.is_some();
        if let Some(text) = text.filter(|_| readable) {
            looked.push(Looked { text, begins_turn });
        }
        if begins_turn {
            wanted = looked.len();
            recent.broken = broken;
        }
    }
    if wanted == 0 {
        recent.too_long = line_bytes > TURN_BYTES;
        recent.broken = broken;
    }
    looked.truncate(wanted);
    debug_assert!(looked.last().is_none_or(|first| first.begins_turn));

    let mut allowance = Allowance::new(2 * RECENT_BYTES);
    for Looked { text, .. } in looked {
        match decode(&text, spills, &mut allowance) {
            Decoded::Record(logged) => recent.records.push(*logged),
            Decoded::Other => {}
            Decoded::Broken => recent.broken += 1,
        }
    }
    recent.records.reverse();
    // The line that began the turn may be one that cannot be read after all.
    let first = recent.records.iter().position(|logged| matches!(logged.record, Record::TurnStarted { .. }));
    recent.records.drain(..first.unwrap_or(recent.records.len()));
    recent.earlier_turns = match recent.records.iter().find_map(|logged| logged.record.turn()) {
        Some(first) => first.0.saturating_sub(1),
        None => newest_turn.unwrap_or(0),
    };
    Ok(recent)
}

/// Reads the first `head` and the last `tail` entries.
pub(super) fn window(source: &Source, spills: &Path, head: usize, tail: usize) -> io::Result<HistoryWindow> {
    let mut allowance = Allowance::new(WINDOW_TEXTS);
    let last = ends(source, tail.max(1))?;
    let Some(total) = last.first().map(|(entry, _)| entry.saturating_add(1)) else {
        return Ok(HistoryWindow::default());
    };
    let wanted = u64::try_from(head.saturating_add(tail)).unwrap_or(u64::MAX);
    if total <= wanted {
        let head = beginning(source, spills, usize::MAX, u64::MAX, &mut allowance)?;
        return Ok(HistoryWindow { head, omitted: 0, tail: Vec::new() });
    }

    let mut end = Vec::new();
    let mut first_of_tail = total;
    for (entry, text) in last.into_iter().take(tail) {
        if let Decoded::Record(logged) = decode(&text, spills, &mut allowance) {
            first_of_tail = first_of_tail.min(entry);
            end.push(*logged);
        }
    }
    end.reverse();
    let mut head = beginning(source, spills, head, first_of_tail, &mut allowance)?;
    let next = head.last().and_then(|logged| logged.entry).map_or(0, |entry| entry.0.saturating_add(1));
    let omitted = first_of_tail.saturating_sub(next);
    if omitted == 0 {
        head.append(&mut end);
    }
    Ok(HistoryWindow { head, omitted, tail: end })
}

/// The last `count` entries as lines with their numbers, the last one first.
fn ends(source: &Source, count: usize) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut lines = source.lines_back()?;
    while found.len() < count
        && let Some(line) = lines.next()?
    {
        let entry = line.text.as_deref().and_then(Peek::at).and_then(|peek| peek.entry);
        if let (Some(entry), Some(text)) = (entry, line.text) {
            found.push((entry, text));
        }
    }
    Ok(found)
}

/// The first `count` entries and the tool results right after them, up to the entry `before`.
fn beginning(
    source: &Source,
    spills: &Path,
    count: usize,
    before: u64,
    allowance: &mut Allowance,
) -> io::Result<Vec<Logged>> {
    let mut found: Vec<Logged> = Vec::new();
    let mut lines = source.lines(0);
    if count == 0 {
        return Ok(found);
    }
    while let Some(line) = lines.next()? {
        let Some(text) = &line.text else { continue };
        let Some(peek) = Peek::at(text) else { continue };
        let Some(entry) = peek.entry else { continue };
        if entry >= before || (found.len() >= count && !peek.is_tool_result()) {
            break;
        }
        if let Decoded::Record(logged) = decode(text, spills, allowance) {
            found.push(*logged);
        }
    }
    Ok(found)
}

/// Gives every record to `visit`, in order. Returns how many lines cannot be read.
pub(super) fn read(source: &Source, spills: &Path, mut visit: impl FnMut(Logged)) -> io::Result<u64> {
    let mut broken = 0;
    let mut lines = source.lines(0);
    while let Some(line) = lines.next()? {
        let decoded =
            line.text.as_deref().map(|text| decode(text, spills, &mut Allowance::new(RECORD_TEXTS)));
        match decoded {
            Some(Decoded::Record(logged)) => visit(*logged),
            Some(Decoded::Other) => {}
            Some(Decoded::Broken) | None => broken += 1,
        }
    }
    Ok(broken)
}

/// Whether a record ends a turn: the moment from which on it must outlive a loss of power.
pub(super) fn ends_turn(record: &Record) -> bool {
    matches!(record, Record::TurnEnded { .. })
}

/// Whether a record changes what a list says.
pub(super) fn is_use(record: &Record) -> bool {
    matches!(record, Record::TurnStarted { .. } | Record::TurnEnded { .. })
}
