use milk_core::JsonObject;
use milk_core::model::ToolArguments;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn tools() -> Arc<[ToolSpec]> {
    let spec =
        |name: &str| ToolSpec { name: name.into(), description: String::new(), input_schema: json!({}) };
    Arc::from([spec("read_file"), spec("bash")])
}

/// What a stream of these `data` fields is decoded to, up to its end or its fault.
fn decoded(data: &[String]) -> (Vec<ModelEvent>, Option<StreamFault>) {
    let mut decoder = Decoder::new(tools());
    let mut fault = None;
    for data in data {
        let event = sse::Event { data: data.clone(), ..sse::Event::default() };
        fault = decoder.event(&event).err();
        if fault.is_some() {
            break;
        }
    }
    let fault = fault.or_else(|| decoder.end().err());
    (std::iter::from_fn(|| decoder.next_event()).collect(), fault)
}

fn chunk(delta: &Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string()
}

fn finish(reason: &Value) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

fn text(text: &str) -> String {
    chunk(&json!({ "content": text }))
}

fn done() -> String {
    DONE.to_owned()
}

/// The parts of a reply, told in short.
#[derive(Debug, Default, PartialEq)]
struct Told {
    text: String,
    thought: String,
    calls: Vec<String>,
    usage: Option<Usage>,
    end: String,
}

fn told(data: &[String]) -> Told {
    let (events, fault) = decoded(data);
    let mut told = Told::default();
    for event in events {
        assert_eq!(told.end, "", "nothing comes after the end");
        match event {
            ModelEvent::Text(text) => told.text.push_str(&text),
            ModelEvent::Thought(text) => told.thought.push_str(&text),
            ModelEvent::ToolCall(call) => told.calls.push(match call.arguments {
                ToolArguments::Object(object) => format!("{} {}", call.name, Value::Object(object)),
                ToolArguments::Unparsable(text) => format!("{} unparsable {text}", call.name),
            }),
            ModelEvent::Usage(usage) => told.usage = Some(usage),
            ModelEvent::Finished(finish) => told.end = format!("{:?}", finish.reason),
            ModelEvent::Retrying(_) => panic!("decoders do not retry"),
        }
    }
    if let Some(fault) = fault {
        told.end = match fault {
            StreamFault::Reported(error) => format!("reported: {}", error.message().unwrap_or_default()),
            StreamFault::Broken(what) => format!("broken: {what}"),
        };
    }
    told
}

fn call(arguments: &str) -> String {
    chunk(
        &json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "read_file", "arguments": arguments}}]}),
    )
}

const READ: &str = r#"read_file {"path":"1"}"#;
const ONE: &str = r#"{"path":"1"}"#;

#[test]
fn an_ordinary_reply() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}).to_string();
    let role = chunk(&json!({"role": "assistant", "content": ""}));
    let reply = told(&[role, text("Hel"), text("lo"), finish(&json!("stop")), usage, done()]);
    let usage = Some(Usage { input: 10, cached: 0, output: 5 });
    assert_eq!(reply, Told { text: "Hello".into(), usage, end: "Complete".into(), ..Told::default() });
}

#[test]
fn case_087_chunks_with_no_choice_in_them() {
    let odd = [
        json!({"choices": [], "prompt_filter_results": [{}]}),
        json!({}),
        json!({"choices": null}),
        json!({"choices": [{"delta": null}]}),
        json!({"choices": [{"delta": {"content": null}}]}),
        json!({"choices": [null]}),
        json!([]),
        json!("x"),
        json!({"choices": [{}]}),
        json!({"choices": {}}),
    ];
    let mut data: Vec<String> = odd.iter().map(ToString::to_string).collect();
    data.insert(5, text("a"));
    data.extend([text("b"), "ping".to_owned(), String::new(), finish(&json!("stop"))]);
    data.push(json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}).to_string());
    data.push(done());
    let reply = told(&data);
    assert_eq!((reply.text.as_str(), reply.end.as_str()), ("ab", "Complete"));
    assert_eq!(reply.usage, Some(Usage { input: 1, cached: 0, output: 2 }));
}

