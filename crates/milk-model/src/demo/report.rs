//! How the demo agent tells what a tool gave back.

use milk_core::model::{ChatMessage, ToolCall};

/// Most characters of a result that are repeated; the row of the call shows the rest.
const REPEATED: usize = 4_000;

/// The results that nobody has answered yet, each with the name of its tool.
pub(super) fn newest_results<'a>(messages: &'a [ChatMessage]) -> Vec<(&'a str, &'a str)> {
    let start = messages.iter().rposition(|message| !matches!(message, ChatMessage::ToolResult { .. }));
    let (before, results) = messages.split_at(start.map_or(0, |at| at + 1));
    let calls: &[ToolCall] = match before.last() {
        Some(ChatMessage::Assistant(message)) => &message.tool_calls,
        _ => &[],
    };
    let named = |message: &'a ChatMessage| match message {
        ChatMessage::ToolResult { call, output } => {
            let name =
                calls.iter().find(|known| known.id == *call).map_or("the tool", |known| known.name.as_str());
            Some((name, output.as_str()))
        }
        ChatMessage::User(_) | ChatMessage::Assistant(_) => None,
    };
    results.iter().filter_map(named).collect()
}

/// The results in words.
pub(super) fn report(results: &[(&str, &str)]) -> String {
    let told: Vec<String> = results.iter().map(|(tool, output)| tell(tool, output)).collect();
    told.join("\n\n")
}

fn tell(tool: &str, output: &str) -> String {
    let output = output.trim_end();
    if output.is_empty() {
        return format!("`{tool}` ran and had nothing to say.");
    }
    if !output.contains('\n') && !output.contains('`') && output.len() < 200 {
        return format!("`{tool}` answered: {output}");
    }
    let shown = output.char_indices().nth(REPEATED).map_or(output, |(end, _)| &output[..end]);
    let rest = match output.len() - shown.len() {
        0 => String::new(),
        bytes => format!("\n\n({bytes} more bytes are left out here.)"),
    };
    let fence = "`".repeat(longest_run(shown, '`').max(2) + 1);
    format!("`{tool}` answered:\n\n{fence}\n{shown}\n{fence}{rest}")
}

/// The longest run of a character, so that a fence can be longer than any inside.
fn longest_run(text: &str, wanted: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == wanted { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}
