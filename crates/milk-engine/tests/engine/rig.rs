//! An open conversation with the whole world around it in the test's hands.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use milk_core::ask::AskOutcome;
use milk_core::content::ContentBlock;
use milk_core::event::{EventKind, PromptOutcome, StopReason};
use milk_core::failure::Failure;
use milk_core::id::{OptionId, PromptId, SessionId};
use milk_core::model::Vision;
use milk_core::ports::{AskSource, Grant, MemoryStore, TaskStore, Tool};
use milk_core::record::Record;
use milk_core::settings::{
    Agents, PermissionMode, Provision, ResumeByDefault, Settings, TextDelivery, Thoughts,
};
use milk_core::tool::Workspace;
use milk_engine::{Conversation, Engine, OpenError, Ports, Start, next_prompt_id};
use tokio::sync::mpsc;
use tokio::time::error::Elapsed;

use crate::fakes::agent::{FakeAgent, FakeProvisioner};
use crate::fakes::asking::{EqualCommands, FakeGrants, RemoteAsk, RemoteSide};
use crate::fakes::journal::{Journal, Seen};
use crate::fakes::knowledge::{Knowledge, Ticks};
use crate::fakes::model::{Exchange, HandModel, Requests};
use crate::fakes::screen::Screen;
use crate::fakes::store::{FakeDocuments, FakeStore};
use crate::fakes::tool::FakeTool;
use crate::{laws, lines};

/// Longer than anything in milk waits; on the paused clock it passes at once when nothing can happen any more.
const LONG: Duration = Duration::from_hours(24);

/// What a conversation is opened with.
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) tools: Vec<FakeTool>,
    pub(crate) window: Option<u64>,
    pub(crate) vision: Vision,
    pub(crate) remote_sides: usize,
    pub(crate) knowledge: Option<Knowledge>,
    pub(crate) grants: Vec<Grant>,
    /// The records of a stored session to open; else a new one is opened.
    pub(crate) stored: Option<Vec<Record>>,
    pub(crate) announcements: Vec<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) provision_fails: Option<Failure>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            settings: settings(),
            tools: Vec::new(),
            window: None,
            vision: Vision::Blind,
            remote_sides: 0,
            knowledge: None,
            grants: Vec::new(),
            stored: None,
            announcements: Vec::new(),
            instructions: None,
            provision_fails: None,
        }
    }
}

/// The settings of a user who has changed nothing.
pub(crate) fn settings() -> Settings {
    Settings {
        max_model_calls: Some(50),
        tool_time_limit: None,
        turn_time_limit: None,
        tool_result_limit: 32 * 1024,
        permissions: PermissionMode::Ask,
        allowed_commands: Vec::new(),
        thoughts: Thoughts::Shown,
        resume: ResumeByDefault::Adopt,
        delivery: TextDelivery::Streamed,
    }
}

/// Everything around one conversation.
pub(crate) struct Rig {
    pub(crate) conversation: Conversation,
    pub(crate) screen: Arc<Screen>,
    pub(crate) agent: Arc<FakeAgent>,
    pub(crate) store: Arc<FakeStore>,
    pub(crate) documents: Arc<FakeDocuments>,
    pub(crate) engine: Engine,
    pub(crate) grants: Arc<FakeGrants>,
    pub(crate) knowledge: Option<Arc<Knowledge>>,
    pub(crate) journal: Journal,
    model: mpsc::Receiver<Exchange>,
    remote: Vec<mpsc::Receiver<RemoteAsk>>,
    requests: Requests,
}

impl Setup {
    pub(crate) fn with_tools(tools: impl IntoIterator<Item = FakeTool>) -> Self {
        Self { tools: tools.into_iter().collect(), ..Self::default() }
    }

    pub(crate) async fn open(self) -> Rig {
        self.try_open().await.expect("the conversation opens")
    }

