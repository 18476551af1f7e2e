//! What a client would show: updates of one session folded into messages and tool rows, for v1 and v2 alike.

use serde_json::Value;

/// Who a message is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// `user_message…`
    User,
    /// `agent_message…`
    Agent,
    /// `agent_thought…`
    Thought,
}

/// A message as a client would show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its `messageId`, where it has one (v1 need not).
    pub id: Option<String>,
    /// Who it is from.
    pub speaker: Speaker,
    /// Its text: chunks appended, upserts replaced.
    pub text: String,
    /// How many updates made it.
    pub updates: usize,
}

/// A tool call as a client would show it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolRow {
    /// Its `toolCallId`.
    pub id: String,
    /// All fields, patched together; content chunks are appended to `content`.
    pub fields: Value,
    /// Every status it had, in order, repeated ones once.
    pub statuses: Vec<String>,
    /// How many updates made it.
    pub updates: usize,
    /// The kind of the first update.
    pub first_update: String,
}

impl ToolRow {
    /// A string field, or nothing.
    pub fn field(&self, name: &str) -> &str {
        self.fields[name].as_str().unwrap_or_default()
    }

    /// Its title.
    pub fn title(&self) -> &str {
        self.field("title")
    }

    /// Its newest status.
    pub fn status(&self) -> &str {
        self.statuses.last().map_or("", String::as_str)
    }

