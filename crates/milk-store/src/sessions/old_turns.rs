//! The turns of an older version of milk as records of this one.

use std::collections::{HashSet, VecDeque};

use milk_core::JsonObject;
use milk_core::content::ContentBlock;
use milk_core::event::{Route, RouteTarget, StopReason};
use milk_core::id::{AgentName, MessageId, ToolCallId, TurnId};
use milk_core::model::{AssistantMessage, ToolArguments, ToolCall};
use milk_core::record::{EntryNumber, Logged, Record, Speaker, TurnOrigin, TurnWork};
use milk_core::tool::{ToolKind, ToolStatus};
use serde::Deserialize;
use serde_json::Value;

use super::time;

/// One element of the old `history`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OldTurn {
    role: String,
    agent: Option<String>,
    agent_name: Option<String>,
    content: Option<String>,
    thinking: Option<String>,
    tool_calls: Option<Vec<OldCall>>,
    trail: Option<Vec<OldStep>>,
    timestamp: Option<String>,
}

/// One response of the model that called tools.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OldStep {
    text: Option<String>,
    calls: Option<Vec<OldCall>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OldCall {
    id: Option<String>,
    name: String,
    #[serde(alias = "arguments")]
    args: Value,
    result: Value,
}

/// The records of a history, in order.
pub(super) fn to_records(history: Vec<OldTurn>, created_ms: u64) -> Vec<Logged> {
    let mut folded = Folded { at_ms: created_ms, ..Folded::default() };
    for turn in history {
        folded.turn(turn);
    }
    folded.end_turn();
    folded.records
}

#[derive(Default)]
struct Folded {
    records: Vec<Logged>,
    at_ms: u64,
    turns: u64,
    in_turn: bool,
    entries: u64,
    messages: u64,
    routed: Option<Route>,
    calls: HashSet<String>,
    /// Calls whose results come as turns of their own.
    open_calls: VecDeque<(ToolCallId, String)>,
}

impl Folded {
    fn turn(&mut self, turn: OldTurn) {
        if let Some(at_ms) = turn.timestamp.as_deref().and_then(time::from_text) {
            self.at_ms = at_ms;
        }
        match turn.role.as_str() {
            "user" => {
                self.end_turn();
                self.begin_turn(TurnOrigin::Client, turn.content.unwrap_or_default());
            }
            "assistant" => self.answer(turn),
            "tool_result" => self.result(turn.content.unwrap_or_default()),
            _ => self.note(turn.content.unwrap_or_default()),
        }
    }

    fn push(&mut self, record: Record) {
        let entry = record.is_entry().then(|| {
            self.entries += 1;
            EntryNumber(self.entries - 1)
        });
        self.records.push(Logged { at_ms: self.at_ms, entry, record });
    }

    fn message(&mut self, kind: &str) -> MessageId {
        self.messages += 1;
        MessageId::new(format!("{kind}-old-{}", self.messages))
    }

    fn begin_turn(&mut self, origin: TurnOrigin, text: String) {
        self.turns += 1;
        self.in_turn = true;
        let message = self.message("user");
        let content = vec![ContentBlock::text(text)];
        self.push(Record::TurnStarted {
            turn: TurnId(self.turns),
            origin,
            message,
            content,
            work: TurnWork::Prompt,
        });
    }

    fn end_turn(&mut self) {
        if self.in_turn {
            self.in_turn = false;
            self.routed = None;
            self.open_calls.clear();
            self.push(Record::TurnEnded {
                turn: TurnId(self.turns),
                stop: StopReason::EndTurn,
                failure: None,
            });
        }
    }

    fn answer(&mut self, turn: OldTurn) {
        if !self.in_turn {
            // milk had spoken without being asked: it followed up on background work.
            self.begin_turn(TurnOrigin::FollowUp, "(continued)".to_owned());
        }
        let target = match turn.agent.as_deref() {
            Some("escalation") => RouteTarget::Escalation,
            _ => RouteTarget::Primary,
        };
        let name = turn.agent_name.filter(|name| !name.is_empty()).or(turn.agent);
        let agent = AgentName::new(name.unwrap_or_else(|| "primary".to_owned()));
        let route = Route { agent: agent.clone(), target, reason: "recorded by an older version".to_owned() };
        if self.routed.as_ref() != Some(&route) {
            self.routed = Some(route.clone());
            self.push(Record::Routed { turn: TurnId(self.turns), route });
        }
        let speaker = Speaker { agent, provider: String::new(), model: String::new() };

        for step in turn.trail.unwrap_or_default() {
            let calls = step.calls.unwrap_or_default();
            let (calls, results): (Vec<_>, Vec<_>) = calls.into_iter().map(|call| self.call(call)).unzip();
            let ended: Vec<_> = calls
                .iter()
                .zip(results)
                .map(|(call, result)| (call.id.clone(), call.name.clone(), result))
                .collect();
            self.say(step.text.unwrap_or_default(), None, calls, &speaker);
            for (id, name, result) in ended {
                self.tool_ended(id, &name, result.as_deref().unwrap_or("(the result was not kept)"));
            }
        }
        let calls = turn.tool_calls.unwrap_or_default();
        let calls: Vec<ToolCall> = calls.into_iter().map(|call| self.call(call).0).collect();
        self.open_calls.extend(calls.iter().map(|call| (call.id.clone(), call.name.clone())));
        let text = turn.content.unwrap_or_default();
        let thinking = turn.thinking.filter(|thinking| !thinking.is_empty());
        if !text.is_empty() || thinking.is_some() || !calls.is_empty() {
            self.say(text, thinking, calls, &speaker);
        }
    }

