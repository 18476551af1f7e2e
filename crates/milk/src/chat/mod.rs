//! `milk chat`: a plain terminal client of an ACP agent: milk itself, in this process, or any other. The smallest example
//! of a client.

mod agent;
mod keyboard;
mod rows;
mod screen;
mod talk;

use std::process::ExitCode;

use anyhow::{Context, Result};
use milk_files::resolve;
use tokio_util::sync::CancellationToken;

use crate::cli::ChatArgs;
use crate::log::say;
use agent::Connected;
use keyboard::Keyboard;
use screen::{Paint, Screen};
use talk::{Outcome, Talk};

/// What a shell reports for a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

pub(crate) fn run(arguments: ChatArgs) -> ExitCode {
    let chatted = crate::serve::runtime().map_err(Into::into).and_then(|runtime| {
        let outcome = runtime.block_on(chat(arguments));
        runtime.shutdown_background(); // a thread may still wait for the keyboard
        outcome
    });
    match chatted {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Interrupted) => ExitCode::from(INTERRUPTED),
        Ok(Outcome::Failed) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("milk chat: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn chat(arguments: ChatArgs) -> Result<Outcome> {
    let here = std::env::current_dir().context("the current directory is gone")?;
    let cwd = arguments.cwd.map_or(here.clone(), |cwd| resolve(&cwd, &here));
    let stop = CancellationToken::new();
    let interrupts = keyboard::interrupts(stop.clone())?;
    let Connected { client, events, hold } = match &arguments.agent {
        Some(command) => agent::other(command, &cwd)?,
        None => agent::own(stop)?,
    };
    let who = client
        .initialize("milk-chat", env!("CARGO_PKG_VERSION"))
        .await
        .context("the agent does not answer")?;
    let session = client.new_session(&cwd).await.context("the agent opens no session")?;
    let screen = Screen::new(std::io::stdout(), Paint::for_stdout());
    let mut talk = Talk {
        client: client.clone(),
        events,
        session,
        screen,
        keyboard: Keyboard::start()?,
        interrupts,
        yes: arguments.yes,
        ending: None,
        gone: false,
    };
    let prompt = arguments.prompt.join(" ");
    let outcome = if prompt.trim().is_empty() {
        talk.converse(&format!(
            "{} {} in {}. An empty line or Ctrl-D ends.",
            who.name,
            who.release,
            cwd.display()
        ))
        .await
    } else {
        talk.turn(&prompt).await
    };
    talk.screen.finish();
    hold.end(&client).await;
    Ok(outcome)
}
