//! Commands about stored sessions (contract: Session commands and view rebinding).

use std::fmt::Write as _;

use milk_core::BoxFuture;
use milk_core::session::{SessionQuery, SessionSummary, Worth, title_from};

use super::outcome::{AfterSwitch, Outcome};
use crate::conversation::{ConversationState, Destination, announcement};
use crate::engine::OpenError;
use crate::reference;
use crate::text::{age, plural, short_id};

/// Rows of a list in a chat, at most.
const LISTED: usize = 50;
/// Width of a title in it, in characters.
const TITLE: usize = 48;

pub(super) fn sessions<'a>(state: &'a mut ConversationState, argument: &'a str) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        match argument {
            "" => list_of(state, Scope::Here).await,
            "all" => list_of(state, Scope::Everywhere).await,
            _ => Outcome::said("usage: /sessions [all]"),
        }
    })
}

pub(super) fn list<'a>(state: &'a mut ConversationState, argument: &'a str) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        match sessions(state, argument).await {
            Outcome::Said { text, kept } => {
                Outcome::Said { text: format!("{text}\n\n(/list is called /sessions now)"), kept }
            }
            other => other,
        }
    })
}

pub(super) fn new<'a>(state: &'a mut ConversationState, argument: &'a str) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let name = title_from(argument);
        if let Some(name) = &name
            && let Some(refusal) = name_is_taken(state, name).await
        {
            return Outcome::said(refusal);
        }
        let was = short_id(&state.binding.session).to_owned();
        match Destination::fresh(state, name.as_deref()).await {
            Ok(to) => {
                let named = name.map(|name| format!(" \"{name}\"")).unwrap_or_default();
                let report = format!(
                    "this conversation goes on with the fresh session {}{named} — /resume {was} goes back to the one before",
                    short_id(to.session())
                );
                Outcome::Switch { to: Box::new(to), report, then: AfterSwitch::Nothing }
            }
            Err(error) => Outcome::said(format!("no fresh session: {error}")),
        }
    })
}

pub(super) fn resume<'a>(state: &'a mut ConversationState, argument: &'a str) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        if argument.is_empty() {
            return list_of(state, Scope::Here).await;
        }
        let store = &*state.ports().sessions;
        let found = match reference::by_id_or_name(store, argument, state.workspace.cwd()).await {
            Ok(found) => found,
            Err(error) => return Outcome::said(error.to_string()),
        };
        if found.id == state.binding.session {
            return Outcome::said(format!("this conversation is on session {} already", short_id(&found.id)));
        }
        match Destination::stored(state, &found.id).await {
            Ok((to, summary)) => {
                let report = announcement(&summary, state.workspace.cwd());
                Outcome::Switch { to: Box::new(to), report, then: AfterSwitch::Replay }
            }
            Err(error) => Outcome::said(refusal(&found, &error)),
        }
    })
}

pub(super) fn drop_session<'a>(
    state: &'a mut ConversationState,
    argument: &'a str,
) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        if !argument.is_empty() {
            let store = &*state.ports().sessions;
            let found = match reference::by_id_or_name(store, argument, state.workspace.cwd()).await {
                Ok(found) => found,
                Err(error) => return Outcome::said(error.to_string()),
            };
            if found.id != state.binding.session {
                return Outcome::said(match state.world().delete(&found.id).await {
                    Ok(()) => format!("deleted session {}", described(&found)),
                    Err(error) => refusal(&found, &error),
                });
            }
        }
        match Destination::fresh(state, None).await {
            Ok(to) => Outcome::Drop { to: Box::new(to) },
            Err(error) => Outcome::said(format!("nothing was deleted: {error}")),
        }
    })
}

fn refusal(session: &SessionSummary, error: &OpenError) -> String {
    match error {
        OpenError::Taken(_) => {
            format!("session {} is open in another conversation — close it there first", described(session))
        }
        other => other.to_string(),
    }
}

fn described(session: &SessionSummary) -> String {
    let title = session.title().map(|title| format!(" ({title})")).unwrap_or_default();
    format!("{}{title}", short_id(&session.id))
}

/// Names are for finding a session again: one directory has each of them once.
async fn name_is_taken(state: &ConversationState, name: &str) -> Option<String> {
    let known = state.ports().sessions.with_name(state.workspace.cwd(), name).await.ok()?;
    let holder = known.first()?;
    Some(format!(
        "session {} of this directory has the name \"{name}\" already — /resume {} goes to it",
        short_id(&holder.id),
        short_id(&holder.id)
    ))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Here,
    Everywhere,
}

async fn list_of(state: &ConversationState, scope: Scope) -> Outcome {
    let query = SessionQuery {
        cwd: (scope == Scope::Here).then(|| state.workspace.root.clone()),
        worth: Worth::Used { open: vec![state.binding.session.clone()] },
        offset: 0,
        limit: LISTED,
    };
    let page = match state.ports().sessions.list(&query).await {
        Ok(page) => page,
        Err(error) => return Outcome::said(format!("the stored sessions cannot be listed: {error}")),
    };
    if page.sessions.is_empty() {
        return Outcome::said("no sessions found");
    }
    let now = state.ports().clock.now_ms();
    let mut text = match scope {
        Scope::Here => {
            format!("Sessions of {} (* is this conversation's):\n\n```text\n", state.workspace.root.display())
        }
        Scope::Everywhere => {
            "Sessions of every directory (* is this conversation's):\n\n```text\n".to_owned()
        }
    };
    for session in &page.sessions {
        let mark = if session.id == state.binding.session { '*' } else { ' ' };
        let title = fence_proof(session.title().unwrap_or("(unnamed)"));
        let title: String = title.chars().take(TITLE).collect();
        let _ = write!(
            text,
            "{mark} {}  {title:<TITLE$}  {:>9}  {}",
            short_id(&session.id),
            plural(session.turns, "turn"),
            age(session.last_used_ms, now)
        );
        if scope == Scope::Everywhere {
            let _ = write!(text, "  {}", fence_proof(&session.cwd.to_string_lossy()));
        }
        text.push('\n');
    }
    text.push_str("```\n");
    if page.more {
        let _ = write!(text, "\nThe newest {LISTED} are shown; `milk sessions list` has them all.");
    }
    text.push_str("\n/resume <id> switches to one, /export session <id> shows one.");
    Outcome::said(text)
}

/// A text that cannot end the block that it stands in.
fn fence_proof(text: &str) -> String {
    text.replace("```", "'''").replace(char::is_control, " ")
}
