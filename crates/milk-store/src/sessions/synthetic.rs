//! Made-up histories, written much faster than they could be lived: for benchmarks and tests of long histories.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::id::{SessionId, TurnId};
use milk_core::model::{AssistantMessage, ToolArguments, ToolCall, Usage};
use milk_core::record::{EntryNumber, Record, Speaker, TurnOrigin, TurnWork};
use milk_core::tool::{ToolKind, ToolStatus};
use milk_files::{Folder, MilkHome};

use super::line::{Header, encode};
use super::names::Names;

/// Entries of one made-up turn: the prompt, a response with a tool call, its result, and a response.
pub const ENTRIES_PER_TURN: u64 = 4;

/// One made-up session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synthetic<'a> {
    /// Its id.
    pub id: SessionId,
    /// Its directory, absolute.
    pub cwd: &'a Path,
    /// When it was made, in milliseconds since the Unix epoch. Its turns follow by the second.
    pub created_ms: u64,
    /// How many turns it has.
    pub turns: u64,
    /// How long the text of one response is, in bytes. A turn has two of these texts.
    pub text_bytes: usize,
}

impl Synthetic<'_> {
    /// Writes its log into this home. The index takes it in when it is next looked at.
    ///
    /// # Errors
    /// The disk's, and [`io::ErrorKind::InvalidInput`] where the id is none.
    pub fn write(&self, home: &MilkHome) -> io::Result<()> {
        let folder = home.path(Folder::Sessions);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let names = Names::of(&folder, &self.id).ok_or(io::ErrorKind::InvalidInput)?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(names.log())?;
        let mut file = BufWriter::with_capacity(1024 * 1024, file);
        file.write_all(&Header::new(&self.id, self.cwd, None, self.created_ms).to_line())?;
        let text = "All work and no play makes a dull history. ".repeat(self.text_bytes.div_ceil(43));
        let text = text.get(..self.text_bytes).unwrap_or(&text);
        let mut entries = 0;
        for turn in 1..=self.turns {
            let at_ms = self.created_ms.saturating_add(turn.saturating_mul(1000));
            for record in records(turn, text) {
                let entry = record.is_entry().then(|| {
                    entries += 1;
                    EntryNumber(entries - 1)
                });
                file.write_all(&encode(at_ms, entry, &record))?;
            }
        }
        file.flush()
    }
}

/// The records of one made-up turn.
pub fn records(turn: u64, text: &str) -> Vec<Record> {
    let (id, call) = (TurnId(turn), format!("call-{turn}"));
    let by = Speaker { agent: "primary".into(), provider: "synthetic".to_owned(), model: "none".to_owned() };
    let usage = Some(Usage { input: 100 * turn, cached: 0, output: 50 });
    let said = |text: &str, tool_calls: Vec<ToolCall>, n: u32| Record::ModelSaid {
        turn: id,
        message: format!("agent-s-{turn}-{n}").into(),
        thought: None,
        said: AssistantMessage { text: text.to_owned(), tool_calls, ..AssistantMessage::default() },
        usage,
        by: by.clone(),
    };
    let arguments = ToolArguments::Object([("path".to_owned(), "src/lib.rs".into())].into_iter().collect());
    vec![
        Record::TurnStarted {
            turn: id,
            origin: TurnOrigin::Client,
            message: format!("user-s-{turn}").into(),
            content: vec![ContentBlock::text(format!("question {turn}"))],
            work: TurnWork::Prompt,
        },
        said("", vec![ToolCall { id: call.as_str().into(), name: "read_file".to_owned(), arguments }], 1),
        Record::ToolEnded {
            turn: id,
            call: call.into(),
            title: "read_file src/lib.rs".to_owned(),
            kind: ToolKind::Read,
            status: ToolStatus::Completed,
            output: text.to_owned(),
            locations: Vec::new(),
            changes: Vec::new(),
        },
        said(text, Vec::new(), 2),
        Record::TurnEnded { turn: id, stop: StopReason::EndTurn, failure: None },
    ]
}
