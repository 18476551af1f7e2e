//! One turn: what the user sent, what each agent said and did, and how it ended.

use milk_core::record::{Speaker, TurnOrigin};

use super::markdown::{self, Breaks};
use super::sheet::Sheet;
use super::{blocks, tool};
use crate::fold::{Note, Step, Trouble, Turn};
use crate::moment;

/// Longest thought, in bytes.
const THOUGHT_LIMIT: usize = 32 << 10;

/// Writes a turn; `place` counts the page's turns and names the anchor.
pub(super) fn write(sheet: &mut Sheet, turn: &Turn, place: usize) {
    sheet.raw("<section class=\"turn\" id=\"t");
    sheet.bare_number(place as u64);
    sheet.raw("\" aria-labelledby=\"h");
    sheet.bare_number(place as u64);
    sheet.raw("\">\n");
    heading(sheet, turn, place);
    prompt(sheet, turn);
    let mut speaker = None;
    for step in &turn.steps {
        if speaker != Some(&step.by) {
            close_speaker(sheet, speaker);
            open_speaker(sheet, &step.by);
            speaker = Some(&step.by);
        }
        write_step(sheet, step);
    }
    close_speaker(sheet, speaker);
    for (_, result) in &turn.unmatched {
        tool::write_result(sheet, result);
    }
    for note in &turn.notes {
        write_note(sheet, note);
    }
    if let Some(trouble) = turn.trouble() {
        mark(sheet, trouble);
    }
    sums(sheet, turn);
    sheet.raw("</section>\n");
}

/// Something that milk itself said.
pub(super) fn write_note(sheet: &mut Sheet, note: &Note) {
    sheet.raw("<p class=\"note\"><span class=\"quiet\">milk:</span> ");
    sheet.bounded(&note.text, 8 << 10);
    sheet.raw("</p>\n");
}

fn heading(sheet: &mut Sheet, turn: &Turn, place: usize) {
    sheet.raw("<h2 id=\"h");
    sheet.bare_number(place as u64);
    sheet.raw("\">Turn ");
    sheet.bare_number(turn.id.0);
    sheet.raw("</h2>\n");
    let at_ms =
        turn.start.as_ref().map(|start| start.at_ms).or_else(|| turn.steps.first().map(|step| step.at_ms));
    if let Some(at_ms) = at_ms {
        sheet.raw("<p class=\"when\">");
        super::time(sheet, at_ms);
        sheet.raw("</p>\n");
    }
}

fn prompt(sheet: &mut Sheet, turn: &Turn) {
    let Some(start) = &turn.start else {
        sheet.raw("<p class=\"note\">The beginning of this turn is not in the log.</p>\n");
        return;
    };
    sheet.raw("<article class=\"user\">\n<h3>");
    sheet.raw(match start.origin {
        TurnOrigin::Client => "User",
        TurnOrigin::FollowUp => "Follow-up by milk",
        TurnOrigin::Remote => "User, from remote",
    });
    sheet.raw("</h3>\n");
    for block in &start.content {
        blocks::write(sheet, block);
    }
    sheet.raw("</article>\n");
}

fn open_speaker(sheet: &mut Sheet, by: &Speaker) {
    sheet.raw("<article class=\"agent\">\n<h3>");
    sheet.text(by.agent.as_str());
    sheet.raw(" <span class=\"quiet\">");
    sheet.text(&by.model);
    sheet.raw("</span></h3>\n");
}

fn close_speaker(sheet: &mut Sheet, speaker: Option<&Speaker>) {
    if speaker.is_some() {
        sheet.raw("</article>\n");
    }
}

fn write_step(sheet: &mut Sheet, step: &Step) {
    if let Some(thinking) = step.said.thinking.as_deref().filter(|thinking| !thinking.trim().is_empty()) {
        sheet.raw(
            "<details class=\"thought\"><summary>Thought</summary>\n<p class=\"verbatim\" dir=\"auto\">",
        );
        sheet.bounded(thinking.trim(), THOUGHT_LIMIT);
        sheet.raw("</p></details>\n");
    }
    if !step.said.text.trim().is_empty() {
        markdown::write(sheet, &step.said.text, Breaks::Flow);
    }
    for call in &step.calls {
        tool::write(sheet, call);
    }
}

/// Marks a turn that did not end as turns should.
fn mark(sheet: &mut Sheet, trouble: Trouble<'_>) {
    let opening = match trouble {
        Trouble::Failed(_) => "<p class=\"mark bad\"><strong>This turn failed:</strong> ",
        Trouble::Interrupted => "<p class=\"mark bad\"><strong>This turn was interrupted:</strong> ",
        Trouble::Refused => "<p class=\"mark bad\"><strong>This turn was refused:</strong> ",
        Trouble::Cancelled => "<p class=\"mark warn\"><strong>This turn was cancelled:</strong> ",
        Trouble::OutputLimit | Trouble::RequestLimit => {
            "<p class=\"mark warn\"><strong>This turn was stopped:</strong> "
        }
        Trouble::Unfinished => "<p class=\"mark warn\"><strong>This turn is unfinished:</strong> ",
    };
    sheet.raw(opening);
    sheet.bounded(trouble.words().1, 4 << 10);
    sheet.raw("</p>\n");
}

/// Tokens and time of the turn, in words.
fn sums(sheet: &mut Sheet, turn: &Turn) {
    let usage = turn.usage();
    let start = turn.start.as_ref().map(|start| start.at_ms);
    let span = start.zip(turn.end.as_ref()).and_then(|(start, end)| moment::span(start, end.at_ms));
    if usage.is_none() && span.is_none() {
        return;
    }
    sheet.raw("<p class=\"sums\">");
    if let Some(span) = &span {
        sheet.clean_text(span);
    }
    if let Some(usage) = usage {
        sheet.raw(if span.is_some() { " · " } else { "" });
        sheet.number(usage.input);
        sheet.raw(" tokens in");
        if usage.cached > 0 {
            sheet.raw(" (");
            sheet.number(usage.cached);
            sheet.raw(" from cache)");
        }
        sheet.raw(" · ");
        sheet.number(usage.output);
        sheet.raw(" out");
    }
    sheet.raw("</p>\n");
}
