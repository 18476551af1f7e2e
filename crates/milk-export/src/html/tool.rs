//! Rows of tool calls, which fold.

use milk_core::model::ToolArguments;
use milk_core::tool::{ToolKind, ToolStatus};
use serde_json::Value;

use super::change::{self, Changes};
use super::sheet::Sheet;
use crate::fold::{Call, CallResult};

/// Longest output that is shown, in bytes.
const OUTPUT_LIMIT: usize = 24 << 10;
/// Longest value of one argument, in bytes.
const ARGUMENT_LIMIT: usize = 4 << 10;
/// How many arguments are shown.
const ARGUMENTS_LIMIT: usize = 40;
/// Longest title, in characters.
const TITLE_LIMIT: usize = 400;

/// Writes a call with its result.
pub(super) fn write(sheet: &mut Sheet, call: &Call) {
    row(sheet, Some(call), call.result.as_ref());
}

/// Writes a result whose call is not known.
pub(super) fn write_result(sheet: &mut Sheet, result: &CallResult) {
    row(sheet, None, Some(result));
}

fn row(sheet: &mut Sheet, call: Option<&Call>, result: Option<&CallResult>) {
    let changes = Changes::of(sheet, result.map_or(&[][..], |result| &result.changes));
    sheet.raw(if changes.are_short() { "<details class=\"tool\" open>" } else { "<details class=\"tool\">" });
    summary(sheet, call, result, &changes);
    sheet.raw("<div class=\"inside\">\n");
    if let Some(call) = call {
        // A change says what its arguments say, and better.
        let folded = !changes.is_empty();
        arguments(sheet, &call.made.name, &call.made.arguments, folded);
    }
    change::write(sheet, &changes);
    match result {
        Some(result) if !result.output.trim().is_empty() => {
            sheet.raw("<p class=\"label\">Output</p>\n<pre class=\"output\" tabindex=\"0\"><code>");
            sheet.bounded(result.output.trim_end(), OUTPUT_LIMIT);
            sheet.raw("</code></pre>\n");
        }
        Some(_) => {}
        None => sheet.raw("<p class=\"quiet\">No result was recorded.</p>\n"),
    }
    sheet.raw("</div></details>\n");
}

fn summary(sheet: &mut Sheet, call: Option<&Call>, result: Option<&CallResult>, changes: &Changes) {
    let (class, status) = match result.map(|result| result.status) {
        Some(ToolStatus::Completed) => ("<summary class=\"good\">", "done"),
        Some(ToolStatus::Failed) => ("<summary class=\"bad\">", "failed"),
        Some(ToolStatus::Cancelled) => ("<summary class=\"warn\">", "cancelled"),
        None => ("<summary class=\"warn\">", "no result"),
    };
    let title = title(sheet, call, result);
    sheet.raw(class);
    sheet.raw("<span class=\"what\">");
    sheet.clean_text(&title);
    sheet.raw("</span> <span class=\"how\">");
    if let Some(result) = result {
        sheet.raw(kind_word(result.kind));
        sheet.raw(" · ");
    }
    sheet.raw("<span class=\"status\">");
    sheet.raw(status);
    sheet.raw("</span>");
    change::write_counts(sheet, changes);
    sheet.raw("</span></summary>\n");
}

/// What the person saw; for a call that never came so far, its name and arguments.
fn title(sheet: &Sheet, call: Option<&Call>, result: Option<&CallResult>) -> String {
    if let Some(result) = result.filter(|result| !result.title.trim().is_empty()) {
        return sheet.one_line(&result.title, TITLE_LIMIT);
    }
    let Some(call) = call else { return "A tool call".to_owned() };
    let arguments = match &call.made.arguments {
        ToolArguments::Object(fields) => sheet.redact().value(&fields.clone().into()).to_string(),
        ToolArguments::Unparsable(text) => text.clone(),
    };
    sheet.one_line(&format!("{} {arguments}", call.made.name), TITLE_LIMIT / 2)
}

fn kind_word(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "execute",
        ToolKind::Think => "think",
        ToolKind::Fetch => "fetch",
        ToolKind::Other => "other",
    }
}

fn arguments(sheet: &mut Sheet, name: &str, arguments: &ToolArguments, folded: bool) {
    let label = sheet.one_line(name, 100);
    sheet.raw(if folded { "<details class=\"args\"><summary>" } else { "<p class=\"label\">" });
    sheet.raw("Arguments of <code>");
    sheet.clean_text(&label);
    sheet.raw(if folded { "</code></summary>\n" } else { "</code></p>\n" });
    match arguments {
        ToolArguments::Object(fields) => {
            let clean = sheet.redact().value(&fields.clone().into());
            sheet.raw("<dl class=\"fields\">\n");
            let fields = clean.as_object().into_iter().flatten();
            for (key, value) in fields.take(ARGUMENTS_LIMIT) {
                let key = sheet.one_line(key, 100);
                sheet.raw("<div><dt>");
                sheet.clean_text(&key);
                sheet.raw("</dt><dd>");
                match value {
                    Value::String(text) => sheet.bounded(text, ARGUMENT_LIMIT),
                    other => sheet.bounded(&format!("{other:#}"), ARGUMENT_LIMIT),
                }
                sheet.raw("</dd></div>\n");
            }
            sheet.raw("</dl>\n");
        }
        ToolArguments::Unparsable(text) => {
            sheet.raw("<p class=\"quiet\">Not a JSON object; the call was not run.</p>\n<pre class=\"output\" tabindex=\"0\"><code>");
            sheet.bounded(text, ARGUMENT_LIMIT);
            sheet.raw("</code></pre>\n");
        }
    }
    sheet.raw(if folded { "</details>\n" } else { "" });
}
