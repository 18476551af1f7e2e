//! What the commands do.

use std::fmt::Write as _;

use milk_core::settings::PermissionMode;

use super::TABLE;
use crate::conversation::ConversationState;

pub(super) fn help(_: &mut ConversationState, _: &str) -> String {
    let mut text = String::from("Commands available over ACP:\n");
    for spec in TABLE {
        let hint = spec.hint.map(|hint| format!(" {hint}")).unwrap_or_default();
        let _ = write!(text, "\n- `/{}{hint}`: {}", spec.name, spec.help); // writing to a String cannot fail
    }
    text
}

pub(super) fn skip_permissions(state: &mut ConversationState, argument: &str) -> String {
    match argument {
        "" => {}
        "on" => state.mode = PermissionMode::SkipAll,
        "off" => state.mode = PermissionMode::Ask,
        _ => return "usage: /skip-permissions [on|off]".to_owned(),
    }
    let (now, meaning) = match state.mode {
        PermissionMode::SkipAll => ("ON", "tools run without asking"),
        PermissionMode::Ask => ("OFF", "tools with side effects ask first"),
    };
    let verb = if argument.is_empty() { "is " } else { "" };
    format!("[milk] dangerously_skip_permissions {verb}{now}: {meaning} in this conversation.")
}