    fn say(&mut self, text: String, thinking: Option<String>, tool_calls: Vec<ToolCall>, by: &Speaker) {
        let message = self.message("agent");
        let thought = thinking.is_some().then(|| self.message("thought"));
        let said = AssistantMessage { text, thinking, tool_calls, provider_notes: None };
        let turn = TurnId(self.turns);
        self.push(Record::ModelSaid { turn, message, thought, said, usage: None, by: by.clone() });
    }

    /// A call whose id is unique in the session, and its result.
    fn call(&mut self, call: OldCall) -> (ToolCall, Option<String>) {
        let given = call.id.filter(|id| !id.is_empty() && !self.calls.contains(id));
        let id = given.unwrap_or_else(|| {
            let free = (1..).map(|n: u64| format!("call-old-{}-{n}", self.entries));
            free.into_iter().find(|id| !self.calls.contains(id)).unwrap_or_default()
        });
        self.calls.insert(id.clone());
        let result = match call.result {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        };
        let call = ToolCall { id: id.into(), name: call.name, arguments: arguments(call.args) };
        (call, result)
    }

    fn result(&mut self, content: String) {
        match self.open_calls.pop_front() {
            Some((id, name)) => self.tool_ended(id, &name, &content),
            // A result that answers nothing would be refused by servers.
            None => self.note(content),
        }
    }

    fn tool_ended(&mut self, call: ToolCallId, name: &str, result: &str) {
        let (status, output) = envelope(result);
        self.push(Record::ToolEnded {
            turn: TurnId(self.turns),
            call,
            title: name.to_owned(),
            kind: kind(name),
            status,
            output,
            locations: Vec::new(),
            changes: Vec::new(),
        });
    }

    fn note(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        let message = self.message("notice");
        let turn = self.in_turn.then_some(TurnId(self.turns));
        self.push(Record::Noted { turn, message, text });
    }
}

/// Arguments were kept as an object, or as the text of one.
fn arguments(args: Value) -> ToolArguments {
    match args {
        Value::Object(object) => ToolArguments::Object(object),
        Value::Null => ToolArguments::Object(JsonObject::new()),
        Value::String(text) if text.is_empty() => ToolArguments::Object(JsonObject::new()),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(object) => ToolArguments::Object(object),
            Err(_) => ToolArguments::Unparsable(text),
        },
        other => ToolArguments::Unparsable(other.to_string()),
    }
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    exit_code: Option<i64>,
}

/// A result was `{"output", "error", "exit_code"}` as text, cut where it was long.
fn envelope(result: &str) -> (ToolStatus, String) {
    let Ok(Envelope { output, error, exit_code }) = serde_json::from_str(result) else {
        return (ToolStatus::Completed, result.to_owned());
    };
    let (output, error) = (output.filter(|text| !text.is_empty()), error.filter(|text| !text.is_empty()));
    // A command may well write to its error output and succeed.
    let failed = exit_code.map_or(error.is_some(), |code| code != 0);
    let status = if failed { ToolStatus::Failed } else { ToolStatus::Completed };
    let code = exit_code.filter(|_| failed).map(|code| format!("exit code {code}"));
    (status, [output, error, code].into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

/// The families of the old tools.
const KINDS: [(&str, ToolKind); 12] = [
    ("bash", ToolKind::Execute),
    ("read_file", ToolKind::Read),
    ("write_file", ToolKind::Edit),
    ("edit_file", ToolKind::Edit),
    ("delete_file", ToolKind::Delete),
    ("move_file", ToolKind::Move),
    ("find_files", ToolKind::Search),
    ("grep", ToolKind::Search),
    ("list_dir", ToolKind::Search),
    ("http_get", ToolKind::Fetch),
    ("http_request", ToolKind::Fetch),
    ("get_session_context", ToolKind::Read),
];

fn kind(tool: &str) -> ToolKind {
    KINDS.iter().find(|(name, _)| *name == tool).map_or(ToolKind::Other, |(_, kind)| *kind)
}
