//! One conversation: prompts out, events in, questions answered.

use std::io::Stdout;

use milk_acp::client::{
    Client, Event, EventKind, Events, Permission, PermissionId, PermissionKind, PermissionOption, StopReason,
};
use tokio::sync::mpsc;

use super::keyboard::Keyboard;
use super::rows::Rows;
use super::screen::Screen;

/// A conversation with an agent.
pub(super) struct Talk {
    pub(super) client: Client,
    pub(super) events: Events,
    pub(super) session: String,
    pub(super) screen: Screen<Stdout>,
    pub(super) keyboard: Keyboard,
    pub(super) interrupts: mpsc::Receiver<()>,
    /// Every question is answered with yes.
    pub(super) yes: bool,
    /// An event that came while a question was open and ends it.
    pub(super) ending: Option<EventKind>,
    /// The agent is gone: there is nobody to talk to.
    pub(super) gone: bool,
}

/// How a chat, or a turn of it, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Fine,
    Interrupted,
    Failed,
}

/// What a person says to a question.
enum Said {
    Choice(PermissionOption),
    No,
    Withdrawn,
    Interrupted,
}

impl Talk {
    /// Reads prompts until there are no more. A turn that failed does not end the chat.
    pub(super) async fn converse(&mut self, greeting: &str) -> Outcome {
        self.screen.note(greeting);
        loop {
            self.screen.prompt();
            let line = tokio::select! {
                line = self.keyboard.line() => line,
                _ = self.interrupts.recv() => None,
            };
            match line {
                Some(line) if !line.trim().is_empty() => {
                    self.screen.answered();
                    let outcome = self.turn(&line).await;
                    if self.gone {
                        return outcome;
                    }
                }
                _ => return Outcome::Fine,
            }
        }
    }

    /// Runs one prompt to its end. Ctrl-C cancels it; a second one gives up waiting for the agent.
    pub(super) async fn turn(&mut self, prompt: &str) -> Outcome {
        self.client.prompt(&self.session, prompt);
        let mut rows = Rows::default();
        let mut cancelled = false;
        let mut echo = Echo::Expected;
        let outcome = loop {
            let kind = tokio::select! {
                kind = next(&mut self.ending, &mut self.events) => kind,
                _ = self.interrupts.recv() => {
                    if std::mem::replace(&mut cancelled, true) {
                        break Outcome::Interrupted;
                    }
                    self.client.cancel(&self.session);
                    continue;
                }
            };
            let Some(kind) = kind else {
                self.gone = true;
                self.screen.note("The agent is gone.");
                break Outcome::Failed;
            };
            match kind {
                EventKind::Text { message, text } => {
                    self.screen.text(message.as_deref().unwrap_or_default(), &text);
                }
                EventKind::Thought { message, text } => {
                    self.screen.thought(message.as_deref().unwrap_or_default(), &text);
                }
                EventKind::User { text } => {
                    // The first is what was just typed; more of them are a history that is shown.
                    let is_echo = std::mem::replace(&mut echo, Echo::Seen) == Echo::Expected;
                    if !(is_echo && text.trim() == prompt.trim()) {
                        self.screen.user(&text);
                    }
                }
                EventKind::Tool(update) => rows.show(&mut self.screen, update),
                EventKind::Permission(question) => cancelled |= self.ask(question, &mut rows).await,
                EventKind::PermissionWithdrawn(_) | EventKind::State(_) => {}
                EventKind::TurnEnded(Ok(stop)) => break self.ended(&stop),
                EventKind::TurnEnded(Err(failure)) => {
                    self.screen.note(&format!("The turn failed: {failure}"));
                    break Outcome::Failed;
                }
            }
        };
        rows.clear();
        outcome
    }

    fn ended(&mut self, stop: &StopReason) -> Outcome {
        match stop {
            StopReason::EndTurn => Outcome::Fine,
            StopReason::Cancelled => {
                self.screen.note("Cancelled.");
                Outcome::Interrupted
            }
            StopReason::Other(reason) => {
                self.screen.note(&format!("The turn ended: {reason}"));
                if reason == "error" { Outcome::Failed } else { Outcome::Fine }
            }
        }
    }

