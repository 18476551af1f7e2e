//! A session as plain text, for a chat or a terminal. It mirrors the history: slash commands, routing and thoughts are
//! left out, and so is the bulk of what tools gave.

use std::fmt::Write as _;

use milk_core::content::ContentBlock;
use milk_core::model::ToolArguments;
use milk_core::ports::Transcript;
use milk_core::record::Logged;
use milk_core::session::SessionSummary;
use milk_core::tool::ToolStatus;

use crate::cut;
use crate::fold::{Call, CallResult, Fold, Part, Step, Turn};
use crate::harmless;
use crate::moment;
use crate::redact::Redactor;

/// Longest tool result, in characters.
const RESULT_LIMIT: usize = 300;
/// Longest arguments of a call, in characters.
const ARGUMENTS_LIMIT: usize = 300;
/// Longest of the other one-line fields, in characters.
const LINE_LIMIT: usize = 300;
/// How many `━` make a rule.
const RULE_WIDTH: usize = 48;

/// The document in the making.
pub(crate) struct TextDocument {
    redact: Redactor,
    session: SessionSummary,
    fold: Fold,
    body: String,
    turns: u64,
}

impl TextDocument {
    pub(crate) fn new(redact: Redactor, session: &SessionSummary) -> Self {
        Self { redact, session: session.clone(), fold: Fold::default(), body: String::new(), turns: 0 }
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Turn(turn) if turn.is_command() => {}
            Part::Turn(turn) => self.turn(turn),
            Part::Note(note) => self.mark('ℹ', &note.text),
        }
    }

    fn turn(&mut self, turn: &Turn) {
        self.turns += 1;
        if let Some(start) = &turn.start {
            self.entry(start.at_ms, "user");
            for block in &start.content {
                self.block(block);
            }
        }
        for step in &turn.steps {
            self.step(step);
        }
        for (_, result) in &turn.unmatched {
            self.row(&result.title, None);
            self.result(result);
        }
        for note in &turn.notes {
            self.mark('ℹ', &note.text);
        }
        if let Some(trouble) = turn.trouble() {
            let (word, why) = trouble.words();
            self.mark('✗', &format!("{word}: {why}"));
        }
    }

    fn entry(&mut self, at_ms: u64, role: &str) {
        let rule = "━".repeat(RULE_WIDTH);
        let _ = write!(self.body, "\n{rule}\n{}  ·  {role}\n", moment::plain(at_ms));
    }

    fn block(&mut self, block: &ContentBlock) {
        match block {
            ContentBlock::Text { text } => self.paragraphs(text),
            ContentBlock::Link { uri, name, .. } => self.mark('@', &format!("{name} ({uri})")),
            ContentBlock::EmbeddedText { uri, text, .. } => {
                self.mark('@', &format!("{uri} ({} bytes of text)", text.len()));
            }
            ContentBlock::EmbeddedBlob { uri, mime, .. } => {
                self.mark('@', &format!("{uri} ({})", mime.as_deref().unwrap_or("bytes")));
            }
            ContentBlock::Image { mime, .. } => self.mark('@', &format!("picture ({mime})")),
            ContentBlock::Unknown { kind } => self.mark('@', &format!("a block of the kind {kind}")),
        }
    }

    fn step(&mut self, step: &Step) {
        let agent = self.short(step.by.agent.as_str(), LINE_LIMIT);
        self.entry(step.at_ms, &format!("agent ({agent})"));
        self.paragraphs(&step.said.text);
        for call in &step.calls {
            self.call(call);
        }
    }

    fn call(&mut self, call: &Call) {
        self.row(&call.made.name, Some(&self.arguments(&call.made.arguments)));
        match &call.result {
            Some(result) => self.result(result),
            None => self.body.push_str("    (no result)\n"),
        }
    }

    fn row(&mut self, name: &str, arguments: Option<&str>) {
        let name = self.short(name, LINE_LIMIT);
        let colon = if arguments.is_some() { ": " } else { "" };
        let _ = writeln!(self.body, "  ⚙ {name}{colon}{}", arguments.unwrap_or_default());
    }

    fn arguments(&self, arguments: &ToolArguments) -> String {
        match arguments {
            ToolArguments::Object(fields) => {
                self.short(&self.redact.value(&fields.clone().into()).to_string(), ARGUMENTS_LIMIT)
            }
            ToolArguments::Unparsable(text) => self.short(text, ARGUMENTS_LIMIT),
        }
    }

    fn result(&mut self, result: &CallResult) {
        let status = match result.status {
            ToolStatus::Completed => "",
            ToolStatus::Failed => "failed: ",
            ToolStatus::Cancelled => "cancelled: ",
        };
        let clean = harmless::lines(&self.redact.clean(result.output.trim_end()));
        let (head, cut) = cut::head(&clean, RESULT_LIMIT);
        if head.is_empty() && status.is_empty() {
            return;
        }
        let text = format!("{status}{head}{}", if cut { "…" } else { "" });
        for line in text.lines() {
            let _ = writeln!(self.body, "{}", format!("    {line}").trim_end());
        }
    }

    /// A text of any length. A line in it that looks like a rule is moved, so that no text passes for an entry.
    fn paragraphs(&mut self, text: &str) {
        let clean = harmless::lines(&self.redact.clean(text));
        for line in clean.trim_end().lines() {
            if line.starts_with('━') {
                self.body.push(' ');
            }
            self.body.push_str(line);
            self.body.push('\n');
        }
    }

    fn mark(&mut self, sign: char, text: &str) {
        let text = self.short(text, ARGUMENTS_LIMIT);
        let _ = writeln!(self.body, "  {sign} {text}");
    }

    /// One bounded line.
    fn short(&self, text: &str, limit: usize) -> String {
        let line = harmless::line(&self.redact.clean(text));
        match cut::head(&line, limit) {
            (head, true) => format!("{head}…"),
            (_, false) => line,
        }
    }

    fn header(&self) -> String {
        let session = &self.session;
        let mut header = format!("session: {}\n", self.short(session.id.as_str(), LINE_LIMIT));
        if let Some(name) = &session.name {
            let _ = writeln!(header, "name: {}", self.short(name, LINE_LIMIT));
        }
        let _ = writeln!(header, "cwd: {}", harmless::line(&self.redact.path(&session.cwd)));
        let _ = writeln!(header, "created: {} UTC", moment::plain(session.created_ms));
        let _ = writeln!(header, "turns: {}", self.turns);
        header
    }
}

impl Transcript for TextDocument {
    fn push(&mut self, logged: Logged) {
        for part in self.fold.push(logged) {
            self.part(&part);
        }
    }

    fn finish(mut self: Box<Self>) -> String {
        for part in std::mem::take(&mut self.fold).finish() {
            self.part(&part);
        }
        let header = self.header();
        self.body.insert_str(0, &header);
        self.body
    }
}
