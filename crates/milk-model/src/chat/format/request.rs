//! A [`ModelRequest`] as the body of a chat-completions call.

use std::borrow::Cow;

use milk_core::JsonObject;
use milk_core::model::{
    AssistantMessage, ChatMessage, ModelRequest, ToolArguments, ToolCall, UserPart, Vision,
};
use milk_core::tool::ToolSpec;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::reasoning;

/// How an assistant message without text is written; servers disagree on what they accept (bug case 111).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EmptyContent {
    /// `"content": ""`
    #[default]
    EmptyText,
    /// `"content": null`
    Null,
}

/// Whether reasoning goes back to the server that gave it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ReasoningFields {
    /// Under the fields in which it came.
    #[default]
    SentBack,
    /// No: this server refuses them.
    LeftOut,
}

/// Whether token counts are asked for (`stream_options`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum UsageWish {
    /// They are.
    #[default]
    AskedFor,
    /// No: this server refuses the field.
    LeftOut,
}

/// What a body depends on besides the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyOptions<'a> {
    /// The model's name.
    pub(crate) model: &'a str,
    /// Whether pictures are sent; otherwise a note stands in their place.
    pub(crate) vision: Vision,
    /// How an empty text is written.
    pub(crate) empty_content: EmptyContent,
    /// Whether token counts are asked for.
    pub(crate) usage: UsageWish,
    /// Whether reasoning goes back.
    pub(crate) reasoning: ReasoningFields,
    /// Merged in last: a key replaces the one of the same name, `null` takes it out.
    pub(crate) overrides: &'a JsonObject,
}

/// The body, as JSON text.
pub(crate) fn body(request: &ModelRequest, options: BodyOptions<'_>) -> serde_json::Result<String> {
    let body = Body {
        model: options.model,
        messages: messages(request, options),
        tools: request.tools.iter().map(tool).collect(),
        stream: true,
        stream_options: match options.usage {
            UsageWish::AskedFor => Some(StreamOptions { include_usage: true }),
            UsageWish::LeftOut => None,
        },
    };
    if options.overrides.is_empty() {
        return serde_json::to_string(&body);
    }
    let mut body = serde_json::to_value(&body)?;
    for (key, value) in options.overrides {
        match (body.as_object_mut(), value) {
            (Some(body), Value::Null) => drop(body.shift_remove(key)),
            (Some(body), value) => drop(body.insert(key.clone(), value.clone())),
            (None, _) => {}
        }
    }
    serde_json::to_string(&body)
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
        #[serde(flatten)]
        reasoning: Fields<'a>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

/// Fields whose names are known only when the program runs.
struct Fields<'a>(Vec<(&'a str, &'a Value)>);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: String,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: ToolFunction<'a>,
}

#[derive(Serialize)]
struct ToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
}

/// What stands in place of a picture that the model cannot see.
const NO_PICTURE: &str = "[a picture was attached here, but this model cannot see pictures]";

fn messages<'a>(request: &'a ModelRequest, options: BodyOptions<'_>) -> Vec<Message<'a>> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(Message::System { content: &request.system });
    }
    // User messages that meet (an empty answer between them is not sent) become one, because roles must alternate.
    let mut user: Vec<&UserPart> = Vec::new();
    for message in &request.messages {
        match message {
            ChatMessage::User(parts) => user.extend(parts),
            ChatMessage::Assistant(message) if message.text.is_empty() && message.tool_calls.is_empty() => {}
            ChatMessage::Assistant(message) => {
                flush(&mut user, &mut messages, options.vision);
                messages.push(assistant(message, options));
            }
            ChatMessage::ToolResult { call, output } => {
                flush(&mut user, &mut messages, options.vision);
                messages.push(Message::Tool { tool_call_id: call.as_str(), content: output });
            }
        }
    }
    flush(&mut user, &mut messages, options.vision);
    messages
}

fn flush<'a>(parts: &mut Vec<&'a UserPart>, messages: &mut Vec<Message<'a>>, vision: Vision) {
    if !parts.is_empty() {
        messages.push(Message::User { content: content(&std::mem::take(parts), vision) });
    }
}

/// Plain text where there is only text: the form that every server and chat template understands.
fn content<'a>(parts: &[&'a UserPart], vision: Vision) -> Content<'a> {
    let text = |part: &&'a UserPart| match part {
        UserPart::Text(text) => Some(text.as_str()),
        UserPart::Image { .. } if vision == Vision::Blind => Some(NO_PICTURE),
        UserPart::Image { .. } => None,
    };
    match parts.iter().map(text).collect::<Option<Vec<_>>>() {
        Some(texts) => Content::Text(match texts[..] {
            [text] => Cow::Borrowed(text),
            _ => Cow::Owned(texts.join("\n\n")),
        }),
        None => Content::Parts(parts.iter().copied().map(part).collect()),
    }
}

