//! A model on a scripted server, and what comes back from it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use milk_core::JsonObject;
use milk_core::model::{
    AssistantMessage, ChatMessage, Finish, ModelError, ModelEvent, ModelRequest, Retry, StreamedCall,
    ToolArguments, ToolCall, Usage, UserPart,
};
use milk_core::ports::Model;
use milk_core::tool::ToolSpec;
use milk_model::retry::{Jitter, RetryPolicy};
use milk_model::{ChatConfig, ChatModel, HttpClients};
use milk_testkit::{ModelServer, RecordedRequest};
use serde_json::{Value, json};

/// An agent at this address that loses no time with waiting.
pub(crate) fn config(url: impl Into<String>) -> ChatConfig {
    let retry = RetryPolicy {
        first_wait: Duration::from_millis(2),
        jitter: Jitter::Fixed(1.0),
        ..RetryPolicy::default()
    };
    ChatConfig { retry, ..ChatConfig::new("coder", "local", url, "test-model") }
}

pub(crate) fn model(config: ChatConfig) -> ChatModel {
    ChatModel::new(config, HttpClients::default()).unwrap()
}

/// A model on this server.
pub(crate) fn on(server: &ModelServer) -> ChatModel {
    model(config(server.url()))
}

pub(crate) fn user(text: &str) -> ChatMessage {
    ChatMessage::User(vec![UserPart::Text(text.to_owned())])
}

/// A request with two tools on offer.
pub(crate) fn request(messages: Vec<ChatMessage>) -> ModelRequest {
    let spec = |name: &str| ToolSpec {
        name: name.into(),
        description: "d".into(),
        input_schema: json!({"type": "object"}),
    };
    ModelRequest { system: "be good".into(), messages, tools: Arc::from([spec("read_file"), spec("bash")]) }
}

/// Everything that one response yielded.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) thought: String,
    pub(crate) calls: Vec<StreamedCall>,
    pub(crate) retries: Vec<Retry>,
    pub(crate) usage: Option<Usage>,
    pub(crate) finish: Option<Finish>,
    pub(crate) error: Option<ModelError>,
}

impl Outcome {
    /// The text of a response that succeeded.
    #[track_caller]
    pub(crate) fn success(&self) -> &str {
        assert!(self.finish.is_some() && self.error.is_none(), "{self:?}");
        &self.text
    }

    /// The error of a response that failed.
    #[track_caller]
    pub(crate) fn failure(&self) -> &ModelError {
        assert!(self.finish.is_none(), "{self:?}");
        self.error.as_ref().unwrap()
    }

    /// The calls as `name {arguments}`.
    pub(crate) fn told_calls(&self) -> Vec<String> {
        let told = |call: &StreamedCall| match &call.arguments {
            ToolArguments::Object(object) => format!("{} {}", call.name, json!(object)),
            ToolArguments::Unparsable(text) => format!("{} unparsable {text}", call.name),
        };
        self.calls.iter().map(told).collect()
    }

    /// This response as the history holds it, with results for its calls: ids are made unique as the engine does.
    pub(crate) fn into_history(self) -> Vec<ChatMessage> {
        let id = |at: usize| format!("history-{at}");
        let tool_calls: Vec<ToolCall> = self
            .calls
            .into_iter()
            .enumerate()
            .map(|(at, call)| ToolCall { id: id(at).into(), name: call.name, arguments: call.arguments })
            .collect();
        let result =
            |call: &ToolCall| ChatMessage::ToolResult { call: call.id.clone(), output: "result".into() };
        let results: Vec<ChatMessage> = tool_calls.iter().map(result).collect();
        let message = AssistantMessage {
            text: self.text,
            thinking: Some(self.thought).filter(|thought| !thought.is_empty()),
            tool_calls,
            provider_notes: self.finish.and_then(|finish| finish.provider_notes),
        };
        std::iter::once(ChatMessage::Assistant(message)).chain(results).collect()
    }
}

/// Sends a request and takes all that comes.
pub(crate) async fn respond(model: &dyn Model, request: ModelRequest) -> Outcome {
    let mut outcome = Outcome::default();
    let mut stream = model.respond(request);
    while let Some(event) = stream.next().await {
        assert!(
            outcome.finish.is_none() && outcome.error.is_none(),
            "nothing comes after the end: {event:?}"
        );
        match event {
            Ok(ModelEvent::Text(text)) => {
                assert!(!text.is_empty());
                outcome.text.push_str(&text);
            }
            Ok(ModelEvent::Thought(text)) => {
                assert!(!text.is_empty());
                outcome.thought.push_str(&text);
            }
            Ok(ModelEvent::ToolCall(call)) => outcome.calls.push(call),
            Ok(ModelEvent::Retrying(retry)) => {
                assert!(outcome.text.is_empty() && outcome.thought.is_empty() && outcome.calls.is_empty());
                outcome.retries.push(retry);
            }
            Ok(ModelEvent::Usage(usage)) => outcome.usage = Some(usage),
            Ok(ModelEvent::Finished(finish)) => outcome.finish = Some(finish),
            Err(error) => outcome.error = Some(error),
        }
    }
    outcome
}

/// Says one thing.
pub(crate) async fn say(model: &dyn Model, text: &str) -> Outcome {
    respond(model, request(vec![user(text)])).await
}

/// The call that the tests make most.
pub(crate) fn read_1() -> Value {
    json!({"path": "1"})
}

/// A keyed object.
pub(crate) fn object(value: &Value) -> JsonObject {
    value.as_object().unwrap().clone()
}

/// The assistant messages of a request.
pub(crate) fn assistants(request: &RecordedRequest) -> Vec<Value> {
    request.with_role("assistant").into_iter().cloned().collect()
}
