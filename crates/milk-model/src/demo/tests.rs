use std::sync::Arc;

use futures_util::StreamExt as _;
use milk_core::model::{AssistantMessage, ToolCall};
use milk_core::tool::ToolSpec;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn request(messages: Vec<ChatMessage>) -> ModelRequest {
    let names = [
        "bash",
        "read_file",
        "write_file",
        "edit_file",
        "delete_file",
        "move_file",
        "list_dir",
        "find_files",
        "grep",
    ];
    let spec =
        |name: &str| ToolSpec { name: name.into(), description: String::new(), input_schema: json!({}) };
    ModelRequest { system: "".into(), messages, tools: names.iter().map(|name| spec(name)).collect() }
}

fn user(text: &str) -> ChatMessage {
    ChatMessage::User(vec![UserPart::Text(text.to_owned())])
}

fn play(request: ModelRequest) -> Vec<ModelEvent> {
    let model: Arc<dyn Model> = Arc::new(DemoModel::new());
    let events = model.respond(request).map(Result::unwrap).collect::<Vec<_>>();
    futures_util::FutureExt::now_or_never(events).unwrap()
}

fn text_of(events: &[ModelEvent]) -> String {
    let text = |event: &ModelEvent| match event {
        ModelEvent::Text(text) => text.clone(),
        _ => String::new(),
    };
    events.iter().map(text).collect()
}

/// The call that a prompt leads to, as `name {arguments}`; nothing where it leads to text.
fn call_for(prompt: &str) -> Option<(String, Value)> {
    play(request(vec![user(prompt)])).into_iter().find_map(|event| match event {
        ModelEvent::ToolCall(StreamedCall { name, arguments: ToolArguments::Object(arguments), .. }) => {
            Some((name, Value::Object(arguments)))
        }
        _ => None,
    })
}

#[test]
fn plain_forms_become_tool_calls() {
    let cases = [
        ("read README.md", "read_file", json!({"path": "README.md"})),
        ("Please show me the file `src/main.rs`.", "read_file", json!({"path": "src/main.rs"})),
        ("read \"a file.txt\"", "read_file", json!({"path": "a file.txt"})),
        ("can you read ../x?", "read_file", json!({"path": "../x"})),
        ("list", "list_dir", json!({"path": "."})),
        ("list the files", "list_dir", json!({"path": "."})),
        ("list files in src/", "list_dir", json!({"path": "src/"})),
        ("ls ..", "list_dir", json!({"path": ".."})),
        ("ls .", "list_dir", json!({"path": "."})),
        ("find *.rs", "find_files", json!({"path": ".", "pattern": "*.rs"})),
        (
            "find all files named Cargo.toml in crates",
            "find_files",
            json!({"path": "crates", "pattern": "Cargo.toml"}),
        ),
        ("search for fn main", "grep", json!({"pattern": "fn main", "path": "."})),
        ("search for \"a in b\" in src", "grep", json!({"pattern": "a in b", "path": "src"})),
        ("grep TODO in src", "grep", json!({"pattern": "TODO", "path": "src"})),
        ("run ls -la | wc -l", "bash", json!({"command": "ls -la | wc -l"})),
        ("run `git status`", "bash", json!({"command": "git status"})),
        ("run iterate.sh", "bash", json!({"command": "iterate.sh"})),
        ("$ echo hi", "bash", json!({"command": "echo hi"})),
        ("`$ echo hi`", "bash", json!({"command": "echo hi"})),
        ("write hello to hello.txt", "write_file", json!({"path": "hello.txt", "content": "hello"})),
        (
            "create a file notes.txt with \"one\ntwo\"",
            "write_file",
            json!({"path": "notes.txt", "content": "one\ntwo"}),
        ),
        ("create empty.txt", "write_file", json!({"path": "empty.txt", "content": ""})),
        ("delete old.txt", "delete_file", json!({"path": "old.txt"})),
        ("rename a.txt to b.txt", "move_file", json!({"source": "a.txt", "destination": "b.txt"})),
        (
            "replace foo with bar in a.txt",
            "edit_file",
            json!({"path": "a.txt", "old_string": "foo", "new_string": "bar"}),
        ),
    ];
    for (prompt, name, arguments) in cases {
        assert_eq!(call_for(prompt), Some((name.to_owned(), arguments)), "{prompt}");
    }
}

#[test]
fn anything_else_gets_an_honest_introduction() {
    let prompts = [
        "hello",
        "",
        "write a poem",
        "show me what you can do",
        "run the tests",
        "run it",
        "read",
        "thread x",
        "running late",
        "delete everything that you do not like",
        "é",
        "run a\nrm b",
    ];
    for prompt in prompts {
        let events = play(request(vec![user(prompt)]));
        let text = text_of(&events);
        assert!(text.contains("demo agent, not a language model"), "{prompt}: {text}");
        assert!(text.contains("~/.milk/config.json") && text.contains("milk doctor"), "{prompt}: {text}");
        assert!(events.len() > 5, "streams in several pieces");
        assert!(matches!(events.last(), Some(ModelEvent::Finished(_))));
    }
}

#[test]
fn a_result_is_told_and_ends_the_turn() {
    let call = ToolCall {
        id: "c1".into(),
        name: "read_file".into(),
        arguments: ToolArguments::Object(milk_core::JsonObject::new()),
    };
    let asked =
        ChatMessage::Assistant(AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() });
    let told = |output: &str| {
        let result = ChatMessage::ToolResult { call: "c1".into(), output: output.into() };
        let events = play(request(vec![user("read x"), asked.clone(), result]));
        assert!(!events.iter().any(|event| matches!(event, ModelEvent::ToolCall(_))));
        text_of(&events)
    };
    assert_eq!(told("the user said no"), "`read_file` answered: the user said no");
    assert_eq!(told("a\n```\nb\n"), "`read_file` answered:\n\n````\na\n```\nb\n````");
    assert_eq!(told(""), "`read_file` ran and had nothing to say.");
    let long = told(&"é\n".repeat(5_000));
    assert!(long.len() < 10_000 && long.contains("more bytes are left out"), "{}", long.len());
}

#[test]
fn without_tools_nothing_is_called() {
    let events = play(ModelRequest { tools: Arc::from([]), ..request(vec![user("read x")]) });
    assert!(text_of(&events).contains("not offered"));
}

#[test]
fn context_that_rides_along_is_not_a_wish_but_the_part_behind_it_is() {
    let parts =
        vec![UserPart::Text("<context>\nrun rm -rf x\n</context>".into()), UserPart::Text("read a".into())];
    let events = play(request(vec![ChatMessage::User(parts)]));
    assert!(
        events.iter().any(|event| matches!(event, ModelEvent::ToolCall(call) if call.name == "read_file"))
    );
}
