//! One response of the model: building its request, streaming it to the user, keeping it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use milk_core::event::{ContextUsage, EventKind, StopReason};
use milk_core::failure::Failure;
use milk_core::model::{
    AssistantMessage, Finish, FinishReason, ModelError, ModelErrorKind, ModelEvent, ModelRequest, Retry,
    StreamedCall, ToolCall, Usage,
};
use milk_core::record::{Record, Speaker};
use milk_core::settings::{TextDelivery, Thoughts};
use milk_core::tool::{ToolKind, ToolSpec};

use super::progress::{OpenCall, PartialResponse, RowShown};
use super::{Cut, Offer, Turn};
use crate::context::Context;
use crate::ids::MessageKind;
use crate::system_prompt;

/// How often an empty reply is asked for again.
const EMPTY_RETRIES: u32 = 2;
/// How often a request that the server finds too long is made smaller.
const SHRINK_RETRIES: u32 = 2;
/// A wait before a retry that is longer than this is told to the user.
const TOLD_WAIT: Duration = Duration::from_secs(2);

const SUMMARY_REQUEST: &str = "[milk] The limit on model calls for this turn is reached, so no more tools can be used. \
Say in a few sentences what you did, what is left, and how the user can go on.";
const EMPTY_REQUEST: &str =
    "[milk] Your last reply had no text and no tool call. Answer the user now, in text or with a tool call.";

/// What a response came to.
#[derive(Debug)]
pub(super) struct Response {
    /// The calls to run, with ids of the session.
    pub(super) calls: Vec<ToolCall>,
    /// What the turn ends with if there are none.
    pub(super) stop: StopReason,
    /// How many model calls it took.
    pub(super) model_calls: u32,
}

/// What a request is made from.
struct Asking {
    system: Arc<str>,
    context: Context,
    tools: Arc<[ToolSpec]>,
}

impl Asking {
    fn request(&self) -> ModelRequest {
        ModelRequest {
            system: Arc::clone(&self.system),
            messages: self.context.messages(),
            tools: Arc::clone(&self.tools),
        }
    }

    fn estimate(&self) -> u64 {
        self.context.estimate(&self.system)
    }
}

/// How often the model was asked for one response.
#[derive(Debug, Default)]
struct Tries {
    requests: u32,
    /// Of these, answered with nothing and asked again.
    empty: u32,
    /// Of these, refused as too long and made smaller.
    shrunk: u32,
    /// The room, in tokens, that the request was made to fit when it was too long.
    room: Option<u64>,
}

impl Tries {
    /// Whether an empty reply may be asked for again: reasoning without an answer once, as more of it would not be another.
    fn may_nudge(&self, streamed: &Streamed, offer: Offer) -> bool {
        let limit = if streamed.said.thinking.is_some() { 1 } else { EMPTY_RETRIES };
        let allowed = match offer {
            Offer::Tools { left } => left.is_none_or(|left| self.requests < left),
            Offer::TextOnly => false,
        };
        streamed.finish.reason == FinishReason::Complete && allowed && self.empty < limit
    }
}

/// A response as it was streamed.
struct Streamed {
    said: AssistantMessage,
    calls: Vec<StreamedCall>,
    finish: Finish,
    usage: Option<Usage>,
}

impl Streamed {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.said.text.trim().is_empty()
    }
}

