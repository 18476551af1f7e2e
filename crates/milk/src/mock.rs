//! `milk mock`: a model server without a model, for people who build clients, and for milk's own tests.

use std::process::ExitCode;

use milk_testkit::{ModelServer, Script};
use tokio_util::sync::CancellationToken;

use crate::cli::MockArgs;
use crate::exit;
use crate::log::say;
use crate::stdio::print_line;

pub(crate) fn run(arguments: &MockArgs) -> ExitCode {
    let served = crate::serve::runtime().and_then(|runtime| runtime.block_on(serve(arguments.port)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("milk mock: cannot listen on port {}: {error}", arguments.port));
            ExitCode::FAILURE
        }
    }
}

async fn serve(port: u16) -> std::io::Result<()> {
    let stop = CancellationToken::new();
    exit::on_signal(stop.clone())?;
    let server = ModelServer::try_start(Script::directive().bind(([127, 0, 0, 1], port).into())).await?;
    print_line(&server.url());
    say(
        "A model server without a model. The newest user message decides the answer: [[say N tokens R rate]], \
         [[think TEXT]], [[tool NAME {JSON}]], [[fail STATUS]], [[hang]]; anything else gets a short reply. Ctrl-C ends it.",
    );
    stop.cancelled().await;
    Ok(())
}
