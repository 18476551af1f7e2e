//! The orchestrator of a response's tool calls: prepare, show, decide, ask, run, record. Calls take effect in the model's
//! order: neighbouring reads run together, anything else runs alone.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use milk_core::BoxFuture;
use milk_core::ask::{Asker, Question};
use milk_core::event::{EventKind, RowChange, RowStatus, State, ToolCallRow};
use milk_core::id::ToolCallId;
use milk_core::model::{ToolArguments, ToolCall};
use milk_core::ports::{Grants, Tool};
use milk_core::record::Record;
use milk_core::tool::{Effect, PreparedCall, ToolContext, ToolKind, ToolOutcome, ToolStatus};
use serde_json::Value;

use super::live_output::{LIVE_LIMIT, LiveOutput};
use super::progress::RowShown;
use super::{Cut, Turn};
use crate::ask::{self, Answer};
use crate::bounded::bounded;
use crate::ids::next_question_id;
use crate::permission::{self, Policy, Verdict};

/// A call that runs: which, and what it will give.
type RunningCall = BoxFuture<'static, (ToolCallId, ToolOutcome)>;

/// What preparing a call came to.
enum Prepared {
    Ready { call: PreparedCall, kind: ToolKind },
    Refused { kind: ToolKind, reason: String },
}