fn part(part: &UserPart) -> Part<'_> {
    match part {
        UserPart::Text(text) => Part::Text { text },
        UserPart::Image { mime, data } => {
            Part::ImageUrl { image_url: ImageUrl { url: format!("data:{mime};base64,{data}") } }
        }
    }
}

fn assistant<'a>(message: &'a AssistantMessage, options: BodyOptions<'_>) -> Message<'a> {
    let content = match (message.text.as_str(), options.empty_content) {
        ("", EmptyContent::Null) => None,
        (text, _) => Some(text),
    };
    let sent_back = options.reasoning == ReasoningFields::SentBack && !message.tool_calls.is_empty();
    let notes = message.provider_notes.as_ref().filter(|_| sent_back);
    Message::Assistant {
        content,
        tool_calls: message.tool_calls.iter().map(call).collect(),
        reasoning: Fields(notes.map(reasoning::fields_in).unwrap_or_default()),
    }
}

/// Arguments are always a text that parses to an object: servers and chat templates parse them again.
fn call(call: &ToolCall) -> Call<'_> {
    let arguments = match &call.arguments {
        ToolArguments::Object(object) => serde_json::to_string(object).unwrap_or_else(|_| "{}".to_owned()),
        ToolArguments::Unparsable(text) => json!({ "unparsable": text }).to_string(),
    };
    Call { id: call.id.as_str(), kind: "function", function: Function { name: &call.name, arguments } }
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    let parameters = if spec.input_schema.is_object() {
        Cow::Borrowed(&spec.input_schema)
    } else {
        Cow::Owned(json!({"type": "object", "properties": {}}))
    };
    let function = ToolFunction { name: &spec.name, description: &spec.description, parameters };
    Tool { kind: "function", function }
}

