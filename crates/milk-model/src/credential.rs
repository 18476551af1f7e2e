//! What a model server is shown to let milk in, and where it comes from.

mod command;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;

pub use crate::secret::Secret;
pub(crate) use command::TokenCommandError;

/// Where an agent's credential comes from. It is sent as `Authorization: Bearer …`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credential {
    /// The server wants none.
    #[default]
    None,
    /// A key.
    Key(Secret),
    /// A command line for `sh -c` that prints the token. It runs when the first request needs it; what it printed is
    /// used until the server refuses it.
    Command(String),
}

/// How long a token command may run.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// A credential in use: the token of a command is kept, and made again when it is refused.
#[derive(Debug)]
pub(crate) struct Credentials {
    source: Credential,
    /// Replaced as a whole to forget a token, so that requests of the same moment run the command once.
    token: Mutex<Arc<OnceCell<Secret>>>,
}

impl Credentials {
    pub(crate) fn new(source: Credential) -> Self {
        Self { source, token: Mutex::default() }
    }

    /// The credential as it is now.
    pub(crate) async fn current(&self) -> Result<Option<Secret>, TokenCommandError> {
        match &self.source {
            Credential::None => Ok(None),
            Credential::Key(key) => Ok(Some(key.clone())),
            Credential::Command(line) => {
                let token = Arc::clone(&self.token.lock().unwrap_or_else(PoisonError::into_inner));
                let run = async || command::run(line, COMMAND_LIMIT).await.map(Secret::from);
                token.get_or_try_init(run).await.cloned().map(Some)
            }
        }
    }

    /// Forgets a token that was refused, unless another request has already replaced it. Says whether a new one can be
    /// had.
    pub(crate) fn forget(&self, refused: Option<&Secret>) -> Renewal {
        if !matches!(self.source, Credential::Command(_)) {
            return Renewal::Impossible;
        }
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if token.get() == refused {
            *token = Arc::default();
        }
        Renewal::Possible
    }

    /// Whether there is any credential to be refused.
    pub(crate) fn is_none(&self) -> bool {
        self.source == Credential::None
    }
}

/// Whether a refused credential can be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The command can be run again.
    Possible,
    /// It is what it is.
    Impossible,
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn counting(folder: &std::path::Path) -> Credentials {
        let log = folder.join("runs");
        let line = format!("echo x >> '{0}'; echo \"  token-$(wc -l < '{0}' | tr -d ' ')  \"", log.display());
        Credentials::new(Credential::Command(line))
    }

    #[tokio::test]
    async fn a_token_is_made_once_and_again_when_it_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let credentials = counting(folder.path());
        let (first, same) = tokio::join!(credentials.current(), credentials.current());
        let first = first.unwrap();
        assert_eq!((first.as_ref().unwrap().reveal(), &same.unwrap()), ("token-1", &first));
        assert_eq!(credentials.forget(first.as_ref()), Renewal::Possible);
        let second = credentials.current().await.unwrap();
        assert_eq!(second.as_ref().unwrap().reveal(), "token-2");
        // A request that was refused with the old token does not throw the new one away.
        credentials.forget(first.as_ref());
        assert_eq!(credentials.current().await.unwrap(), second);
    }

    #[tokio::test]
    async fn a_key_stays_what_it_is() {
        let credentials = Credentials::new(Credential::Key("k".into()));
        assert_eq!(credentials.current().await.unwrap(), Some(Secret::from("k")));
        assert_eq!(credentials.forget(None), Renewal::Impossible);
        assert_eq!(Credentials::new(Credential::None).current().await.unwrap(), None);
    }
}
