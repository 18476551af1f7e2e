//! Where agents come from, and what a conversation is provisioned with.

use std::sync::{Arc, Mutex};

use milk_core::BoxFuture;
use milk_core::failure::Failure;
use milk_core::ports::{AgentSource, Model, Provisioner, ResolvedAgent};
use milk_core::settings::Provision;
use milk_core::tool::Workspace;

/// An agent source that does what the test says.
#[derive(Debug)]
pub(crate) struct FakeAgent {
    model: Mutex<Arc<dyn Model>>,
    next: Mutex<Resolving>,
}

/// What the next resolve does.
#[derive(Debug, Clone)]
pub(crate) enum Resolving {
    Ready { announcement: Option<String> },
    Fails(Failure),
    Hangs,
    Panics,
}

impl FakeAgent {
    pub(crate) fn new(model: Arc<dyn Model>) -> Self {
        Self { model: Mutex::new(model), next: Mutex::new(Resolving::Ready { announcement: None }) }
    }

    /// Another model plays the role from the next turn on.
    pub(crate) fn switch_to(&self, model: Arc<dyn Model>) {
        *self.model.lock().unwrap() = model;
    }

    pub(crate) fn next(&self, resolving: Resolving) {
        *self.next.lock().unwrap() = resolving;
    }
}

impl AgentSource for FakeAgent {
    fn resolve(&self) -> BoxFuture<'_, Result<ResolvedAgent, Failure>> {
        let next = self.next.lock().unwrap().clone();
        Box::pin(async move {
            match next {
                Resolving::Ready { announcement } => {
                    let prompt = Some("You are the agent of the tests.".into());
                    let model = Arc::clone(&self.model.lock().unwrap());
                    Ok(ResolvedAgent { model, prompt, announcement })
                }
                Resolving::Fails(failure) => Err(failure),
                Resolving::Hangs => std::future::pending().await,
                Resolving::Panics => panic!("the agent source's own bug"),
            }
        })
    }
}

/// Gives every conversation the same provision, or fails.
#[derive(Debug)]
pub(crate) struct FakeProvisioner(pub(crate) Result<Provision, Failure>);

impl Provisioner for FakeProvisioner {
    fn provision<'a>(&'a self, _: &'a Workspace) -> BoxFuture<'a, Result<Provision, Failure>> {
        Box::pin(async { self.0.clone() })
    }
}