impl Turn<'_> {
    /// Runs every call of a response. Each has a result in history when this returns.
    pub(super) async fn run_calls(&mut self, calls: Vec<ToolCall>) -> Result<(), Cut> {
        let mut reads: FuturesOrdered<RunningCall> = FuturesOrdered::new();
        for call in calls {
            if self.stop.is_cancelled() {
                break;
            }
            match self.prepare(&call).await {
                Prepared::Refused { kind, reason } => {
                    self.show_row(&call, call.name.clone(), kind, None, RowStatus::Pending);
                    self.finish_call(&call.id, ToolOutcome::failed(reason), Vec::new()).await;
                }
                Prepared::Ready { call: prepared, kind } if prepared.effect == Effect::ReadOnly => {
                    self.show_row(
                        &call,
                        prepared.title.clone(),
                        kind,
                        Some(&prepared),
                        RowStatus::InProgress,
                    );
                    reads.push_back(self.start(call.id, prepared));
                }
                Prepared::Ready { call: prepared, kind } => {
                    self.finish_all(&mut reads).await;
                    self.run_alone(&call, prepared, kind).await?;
                }
            }
        }
        self.finish_all(&mut reads).await;
        if self.stop.is_cancelled() { Err(Cut::Stopped) } else { Ok(()) }
    }

    async fn prepare(&self, call: &ToolCall) -> Prepared {
        let tools = &self.state.provision.tools;
        let Some(tool) = tools.iter().find(|tool| tool.spec().name == call.name) else {
            return Prepared::Refused { kind: ToolKind::Other, reason: unknown_tool(&call.name, tools) };
        };
        let kind = tool.kind();
        let arguments = match &call.arguments {
            ToolArguments::Object(arguments) => arguments,
            ToolArguments::Unparsable(_) => {
                let reason = format!(
                    "invalid arguments: they are not a complete JSON object, so {} was not run. Send the call again with valid JSON.",
                    call.name
                );
                return Prepared::Refused { kind, reason };
            }
        };
        match tool.prepare(arguments, &self.state.workspace).await {
            Ok(prepared) => Prepared::Ready { call: prepared, kind },
            Err(error) => Prepared::Refused { kind, reason: error.message },
        }
    }

    /// Runs a call that has an effect, after a yes where one is needed.
    async fn run_alone(
        &mut self,
        call: &ToolCall,
        prepared: PreparedCall,
        kind: ToolKind,
    ) -> Result<(), Cut> {
        let changes = prepared.changes.clone();
        let effect = prepared.effect.clone();
        match self.verdict(&call.name, &effect).await {
            Verdict::Run => {
                self.show_row(call, prepared.title.clone(), kind, Some(&prepared), RowStatus::InProgress);
            }
            Verdict::Ask => {
                self.show_row(call, prepared.title.clone(), kind, Some(&prepared), RowStatus::Pending);
                if let Err(reason) = self.ask_permission(call, summary(&prepared), &effect).await? {
                    self.finish_call(&call.id, ToolOutcome::failed(reason), Vec::new()).await;
                    return Ok(());
                }
                self.emitter
                    .emit(EventKind::ToolCallChanged { id: call.id.clone(), change: RowChange::Running });
            }
        }
        let (id, outcome) = self.start(call.id.clone(), prepared).await;
        self.finish_call(&id, outcome, changes).await;
        Ok(())
    }

    async fn verdict(&self, tool: &str, effect: &Effect) -> Verdict {
        let state = &self.state;
        let grants = state.ports().grants.grants(&state.workspace.root).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the grants of this directory cannot be read; milk asks instead");
            Grants::default()
        });
        let policy = Policy {
            mode: state.mode,
            settings: &state.provision.settings,
            remembered: &state.binding.remembered,
            grants: &grants,
            commands: &*state.ports().commands,
        };
        policy.verdict(tool, effect)
    }

    /// Asks the person; the inner `Err` is the no, as the model reads it. The question dies with the turn.
    async fn ask_permission(
        &mut self,
        call: &ToolCall,
        summary: String,
        effect: &Effect,
    ) -> Result<Result<(), String>, Cut> {
        let question = Question {
            id: next_question_id(),
            asker: Asker::Foreground,
            title: format!("Allow {}?", call.name),
            summary,
            subject: Some(call.id.clone()),
            options: permission::options(&call.name, effect),
        };
        let offered = question.options.clone();
        self.emitter.state(State::RequiresAction);
        let answer = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(Cut::Stopped),
            answer = ask::race(self.emitter, &self.state.ports().ask_sources, question) => answer,
        };
        if self.stop.is_cancelled() {
            return Err(Cut::Stopped); // an answer right behind the cancel is too late
        }
        self.emitter.state(State::Running);
        Ok(match answer {
            Answer::Picked(option) if !offered.iter().any(|choice| choice.id == option) => {
                Err(denied(&call.name))
            }
            Answer::Picked(option) if option.as_str() == permission::ALLOW => {
                self.state.binding.remembered.insert(permission::remembered_for(&call.name, effect));
                Ok(())
            }
            Answer::Picked(option) if option.as_str() == permission::ALLOW_ALWAYS => {
                self.remember_for_good(&call.name, effect).await;
                Ok(())
            }
            Answer::Picked(_) | Answer::Dismissed => Err(denied(&call.name)),
            Answer::NobodyAsked(cause) => {
                self.emitter.notice(format!(
                    "[milk] {} was denied: the client could not be asked for permission ({cause}). Use /skip-permissions on, or \
                     set dangerously_skip_permissions in the config, to run tools without asking.",
                    call.name
                ));
                Err(format!("tool {} was denied, because nobody could be asked for permission", call.name))
            }
        })
    }

    async fn remember_for_good(&mut self, tool: &str, effect: &Effect) {
        let Some(grant) = permission::grant_for(tool, effect) else { return };
        self.state.binding.remembered.insert(permission::remembered_for(tool, effect));
        if let Err(error) = self.state.ports().grants.remember(&self.state.workspace.root, &grant).await {
            self.emitter.notice(format!(
                "[milk] the permission could not be saved ({error}); it holds until this session is closed."
            ));
        }
    }

    fn start(&self, id: ToolCallId, prepared: PreparedCall) -> RunningCall {
        let (live, output) = LiveOutput::new(self.emitter.clone(), id.clone());
        let cx = ToolContext {
            output,
            cancel: self.stop.clone(),
            time_limit: self.state.provision.settings.tool_time_limit,
        };
        let limit = self.state.provision.settings.tool_result_limit;
        let run = (prepared.run)(cx);
        Box::pin(async move {
            let mut outcome = run.await;
            drop(live);
            outcome.output = bounded(outcome.output, limit);
            (id, outcome)
        })
    }

    async fn finish_all(&mut self, reads: &mut FuturesOrdered<RunningCall>) {
        while let Some((id, outcome)) = reads.next().await {
            self.finish_call(&id, outcome, Vec::new()).await;
        }
    }

    /// Records a call's end, then shows it: a side effect is on disk before the client is told of it.
    async fn finish_call(
        &mut self,
        id: &ToolCallId,
        outcome: ToolOutcome,
        expected: Vec<milk_core::tool::FileChange>,
    ) {
        let Some(open) = self.progress.open_call(id) else { return };
        let changes = match outcome.status {
            ToolStatus::Completed => outcome.changes.unwrap_or(expected),
            ToolStatus::Failed | ToolStatus::Cancelled => outcome.changes.unwrap_or_default(),
        };
        let record = Record::ToolEnded {
            turn: self.id,
            call: id.clone(),
            title: open.title.clone(),
            kind: open.kind,
            status: outcome.status,
            output: outcome.output.clone(),
            locations: open.locations.clone(),
            changes: changes.clone(),
        };
        self.state.record(self.emitter, vec![record]).await;
        let change = RowChange::Ended {
            status: outcome.status,
            output: outcome.output,
            exit_code: outcome.exit_code,
            changes,
        };
        self.emitter.emit(EventKind::ToolCallChanged { id: id.clone(), change });
        self.progress.close_call(id);
        self.emitter.room().await;
    }

    fn show_row(
        &mut self,
        call: &ToolCall,
        title: String,
        kind: ToolKind,
        prepared: Option<&PreparedCall>,
        status: RowStatus,
    ) {
        let locations = prepared.map(|prepared| prepared.locations.clone()).unwrap_or_default();
        let changes = prepared.map(|prepared| prepared.changes.clone()).unwrap_or_default();
        if let Some(open) = self.progress.open_call(&call.id) {
            open.title.clone_from(&title);
            open.kind = kind;
            open.locations.clone_from(&locations);
            open.row = RowShown::Shown;
        }
        let input = match &call.arguments {
            ToolArguments::Object(arguments) => Value::Object(arguments.clone()),
            ToolArguments::Unparsable(raw) => Value::String(bounded(raw.clone(), LIVE_LIMIT)),
        };
        let id = call.id.clone();
        let row = ToolCallRow { id, name: call.name.clone(), title, kind, status, input, locations, changes };
        self.emitter.emit(EventKind::ToolCallStarted(row));
    }

    /// Gives every call without a result one, and closes the rows that the client has seen (R12).
    pub(super) async fn close_open_calls(&mut self, cut: &Cut) {
        let (status, output) = match cut {
            Cut::Stopped => (ToolStatus::Cancelled, "cancelled by the user"),
            Cut::Failed(_) => (ToolStatus::Failed, "stopped: the turn failed"),
        };
        for open in std::mem::take(&mut self.progress.open_calls) {
            let output = match open.row {
                RowShown::Shown => output.to_owned(),
                RowShown::NotYet => format!("not run; {output}"),
            };
            let record = Record::ToolEnded {
                turn: self.id,
                call: open.id.clone(),
                title: open.title,
                kind: open.kind,
                status,
                output: output.clone(),
                locations: open.locations,
                changes: Vec::new(),
            };
            self.state.record(self.emitter, vec![record]).await;
            if open.row == RowShown::Shown {
                let change = RowChange::Ended { status, output, exit_code: None, changes: Vec::new() };
                self.emitter.emit(EventKind::ToolCallChanged { id: open.id, change });
            }
        }
    }
}

fn denied(tool: &str) -> String {
    format!("tool {tool} was denied by user")
}

fn unknown_tool(name: &str, tools: &[Arc<dyn Tool>]) -> String {
    let known: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    format!("unknown tool: {name}. Available tools: {}", known.join(", "))
}

/// What the person reads before saying yes: the whole command or path, and what is unusual about it.
fn summary(prepared: &PreparedCall) -> String {
    match &prepared.effect {
        Effect::WritesOutside { paths } => {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            format!("{}\nOutside the workspace: {}", prepared.title, paths.join(", "))
        }
        Effect::ReadsPrivate { path } => format!("{}\nMay hold secrets: {}", prepared.title, path.display()),
        Effect::Executes { command } => command.clone(),
        Effect::Network { url } if !prepared.title.contains(url.as_str()) => {
            format!("{}\n{url}", prepared.title)
        }
        Effect::ReadOnly | Effect::Writes | Effect::Network { .. } | Effect::External => {
            prepared.title.clone()
        }
    }
}
