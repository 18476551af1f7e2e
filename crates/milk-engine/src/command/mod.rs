//! The slash-command table: what is advertised, what `/help` lists and what runs are one list (contract: Slash commands).

mod handlers;

use crate::conversation::ConversationState;

/// One command.
#[derive(Debug, Clone, Copy)]
pub struct CommandSpec {
    /// The bare name, without a slash (R26).
    pub name: &'static str,
    /// What may follow it, for the input field's hint.
    pub hint: Option<&'static str>,
    /// One line.
    pub help: &'static str,
    run: fn(&mut ConversationState, &str) -> String,
}

/// The commands, in the order in which they are advertised.
const TABLE: &[CommandSpec] = &[
    CommandSpec {
        name: "skip-permissions",
        hint: Some("[on|off]"),
        help: "approve every tool call without asking",
        run: handlers::skip_permissions,
    },
    CommandSpec { name: "help", hint: None, help: "list the commands", run: handlers::help },
];

/// Every command that a client may be told of; each of them runs.
pub fn advertised() -> &'static [CommandSpec] {
    TABLE
}

/// A prompt that names a command.
#[derive(Debug)]
pub(crate) struct Invocation<'a> {
    spec: &'static CommandSpec,
    arguments: &'a str,
}

impl Invocation<'_> {
    /// Runs it and returns what it says: plain Markdown, never empty.
    pub(crate) fn run(&self, state: &mut ConversationState) -> String {
        (self.spec.run)(state, self.arguments)
    }
}

/// Looks a prompt up: its first word must be a known name behind one slash or two (R26). What follows is passed on
/// untouched but for the white space around it. Anything else is an ordinary prompt.
pub(crate) fn find(text: &str) -> Option<Invocation<'_>> {
    let text = text.trim();
    let typed = text.strip_prefix('/')?;
    let typed = typed.strip_prefix('/').unwrap_or(typed);
    let end = typed.find(char::is_whitespace).unwrap_or(typed.len());
    let (name, arguments) = typed.split_at(end);
    let spec = TABLE.iter().find(|spec| spec.name == name)?;
    Some(Invocation { spec, arguments: arguments.trim() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_with_one_slash_or_two_and_nothing_else_is() {
        let name = |text| find(text).map(|found| found.spec.name);
        assert_eq!(name("/help"), Some("help"));
        assert_eq!(name("//help"), Some("help"));
        assert_eq!(name("  /help\n"), Some("help"));
        for other in [
            "/HELP",
            "///help",
            "/eixt",
            "/",
            "//",
            "please run /help",
            "/etc/hosts explain this",
            "help",
            "/helpme",
            "",
        ] {
            assert_eq!(name(other), None, "{other:?} is an ordinary prompt");
        }
    }

    #[test]
    fn arguments_keep_their_inner_spaces_and_lines() {
        assert_eq!(find("/skip-permissions  a  b\n c ").unwrap().arguments, "a  b\n c");
    }

    #[test]
    fn names_are_bare_and_unique_and_help_is_one_line() {
        let mut names: Vec<&str> = TABLE.iter().map(|spec| spec.name).collect();
        assert!(
            TABLE
                .iter()
                .all(|spec| !spec.name.contains('/') && !spec.help.is_empty() && !spec.help.contains('\n'))
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
    }
}
