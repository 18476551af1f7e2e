//! A source of answers beside the front end, and what was allowed before.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use milk_core::BoxFuture;
use milk_core::ask::{AskOutcome, Question};
use milk_core::ports::{AskSource, CommandPolicy, Grant, GrantStore, Grants, StoreError};
use tokio::sync::{mpsc, oneshot};

/// A source whose questions come out of a channel.
#[derive(Debug)]
pub(crate) struct RemoteSide(mpsc::Sender<RemoteAsk>);

/// One question at the remote side.
#[derive(Debug)]
pub(crate) struct RemoteAsk {
    pub(crate) question: Question,
    answer: oneshot::Sender<AskOutcome>,
}

impl RemoteSide {
    pub(crate) fn new() -> (Self, mpsc::Receiver<RemoteAsk>) {
        let (asks, receiver) = mpsc::channel(64);
        (Self(asks), receiver)
    }
}

impl AskSource for RemoteSide {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, AskOutcome> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let _ = self.0.try_send(RemoteAsk { question: question.clone(), answer });
            let gone = || AskOutcome::Unanswered { cause: "the remote side is gone".to_owned() };
            answered.await.unwrap_or_else(|_| gone())
        })
    }
}

impl RemoteAsk {
    /// Answers; too late an answer is lost.
    pub(crate) fn answer(self, outcome: AskOutcome) {
        let _ = self.answer.send(outcome);
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        self.answer.is_closed()
    }
}

/// The grants of the only directory.
#[derive(Debug, Default)]
pub(crate) struct FakeGrants {
    grants: Mutex<Vec<Grant>>,
    broken: AtomicBool,
}

impl FakeGrants {
    pub(crate) fn with(grants: Vec<Grant>) -> Self {
        Self { grants: Mutex::new(grants), broken: AtomicBool::new(false) }
    }

    pub(crate) fn all(&self) -> Vec<Grant> {
        self.grants.lock().unwrap().clone()
    }

    /// Neither reads nor writes work from here on.
    pub(crate) fn break_down(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    fn working(&self) -> Result<(), StoreError> {
        let broken = self.broken.load(Ordering::Relaxed);
        if broken { Err(StoreError::Failed("the disk is full".to_owned())) } else { Ok(()) }
    }
}

impl GrantStore for FakeGrants {
    fn grants<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Result<Grants, StoreError>> {
        Box::pin(async { self.working().map(|()| Grants { grants: self.all() }) })
    }

    fn remember<'a>(&'a self, _: &'a Path, grant: &'a Grant) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async {
            self.working()?;
            self.grants.lock().unwrap().push(grant.clone());
            Ok(())
        })
    }
}

/// Allows a command that equals a pattern.
#[derive(Debug)]
pub(crate) struct EqualCommands;

impl CommandPolicy for EqualCommands {
    fn allows(&self, command: &str, patterns: &[String]) -> bool {
        patterns.iter().any(|pattern| pattern == command)
    }
}
