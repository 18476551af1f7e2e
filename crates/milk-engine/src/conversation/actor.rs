//! The task that owns a conversation's state and runs its turns, one after another.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use milk_core::content::{ContentBlock, plain_text};
use milk_core::event::{EventKind, State};
use milk_core::id::{MessageId, TurnId};
use milk_core::record::{Record, TurnOrigin, TurnWork};
use milk_core::settings::{PermissionMode, Provision};
use milk_core::tool::{ToolSpec, Workspace};
use tokio_util::sync::CancellationToken;

use super::queue::Work;
use super::{Binding, Conversation, QueuedPrompt, Shared, rebind};
use crate::command;
use crate::emit::Emitter;
use crate::engine::{Ports, World};
use crate::ids::MessageKind;
use crate::turn::{self, TurnEnd};

/// Everything that a conversation knows. Owned by its task; nobody else sees it.
pub(crate) struct ConversationState {
    conversation: Conversation,
    pub(crate) workspace: Workspace,
    pub(crate) provision: Provision,
    pub(crate) binding: Binding,
    pub(crate) emitter: Emitter,
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
        conversation: Conversation,
        workspace: Workspace,
        mut provision: Provision,
        mut binding: Binding,
        emitter: Emitter,
    ) -> Self {
        let mut announcements = std::mem::take(&mut provision.announcements);
        announcements.append(&mut binding.troubles);
        Self {
            conversation,
            workspace,
            mode: provision.settings.permissions,
            tool_specs: specs(&provision),
            provision,
            binding,
            emitter,
            announcements,
            announced_agent: None,
            told_of_log: false,
            last_counted: None,
            told_of_cut: false,
            room: None,
        }
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.world().ports
    }

    pub(crate) fn world(&self) -> &World {
        &self.conversation.shared.world
    }

    pub(super) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Works in another directory from here on, with its settings. What the user has switched stays.
    pub(super) fn move_to(&mut self, workspace: Workspace, mut provision: Provision) {
        self.workspace = workspace;
        self.announcements.append(&mut provision.announcements);
        self.tool_specs = specs(&provision);
        self.provision = provision;
    }

    /// What was measured or told about one session says nothing about another.
    pub(super) fn forget_measures(&mut self) {
        self.told_of_log = false;
        self.last_counted = None;
        self.told_of_cut = false;
    }

    /// The turn of the emitter's prompt is over. Said before the front end is told of it: a prompt that a client sends on hearing
    /// so, and a cancel right behind it, find no turn in their way (R12).
    pub(crate) fn prompt_is_over(&self, emitter: &Emitter) {
        let shared = &self.conversation.shared;
        shared.now().running = None;
        if let Some(prompt) = emitter.prompt() {
            shared.queue.finish(prompt);
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

fn specs(provision: &Provision) -> Arc<[ToolSpec]> {
    provision.tools.iter().map(|tool| tool.spec().clone()).collect()
}

/// Runs the conversation until it is closed.
pub(super) async fn run(shared: Arc<Shared>, state: ConversationState) {
    let _ended = shared.ended.clone().drop_guard(); // whatever happens here, nobody waits for ever in `close`
    let mut state = state; // goes before the guard does: who has waited in `close` finds the session free
    while let Some(work) = shared.queue.next().await {
        match work {
            Work::Prompt(prompt) => {
                let id = prompt.id;
                run_prompt(&mut state, prompt).await;
                shared.queue.finish(id);
            }
            Work::Control(control) => rebind::meet(&mut state, control).await,
        }
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
        origin: TurnOrigin::Client,
        message: message.clone(),
        content: content.clone(),
        work,
    };
    state.conversation.shared.now().running = Some(turn);
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
    let outcome = command.run(state).await;
    command::conclude(state, emitter, turn, message, outcome).await;
}
