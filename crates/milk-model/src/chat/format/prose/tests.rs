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

/// A reply taken apart: answer, reasoning, and the calls as `name {arguments}`.
#[derive(Debug, Default, PartialEq)]
struct Parts {
    text: String,
    thought: String,
    calls: Vec<String>,
}

fn apart<'a>(deltas: impl IntoIterator<Item = &'a str>) -> Parts {
    let mut prose = Prose::new(tools());
    let mut pieces: Vec<Piece> = deltas.into_iter().flat_map(|delta| prose.push(delta)).collect();
    let (rest, calls) = prose.finish();
    pieces.extend(rest);
    let mut parts = Parts::default();
    for piece in pieces {
        match piece {
            Piece::Text(text) => parts.text.push_str(&text),
            Piece::Thought(text) => parts.thought.push_str(&text),
        }
    }
    let told = |call: StreamedCall| match call.arguments {
        ToolArguments::Object(object) => format!("{} {}", call.name, json!(object)),
        ToolArguments::Unparsable(_) => format!("{} unparsable", call.name),
    };
    parts.calls = calls.into_iter().map(told).collect();
    parts
}

/// Takes a reply apart whole and in pieces of several sizes; all must agree.
fn apart_in_any_pieces(reply: &str) -> Parts {
    let whole = apart([reply]);
    for size in [1, 2, 3, 5, 11] {
        let characters: Vec<char> = reply.chars().collect();
        let pieces: Vec<String> = characters.chunks(size).map(|piece| piece.iter().collect()).collect();
        assert_eq!(apart(pieces.iter().map(String::as_str)), whole, "in pieces of {size}: {reply}");
    }
    whole
}

fn expect(reply: &str, text: &str, thought: &str, calls: &[&str]) {
    let calls = calls.iter().map(|call| (*call).to_owned()).collect();
    assert_eq!(
        apart_in_any_pieces(reply),
        Parts { text: text.into(), thought: thought.into(), calls },
        "{reply}"
    );
}

const READ: &str = r#"read_file {"path":"1"}"#;

#[test]
fn case_108_reasoning_between_tags_is_no_answer() {
    for tag in ["think", "thinking", "thought", "Think"] {
        expect(&format!("<{tag}>a</{tag}>b"), "b", "a", &[]);
    }
    expect("\n<think>\na\n</think>\n\nb\n\n<think>c</think>d", "b\n\nd", "a\nc", &[]);
    expect("<think>\n\n</think>\n\nb", "b", "", &[]);
    expect("<think>never closed </thin", "", "never closed </thin", &[]);
    expect("<think>a < b </b></think>c", "c", "a < b </b>", &[]);
    expect("<think>a</think><think>b</think>c", "c", "ab", &[]);
    expect("first\n</think>\n\nb", "first\nb", "", &[]);
}

#[test]
fn case_108_code_survives() {
    for text in [
        "if x < think { y }",
        "use the `<think>` tag",
        "`<tool_call>` and `<function=f>` mark calls",
        "Example:\n```html\n<think>\nfoo</think>\n```\ndone",
        "```\n<tool_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"1\"}}</tool_call>\n```\nis how a call looks",
        "~~~\n<tool_call>\n~~~~\nx",
        "the <think> tag in a sentence",
        "a [TOOL and [x](y) {\"name\": 1}",
        "<thinkers> and < b",
        "    indented start",
        "{\"name\": \"Alice\", \"age\": 3}",
        "{\"name\": \"read_file\", \"version\": 1}",
        "```json\n{\"name\": \"Alice\"}\n```",
        "[{\"name\": \"Bob\"}]",
        "<",
        "``",
        "trailing <tool_cal",
    ] {
        expect(text, text, "", &[]);
    }
}