impl Turn<'_> {
    /// Asks the model until it says something, within bounds, and keeps what it said.
    pub(super) async fn ask_model(&mut self, offer: Offer) -> Result<Response, Cut> {
        let mut asking = self.asking(offer).await;
        let mut tries = Tries::default();
        loop {
            tries.requests += 1;
            let estimate = asking.estimate();
            let stop = self.stop.clone();
            let streamed = tokio::select! {
                biased;
                () = stop.cancelled() => return Err(Cut::Stopped), // dropping the stream ends the request
                streamed = self.stream(asking.request()) => streamed,
            };
            match streamed {
                Ok(streamed) if streamed.is_empty() && tries.may_nudge(&streamed, offer) => {
                    tries.empty += 1;
                    self.drop_partial();
                    asking.context.add_note(EMPTY_REQUEST.to_owned());
                }
                Ok(streamed) => {
                    if let Some(room) = tries.room {
                        self.state.room = Some((self.agent.model.info().model.clone(), room));
                    }
                    self.count(streamed.usage, estimate);
                    return Ok(self.keep(streamed, offer, &tries).await);
                }
                Err(error)
                    if error.kind == ModelErrorKind::ContextTooLong
                        && tries.shrunk < SHRINK_RETRIES
                        && self.nothing_shown() =>
                {
                    tries.shrunk += 1;
                    self.drop_partial();
                    let room = estimate * 7 / 10;
                    tries.room = Some(room);
                    if !asking.context.shrink(&asking.system, room) {
                        return Err(Failure::from(error).into());
                    }
                    self.emitter.notice("[milk] The conversation is too long for the model; older parts are left out of what it is sent.");
                }
                Err(error) => return Err(Failure::from(error).into()),
            }
        }
    }

    /// Facts and open tasks that ride with the newest prompt.
    async fn extra_context(&self) -> Option<String> {
        let session = &self.state.binding.session;
        let prompt = self
            .state
            .binding
            .history
            .turns()
            .next_back()
            .map(|turn| milk_core::content::plain_text(&turn.content));
        let mut parts = Vec::new();
        if let (Some(memory), Some(prompt)) = (&self.state.ports().memory, &prompt) {
            let facts = memory.recall(session, prompt).await;
            parts.extend(listing("Remembered facts that may matter:", &facts));
        }
        if let Some(tasks) = &self.state.ports().tasks {
            parts.extend(listing("Open tasks:", &tasks.open_tasks(session).await));
        }
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// What the model is about to be asked, small enough as far as milk knows.
    async fn asking(&self, offer: Offer) -> Asking {
        let extra = self.extra_context().await;
        let state = &self.state;
        let info = self.agent.model.info();
        let system = system_prompt::build(
            &state.workspace,
            &state.tool_specs,
            self.agent.prompt.as_deref(),
            state.provision.instructions.as_deref(),
        );
        let mut context = Context::new(&state.binding.history, info.vision, extra.as_deref());
        let tools = match offer {
            Offer::Tools { .. } => Arc::clone(&state.tool_specs),
            Offer::TextOnly => {
                context.add_note(SUMMARY_REQUEST.to_owned());
                Arc::new([])
            }
        };
        let learnt = state.room.as_ref().filter(|(model, _)| *model == info.model).map(|(_, room)| *room);
        let known = info.context_window.map(|window| {
            let tools: usize =
                tools.iter().map(|tool| tool.description.len() + tool.input_schema.to_string().len()).sum();
            (window / 4 * 3).saturating_sub(tools as u64 / 4) // a quarter is left for the reply
        });
        if let Some(room) = learnt.into_iter().chain(known).min() {
            context.shrink(&system, room);
        }
        Asking { system, context, tools }
    }

    /// Streams one response to the user. What came of it is in `progress` when it fails.
    async fn stream(&mut self, request: ModelRequest) -> Result<Streamed, ModelError> {
        let ids = self.emitter.ids();
        let partial = PartialResponse {
            message: ids.message(MessageKind::Agent),
            thought: ids.message(MessageKind::Thought),
            text: String::new(),
            thinking: String::new(),
        };
        self.progress.response = Some(partial);
        let mut calls = Vec::new();
        let mut usage = None;
        let mut events = self.agent.model.respond(request);
        while let Some(event) = events.next().await {
            match event? {
                ModelEvent::Text(text) => self.text(text).await,
                ModelEvent::Thought(text) => self.thought(text).await,
                ModelEvent::ToolCall(call) => calls.push(call),
                ModelEvent::Usage(counted) => usage = Some(counted),
                ModelEvent::Retrying(retry) => self.tell_retry(&retry),
                ModelEvent::Finished(finish) => {
                    let said = self.said_so_far();
                    return Ok(Streamed { said, calls, finish, usage });
                }
            }
        }
        let info = self.agent.model.info();
        Err(ModelError {
            kind: ModelErrorKind::BrokenStream,
            provider: info.provider.clone(),
            status: None,
            details: "the response broke off before it was complete".to_owned(),
        })
    }

    async fn text(&mut self, text: String) {
        let Some(partial) = &mut self.progress.response else { return };
        partial.text.push_str(&text);
        if self.state.provision.settings.delivery == TextDelivery::Streamed {
            let id = partial.message.clone();
            self.emitter.emit(EventKind::AgentText { id, text });
            self.emitter.room().await;
        }
    }

    async fn thought(&mut self, text: String) {
        let Some(partial) = &mut self.progress.response else { return };
        partial.thinking.push_str(&text);
        if self.state.provision.settings.thoughts == Thoughts::Shown {
            let id = partial.thought.clone();
            self.emitter.emit(EventKind::AgentThought { id, text });
            self.emitter.room().await;
        }
    }

    fn tell_retry(&self, retry: &Retry) {
        if retry.wait >= TOLD_WAIT {
            let Retry { attempt, limit, wait, cause } = retry;
            self.emitter.notice(format!(
                "[milk] {cause}; trying again in {} s ({attempt} of {limit}).",
                wait.as_secs()
            ));
        }
    }

    fn said_so_far(&self) -> AssistantMessage {
        let Some(partial) = &self.progress.response else { return AssistantMessage::default() };
        AssistantMessage {
            text: partial.text.clone(),
            thinking: (!partial.thinking.is_empty()).then(|| partial.thinking.clone()),
            ..AssistantMessage::default()
        }
    }

    fn nothing_shown(&self) -> bool {
        self.progress
            .response
            .as_ref()
            .is_none_or(|partial| partial.text.is_empty() && partial.thinking.is_empty())
    }

    fn drop_partial(&mut self) {
        self.progress.response = None;
    }

    /// Keeps a whole response: gives its calls ids of this session, records it, and shows what was held back.
    async fn keep(&mut self, streamed: Streamed, offer: Offer, tries: &Tries) -> Response {
        let Streamed { mut said, calls, finish, usage } = streamed;
        let stop = stop_for(finish.reason);
        said.provider_notes = finish.provider_notes;
        if offer != Offer::TextOnly {
            said.tool_calls = self.name_calls(calls);
        }
        if said.tool_calls.is_empty() && said.text.trim().is_empty() && stop == StopReason::EndTurn {
            self.fill_empty_reply(&mut said, tries.empty + 1);
        } else if self.state.provision.settings.delivery == TextDelivery::Whole {
            self.show_whole(&said.text);
        }
        self.progress.open_calls = said.tool_calls.iter().map(open_call).collect();
        let calls = said.tool_calls.clone();
        self.record_response(said, usage).await;
        Response { calls, stop, model_calls: tries.requests }
    }

    /// Never an empty turn: reasoning that the user has not seen becomes the answer, else milk says what happened.
    fn fill_empty_reply(&mut self, said: &mut AssistantMessage, tries: u32) {
        let hidden = self.state.provision.settings.thoughts == Thoughts::Hidden;
        match said.thinking.take_if(|_| hidden) {
            Some(thinking) => said.text = thinking,
            None => said.text = self.nothing_said(said.thinking.is_some(), tries),
        }
        self.show_whole(&said.text);
    }

    fn nothing_said(&self, thought: bool, tries: u32) -> String {
        let what = if thought { "only reasoning, shown above, and no answer" } else { "no answer" };
        let tries = if tries == 1 { String::new() } else { format!(" ({tries} tries)") };
        let turn = self.state.binding.history.turns().next_back();
        let tools = turn.map_or(0, |turn| turn.steps.iter().map(|step| step.results.len()).sum::<usize>());
        let done = match tools {
            0 => "No tool was used.".to_owned(),
            1 => "One tool call was made before; its row above shows what it did.".to_owned(),
            many => format!("{many} tool calls were made before; their rows above show what they did."),
        };
        format!("(The model gave {what}{tries}. {done} Ask again, or choose another model.)")
    }

    fn show_whole(&self, text: &str) {
        if let Some(partial) = self.progress.response.as_ref().filter(|_| !text.is_empty()) {
            self.emitter.emit(EventKind::AgentText { id: partial.message.clone(), text: text.to_owned() });
        }
    }

    fn name_calls(&self, calls: Vec<StreamedCall>) -> Vec<ToolCall> {
        let known = self.state.binding.history.calls();
        let usable = known.is_some(); // where not every id is known, none of the provider's can be trusted to be new
        let mut seen = known.cloned().unwrap_or_default();
        let named = calls.into_iter().map(|call| {
            let id = self.emitter.ids().call(call.id.as_deref().filter(|_| usable), &seen);
            seen.insert(id.clone());
            // A row and a request need some name.
            let name = if call.name.trim().is_empty() { "unnamed".to_owned() } else { call.name };
            ToolCall { id, name, arguments: call.arguments }
        });
        named.collect()
    }

    async fn record_response(&mut self, said: AssistantMessage, usage: Option<Usage>) {
        let Some(partial) = self.progress.response.take() else { return };
        let info = self.agent.model.info();
        let record = Record::ModelSaid {
            turn: self.id,
            message: partial.message,
            thought: said.thinking.is_some().then_some(partial.thought),
            said,
            usage,
            by: Speaker {
                agent: info.agent.clone(),
                provider: info.provider.clone(),
                model: info.model.clone(),
            },
        };
        self.state.record(self.emitter, vec![record]).await;
    }

    /// Keeps what an interrupted response said before it was cut.
    pub(super) async fn keep_partial_response(&mut self) {
        let said = self.said_so_far();
        if !said.text.is_empty() || said.thinking.is_some() {
            if self.state.provision.settings.delivery == TextDelivery::Whole {
                self.show_whole(&said.text);
            }
            self.record_response(said, None).await;
        }
        self.progress.response = None;
    }

    /// Tells the front end the counts, and the user once when the server seems to cut prompts: it counts the same although
    /// the request has grown.
    fn count(&mut self, usage: Option<Usage>, estimate: u64) {
        let Some(usage) = usage.filter(|usage| usage.input > 0) else { return };
        let window = self.agent.model.info().context_window;
        self.emitter.emit(EventKind::UsageChanged(ContextUsage { usage, window }));
        let before = self.state.last_counted.replace((usage.input, estimate));
        let cut = before.is_some_and(|(input, sent)| input == usage.input && estimate >= sent + 500)
            && estimate >= usage.input * 2;
        if cut && !std::mem::replace(&mut self.state.told_of_cut, true) {
            self.emitter.notice(format!(
                "[milk] The server counts {} tokens for a request of about {estimate}: it seems to cut what milk sends. \
                 Raise its context size, or set context_window_tokens for this agent so that milk cuts with care.",
                usage.input
            ));
        }
    }
}

