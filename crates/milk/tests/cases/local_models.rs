//! Small models and the servers that run them: dialects of tool calls and reasoning, empty and endless replies.
//!
//! Cases that need more than stands:
//!
//! | case | needs |
//! |---|---|
//! | 108, its part on `/think` | the command and its option |
//! | 110, its part on a restart | stored sessions |
//! | 115, its part on warnings and `loop_detection.auto_interrupt` | the loop detector |

use milk_testkit::client::{Speaker, ToolRow, Turn};
use milk_testkit::{Policy, RecordedRequest, Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::{Plan, Rig, answered, assert_has, assert_has_any, assert_lacks, ended, results};

/// Whether the user saw a text of the model's, or a notice in its place.
fn said_something(rig: &Rig, turn: &Turn) -> bool {
    !turn.text.trim().is_empty() || !rig.notices().is_empty()
}

// ---- 100 to 105: how calls are sent

/// A tool call delta with only these fields.
fn piece(call: Value) -> Value {
    pieces(Value::Array(vec![call]))
}

fn pieces(calls: Value) -> Value {
    Value::Object([("tool_calls".to_owned(), calls)].into_iter().collect())
}

/// Plays deltas as one reply; the model must have made exactly these reads, in this order.
async fn reads(deltas: impl IntoIterator<Item = Value>, contents: &[&str]) -> Rig {
    let reply = deltas.into_iter().fold(Reply::stream().role(), Reply::delta).finish("tool_calls").done();
    let rig = Plan::replies([reply, Reply::text("fine")]).start().await;
    for name in ["1", "2"] {
        rig.home.write(name, format!("content of {name}\n"));
    }
    let turn = rig.turn("go").await;
    answered(&turn, "fine");
    let told = results(&rig.server.request(1).await);
    assert_eq!(told.len(), contents.len(), "calls that were run: {told:?}");
    for (told, content) in told.iter().zip(contents) {
        assert_has(told, content);
    }
    let rows = rig.agent.transcript().tool_rows(&rig.session);
    assert_eq!(rows.len(), contents.len(), "rows with ids of their own: {rows:#?}");
    assert!(rows.iter().all(|row| row.status() == "completed"), "{rows:#?}");
    rig
}

const BOTH: [&str; 2] = ["content of 1", "content of 2"];

fn start(id: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "read_file", "arguments": arguments}})
}

fn at(index: u64, mut call: Value) -> Value {
    call["index"] = index.into();
    call
}

fn more(arguments: &str) -> Value {
    json!({"function": {"arguments": arguments}})
}