#[test]
fn case_106_calls_written_as_text_become_calls() {
    for reply in [
        r#"<tool_call>{"name":"read_file","arguments":{"path":"1"}}</tool_call>"#,
        "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"1\"}}\n</tool_call>\n",
        "<tool_call><function=read_file><parameter=path>1</parameter></function></tool_call>",
        "<function=read_file><parameter=path>1</parameter></function>",
        "<function=read_file>\n<parameter=path>\n1\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
        r#"<tools>{"name":"read_file","arguments":{"path":"1"}}</tools>"#,
        r#"<function_call>{"name":"read_file","arguments":{"path":"1"}}</function_call>"#,
        "<|tool_call>call:read_file{path:<|\"|>1<|\"|>}<tool_call|>",
        "<start_function_call>call:read_file{path:<escape>1<escape>}<end_function_call>",
        r#"<|tool_call|>[{"name":"read_file","arguments":{"path":"1"}}]"#,
        r#"<|python_tag|>{"name":"read_file","parameters":{"path":"1"}}"#,
        r#"[TOOL_CALLS] [{"name":"read_file","arguments":{"path":"1"}}]"#,
        r#"[TOOL_CALLS]read_file{"path": "1"}"#,
        r#"[TOOL_CALLS]read_file[CALL_ID]abc123[ARGS]{"path": "1"}"#,
        r#"{"name":"read_file","arguments":{"path":"1"}}"#,
        "\n{ \"name\": \"read_file\", \"parameters\": {\"path\": \"1\"}}\n",
        r#"[{"name":"read_file","arguments":{"path":"1"}}]"#,
        "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"1\"}}\n```",
        "```\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"1\"}}\n```\n",
        "```xml\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"1\"}}\n</tool_call>\n```",
        "<think>hm</think><tool_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"1\"}}</tool_call>",
    ] {
        let parts = apart_in_any_pieces(reply);
        assert_eq!((parts.text.trim(), &parts.calls[..]), ("", &[READ.to_owned()][..]), "{reply}");
    }
}

#[test]
fn case_106_text_around_calls_stays_and_several_calls_are_several() {
    let call = r#"<tool_call>{"name":"read_file","arguments":{"path":"1"}}</tool_call>"#;
    expect(&format!("I will look: {call}\n{call}\nThen more."), "I will look: Then more.", "", &[READ, READ]);
    let fence = "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"1\"}}\n```";
    expect(&format!("Let me see.\n\n{fence}\n\n{fence}"), "Let me see.\n\n", "", &[READ, READ]);
    expect(
        &format!("Let me see.\n{fence}\nThis is an example."),
        &format!("Let me see.\n{fence}\nThis is an example."),
        "",
        &[],
    );
    let rows = "<tool_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"1\"}}\n{\"name\":\"bash\",\"arguments\":{}}</tool_call>";
    expect(rows, "", "", &[READ, "bash {}"]);
}

#[test]
fn case_106_half_a_call_is_never_run() {
    for text in [
        r#"<tool_call>{"name":"read_file","arguments":{"path":"1"#,
        r#"<tool_call>{"name":"read_file","arguments":{"path":"1"}"#,
        "<tool_call><function=read_file><parameter=path>1</para",
        "<tool_call><function=read_file><parameter=path>1</parameter>",
        "<function=read_file><parameter=path>1</parameter></func",
        r#"{"name":"read_file","arguments":{"path":"1"}"#,
        r#"[TOOL_CALLS]read_file{"path": "1"#,
        "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"1\"",
        "<tool_call>",
    ] {
        expect(text, text, "", &[]);
    }
}

