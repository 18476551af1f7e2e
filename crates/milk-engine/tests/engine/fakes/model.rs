//! A model whose every word the test says: each request comes out of a channel as an [`Exchange`], and the test sends the
//! events of its stream through it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use milk_core::BoxStream;
use milk_core::id::AgentName;
use milk_core::model::{
    Finish, FinishReason, ModelError, ModelErrorKind, ModelEvent, ModelInfo, ModelRequest, Retry,
    StreamedCall, ToolArguments, Usage, Vision,
};
use milk_core::ports::Model;
use serde_json::Value;
use tokio::sync::mpsc;

/// More than any test sends.
const CHANNEL: usize = 4_096;

/// The engine's side of the model.
#[derive(Debug)]
pub(crate) struct HandModel {
    info: ModelInfo,
    exchanges: mpsc::Sender<Exchange>,
    requests: Requests,
}

/// Every request so far, for the laws.
pub(crate) type Requests = Arc<Mutex<Vec<ModelRequest>>>;

/// One request and the stream that answers it. Dropping it breaks the stream off.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) request: ModelRequest,
    steps: mpsc::Sender<Step>,
}

#[derive(Debug)]
enum Step {
    Event(Result<ModelEvent, ModelError>),
    Panic,
}

impl HandModel {
    /// A model, and where its requests come out; they are kept in `requests` too.
    pub(crate) fn new(
        name: &str,
        window: Option<u64>,
        vision: Vision,
        requests: Requests,
    ) -> (Self, mpsc::Receiver<Exchange>) {
        let (exchanges, receiver) = mpsc::channel(CHANNEL);
        let info = ModelInfo {
            agent: AgentName::from("main"),
            provider: "fake".to_owned(),
            model: name.to_owned(),
            context_window: window,
            vision,
        };
        (Self { info, exchanges, requests }, receiver)
    }
}

impl Model for HandModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let exchanges = self.exchanges.clone();
        let requests = Arc::clone(&self.requests);
        let begun = async move {
            requests.lock().unwrap().push(request.clone());
            let (steps, events) = mpsc::channel(CHANNEL);
            let _ = exchanges.try_send(Exchange { request, steps }); // a test that is over reads no more
            events
        };
        let events = |events| {
            stream::unfold(events, |mut events: mpsc::Receiver<Step>| async move {
                match events.recv().await? {
                    Step::Event(event) => Some((event, events)),
                    Step::Panic => panic!("the model's own bug"),
                }
            })
        };
        Box::pin(stream::once(begun).flat_map(events))
    }
}

impl Exchange {
    /// Sends one event. The engine may have dropped the stream; then it is lost, as it would be on a wire.
    pub(crate) fn event(&self, event: ModelEvent) {
        let _ = self.steps.try_send(Step::Event(Ok(event)));
    }

    pub(crate) fn text(&self, text: &str) {
        self.event(ModelEvent::Text(text.to_owned()));
    }

    pub(crate) fn thought(&self, text: &str) {
        self.event(ModelEvent::Thought(text.to_owned()));
    }

    /// A call with an id of the provider's and whole arguments.
    pub(crate) fn call(&self, id: &str, tool: &str, arguments: Value) {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        self.streamed_call(Some(id), tool, ToolArguments::Object(arguments));
    }

    pub(crate) fn streamed_call(&self, id: Option<&str>, tool: &str, arguments: ToolArguments) {
        self.event(ModelEvent::ToolCall(StreamedCall {
            id: id.map(str::to_owned),
            name: tool.to_owned(),
            arguments,
        }));
    }

    pub(crate) fn usage(&self, input: u64, output: u64) {
        self.event(ModelEvent::Usage(Usage { input, cached: 0, output }));
    }

    pub(crate) fn retrying(&self, wait: Duration) {
        let cause = "the server is busy".to_owned();
        self.event(ModelEvent::Retrying(Retry { attempt: 2, limit: 4, wait, cause }));
    }

    pub(crate) fn finish(self) {
        self.finish_as(FinishReason::Complete);
    }

    pub(crate) fn finish_as(self, reason: FinishReason) {
        self.event(ModelEvent::Finished(Finish { reason, provider_notes: None }));
    }

    /// The whole response is this text.
    pub(crate) fn say(self, text: &str) {
        self.text(text);
        self.finish();
    }

    pub(crate) fn fail(self, kind: ModelErrorKind) {
        let error = ModelError {
            kind,
            provider: "fake".to_owned(),
            status: Some(500),
            details: "it went wrong".to_owned(),
        };
        let _ = self.steps.try_send(Step::Event(Err(error)));
    }

    pub(crate) fn panic(self) {
        let _ = self.steps.try_send(Step::Panic);
    }

    /// Waits until the engine has dropped the stream.
    pub(crate) async fn dropped(&self) {
        self.steps.closed().await;
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.steps.is_closed()
    }

    /// Events that were sent and that the engine has not read.
    pub(crate) fn unread(&self) -> usize {
        self.steps.max_capacity() - self.steps.capacity()
    }
}
