//! The task that owns a conversation's state and runs its turns, one after another.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use milk_core::content::{ContentBlock, plain_text};
use milk_core::event::{EventKind, State};
use milk_core::id::{MessageId, TurnId};
use milk_core::ports::EventSink;
use milk_core::record::{Record, TurnOrigin, TurnWork};
use milk_core::settings::{PermissionMode, Provision};
use milk_core::tool::{ToolSpec, Workspace};
use tokio_util::sync::CancellationToken;

use super::queue::PromptQueue;
use super::{Binding, QueuedPrompt, Shared};
use crate::command;
use crate::emit::Emitter;
use crate::engine::Ports;
use crate::ids::{IdMint, MessageKind};
use crate::turn::{self, TurnEnd};

/// Everything that a conversation knows. Owned by its task; nobody else sees it.
pub(crate) struct ConversationState {
    pub(crate) ports: Arc<Ports>,
    pub(crate) workspace: Workspace,
    pub(crate) provision: Provision,
    pub(crate) binding: Binding,
    pub(crate) emitter: Emitter,
    queue: Arc<PromptQueue>,
    pub(crate) mode: PermissionMode,
    pub(crate) tool_specs: Arc<[ToolSpec]>,
    /// Lines that the user has not been told yet.
    pub(crate) announcements: Vec<String>,
    /// How the agent was found: told when it changes.
    pub(crate) announced_agent: Option<String>,
    /// The user was told that the log cannot be written.
    told_of_log: bool,
    /// The input count and the estimate of the latest response, to notice a server that cuts prompts.
    pub(crate) last_counted: Option<(u64, u64)>,
    pub(crate) told_of_cut: bool,
    /// A model that found a request too long, and the room in tokens that it then accepted.
    pub(crate) room: Option<(String, u64)>,
}

impl ConversationState {
    pub(super) fn new(
        ports: Arc<Ports>,
        workspace: Workspace,
        mut provision: Provision,
        binding: Binding,
        queue: Arc<PromptQueue>,
        sink: Arc<dyn EventSink>,
    ) -> Self {
        let tool_specs = provision.tools.iter().map(|tool| tool.spec().clone()).collect();
        let announcements = std::mem::take(&mut provision.announcements);
        Self {
            ports,
            workspace,
            mode: provision.settings.permissions,
            provision,
            binding,
            queue,
            emitter: Emitter::new(sink, Arc::new(IdMint::new())),
            tool_specs,
            announcements,
            announced_agent: None,
            told_of_log: false,
            last_counted: None,
            told_of_cut: false,
            room: None,
        }
    }

    /// The turn of the emitter's prompt is over. Said before the front end is told of it: a prompt that a client sends on hearing
    /// so, and a cancel right behind it, find no turn in their way (R12).
    pub(crate) fn prompt_is_over(&self, emitter: &Emitter) {
        if let Some(prompt) = emitter.prompt() {
            self.queue.finish(prompt);
        }
    }

    /// Appends to the session's log and takes the records into history. A log that cannot be written never stops the
    /// conversation; the user is told once.
    pub(crate) async fn record(&mut self, emitter: &Emitter, records: Vec<Record>) {
        if let Some(trouble) = self.keep(records).await {
            emitter.notice(trouble);
        }
    }

    /// The same; returns what the user must be told.
    async fn keep(&mut self, records: Vec<Record>) -> Option<String> {
        let written = self.binding.log.append(&records).await;
        for record in records {
            self.binding.history.apply(record);
        }
        match written {
            Ok(()) => {
                self.told_of_log = false;
                None
            }
            Err(error) => {
                tracing::warn!(session = %self.binding.session, %error, "the session log cannot be written");
                let told = std::mem::replace(&mut self.told_of_log, true);
                (!told).then(|| {
                    format!(
                        "[milk] this session cannot be saved: {error}. The conversation goes on in memory."
                    )
                })
            }
        }
    }
}

/// Runs the conversation until it is closed.
pub(super) async fn run(shared: Arc<Shared>, mut state: ConversationState) {
    let _ended = shared.ended.clone().drop_guard(); // whatever happens here, nobody waits for ever in `close`
    while let Some(prompt) = shared.queue.next().await {
        let id = prompt.id;
        run_prompt(&mut state, prompt).await;
        shared.queue.finish(id);
    }
}

/// One prompt from its echo to its answer: a slash command of milk's own, or a turn of the model. A bug on the way costs
/// the turn; the prompt is answered all the same.
async fn run_prompt(state: &mut ConversationState, prompt: QueuedPrompt) {
    let emitter = state.emitter.for_prompt(prompt.id);
    let message = emitter.ids().message(MessageKind::User);
    let text = plain_text(&prompt.content);
    let command = command::find(&text);
    let begun = Begun { message: message.clone(), content: prompt.content };
    let ran = async {
        match command {
            Some(command) => run_command(state, &emitter, begun, &command, &prompt.cancel).await,
            None => turn::run(state, &emitter, begun, &prompt.cancel).await,
        }
    };
    if AssertUnwindSafe(ran).catch_unwind().await.is_err() {
        let turn = state.binding.history.newest_turn();
        turn::end(state, &emitter, turn, message, TurnEnd::own_bug()).await;
    }
}

/// A prompt that is about to be echoed.
pub(crate) struct Begun {
    pub(crate) message: MessageId,
    pub(crate) content: Vec<ContentBlock>,
}

/// Records the start of a turn, echoes the user's message and says that the foreground runs.
pub(crate) async fn begin(
    state: &mut ConversationState,
    emitter: &Emitter,
    begun: Begun,
    work: TurnWork,
) -> TurnId {
    let turn = state.binding.history.next_turn();
    let Begun { message, content } = begun;
    let started = Record::TurnStarted {
        turn,
        at_ms: state.ports.clock.now_ms(),
        origin: TurnOrigin::Client,
        message: message.clone(),
        content: content.clone(),
        work,
    };
    let trouble = state.keep(vec![started]).await;
    emitter.emit(EventKind::UserMessage { id: message, content });
    emitter.state(State::Running);
    for line in trouble.into_iter().chain(std::mem::take(&mut state.announcements)) {
        emitter.notice(line);
    }
    turn
}

async fn run_command(
    state: &mut ConversationState,
    emitter: &Emitter,
    begun: Begun,
    command: &command::Invocation<'_>,
    cancel: &CancellationToken,
) {
    let message = begun.message.clone();
    let turn = begin(state, emitter, begun, TurnWork::Command).await;
    if cancel.is_cancelled() {
        return turn::end(state, emitter, turn, message, TurnEnd::cancelled(None)).await;
    }
    let output = command.run(state);
    let id = emitter.ids().message(MessageKind::Agent);
    let noted = Record::Noted { turn: Some(turn), message: id.clone(), text: output.clone() };
    state.record(emitter, vec![noted]).await;
    emitter.emit(EventKind::AgentText { id, text: output });
    turn::end(state, emitter, turn, message, TurnEnd::command()).await;
}
