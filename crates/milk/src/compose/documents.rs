//! Exported sessions: rendered without the user's secrets, saved where the user said.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use milk_core::BoxFuture;
use milk_core::failure::Failure;
use milk_core::ports::{ExportFormat, Exporter, Files, Transcript};
use milk_core::session::SessionSummary;

use super::Process;

/// Makes documents and saves them.
#[derive(Debug)]
pub(crate) struct Documents {
    process: Process,
}

impl Documents {
    pub(crate) fn new(process: Process) -> Self {
        Self { process }
    }

    fn save_now(&self, cwd: &Path, path: &str, content: &str) -> Result<PathBuf, Failure> {
        let path = milk_files::expand_tilde(Path::new(path), self.process.env.home());
        let path = cwd.join(path);
        milk_files::replace(&path, content.as_bytes())
            .map_err(|error| Failure::new("not_written", error.to_string()))?;
        Ok(path)
    }
}

impl Exporter for Documents {
    fn begin(&self, format: ExportFormat, session: &SessionSummary) -> Box<dyn Transcript> {
        // The secrets as they are configured now.
        let config = milk_config::load_global(&self.process.home, &self.process.env).config;
        milk_export::Documents::new(Arc::new(move |text: &str| config.redact(text))).begin(format, session)
    }
}

impl Files for Documents {
    fn save<'a>(
        &'a self,
        cwd: &'a Path,
        path: &'a str,
        content: &'a str,
    ) -> BoxFuture<'a, Result<PathBuf, Failure>> {
        Box::pin(std::future::ready(self.save_now(cwd, path, content)))
    }
}