fn listing(title: &str, lines: &[String]) -> Option<String> {
    (!lines.is_empty()).then(|| format!("{title}\n- {}", lines.join("\n- ")))
}

fn stop_for(reason: FinishReason) -> StopReason {
    match reason {
        FinishReason::Complete => StopReason::EndTurn,
        FinishReason::Length => StopReason::MaxTokens,
        FinishReason::Refusal => StopReason::Refusal,
    }
}

fn open_call(call: &ToolCall) -> OpenCall {
    OpenCall {
        id: call.id.clone(),
        title: call.name.clone(),
        kind: ToolKind::Other,
        locations: Vec::new(),
        row: RowShown::NotYet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finish_has_its_own_stop() {
        assert_eq!(stop_for(FinishReason::Length), StopReason::MaxTokens);
        assert_eq!(stop_for(FinishReason::Refusal), StopReason::Refusal);
        assert_eq!(stop_for(FinishReason::Complete), StopReason::EndTurn);
    }

    #[test]
    fn a_message_of_white_space_is_empty() {
        let mut streamed = Streamed {
            said: AssistantMessage { text: " \n".to_owned(), ..AssistantMessage::default() },
            calls: Vec::new(),
            finish: Finish { reason: FinishReason::Complete, provider_notes: None },
            usage: None,
        };
        assert!(streamed.is_empty());
        streamed.said.text.push('x');
        assert!(!streamed.is_empty());
    }
}