#[test]
fn case_088_a_stream_that_ends_early_is_no_success() {
    assert_eq!(told(&[text("a")]).end, "broken: it ended before it was complete");
    let half = told(&[text("a"), call(r#"{"path":"#)]);
    assert_eq!((half.calls.len(), half.end.as_str()), (0, "broken: it ended before it was complete"));
    assert_eq!(told(&[]).end, "broken: it ended before it was complete");
    assert_eq!(told(&[text("a"), finish(&json!("stop"))]).end, "Complete");
    assert_eq!(told(&[text("a"), done()]).end, "Complete");
}

#[test]
fn case_090_errors_in_the_stream() {
    let error = json!({"error": {"message": "overloaded", "code": 502}, "choices": []}).to_string();
    let reply = told(&[text("a"), text("b"), error, done()]);
    assert_eq!((reply.text.as_str(), reply.end.as_str()), ("ab", "reported: overloaded"));
    assert_eq!(
        told(&[text("a"), finish(&json!("error"))]).end,
        "reported: the server ended its answer with an error"
    );
    let in_choice =
        json!({"choices": [{"delta": {"content": ""}, "error": {"message": "x"}, "finish_reason": "error"}]});
    assert_eq!(told(&[in_choice.to_string()]).end, "reported: x");
    let named = sse::Event { name: "error".into(), data: "plain words".into(), ..sse::Event::default() };
    let fault = Decoder::new(tools()).event(&named).unwrap_err();
    assert_eq!(fault, StreamFault::reported(ServerError::from_text("plain words")));
}

#[test]
fn broken_json_is_an_error_and_missing_blank_lines_are_none() {
    assert!(
        told(&[text("a"), "{\"choices\": [".to_owned(), done()]).end.starts_with("broken: a piece of it")
    );
    let joined = [text("a"), text("b"), finish(&json!("stop")), done()].join("\n");
    let reply = told(&[joined]);
    assert_eq!((reply.text.as_str(), reply.end.as_str()), ("ab", "Complete"));
}

#[test]
fn case_098_the_reply_is_judged_by_what_it_holds() {
    let whole = || call(ONE);
    for reason in
        [json!("stop"), json!("tool_calls"), json!(null), json!("function_call"), json!("eos"), json!("")]
    {
        let reply = told(&[whole(), finish(&reason), done()]);
        assert_eq!(
            (reply.calls.as_slice(), reply.end.as_str()),
            (&[READ.to_owned()][..], "Complete"),
            "{reason}"
        );
    }
    let no_calls = chunk(&json!({"content": "answer", "tool_calls": []}));
    let reply = told(&[no_calls, finish(&json!("tool_calls")), done()]);
    assert_eq!((reply.text.as_str(), reply.calls.len(), reply.end.as_str()), ("answer", 0, "Complete"));
    for (reason, end) in [("length", "Length"), ("content_filter", "Refusal"), ("stop", "Complete")] {
        assert_eq!(told(&[text("a"), finish(&json!(reason))]).end, end);
    }
    let refusal = told(&[chunk(&json!({"refusal": "I will not"})), finish(&json!("stop"))]);
    assert_eq!((refusal.text.as_str(), refusal.end.as_str()), ("I will not", "Refusal"));
}

#[test]
fn case_079_broken_arguments_are_delivered_as_broken() {
    for (arguments, expected) in [
        (r#"{"path":"a.txt","content":"x"#, r#"read_file unparsable {"path":"a.txt","content":"x"#),
        ("{path: a}", "read_file unparsable {path: a}"),
        ("", "read_file {}"),
    ] {
        assert_eq!(told(&[call(arguments), finish(&json!("tool_calls")), done()]).calls, [expected]);
    }
}

#[test]
fn legacy_function_calls_and_namespaces_are_understood() {
    let piece = |value: Value| chunk(&json!({ "function_call": value }));
    let pieces = [piece(json!({"name": "read_file", "arguments": ""})), piece(json!({"arguments": ONE}))];
    assert_eq!(told(&[&pieces[..], &[finish(&json!("function_call"))]].concat()).calls, [READ]);
    let spaced = chunk(
        &json!({"tool_calls": [{"id": "a", "function": {"name": "functions.read_file", "arguments": ONE}}]}),
    );
    assert_eq!(told(&[spaced, done()]).calls, [READ]);
}

#[test]
fn case_106_a_call_that_came_both_ways_counts_once() {
    let written = text(r#"<tool_call>{"name":"read_file","arguments":{"path":"1"}}</tool_call>"#);
    assert_eq!(told(&[written.clone(), call(ONE), done()]).calls, [READ]);
    assert_eq!(told(&[written.clone(), done()]).calls, [READ]);
    assert_eq!(told(&[written, call(r#"{"path":"2"}"#), done()]).calls, [r#"read_file {"path":"2"}"#, READ]);
}

#[test]
fn case_106_a_call_at_the_end_of_reasoning_is_made() {
    let markup = "<tool_call><function=read_file><parameter=path>1</parameter></function></tool_call>";
    let thought = chunk(&json!({"reasoning_content": format!("hm {markup}")}));
    assert_eq!(told(&[thought.clone(), finish(&json!("tool_calls"))]).calls, [READ]);
    assert_eq!(told(&[thought.clone(), finish(&json!("stop"))]).calls, [READ]);
    assert_eq!(told(&[thought, text("I have decided not to."), finish(&json!("stop"))]).calls.len(), 0);
}

#[test]
fn case_108_both_channels_of_reasoning() {
    let reply = told(&[
        chunk(&json!({"reasoning_content": "r1 "})),
        chunk(&json!({"content": "<", "reasoning_content": null})),
        text("thi"),
        text("nk>r2</think>"),
        text("b"),
        finish(&json!("stop")),
    ]);
    assert_eq!((reply.text.as_str(), reply.thought.as_str()), ("b", "r1 r2"));
    for field in ["reasoning", "reasoning_content"] {
        assert_eq!(told(&[chunk(&json!({field: "r", "content": ""})), done()]).thought, "r");
    }
}

#[test]
fn case_109_only_reasoning_is_delivered_as_reasoning() {
    for data in [chunk(&json!({"reasoning_content": "R"})), text("<think>R</think>"), text("<think>R")] {
        let reply = told(&[data, finish(&json!("stop")), done()]);
        assert_eq!((reply.text.as_str(), reply.thought.as_str(), reply.end.as_str()), ("", "R", "Complete"));
    }
}

#[test]
fn case_110_notes_are_made_where_calls_need_them() {
    let notes = |data: &[String]| match decoded(data).0.pop() {
        Some(ModelEvent::Finished(finish)) => finish.provider_notes,
        other => panic!("{other:?}"),
    };
    let thought = chunk(&json!({"reasoning_content": "r"}));
    assert_eq!(notes(&[thought.clone(), call(ONE), done()]), Some(json!({"reasoning_content": "r"})));
    assert_eq!(notes(&[thought, text("a"), done()]), None);
    assert_eq!(notes(&[text("<think>r</think>"), call(ONE), done()]), None);
}

#[test]
fn case_114_an_empty_completion_is_an_empty_completion() {
    let empty = Told { end: "Complete".into(), ..Told::default() };
    assert_eq!(told(&[finish(&json!("stop")), done()]), empty);
    assert_eq!(told(&[text("\n "), finish(&json!("stop")), done()]), empty);
}

#[test]
fn a_server_that_does_not_stream_is_understood() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "read_file", "arguments": ONE}});
    let message = json!({"role": "assistant", "content": "hi", "tool_calls": [call]});
    let body = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 3}});
    let mut decoder = Decoder::new(tools());
    decoder.whole(body.to_string().as_bytes()).unwrap();
    decoder.end().unwrap();
    let events: Vec<ModelEvent> = std::iter::from_fn(|| decoder.next_event()).collect();
    let arguments = ToolArguments::Object(JsonObject::from_iter([("path".to_owned(), json!("1"))]));
    let call = StreamedCall { id: Some("a".into()), name: "read_file".into(), arguments };
    assert_eq!(events[..2], [ModelEvent::Text("hi".into()), ModelEvent::ToolCall(call)]);
    for body in ["{}", "", "[]", "<html>", r#"{"choices":[]}"#, r#"{"object":"list"}"#] {
        let fault = Decoder::new(tools()).whole(body.as_bytes()).unwrap_err();
        assert_eq!(fault, StreamFault::Broken("it is no chat completion".into()), "{body}");
    }
    let fault = Decoder::new(tools()).whole(br#"{"error":"no"}"#).unwrap_err();
    assert!(matches!(fault, StreamFault::Reported(_)));
}

#[test]
fn case_094_a_role_is_not_the_first_token() {
    let mut decoder = Decoder::new(tools());
    let mut progress_after = |data: String| {
        decoder.event(&sse::Event { data, ..sse::Event::default() }).unwrap();
        decoder.progress()
    };
    assert_eq!(progress_after(chunk(&json!({"role": "assistant", "content": ""}))), Progress::Silent);
    assert_eq!(progress_after(text("a")), Progress::Open);
    assert_eq!(progress_after(finish(&json!("stop"))), Progress::Complete);
    assert_eq!(progress_after(done()), Progress::Over);
}

#[test]
fn a_reply_is_bounded() {
    let mut decoder = Decoder::new(tools());
    let event = sse::Event { data: text(&"x".repeat(8 << 20)), ..sse::Event::default() };
    let result = (0..8).find_map(|_| decoder.event(&event).err());
    assert!(matches!(result, Some(StreamFault::Broken(_))), "{result:?}");
}

#[test]
fn nothing_counts_after_the_end_mark() {
    let reply = told(&[text("a"), done(), text("b"), "{".to_owned()]);
    assert_eq!((reply.text.as_str(), reply.end.as_str()), ("a", "Complete"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let keys = [
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "function",
        "arguments",
        "name",
        "id",
        "index",
        "finish_reason",
        "error",
        "usage",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "text",
        "type",
        "prompt_tokens",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z<>{}\"` ]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(keys.to_vec()), inner), 0..5).prop_map(|pairs| {
                Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

proptest! {
    /// Whatever JSON a server sends, decoding ends, with at most one end.
    #[test]
    fn any_json_is_survived(values in prop::collection::vec(any_json(), 0..6)) {
        let mut data: Vec<String> = values.iter().map(ToString::to_string).collect();
        data.extend(values.iter().map(chunk));
        data.push(done());
        let (events, fault) = decoded(&data);
        let ends = events.iter().filter(|event| matches!(event, ModelEvent::Finished(_))).count();
        prop_assert_eq!(ends, usize::from(fault.is_none()));
        prop_assert!(!events.iter().any(|event| matches!(event, ModelEvent::Text(text) | ModelEvent::Thought(text) if text.is_empty())));
    }
}
