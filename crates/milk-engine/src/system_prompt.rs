//! The one system message. Its beginning never changes within a conversation, so that a provider's prompt cache holds.

use std::sync::Arc;

use milk_core::tool::{ToolSpec, Workspace};

const CHARACTER: &str = "\
You are milk, a coding agent that works in the user's project through their editor. \
Do what the user asks, no more; say in a few words what you did. \
Look before you change: read a file before you edit it. Prefer small edits over whole rewrites. \
When a command or an edit fails, read the error and try another way instead of repeating it. \
Never claim that something was done or checked when it was not. \
Answer in the user's language.";

const WITH_TOOLS: &str = "\
You have tools. Calls that change something are put before the user, who may say no: then do not try to get \
the same effect another way, but ask what they want instead. Paths may be relative to the working directory.";

/// Builds the system message of a conversation.
pub(crate) fn build(
    workspace: &Workspace,
    tools: &[ToolSpec],
    agent_prompt: Option<&str>,
    instructions: Option<&str>,
) -> Arc<str> {
    let mut text = String::from(CHARACTER);
    if !tools.is_empty() {
        push_paragraph(&mut text, WITH_TOOLS);
    }
    if let Some(prompt) = agent_prompt {
        push_paragraph(&mut text, prompt);
    }
    push_paragraph(&mut text, &format!("Working directory: {}", workspace.root.display()));
    if !workspace.extra.is_empty() {
        let folders: Vec<String> =
            workspace.extra.iter().map(|folder| folder.display().to_string()).collect();
        push_paragraph(&mut text, &format!("Further folders of this workspace: {}", folders.join(", ")));
    }
    push_paragraph(&mut text, &format!("Operating system: {}", std::env::consts::OS));
    if let Some(instructions) = instructions {
        push_paragraph(&mut text, &format!("The project's own instructions for agents:\n{instructions}"));
    }
    text.into()
}

fn push_paragraph(text: &mut String, paragraph: &str) {
    text.push_str("\n\n");
    text.push_str(paragraph.trim());
}