#[test]
fn a_missing_end_mark_is_forgiven_where_the_call_is_whole() {
    expect(r#"<tool_call>{"name":"read_file","arguments":{"path":"1"}}"#, "", "", &[READ]);
    expect("<tool_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"1\"}}\n</tool", "", "", &[READ]);
    expect("```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"1\"}}", "", "", &[READ]);
}

#[test]
fn a_call_that_cannot_be_read_is_reported_and_prose_in_marks_stays() {
    expect(
        r#"<tool_call>{"name":"bash","arguments":{command: ls}}</tool_call> x"#,
        "x",
        "",
        &["bash unparsable"],
    );
    expect("The <tool_call> mark opens a call.", "The <tool_call> mark opens a call.", "", &[]);
    expect("<tool_call>no call at all</tool_call>", "<tool_call>no call at all</tool_call>", "", &[]);
    expect("<tools>\n<hammer/>\n</tools> ok", "<tools>\n<hammer/>\n</tools> ok", "", &[]);
    let about = r#"<tool_call>{"name":"bash","arguments":{"command":"echo '</tool_call>'"}}</tool_call>"#;
    expect(about, "", "", &[r#"bash {"command":"echo '</tool_call>'"}"#]);
}

#[test]
fn text_streams_without_delay() {
    let mut prose = Prose::new(tools());
    let shown = |pieces: Vec<Piece>| match &pieces[..] {
        [] => String::new(),
        [Piece::Text(text)] => text.clone(),
        other => panic!("{other:?}"),
    };
    for (delta, expected) in [
        ("Hel", "Hel"),
        ("lo\n", "lo\n"),
        ("a <", "a "),
        (" b", "< b"),
        (" {", " {"),
        ("`", "`"),
        ("<think>` ", "<think>` "),
        ("\n``", "\n"),
        ("`rust\n", "```rust\n"),
        ("{\"name\": \"bash\"}<tool_call>", "{\"name\": \"bash\"}<tool_call>"),
    ] {
        assert_eq!(shown(prose.push(delta)), expected, "{delta:?}");
    }
}

#[test]
fn without_tools_nothing_is_taken_for_a_call() {
    let text = r#"<tool_call>{"name":"read_file","arguments":{}}</tool_call>"#;
    let mut prose = Prose::new(Arc::from([]));
    assert_eq!(prose.push(text), [Piece::Text(text.to_owned())]);
    assert_eq!(prose.finish(), (vec![], vec![]));
}

#[test]
fn calls_at_the_end_of_reasoning_are_found() {
    let found = |text: &str| calls_at_the_end(text, &tools()).len();
    let call = "<tool_call><function=bash><parameter=command>ls</parameter></function></tool_call>";
    assert_eq!(found(&format!("I should list. {call}\n")), 1);
    assert_eq!(found(&format!("Maybe {call} or else {call}{call}")), 2);
    assert_eq!(found(&format!("Maybe {call}, but no.")), 0);
    assert_eq!(found("<tool_call>{\"name\":\"unknown\",\"arguments\":{}}</tool_call>"), 0);
    assert_eq!(found("a < b"), 0);
    let arguments = JsonObject::from_iter([("command".to_owned(), "ls".into())]);
    assert_eq!(calls_at_the_end(call, &tools())[0].arguments, ToolArguments::Object(arguments));
}

#[test]
fn long_replies_stay_fast() {
    let start = std::time::Instant::now();
    let mut prose = Prose::new(tools());
    prose.push("<tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"");
    for _ in 0..100_000 {
        prose.push("0123456789 ");
    }
    prose.push("\"}}</tool_call>");
    let (_, calls) = prose.finish();
    assert_eq!(calls.len(), 1);
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

proptest! {
    /// However a reply is cut, it comes apart in the same way, and what is no mark is not lost.
    #[test]
    fn cuts_do_not_matter(
        words in prop::collection::vec(prop::sample::select(vec![
            "<think>", "</think>", "<tool_call>", "</tool_call>", "{\"name\":\"bash\",\"arguments\":{}}", "```", "`", "\n", " ", "x",
            "é", "<function=bash>", "</function>", "[TOOL_CALLS]", "json\n", "{", "}", "<", "[", "<|tool_call>", "~~~",
        ]), 0..14),
        sizes in prop::collection::vec(1_usize..9, 1..6),
    ) {
        let reply: String = words.concat();
        let characters: Vec<char> = reply.chars().collect();
        let (mut at, mut pieces, mut sizes) = (0, Vec::new(), sizes.into_iter().cycle());
        while at < characters.len() {
            let end = characters.len().min(at + sizes.next().unwrap());
            pieces.push(characters[at..end].iter().collect::<String>());
            at = end;
        }
        prop_assert_eq!(apart(pieces.iter().map(String::as_str)), apart([reply.as_str()]));
    }
}
