//! One request and its answer, attempts and waits included: what the stream of [`super::ChatModel`] polls.

use std::sync::Arc;
use std::time::Duration;

use milk_core::model::{ModelError, ModelEvent, ModelRequest, Retry};

use super::client::Server;
use super::connection::{Connection, Reading};
use super::format::Decoder;
use crate::failure::Failed;
use crate::retry::Verdict;

/// A request on its way.
#[derive(Debug)]
pub(super) struct Exchange {
    server: Arc<Server>,
    request: ModelRequest,
    phase: Phase,
    /// The attempt that is being made, counted from 1.
    attempt: u32,
    shown: Shown,
}

#[derive(Debug)]
enum Phase {
    /// To be sent after this wait.
    Waiting(Duration),
    /// Streaming.
    Reading(Box<Connection>),
    /// The last events are being given out.
    Emptying(Box<Connection>),
    /// Nothing comes any more.
    Over,
}

/// Whether anything of an answer has left: from then on nothing may be said twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Something,
}

impl Exchange {
    pub(super) fn new(server: Arc<Server>, request: ModelRequest) -> Self {
        Self { server, request, phase: Phase::Waiting(Duration::ZERO), attempt: 1, shown: Shown::Nothing }
    }

    /// The next thing to tell.
    pub(super) async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Phase::Reading(connection) | Phase::Emptying(connection) = &mut self.phase
                && let Some(event) = connection.next_event()
            {
                self.shown = Shown::Something;
                return Some(Ok(event));
            }
            let result = match &mut self.phase {
                Phase::Over => return None,
                Phase::Emptying(_) => {
                    self.phase = Phase::Over;
                    return None;
                }
                Phase::Waiting(wait) => {
                    let wait = *wait;
                    self.begin(wait).await
                }
                Phase::Reading(connection) => match connection.read(&self.server.reporter).await {
                    Ok(Reading::On) => Ok(()),
                    Ok(Reading::Over) => {
                        self.empty();
                        Ok(())
                    }
                    Err(failed) => Err(failed),
                },
            };
            if let Err(failed) = result {
                return Some(self.again_or_over(failed));
            }
        }
    }

    async fn begin(&mut self, wait: Duration) -> Result<(), Failed> {
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let response = self.server.open(&self.request).await?;
        let decoder = Decoder::new(Arc::clone(&self.request.tools));
        self.phase =
            Phase::Reading(Box::new(Connection::new(response, decoder, self.server.config.patience)));
        Ok(())
    }

    fn empty(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Reading(connection) => Phase::Emptying(connection),
            other => other,
        };
    }

    /// Plans another attempt if the failure allows one and nothing has been shown; else it is final.
    fn again_or_over(&mut self, failed: Failed) -> Result<ModelEvent, ModelError> {
        self.phase = Phase::Over;
        let verdict = match self.shown {
            Shown::Nothing => self.server.config.retry.judge(failed.again, self.attempt),
            Shown::Something => Verdict::GiveUp,
        };
        match verdict {
            Verdict::Retry { attempt, limit, wait } => {
                self.attempt = attempt;
                self.phase = Phase::Waiting(wait);
                Ok(ModelEvent::Retrying(Retry { attempt, limit, wait, cause: failed.error.details }))
            }
            Verdict::GiveUp => Err(failed.error),
            Verdict::AskedTooMuch(asked) => Err(failed.asked_too_much(asked)),
        }
    }
}
