//! From the engine's events to updates: pure, with the little memory that a version's shapes need. v1 and v2 differ
//! here and nowhere else.

mod live;
mod replay;
mod v1;
mod v2;

use std::sync::Arc;
use std::time::Instant;

use agent_client_protocol_schema as schema;
use milk_core::ask::Question;
use milk_core::event::{ContextUsage, EventKind, Route};

use crate::peer;
use crate::profile::Echo;
use crate::wire::delta::{Delta, Shape};
use crate::wire::v1::FirstRow;
use crate::wire::v2::RouteInfo;
use crate::wire::{Handle, Version};
use crate::writer::Outgoing;

/// Longest title of a row, in characters. The question and `rawInput` have the whole.
const TITLE: usize = 1000;

/// One update of a session, not yet addressed to it.
#[derive(Debug)]
pub(crate) enum Update {
    V1(schema::v1::SessionUpdate),
    V1FirstRow(Box<FirstRow>),
    V2(schema::v2::SessionUpdate),
    /// A piece that may merge with its neighbours.
    Delta {
        shape: Shape,
        id: Arc<str>,
        text: String,
    },
    /// `_milk/route` (contract: Routing and warnings).
    Route(Route),
}

impl Update {
    /// The message to the session that the client calls `of`.
    pub(crate) fn address(self, of: &Handle) -> Outgoing {
        let line = match self {
            Self::Delta { shape, id, text } => {
                return Outgoing::Delta(Delta { of: of.clone(), shape, id, text });
            }
            Self::V1(update) => {
                let update = schema::v1::SessionNotification::new(of.shared(), update);
                peer::notification("session/update", &update)
            }
            Self::V1FirstRow(update) => {
                peer::notification("session/update", &FirstRowNotice { session_id: of.as_str(), update })
            }
            Self::V2(update) => {
                let update = schema::v2::UpdateSessionNotification::new(of.shared(), update);
                peer::notification("session/update", &update)
            }
            Self::Route(route) => {
                // The session is an addition to the contract's three: clients of many sessions need it.
                let params = RouteNotice { session_id: of.as_str(), route: RouteInfo::of(&route) };
                peer::notification(ROUTE, &params)
            }
        };
        Outgoing::Line { of: Some(of.clone()), line }
    }
}

/// The notification about routing.
const ROUTE: &str = "_milk/route";

/// Every notification of milk's own that is sent, as `initialize` lists them (R5).
pub(crate) const NOTIFICATIONS: &[&str] = &[ROUTE];

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct RouteNotice<'a> {
    session_id: &'a str,
    #[serde(flatten)]
    route: RouteInfo<'a>,
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct FirstRowNotice<'a> {
    session_id: &'a str,
    update: Box<FirstRow>,
}

pub use replay::ReplayIds;
pub(crate) use replay::{complete as replay_complete, show as show_replayed};

/// Takes the updates that an event becomes, in order.
pub(crate) type Out<'a> = &'a mut dyn FnMut(Update);

/// The mapping for one view.
#[derive(Debug)]
pub(crate) enum Map {
    V1(v1::Map),
    V2(v2::Map),
}

impl Map {
    pub(crate) fn new(version: Version, echo: Echo) -> Self {
        match version {
            Version::V1 => Self::V1(v1::Map::new(echo)),
            Version::V2 => Self::V2(v2::Map::new(echo)),
        }
    }

    /// What an event becomes. Questions and ended prompts are not updates: the view has them.
    pub(crate) fn show(&mut self, event: EventKind, now: Instant, out: Out<'_>) {
        match self {
            Self::V1(map) => map.show(event, now, out),
            Self::V2(map) => map.show(event, out),
        }
    }

    /// When held-back output is due to be shown; `None` if there is none.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::V1(map) => map.due(now),
            Self::V2(_) => None,
        }
    }

    /// Shows the held-back output that is due.
    pub(crate) fn flush(&mut self, now: Instant, out: Out<'_>) {
        match self {
            Self::V1(map) => map.flush(now, out),
            Self::V2(_) => {}
        }
    }

    /// The parameters of `session/request_permission`, as a call with this number.
    pub(crate) fn question(&mut self, call: u64, question: &Question, of: &Handle) -> Vec<u8> {
        match self {
            Self::V1(map) => peer::call(call, PERMISSION, &map.question(question, of)),
            Self::V2(_) => peer::call(call, PERMISSION, &v2::question(question, of)),
        }
    }
}

/// The method that asks a person.
pub(crate) const PERMISSION: &str = "session/request_permission";

/// How full the context is, where both halves are known: (used, size) in tokens.
fn usage(usage: ContextUsage) -> Option<(u64, u64)> {
    let used = usage.usage.input.saturating_add(usage.usage.output);
    let size = usage.window.filter(|size| *size > 0)?;
    (used > 0).then_some((used, size))
}

/// A row's title: one visible line of bearable length, never empty.
fn row_title(title: &str, name: &str) -> String {
    let title = if title.trim().is_empty() { name } else { title };
    match title.char_indices().nth(TITLE) {
        Some((cut, _)) => format!("{}…", crate::visible::line(&title[..cut])),
        None => crate::visible::line(title).into_owned(),
    }
}

#[cfg(test)]
mod tests;
