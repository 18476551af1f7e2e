//! The slash-command table: what is advertised, what `/help` lists and what runs are one list (contract: Slash commands).

mod export;
mod outcome;
mod plain;
mod sessions;

use milk_core::BoxFuture;

use crate::conversation::ConversationState;

use outcome::Outcome;
pub(crate) use outcome::conclude;

/// One command.
#[derive(Debug, Clone, Copy)]
pub struct CommandSpec {
    /// The bare name, without a slash (R26).
    pub name: &'static str,
    /// What may follow it, for the input field's hint.
    pub hint: Option<&'static str>,
    /// One line.
    pub help: &'static str,
    run: Run,
}

/// What runs a command, given what follows its name.
type Run = for<'a> fn(&'a mut ConversationState, &'a str) -> BoxFuture<'a, Outcome>;

/// The commands, in the order in which they are advertised.
const TABLE: &[CommandSpec] = &[
    CommandSpec {
        name: "export",
        hint: Some("[session <id|prefix>] [json|html <path>|<path>]"),
        help: "print the session transcript (or another session's), or write it to a file",
        run: export::export,
    },
    CommandSpec {
        name: "sessions",
        hint: Some("[all]"),
        help: "list the stored sessions of this directory, or of all",
        run: sessions::sessions,
    },
    CommandSpec {
        name: "new",
        hint: Some("[name]"),
        help: "go on with a fresh session in this conversation; the present one stays stored",
        run: sessions::new,
    },
    CommandSpec { name: "clear", hint: Some("[name]"), help: "the same as /new", run: sessions::new },
    CommandSpec {
        name: "resume",
        hint: Some("<id|prefix|name>"),
        help: "switch this conversation to a stored session; without an argument, list them",
        run: sessions::resume,
    },
    CommandSpec {
        name: "drop",
        hint: Some("[id|prefix|name]"),
        help: "delete this session and go on with a fresh one, or delete another session",
        run: sessions::drop_session,
    },
    CommandSpec {
        name: "skip-permissions",
        hint: Some("[on|off]"),
        help: "approve every tool call without asking",
        run: plain::skip_permissions,
    },
    CommandSpec { name: "help", hint: None, help: "list the commands", run: plain::help },
];

/// Commands that still run and are not advertised any more (contract: the `/list` alias).
const DEPRECATED: &[CommandSpec] = &[CommandSpec {
    name: "list",
    hint: Some("[all]"),
    help: "the old name of /sessions",
    run: sessions::list,
}];

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
    /// Runs it up to what it comes to, which [`conclude`] shows.
    pub(crate) async fn run(&self, state: &mut ConversationState) -> Outcome {
        (self.spec.run)(state, self.arguments).await
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
    let spec = TABLE.iter().chain(DEPRECATED).find(|spec| spec.name == name)?;
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
        assert_eq!(name("/list all"), Some("list"));
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
        let all: Vec<&CommandSpec> = TABLE.iter().chain(DEPRECATED).collect();
        assert!(
            all.iter()
                .all(|spec| !spec.name.contains('/') && !spec.help.is_empty() && !spec.help.contains('\n'))
        );
        let mut names: Vec<&str> = all.iter().map(|spec| spec.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }
}
