//! Whether a call runs, or a person is asked first. One pure function, and the grants that it reads.

use std::collections::HashSet;
use std::path::PathBuf;

use milk_core::ask::{AnswerOption, OptionKind};
use milk_core::id::OptionId;
use milk_core::ports::{CommandPolicy, Grant, Grants};
use milk_core::settings::{PermissionMode, Settings};
use milk_core::tool::Effect;

use crate::text::one_line;

/// The yes of this time (R28).
pub(crate) const ALLOW: &str = "allow";
/// The yes that is remembered for the directory (R28).
pub(crate) const ALLOW_ALWAYS: &str = "allow_always";
/// The no (R28).
pub(crate) const DENY: &str = "deny";

/// What the policy says about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Run,
    Ask,
}

/// What an `allow_once` is remembered for, until the session is closed in this process (R28).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Remembered {
    /// The tool, inside the workspace.
    Tool(String),
    /// Exactly this shell command.
    Command(String),
    /// This tool on exactly these places outside the workspace.
    Outside { tool: String, paths: Vec<PathBuf> },
}

/// Everything that the policy reads.
#[derive(Debug)]
pub(crate) struct Policy<'a> {
    pub(crate) mode: PermissionMode,
    pub(crate) settings: &'a Settings,
    pub(crate) remembered: &'a HashSet<Remembered>,
    pub(crate) grants: &'a Grants,
    pub(crate) commands: &'a dyn CommandPolicy,
}

impl Policy<'_> {
    /// The precedence: looking is free; the user's switch; a grant that covers exactly this; an allowed command; else a person.
    pub(crate) fn verdict(&self, tool: &str, effect: &Effect) -> Verdict {
        if *effect == Effect::ReadOnly
            || self.mode == PermissionMode::SkipAll
            || self.is_granted(tool, effect)
        {
            return Verdict::Run;
        }
        match effect {
            Effect::Executes { command }
                if self.commands.allows(command, &self.settings.allowed_commands) =>
            {
                Verdict::Run
            }
            _ => Verdict::Ask,
        }
    }

    fn is_granted(&self, tool: &str, effect: &Effect) -> bool {
        if self.remembered.contains(&remembered_for(tool, effect)) {
            return true;
        }
        grant_for(tool, effect).is_some_and(|wanted| self.grants.grants.contains(&wanted))
    }
}

/// What an `allow_once` of this call covers.
pub(crate) fn remembered_for(tool: &str, effect: &Effect) -> Remembered {
    match effect {
        Effect::Executes { command } => Remembered::Command(command.clone()),
        Effect::WritesOutside { paths } => {
            Remembered::Outside { tool: tool.to_owned(), paths: paths.clone() }
        }
        Effect::ReadsPrivate { path } => {
            Remembered::Outside { tool: tool.to_owned(), paths: vec![path.clone()] }
        }
        Effect::ReadOnly | Effect::Writes | Effect::Network { .. } | Effect::External => {
            Remembered::Tool(tool.to_owned())
        }
    }
}

/// What an `allow_always` of this call stores; `None` where no lasting grant is offered.
pub(crate) fn grant_for(tool: &str, effect: &Effect) -> Option<Grant> {
    match effect {
        Effect::Executes { command } => Some(Grant::Command(command.clone())),
        Effect::Writes | Effect::Network { .. } | Effect::External => Some(Grant::Tool(tool.to_owned())),
        Effect::ReadOnly | Effect::WritesOutside { .. } | Effect::ReadsPrivate { .. } => None,
    }
}

/// The choices of a permission question, in the order to show them (R28).
pub(crate) fn options(tool: &str, effect: &Effect) -> Vec<AnswerOption> {
    let mut options = vec![option(ALLOW, "Allow".to_owned(), OptionKind::AllowOnce)];
    match grant_for(tool, effect) {
        Some(Grant::Command(command)) => {
            let label = format!("Always allow exactly `{}` in this folder", one_line(&command, 80));
            options.push(option(ALLOW_ALWAYS, label, OptionKind::AllowAlways));
        }
        Some(Grant::Tool(tool)) => {
            options.push(option(
                ALLOW_ALWAYS,
                format!("Always allow {tool} in this folder"),
                OptionKind::AllowAlways,
            ));
        }
        None => {}
    }
    options.push(option(DENY, "Deny".to_owned(), OptionKind::RejectOnce));
    options
}

fn option(id: &str, label: String, kind: OptionKind) -> AnswerOption {
    AnswerOption { id: OptionId::from(id), label, kind }
}
