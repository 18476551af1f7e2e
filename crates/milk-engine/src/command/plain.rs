//! Commands that only say something or turn a switch.

use std::fmt::Write as _;

use milk_core::BoxFuture;
use milk_core::settings::PermissionMode;

use super::TABLE;
use super::outcome::Outcome;
use crate::conversation::ConversationState;

pub(super) fn help<'a>(_: &'a mut ConversationState, _: &'a str) -> BoxFuture<'a, Outcome> {
    let mut text = String::from("Commands available over ACP:\n");
    for spec in TABLE {
        let hint = spec.hint.map(|hint| format!(" {hint}")).unwrap_or_default();
        let _ = write!(text, "\n- `/{}{hint}`: {}", spec.name, spec.help); // writing to a String cannot fail
    }
    ready(text)
}

pub(super) fn skip_permissions<'a>(
    state: &'a mut ConversationState,
    argument: &'a str,
) -> BoxFuture<'a, Outcome> {
    match argument {
        "" => {}
        "on" => state.mode = PermissionMode::SkipAll,
        "off" => state.mode = PermissionMode::Ask,
        _ => return ready("usage: /skip-permissions [on|off]"),
    }
    let (now, meaning) = match state.mode {
        PermissionMode::SkipAll => ("ON", "tools run without asking"),
        PermissionMode::Ask => ("OFF", "tools with side effects ask first"),
    };
    let verb = if argument.is_empty() { "is " } else { "" };
    ready(format!("[milk] dangerously_skip_permissions {verb}{now}: {meaning} in this conversation."))
}

fn ready(text: impl Into<String>) -> BoxFuture<'static, Outcome> {
    Box::pin(std::future::ready(Outcome::said(text)))
}