    /// Puts a question to the person; `true` if they cancelled the turn instead.
    async fn ask(&mut self, question: Permission, rows: &mut Rows) -> bool {
        let choices = choices(&question.options);
        let legend: Vec<String> =
            choices.iter().map(|(key, option)| format!("[{key}] {}", option.name)).collect();
        self.screen.question(&question.title, &question.description, &legend.join("  "));
        let said = if self.yes { yes(&choices) } else { self.answer(question.id, &choices, rows).await };
        match said {
            Said::Choice(option) => {
                if self.yes {
                    self.screen.note("yes (--yes)");
                }
                question.pick(&option.id);
            }
            Said::No => {
                match choices.into_iter().find(|(_, option)| option.kind == PermissionKind::RejectOnce) {
                    Some((_, option)) => question.pick(&option.id),
                    None => question.dismiss(),
                }
            }
            Said::Withdrawn => question.dismiss(),
            Said::Interrupted => {
                self.client.cancel(&self.session);
                question.dismiss();
                return true;
            }
        }
        false
    }

    /// Waits for a key; meanwhile the agent may show more, or take the question back. The end of the input is a no.
    async fn answer(
        &mut self,
        id: PermissionId,
        choices: &[(char, PermissionOption)],
        rows: &mut Rows,
    ) -> Said {
        loop {
            tokio::select! {
                line = self.keyboard.line() => {
                    self.screen.answered();
                    let Some(line) = line else { return Said::No };
                    return picked(&line, choices);
                }
                _ = self.interrupts.recv() => return Said::Interrupted,
                event = self.events.next() => match event.map(|event| event.kind) {
                    None => return Said::Withdrawn,
                    Some(EventKind::PermissionWithdrawn(withdrawn)) if withdrawn == id => {
                        self.screen.note("The question was taken back.");
                        return Said::Withdrawn;
                    }
                    Some(EventKind::Tool(update)) => rows.show(&mut self.screen, update),
                    Some(EventKind::Text { message, text }) => {
                        self.screen.text(message.as_deref().unwrap_or_default(), &text);
                    }
                    Some(ended @ EventKind::TurnEnded(_)) => {
                        self.ending = Some(ended);
                        return Said::Withdrawn;
                    }
                    Some(_) => {}
                },
            }
        }
    }
}

/// Whether the agent has repeated the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Echo {
    Expected,
    Seen,
}

async fn next(ending: &mut Option<EventKind>, events: &mut Events) -> Option<EventKind> {
    match ending.take() {
        Some(kind) => Some(kind),
        None => events.next().await.map(|Event { kind, .. }| kind),
    }
}

/// What was typed: a choice's letter or its word. Anything else is a no.
fn picked(line: &str, choices: &[(char, PermissionOption)]) -> Said {
    let typed = line.trim().to_lowercase();
    let word = |key: char| match key {
        'y' => "yes",
        'a' => "always",
        'n' => "no",
        _ => "",
    };
    let fits = |key: char| !typed.is_empty() && (typed == key.to_string() || typed == word(key));
    let choice = choices.iter().find(|(key, _)| fits(*key));
    choice.map_or(Said::No, |(_, option)| Said::Choice(option.clone()))
}

fn yes(choices: &[(char, PermissionOption)]) -> Said {
    let allow = choices.iter().find(|(_, option)| option.kind == PermissionKind::AllowOnce);
    allow.map_or(Said::No, |(_, option)| Said::Choice(option.clone()))
}

/// A key for each choice: `y`, `a`, `n` where the kind is known, else a number.
fn choices(options: &[PermissionOption]) -> Vec<(char, PermissionOption)> {
    let mut keyed: Vec<(char, PermissionOption)> = Vec::new();
    for (index, option) in options.iter().take(9).enumerate() {
        let by_kind = match option.kind {
            PermissionKind::AllowOnce => Some('y'),
            PermissionKind::AllowAlways => Some('a'),
            PermissionKind::RejectOnce => Some('n'),
            PermissionKind::RejectAlways => Some('d'),
            PermissionKind::Unknown => None,
        };
        let number =
            u32::try_from(index + 1).ok().and_then(|number| char::from_digit(number, 10)).unwrap_or('0');
        let free = |key: &char| keyed.iter().all(|(taken, _)| taken != key);
        keyed.push((by_kind.filter(free).unwrap_or(number), option.clone()));
    }
    keyed
}