    /// The text in its content.
    pub fn text(&self) -> String {
        let content = self.fields["content"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        content.iter().filter_map(|part| part["content"]["text"].as_str()).collect()
    }
}

/// The update kinds that carry messages.
const MESSAGES: [(&str, Speaker, Way); 6] = [
    ("user_message_chunk", Speaker::User, Way::Append),
    ("user_message", Speaker::User, Way::Replace),
    ("agent_message_chunk", Speaker::Agent, Way::Append),
    ("agent_message", Speaker::Agent, Way::Replace),
    ("agent_thought_chunk", Speaker::Thought, Way::Append),
    ("agent_thought", Speaker::Thought, Way::Replace),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Append,
    Replace,
}

pub(crate) fn messages(updates: &[&Value]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    // Chunks with no id belong together while nothing else comes between.
    let mut adjacent = false;
    for update in updates {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let Some((_, speaker, way)) = MESSAGES.iter().find(|(known, ..)| *known == kind) else {
            adjacent = false;
            continue;
        };
        let id = update["messageId"].as_str().map(str::to_owned);
        let known = match &id {
            Some(_) => messages.iter().position(|message| message.id == id && message.speaker == *speaker),
            None => messages.len().checked_sub(1).filter(|last| {
                adjacent && messages[*last].id.is_none() && messages[*last].speaker == *speaker
            }),
        };
        let place = known.unwrap_or_else(|| {
            messages.push(Message { id, speaker: *speaker, text: String::new(), updates: 0 });
            messages.len() - 1
        });
        let message = &mut messages[place];
        message.updates += 1;
        match way {
            Way::Append => message.text.push_str(&block_text(&update["content"])),
            // An upsert without content patches other fields.
            Way::Replace if update.get("content").is_some() => message.text = block_text(&update["content"]),
            Way::Replace => {}
        }
        adjacent = true;
    }
    messages
}

/// The text of a content block or of a list of them.
fn block_text(content: &Value) -> String {
    match content {
        Value::Array(blocks) => blocks.iter().map(block_text).collect(),
        block => block["text"].as_str().unwrap_or_default().to_owned(),
    }
}

pub(crate) fn agent_text(messages: &[Message]) -> String {
    let of_agent = messages.iter().filter(|message| message.speaker == Speaker::Agent);
    of_agent.map(|message| message.text.as_str()).collect()
}

pub(crate) fn tool_rows(updates: &[&Value]) -> Vec<ToolRow> {
    let mut rows: Vec<ToolRow> = Vec::new();
    for update in updates {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        if !matches!(kind, "tool_call" | "tool_call_update" | "tool_call_content_chunk") {
            continue;
        }
        let id = update["toolCallId"].as_str().unwrap_or_default();
        let place = rows.iter().position(|row| row.id == id).unwrap_or_else(|| {
            rows.push(ToolRow {
                id: id.to_owned(),
                fields: Value::Object(serde_json::Map::new()),
                first_update: kind.to_owned(),
                ..ToolRow::default()
            });
            rows.len() - 1
        });
        patch(&mut rows[place], kind, update);
    }
    rows
}

fn patch(row: &mut ToolRow, kind: &str, update: &Value) {
    row.updates += 1;
    if kind == "tool_call_content_chunk" {
        if !row.fields["content"].is_array() {
            row.fields["content"] = Value::Array(Vec::new());
        }
        if let Some(content) = row.fields["content"].as_array_mut() {
            content.push(update["content"].clone());
        }
        return;
    }
    for (name, value) in update.as_object().into_iter().flatten() {
        if name != "sessionUpdate" {
            row.fields[name.as_str()] = value.clone();
        }
    }
    if let Some(status) = update["status"].as_str()
        && row.statuses.last().map(String::as_str) != Some(status)
    {
        row.statuses.push(status.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::{Speaker, agent_text, messages, tool_rows};
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    fn chunk(kind: &str, id: Option<&str>, text: &str) -> Value {
        let mut update = json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
        if let Some(id) = id {
            update["messageId"] = id.into();
        }
        update
    }

    #[test]
    fn chunks_append_and_upserts_replace() {
        let updates = [
            json!({"sessionUpdate": "user_message", "messageId": "u", "content": [{"type": "text", "text": "hi"}]}),
            chunk("agent_thought_chunk", Some("t"), "hm"),
            chunk("agent_message_chunk", Some("a"), "one "),
            chunk("agent_message_chunk", Some("b"), "other"),
            chunk("agent_message_chunk", Some("a"), "two"),
            json!({"sessionUpdate": "agent_message", "messageId": "b", "content": [{"type": "text", "text": "new"}]}),
            json!({"sessionUpdate": "agent_message", "messageId": "b", "_meta": {}}),
        ];
        let found = messages(&updates.iter().collect::<Vec<_>>());
        let texts: Vec<(Speaker, &str)> = found.iter().map(|m| (m.speaker, m.text.as_str())).collect();
        let expected = [
            (Speaker::User, "hi"),
            (Speaker::Thought, "hm"),
            (Speaker::Agent, "one two"),
            (Speaker::Agent, "new"),
        ];
        assert_eq!(texts, expected);
        assert_eq!(agent_text(&found), "one twonew");
    }

    #[test]
    fn chunks_without_id_are_one_message_while_they_are_neighbours() {
        let row = json!({"sessionUpdate": "tool_call", "toolCallId": "1"});
        let updates = [
            chunk("agent_message_chunk", None, "a"),
            chunk("agent_message_chunk", None, "b"),
            row,
            chunk("agent_message_chunk", None, "c"),
        ];
        let found = messages(&updates.iter().collect::<Vec<_>>());
        assert_eq!(found.iter().map(|m| m.text.as_str()).collect::<Vec<_>>(), ["ab", "c"]);
    }

    #[test]
    fn rows_are_patched_by_id() {
        let text = |text: &str| json!({"type": "content", "content": {"type": "text", "text": text}});
        let updates = [
            json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "bash", "status": "pending"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "2", "title": "grep"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "in_progress"}),
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "1", "content": text("x")}),
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "1", "content": text("y")}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed"}),
        ];
        let rows = tool_rows(&updates.iter().collect::<Vec<_>>());
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].title(), rows[0].status(), rows[0].text().as_str()), ("bash", "completed", "xy"));
        assert_eq!(rows[0].statuses, ["pending", "in_progress", "completed"]);
        assert_eq!((rows[0].first_update.as_str(), rows[0].updates), ("tool_call", 5));
        assert_eq!(rows[1].title(), "grep");
    }
}