#[tokio::test]
async fn case_100_deltas_with_no_index() {
    reads(
        [
            piece(start("a", r#"{"path":"#)),
            piece(json!({"id": "a", "function": {"arguments": r#""1"}"#}})),
            piece(start("b", r#"{"path":"2"}"#)),
        ],
        &BOTH,
    )
    .await;
    reads(
        [piece(start("a", r#"{"path":"#)), piece(more(r#""1"}"#)), piece(start("b", r#"{"path":"2"}"#))],
        &BOTH,
    )
    .await;
}

#[tokio::test]
async fn case_100_whole_calls_with_no_index_in_one_delta() {
    reads([pieces(json!([start("a", r#"{"path":"1"}"#), start("b", r#"{"path":"2"}"#)]))], &BOTH).await;
}

#[tokio::test]
async fn case_100_one_call_with_an_index_and_one_without() {
    reads([piece(at(0, start("a", r#"{"path":"1"}"#))), piece(start("b", r#"{"path":"2"}"#))], &BOTH).await;
    reads([piece(start("a", r#"{"path":"1"}"#)), piece(at(1, start("b", r#"{"path":"2"}"#)))], &BOTH).await;
}

#[tokio::test]
async fn case_101_every_call_labelled_index_0() {
    reads([piece(at(0, start("a", r#"{"path":"1"}"#))), piece(at(0, start("b", r#"{"path":"2"}"#)))], &BOTH)
        .await;
}

#[tokio::test]
async fn case_101_fragments_of_one_call_stay_one_call() {
    reads([piece(at(0, start("a", r#"{"path":"#))), piece(at(0, more(r#""1"}"#)))], &BOTH[..1]).await;
    reads(
        [
            piece(at(0, start("a", r#"{"path":"#))),
            piece(at(0, json!({"id": "", "function": {"name": "", "arguments": r#""1"}"#}}))),
        ],
        &BOTH[..1],
    )
    .await;
    reads(
        [
            piece(at(0, start("a", r#"{"path":"#))),
            piece(at(0, json!({"id": "a", "function": {"name": "read_file", "arguments": r#""1"}"#}}))),
        ],
        &BOTH[..1],
    )
    .await;
}

#[tokio::test]
async fn case_102_interleaved_fragments() {
    reads(
        [
            piece(at(0, start("a", ""))),
            piece(at(1, start("b", ""))),
            piece(at(0, more(r#"{"path""#))),
            piece(at(1, more(r#"{"path""#))),
            piece(at(0, more(r#":"1"}"#))),
            piece(at(1, more(r#":"2"}"#))),
        ],
        &BOTH,
    )
    .await;
}

#[tokio::test]
async fn case_102_arguments_that_drift_to_another_index() {
    reads(
        [piece(at(0, start("a", ""))), piece(at(1, more(r#"{"path":"#))), piece(at(1, more(r#""1"}"#)))],
        &BOTH[..1],
    )
    .await;
}

#[tokio::test]
async fn case_104_arguments_as_an_object() {
    let call = json!({"index": 0, "id": "a", "type": "function", "function": {"name": "read_file", "arguments": {"path": "1"}}});
    let rig = reads([piece(call)], &BOTH[..1]).await;
    assert_arguments_sent_back(&rig).await;
}

#[tokio::test]
async fn case_104_arguments_encoded_twice() {
    let twice = json!(r#"{"path":"1"}"#).to_string();
    let rig = reads([piece(at(0, start("a", &twice)))], &BOTH[..1]).await;
    assert_arguments_sent_back(&rig).await;
}

/// In the next request the arguments are a text that parses to the object.
async fn assert_arguments_sent_back(rig: &Rig) {
    let request = rig.server.request(1).await;
    let call = &request.with_role("assistant").last().unwrap()["tool_calls"][0];
    let arguments = call["function"]["arguments"].as_str().expect("a text");
    assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), json!({"path": "1"}));
}

#[tokio::test]
async fn case_105_empty_or_repeated_ids_in_one_reply() {
    let ids = [json!(""), json!(null), json!("call_1")];
    for id in ids {
        let call = |index: u64, path: &str| {
            let mut call = at(index, start("", &json!({ "path": path }).to_string()));
            call["id"] = id.clone();
            call
        };
        reads([piece(call(0, "1")), piece(call(1, "2"))], &BOTH).await;
        reads([pieces(json!([call(0, "1"), call(1, "2")]))], &BOTH).await;
    }
    let bare = |index: u64, path: &str| {
        let arguments = json!({ "path": path }).to_string();
        json!({"index": index, "function": {"name": "read_file", "arguments": arguments}})
    };
    reads([piece(bare(0, "1")), piece(bare(1, "2"))], &BOTH).await;
}

/// Servers that count their calls from the start in every reply: ids stay unique in the conversation and its rows.
#[tokio::test]
async fn case_105_ids_repeated_from_reply_to_reply() {
    let call = |path: &str| Reply::tools([ToolCall::new("read_file", json!({ "path": path })).id("call_0")]);
    let rig = Plan::replies([call("1"), call("2"), Reply::text("fine"), call("1"), Reply::text("fine")])
        .start()
        .await;
    for name in ["1", "2"] {
        rig.home.write(name, format!("content of {name}\n"));
    }
    answered(&rig.turn("go").await, "fine");
    answered(&rig.turn("again").await, "fine");
    let rows = rig.agent.transcript().tool_rows(&rig.session);
    assert_eq!(rows.len(), 3, "{rows:#?}");
    assert!(rows.iter().all(|row| row.status() == "completed"));
}

// ---- 106: a call written as text

/// Cuts a text into deltas of this many characters.
fn in_deltas(text: &str, size: usize) -> Reply {
    let characters: Vec<char> = text.chars().collect();
    characters
        .chunks(size)
        .fold(Reply::stream().role(), |reply, part| reply.say(part.iter().collect::<String>()))
        .end()
}

const WRITTEN: [&str; 3] = [
    r#"<tool_call>{"name":"read_file","arguments":{"path":"1"}}</tool_call>"#,
    "<tool_call><function=read_file><parameter=path>1</parameter></function></tool_call>",
    r#"{"name":"read_file","arguments":{"path":"1"}}"#,
];

#[tokio::test]
async fn case_106_a_call_written_as_text_is_made() {
    for written in WRITTEN {
        for size in [1, 7, 1000] {
            let rig = Plan::replies([in_deltas(written, size), Reply::text("fine")]).start().await;
            rig.home.write("1", "content of 1\n");
            let turn = rig.turn("go").await;
            answered(&turn, "fine");
            let rows = rig.agent.transcript().tool_rows(&rig.session);
            assert_eq!(rows.iter().map(ToolRow::status).collect::<Vec<_>>(), ["completed"], "{written}");
            assert_has(&rig.server.request(1).await.body["messages"].to_string(), "content of 1");
        }
    }
}

/// What stands around it is shown; the markup is not.
#[tokio::test]
async fn case_106_text_before_the_call_is_shown() {
    for written in WRITTEN {
        let rig = Plan::replies([in_deltas(&format!("Let me look.\n\n{written}"), 5), Reply::text("fine")])
            .start()
            .await;
        rig.home.write("1", "content of 1\n");
        let turn = rig.turn("go").await;
        ended(&turn, "end_turn");
        assert_has(&turn.text, "Let me look.");
        assert_has(&turn.text, "fine");
        assert_lacks(&turn.text, "read_file");
        assert_lacks(&turn.text, "tool_call");
    }
}

#[tokio::test]
async fn case_106_a_written_call_needs_permission_too() {
    let written =
        r#"<tool_call>{"name":"write_file","arguments":{"path":"w.txt","content":"x"}}</tool_call>"#;
    let rig = Plan::replies([in_deltas(written, 3), Reply::text("fine")]).policy(Policy::Deny).start().await;
    answered(&rig.turn("go").await, "fine");
    assert_eq!(rig.questions().len(), 1);
    assert!(!rig.home.exists("w.txt"));
}

/// Text that only talks of calls is text.
#[tokio::test]
async fn case_106_text_about_calls_stays_text() {
    let texts = [
        "A call looks like `{\"name\":\"read_file\"}` in most APIs.",
        "Use ```json\n{\"name\": \"value\", \"arguments\": [1, 2]}\n``` in the file.",
        "{\"name\": \"milk\", \"version\": \"1.0.0\"}",
        "if a <tool then b",
        "{\"name\":\"unknown_thing\",\"arguments\":{}}",
    ];
    let rig = Plan::replies(texts.map(|text| in_deltas(text, 4))).start().await;
    for text in texts {
        answered(&rig.turn("go").await, text);
    }
    assert!(rig.agent.transcript().tool_rows(&rig.session).is_empty());
}

// ---- 108, 109: reasoning

/// What the user sees of one reply: thoughts, then text.
async fn thoughts_and_text(reply: Reply) -> (String, String, Rig) {
    let rig = Plan::replies([reply, Reply::text("next")]).start().await;
    let turn = rig.turn("go").await;
    ended(&turn, "end_turn");
    let messages = rig.agent.transcript().texts(&rig.session);
    let of = |speaker: Speaker| -> String {
        messages
            .iter()
            .filter(|message| message.speaker == speaker)
            .map(|message| message.text.as_str())
            .collect()
    };
    (of(Speaker::Thought), of(Speaker::Agent), rig)
}

#[tokio::test]
async fn case_108_thinking_stays_out_of_the_answer() {
    let tags = |size| in_deltas("<think>hidden</think>visible", size);
    let replies = [
        Reply::stream().role().think("hid").think("den").say("visible").end(),
        Reply::stream().delta(json!({"reasoning": "hidden"})).say("visible").end(),
        tags(1),
        tags(3),
        tags(1000),
        in_deltas("<think>\nhidden\n</think>\n\nvisible", 4),
        in_deltas("<thinking>hidden</thinking>visible", 4),
        in_deltas("<thought>hidden</thought>visible", 4),
    ];
    for (number, reply) in replies.into_iter().enumerate() {
        let (thoughts, text, rig) = thoughts_and_text(reply).await;
        assert_eq!((thoughts.trim(), text.trim()), ("hidden", "visible"), "reply {number}");
        // The stored answer has neither tags nor thoughts in its text.
        answered(&rig.turn("go on").await, "next");
        let request = rig.server.request(1).await;
        let stored = request.with_role("assistant")[0]["content"].as_str().unwrap().trim().to_owned();
        assert_eq!(stored, "visible", "reply {number}");
    }
}

#[tokio::test]
async fn case_108_both_channels_in_one_reply() {
    let reply = Reply::stream().think("one ").say("<think>two</think>").say("visible").end();
    let (thoughts, text, _rig) = thoughts_and_text(reply).await;
    assert_eq!(text, "visible");
    assert_has(&thoughts, "one");
    assert_has(&thoughts, "two");
}

#[tokio::test]
async fn case_108_code_that_looks_like_tags_survives() {
    let texts = [
        "the loop ends when x < think",
        "Write it like this:\n\n```xml\n<think>an example</think>\n```\nand go on.",
        "The tag `<think>` opens a thought, `</think>` ends it.",
        "a <thin line",
        "visible </think> stays",
    ];
    for text in texts {
        let rig = Plan::replies([in_deltas(text, 3)]).start().await;
        let turn = rig.turn("go").await;
        if text.contains("visible </think>") {
            // A closing tag alone may be dropped; the words around it may not.
            assert_has(&turn.text, "visible");
            assert_has(&turn.text, "stays");
        } else {
            answered(&turn, text);
        }
    }
}

#[tokio::test]
async fn case_108_reasoning_is_not_shown_where_the_config_says_so() {
    for reply in
        [Reply::stream().think("hidden").say("visible").end(), in_deltas("<think>hidden</think>visible", 3)]
    {
        let rig = Plan::replies([reply]).root("show_reasoning", false).start().await;
        answered(&rig.turn("go").await, "visible");
        let messages = rig.agent.transcript().texts(&rig.session);
        assert!(messages.iter().all(|message| message.speaker != Speaker::Thought), "{messages:#?}");
    }
}

#[tokio::test]
async fn case_109_only_reasoning_is_never_silence() {
    let replies = [
        Reply::stream().role().think("the whole ").think("reasoning").end(),
        in_deltas("<think>the whole reasoning</think>", 4),
        in_deltas("<think>the whole reasoning", 4),
    ];
    for reply in replies {
        let rig = Plan::respond(move |_| reply.clone()).start().await;
        let turn = rig.turn("go").await;
        assert!(turn.response.is_ok(), "{turn:#?}");
        assert!(said_something(&rig, &turn), "silence: {turn:#?}");
        assert!(rig.server.count() <= 2, "at most one nudge");
        // As text, or as a thought with a notice beside it; not twice.
        let reasoning = "the whole reasoning";
        let messages = rig.agent.transcript().texts(&rig.session);
        let as_thought = messages.iter().any(|m| m.speaker == Speaker::Thought && m.text.contains(reasoning));
        let as_text = turn.text.matches(reasoning).count();
        assert!(as_text <= 1 && !(as_thought && as_text == 1), "shown twice: {messages:#?}");
    }
}

// ---- 110 to 112: what servers want to see

fn reads_a_file(request: &RecordedRequest, reply: Reply) -> Reply {
    match request.messages().last() {
        Some(newest) if newest["role"] == "tool" => Reply::text("fine"),
        _ => reply.call(ToolCall::new("read_file", json!({"path": "1"}))).finish("tool_calls").done(),
    }
}

#[tokio::test]
async fn case_110_reasoning_is_sent_back_to_a_server_that_gave_it() {
    let rig = Plan::respond(|request| {
        let lacks = |message: &&Value| message["reasoning_content"] != "because";
        if request.with_role("assistant").iter().any(lacks) {
            let error = "The `reasoning_content` in the thinking mode must be passed back to the API.";
            return Reply::json(400, &json!({"error": {"message": error}}));
        }
        reads_a_file(request, Reply::stream().role().think("because"))
    })
    .start()
    .await;
    rig.home.write("1", "content of 1\n");
    answered(&rig.turn("go").await, "fine");
}

/// Fields that every server knows.
const MESSAGE_FIELDS: [&str; 5] = ["role", "content", "tool_calls", "tool_call_id", "name"];
const BODY_FIELDS: [&str; 10] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "stream",
    "stream_options",
    "temperature",
    "max_tokens",
    "seed",
    "stop",
];

#[tokio::test]
async fn case_110_a_server_that_refuses_unknown_fields_gets_none() {
    for thoughts in [Reply::stream().role(), Reply::stream().role().say("<think>because</think>")] {
        let rig = Plan::respond(move |request| {
            let unknown = |object: &Value, known: &[&str]| {
                object.as_object().unwrap().keys().find(|key| !known.contains(&key.as_str())).cloned()
            };
            let found = unknown(&request.body, &BODY_FIELDS)
                .or_else(|| request.messages().iter().find_map(|message| unknown(message, &MESSAGE_FIELDS)));
            if let Some(field) = found {
                return Reply::json(400, &json!({"error": {"message": format!("unknown field {field}")}}));
            }
            reads_a_file(request, thoughts.clone())
        })
        .start()
        .await;
        rig.home.write("1", "content of 1\n");
        answered(&rig.turn("go").await, "fine");
    }
}

#[tokio::test]
async fn case_111_an_assistant_message_with_tools_has_content() {
    let call = ToolCall::new("read_file", json!({"path": "1"}));
    let rig = Plan::replies([Reply::tools([call]), Reply::text("fine"), Reply::text("next")]).start().await;
    rig.home.write("1", "content of 1\n");
    answered(&rig.turn("go").await, "fine");
    let request = rig.server.request(1).await;
    assert_eq!(request.with_role("assistant")[0].get("content"), Some(&json!("")));
    answered(&rig.turn("go on").await, "next");
    assert_eq!(rig.server.request(2).await.with_role("assistant")[0].get("content"), Some(&json!("")));
}

/// The server fails the test if a message with neither text nor calls is ever sent.
#[tokio::test]
async fn case_111_a_wholly_empty_reply_is_not_sent_back() {
    let empty = || Reply::stream().role().end();
    let rig =
        Plan::respond(
            move |request| {
                if request.last_user().contains("go on") { Reply::text("fine") } else { empty() }
            },
        )
        .start()
        .await;
    rig.turn("go").await;
    answered(&rig.turn("go on").await, "fine");
}

#[tokio::test]
async fn case_112_one_system_message_first() {
    let rig = Plan::replies([
        Reply::tool("read_file", json!({"path": "1"})),
        Reply::text("fine"),
        Reply::status(400),
        Reply::tool("list_dir", json!({"path": "."})),
        Reply::text("fine"),
    ])
    .start_in({
        let home = milk_testkit::TestHome::new();
        home.write("AGENTS.md", "Always answer in rhyme.\n");
        home.write("1", "content of 1\n");
        home
    })
    .await;
    answered(&rig.turn("one").await, "fine");
    rig.turn("two").await;
    answered(&rig.turn("three").await, "fine");
    for request in rig.server.requests() {
        let roles: Vec<&str> =
            request.messages().iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles[0], "system");
        assert_eq!(roles.iter().filter(|role| **role == "system").count(), 1, "{roles:?}");
        assert_has(&request.body["messages"].to_string(), "Always answer in rhyme.");
    }
    rig.server.assert_played();
}

// ---- 114 to 116: nothing, for ever, and too much

#[tokio::test]
async fn case_114_an_empty_reply_is_asked_again_once() {
    let rig = Plan::replies([Reply::stream().role().end(), Reply::text("fine")]).start().await;
    answered(&rig.turn("go").await, "fine");
    rig.server.assert_played();
}

#[tokio::test]
async fn case_114_always_empty_ends_with_a_line_that_says_so() {
    let rig = Plan::respond(|request| {
        if request.with_role("tool").is_empty() {
            Reply::tool("read_file", json!({"path": "1"}))
        } else {
            Reply::stream().role().end()
        }
    })
    .start()
    .await;
    rig.home.write("1", "content of 1\n");
    let turn = rig.turn("go").await;
    assert!(said_something(&rig, &turn), "silence: {turn:#?}");
    assert_has_any(&rig.text(), &["nothing", "no text", "no answer", "empty", "without"]);
    // The call, the empty reply, and at most three more.
    assert!(rig.server.count() <= 5, "{} requests", rig.server.count());
}

#[tokio::test]
async fn case_115_the_same_call_for_ever_ends_at_the_limit() {
    for (tool, arguments) in [
        ("bash", json!({"command": "date +%N"})),
        ("write_file", json!({"path": "w.txt", "content": "same"})),
    ] {
        let rig = Plan::respond(move |request| {
            if request.tool_names().is_empty() {
                Reply::text("a summary")
            } else {
                Reply::tool(tool, arguments.clone())
            }
        })
        .root("local_max_tool_iterations", 5)
        .policy(Policy::Allow)
        .start()
        .await;
        let turn = rig.turn("go").await;
        ended(&turn, "max_turn_requests");
        assert_has(&turn.text, "a summary");
        let tries = rig.server.count();
        assert!((5..=6).contains(&tries), "five calls to the model and a summary: {tries}");
        let last = rig.server.request(tries - 1).await;
        assert!(last.tool_names().is_empty(), "the summary is asked for without tools");
        rig.assert_rows_ended();
    }
}

/// A summary that never comes as text ends the turn all the same.
#[tokio::test]
async fn case_115_a_model_that_calls_tools_without_being_offered_any_ends_too() {
    let rig = Plan::respond(|_| Reply::tool("list_dir", json!({"path": "."})))
        .root("local_max_tool_iterations", 3)
        .start()
        .await;
    let turn = rig.turn("go").await;
    ended(&turn, "max_turn_requests");
    assert!(rig.server.count() <= 6, "{} requests", rig.server.count());
    assert!(said_something(&rig, &turn), "silence: {turn:#?}");
}

/// Characters through four: what a server counts at most for text in a latin script.
fn tokens(request: &RecordedRequest) -> usize {
    let text = request.body["messages"].to_string() + &request.body["tools"].to_string();
    text.chars().count() / 4
}

#[tokio::test]
async fn case_116_without_usage_requests_stay_under_the_context() {
    for usage in [None, Some((0, 0))] {
        let window = 4096;
        let rig = Plan::respond(move |_| {
            let reply = Reply::stream().role().say("fine").finish("stop");
            usage.map_or(reply.clone(), |(prompt, completion)| reply.usage(prompt, completion)).done()
        })
        .agent("context_window_tokens", window)
        .agent("system_prompt_tier", "minimal")
        .start()
        .await;
        for number in 0..30 {
            answered(&rig.turn(&format!("question {number}: {}", "word ".repeat(200))).await, "fine");
        }
        for (number, request) in rig.server.requests().iter().enumerate() {
            let size = tokens(request);
            assert!(size <= window, "request {number} has about {size} tokens");
            assert_has(&request.last_user(), &format!("question {number}: "));
            assert!(!request.system().is_empty());
        }
    }
}

/// A server that counts 2048 tokens for a prompt of about 8000 has cut it: the user is told, once.
#[tokio::test]
async fn case_116_a_server_that_cuts_the_prompt_is_noticed_once() {
    let rig = Plan::respond(|_| Reply::stream().role().say("fine").finish("stop").usage(2048, 5).done())
        .root("local_context_budget_chars", 400_000)
        .start()
        .await;
    for number in 0..8 {
        ended(&rig.turn(&format!("question {number}: {}", "word ".repeat(1600))).await, "end_turn");
    }
    let size = tokens(&rig.server.request(7).await);
    assert!(size > 8000, "the last request has about {size} tokens");
    let notices = rig.notices();
    assert_eq!(notices.len(), 1, "one warning: {notices:#?}");
}