    pub(crate) async fn try_open(self) -> Result<Rig, OpenError> {
        let journal = Journal::default();
        let requests = Requests::default();
        let (model, exchanges) = HandModel::new("fake-1", self.window, self.vision, Arc::clone(&requests));
        let agent = Arc::new(FakeAgent::new(Arc::new(model)));
        let tools = self.tools.into_iter().map(|tool| {
            let tool: Arc<dyn Tool> = Arc::new(tool.noting_in(journal.clone()));
            tool
        });
        let provision = Provision {
            agents: Agents { primary: agent.clone(), escalation: None },
            tools: tools.collect(),
            settings: self.settings,
            instructions: self.instructions,
            announcements: self.announcements,
        };
        let (sides, remote): (Vec<_>, Vec<_>) = (0..self.remote_sides).map(|_| RemoteSide::new()).unzip();
        let is_stored = self.stored.is_some();
        let store = Arc::new(FakeStore::new(journal.clone(), self.stored));
        let documents = Arc::new(FakeDocuments::default());
        let grants = Arc::new(FakeGrants::with(self.grants));
        let knowledge = self.knowledge.map(Arc::new);
        let engine = Engine::new(Ports {
            provisioner: Arc::new(FakeProvisioner(self.provision_fails.map_or(Ok(provision), Err))),
            sessions: store.clone(),
            exporter: documents.clone(),
            files: documents.clone(),
            grants: grants.clone(),
            commands: Arc::new(EqualCommands),
            ask_sources: sides.into_iter().map(|side| Arc::new(side) as Arc<dyn AskSource>).collect(),
            memory: knowledge.clone().map(|knowledge| knowledge as Arc<dyn MemoryStore>),
            tasks: knowledge.clone().map(|knowledge| knowledge as Arc<dyn TaskStore>),
            clock: Arc::new(Ticks::default()),
        });
        let screen = Arc::new(Screen::new(journal.clone()));
        let workspace = Workspace::new("/work");
        let conversation = if is_stored {
            engine.open_stored(&SessionId::from("stored"), workspace, screen.clone()).await?
        } else {
            engine.open(workspace, Start::Default, screen.clone()).await?.conversation
        };
        Ok(Rig {
            conversation,
            screen,
            agent,
            store,
            documents,
            engine,
            grants,
            knowledge,
            journal,
            model: exchanges,
            remote,
            requests,
        })
    }
}

impl Rig {
    pub(crate) fn submit(&self, text: &str) -> PromptId {
        self.submit_blocks(vec![ContentBlock::text(text)])
    }

    pub(crate) fn submit_blocks(&self, content: Vec<ContentBlock>) -> PromptId {
        let id = next_prompt_id();
        self.conversation.submit(id, content);
        id
    }

    /// Another model answers from the next turn on.
    pub(crate) fn switch_model(&mut self, name: &str) {
        let (model, exchanges) = HandModel::new(name, None, Vision::Blind, Arc::clone(&self.requests));
        self.agent.switch_to(Arc::new(model));
        self.model = exchanges;
    }

    /// The next request to the model.
    pub(crate) async fn exchange(&mut self) -> Exchange {
        let exchange = tokio::time::timeout(LONG, self.model.recv()).await;
        self.in_time(exchange, "the model was not asked").expect("the model lives as long as the rig")
    }

    /// The request to the model that is there already, if there is one.
    pub(crate) fn exchange_now(&mut self) -> Option<Exchange> {
        self.model.try_recv().ok()
    }

    /// The next question at a remote side.
    pub(crate) async fn remote_ask(&mut self, side: usize) -> RemoteAsk {
        let ask = tokio::time::timeout(LONG, self.remote[side].recv()).await;
        self.in_time(ask, "the remote side was not asked").expect("it lives as long as the rig")
    }

    /// The question that is at a remote side already, if there is one.
    pub(crate) fn remote_ask_now(&mut self, side: usize) -> Option<RemoteAsk> {
        self.remote[side].try_recv().ok()
    }

    /// Lets everything happen that can happen without the test.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Waits until a question is on the screen, and answers it.
    pub(crate) async fn answer(&self, outcome: AskOutcome) {
        self.settle().await;
        self.screen.answer(outcome);
    }

    /// Waits until a question is on the screen, and picks this option.
    pub(crate) async fn pick(&self, option: &str) {
        self.answer(AskOutcome::Picked(OptionId::from(option))).await;
    }

    /// Waits until a prompt is answered.
    pub(crate) async fn ended(&self, prompt: PromptId) -> PromptOutcome {
        let answered = self.journal.until(|entries| outcome_of(entries, prompt));
        let outcome = tokio::time::timeout(LONG, answered).await;
        self.in_time(outcome, "the prompt was not answered")
    }