/// Which reasoning fields a request would send back: what a server may refuse it for.
pub(crate) fn reasoning_fields_of(request: &ModelRequest) -> Vec<&str> {
    let notes = request.messages.iter().filter_map(|message| match message {
        ChatMessage::Assistant(message) if !message.tool_calls.is_empty() => message.provider_notes.as_ref(),
        _ => None,
    });
    let mut names: Vec<&str> = notes.flat_map(reasoning::fields_in).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use std::sync::Arc;

    fn options(overrides: &JsonObject) -> BodyOptions<'_> {
        BodyOptions {
            model: "m",
            vision: Vision::Sees,
            empty_content: EmptyContent::EmptyText,
            usage: UsageWish::AskedFor,
            reasoning: ReasoningFields::SentBack,
            overrides,
        }
    }

    fn plain() -> BodyOptions<'static> {
        static NONE: std::sync::LazyLock<JsonObject> = std::sync::LazyLock::new(JsonObject::new);
        options(&NONE)
    }

    fn request(messages: Vec<ChatMessage>) -> ModelRequest {
        ModelRequest { system: "be good".into(), messages, tools: Arc::from([]) }
    }

    fn user(text: &str) -> ChatMessage {
        ChatMessage::User(vec![UserPart::Text(text.into())])
    }

    fn call(arguments: ToolArguments) -> ToolCall {
        ToolCall { id: "c".into(), name: "f".into(), arguments }
    }

    fn assistant(text: &str, tool_calls: Vec<ToolCall>) -> AssistantMessage {
        AssistantMessage { text: text.into(), tool_calls, ..AssistantMessage::default() }
    }

    fn written(request: &ModelRequest, options: BodyOptions<'_>) -> Value {
        serde_json::from_str(&body(request, options).unwrap()).unwrap()
    }

    fn messages_of(messages: Vec<ChatMessage>) -> Value {
        written(&request(messages), plain())["messages"].clone()
    }

    #[test]
    fn a_whole_request() {
        let object = json!({"path": "1"}).as_object().unwrap().clone();
        let spec =
            |name: &str, input_schema| ToolSpec { name: name.into(), description: "d".into(), input_schema };
        let tools =
            Arc::from([spec("f", json!({"type": "object", "required": ["path"]})), spec("g", Value::Null)]);
        let messages = vec![
            user("hi"),
            ChatMessage::Assistant(assistant("", vec![call(ToolArguments::Object(object))])),
            ChatMessage::ToolResult { call: "c".into(), output: "out".into() },
        ];
        let expected = json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "be good"},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "", "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"path\":\"1\"}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "out"},
            ],
            "tools": [
                {"type": "function", "function": {"name": "f", "description": "d",
                    "parameters": {"type": "object", "required": ["path"]}}},
                {"type": "function", "function": {"name": "g", "description": "d",
                    "parameters": {"type": "object", "properties": {}}}},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        assert_eq!(written(&ModelRequest { tools, ..request(messages) }, plain()), expected);
    }

    #[test]
    fn case_104_arguments_go_back_as_a_text_that_parses_to_an_object() {
        let broken = call(ToolArguments::Unparsable("{\"path\":".into()));
        let messages = messages_of(vec![user("hi"), ChatMessage::Assistant(assistant("", vec![broken]))]);
        let text = messages[2]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
        assert!(serde_json::from_str::<JsonObject>(text).is_ok(), "{text}");
    }

    #[test]
    fn case_111_content_is_always_there_and_nothing_empty_is_sent() {
        let calling =
            || ChatMessage::Assistant(assistant("", vec![call(ToolArguments::Object(JsonObject::new()))]));
        let null = BodyOptions { empty_content: EmptyContent::Null, ..plain() };
        let with_null = written(&request(vec![user("a"), calling()]), null);
        assert_eq!(with_null["messages"][2].get("content"), Some(&Value::Null));
        assert_eq!(messages_of(vec![user("a"), calling()])[2]["content"], "");
        let empty = ChatMessage::Assistant(assistant("", vec![]));
        let messages = messages_of(vec![user("a"), empty, user("b")]);
        assert_eq!(
            messages,
            json!([{"role": "system", "content": "be good"}, {"role": "user", "content": "a\n\nb"}])
        );
    }

    #[test]
    fn case_112_one_system_message_first_or_none() {
        assert_eq!(messages_of(vec![user("a")])[0]["role"], "system");
        let without = ModelRequest { system: "".into(), ..request(vec![user("a")]) };
        assert_eq!(written(&without, plain())["messages"], json!([{"role": "user", "content": "a"}]));
    }

    #[test]
    fn case_110_reasoning_goes_back_with_tool_calls_unless_refused() {
        let notes = json!({"reasoning_content": "hm", "reasoning_details": [{"text": "x"}], "role": "evil"});
        let with_notes = |calls| {
            let mut message = assistant("t", calls);
            message.provider_notes = Some(notes.clone());
            request(vec![user("a"), ChatMessage::Assistant(message)])
        };
        let calls = vec![call(ToolArguments::Object(JsonObject::new()))];
        let sent = written(&with_notes(calls.clone()), plain())["messages"][2].clone();
        assert_eq!((&sent["reasoning_content"], &sent["role"]), (&json!("hm"), &json!("assistant")));
        assert_eq!(sent["reasoning_details"], json!([{"text": "x"}]));
        assert_eq!(
            reasoning_fields_of(&with_notes(calls.clone())),
            ["reasoning_content", "reasoning_details"]
        );
        let left_out = BodyOptions { reasoning: ReasoningFields::LeftOut, ..plain() };
        assert!(
            !written(&with_notes(calls), left_out)["messages"][2]
                .as_object()
                .unwrap()
                .contains_key("reasoning_content")
        );
        assert!(
            !written(&with_notes(vec![]), plain())["messages"][2]
                .as_object()
                .unwrap()
                .contains_key("reasoning_content")
        );
    }

    #[test]
    fn overrides_are_merged_last_and_null_takes_out() {
        let overrides = json!({"temperature": 0.2, "model": "other", "stream_options": null});
        let written = written(&request(vec![user("a")]), options(overrides.as_object().unwrap()));
        assert_eq!((&written["temperature"], &written["model"]), (&json!(0.2), &json!("other")));
        assert!(written.get("stream_options").is_none());
    }

    #[test]
    fn pictures_go_to_models_that_see() {
        let image = UserPart::Image { mime: "image/png".into(), data: "AAAA".into() };
        let request = request(vec![ChatMessage::User(vec![UserPart::Text("look".into()), image])]);
        let seen = written(&request, plain())["messages"][1]["content"].clone();
        let url = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
        assert_eq!(seen, json!([{"type": "text", "text": "look"}, url]));
        let blind = written(&request, BodyOptions { vision: Vision::Blind, ..plain() });
        assert_eq!(blind["messages"][1]["content"], format!("look\n\n{NO_PICTURE}"));
    }
}