    fn in_time<T>(&self, waited: Result<T, Elapsed>, fault: &str) -> T {
        waited.unwrap_or_else(|_| panic!("{fault}; this happened:\n{}", self.everything()))
    }

    /// Waits until a prompt's turn has ended, and tells why it did.
    pub(crate) async fn stop_of(&self, prompt: PromptId) -> StopReason {
        match self.ended(prompt).await {
            PromptOutcome::Ended { stop, .. } => stop,
            other => panic!("{prompt:?} has no turn: {other:?}"),
        }
    }

    /// The outcome of a prompt that is answered already.
    pub(crate) fn outcome_now(&self, prompt: PromptId) -> Option<PromptOutcome> {
        outcome_of(&self.journal.entries(), prompt)
    }

    /// Runs one whole turn in which the model answers in text.
    pub(crate) async fn text_turn(&mut self, prompt: &str, answer: &str) -> StopReason {
        let prompt = self.submit(prompt);
        self.exchange().await.say(answer);
        self.stop_of(prompt).await
    }

    /// After whatever fault: one more ordinary prompt is answered. Returns what the model was sent.
    pub(crate) async fn next_prompt_works(&mut self) -> Vec<String> {
        let prompt = self.submit("and now?");
        let exchange = self.exchange().await;
        let sent = lines::chat(&exchange.request);
        exchange.say("now it works");
        assert_eq!(self.stop_of(prompt).await, StopReason::EndTurn);
        sent
    }

    /// What the screen shows, a line an event.
    pub(crate) fn lines(&self) -> Vec<String> {
        events(&self.journal.entries()).map(lines::event).collect()
    }

    /// What the screen shows of one prompt.
    pub(crate) fn lines_of(&self, prompt: PromptId) -> Vec<String> {
        let entries = self.journal.entries();
        events(&entries).filter(|event| event.prompt == Some(prompt)).map(lines::event).collect()
    }

    /// What the screen shows of the turn's work: what lies between the route and the idle state.
    pub(crate) fn work_of(&self, prompt: PromptId) -> Vec<String> {
        let mut lines = self.lines_of(prompt);
        let begun = |line: &String| line == "running" || line.starts_with("routed");
        let begin = lines.iter().take(5).rposition(begun).map_or(0, |at| at + 1);
        let end = lines.iter().position(|line| line.starts_with("idle")).unwrap_or(lines.len());
        lines.drain(begin..end).collect()
    }

    /// Every line of the journal that begins like one of these.
    pub(crate) fn seen_like(&self, beginnings: &[&str]) -> Vec<String> {
        let entries = self.journal.entries();
        let lines = entries.iter().map(lines::seen).map(|line| line.trim_start().to_owned());
        lines.filter(|line| beginnings.iter().any(|beginning| line.starts_with(beginning))).collect()
    }

    /// How many requests the model has got.
    pub(crate) fn request_count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// The whole journal, for the message of a failed test.
    pub(crate) fn everything(&self) -> String {
        let entries = self.journal.entries();
        entries.iter().fold(String::new(), |mut text, entry| {
            let _ = writeln!(text, "    {}", lines::seen(entry));
            text
        })
    }

    /// The laws that what happened so far breaks.
    pub(crate) fn broken_laws(&self) -> Vec<String> {
        laws::broken(&self.journal.entries(), &self.requests.lock().unwrap())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let broken = self.broken_laws();
        assert!(broken.is_empty(), "broken laws: {broken:#?}\nthis happened:\n{}", self.everything());
    }
}

fn events(entries: &[Seen]) -> impl Iterator<Item = &milk_core::event::Event> {
    entries.iter().filter_map(|seen| match seen {
        Seen::Event(event) => Some(event),
        _ => None,
    })
}

pub(crate) fn outcome_of(entries: &[Seen], prompt: PromptId) -> Option<PromptOutcome> {
    events(entries).find_map(|event| match &event.kind {
        EventKind::PromptEnded(outcome) if event.prompt == Some(prompt) => Some(outcome.clone()),
        _ => None,
    })
}
