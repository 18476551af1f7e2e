//! How an answer is put into bytes: comments, line ends, split characters, chunks that say nothing.

use milk_testkit::fault::peak_rss_bytes;
use milk_testkit::server::{Framing, LineEnd};
use milk_testkit::{Reply, ToolCall};
use serde_json::{Value, json};

use super::{Deltas as _, all_answer, chunk};
use crate::support::{Plan, answered, assert_has, failed, results};

// ---- 082 to 086: framing

#[tokio::test]
async fn case_082_comments_and_other_fields() {
    all_answer(
        "ab",
        [
            Reply::stream()
                .bytes(": ping\n\n:\nevent: message\nid: 3\nretry: 10\n")
                .say("a")
                .bytes(": OPENROUTER PROCESSING\n\n")
                .say("b")
                .bytes(": x\n")
                .finish("stop")
                .bytes(": before done\n")
                .done(),
            Reply::stream()
                .bytes(":\n\n:\n\n\n\n")
                .say("a")
                .bytes("id: 1\n\nevent: ping\ndata:\n\n")
                .say("b")
                .bytes("data\n\n")
                .end(),
            Reply::stream()
                .bytes("unknown: field\nno colon\n")
                .say("a")
                .bytes("retry: not a number\n\n")
                .say("b")
                .end(),
            Reply::stream()
                .bytes(": {\"choices\":[{\"delta\":{\"content\":\"in a comment\"}}]}\n\n")
                .deltas_then(["a", "b"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn case_083_line_ends_and_spaces() {
    let reply = || Reply::deltas(["one ", "two"]);
    let mut replies = Vec::new();
    for end in [LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr] {
        for prefix in ["data: ", "data:", "data:  "] {
            replies.push(reply().line_end(end).data_prefix(prefix));
            replies.push(reply().line_end(end).data_prefix(prefix).byte_by_byte());
        }
    }
    replies.push(Reply::stream().bytes("\u{feff}").deltas_then(["one ", "two"]));
    all_answer("one two", replies).await;
}

/// An event's data may be spread over several lines (SSE standard).
#[tokio::test]
async fn case_083_one_event_in_several_data_lines() {
    let event = "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"one two\"},\ndata: \"finish_reason\":null}]}\n\n";
    all_answer("one two", [Reply::stream().bytes(event).end()]).await;
}

#[tokio::test]
async fn case_085_characters_split_over_packets() {
    let text = "naïve 漢字 👩\u{200d}🚀";
    all_answer(
        text,
        [Reply::text(text).byte_by_byte(), Reply::text(text).framing(Framing::UntilClose).byte_by_byte()],
    )
    .await;
}

const SEPARATORS: &str = "a\u{2028}b\u{2029}c\u{85}d\u{b}e";

#[tokio::test]
async fn case_086_unicode_line_separators_are_data() {
    let rig = Plan::replies([
        Reply::stream()
            .say(SEPARATORS)
            .call(ToolCall::new("read_file", json!({"path": "s.txt"})))
            .finish("tool_calls")
            .done(),
        Reply::text(SEPARATORS),
        Reply::text("next"),
    ])
    .start()
    .await;
    rig.home.write("s.txt", SEPARATORS);
    let turn = rig.turn("go").await;
    answered(&turn, &format!("{SEPARATORS}{SEPARATORS}"));
    let request = rig.server.request(1).await;
    assert_has(&results(&request)[0], SEPARATORS);
    answered(&rig.turn("go on").await, "next");
    let history = rig.server.request(2).await;
    assert_has(history.body["messages"].to_string().as_str(), "a\u{2028}b\u{2029}c\u{85}d");
}

// ---- 087: chunks with no choice in them

#[tokio::test]
async fn case_087_chunks_with_no_choice() {
    let filter =
        json!({"id": "", "object": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]});
    let usage =
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}});
    let odd = [
        json!({"choices": []}),
        json!({}),
        json!({"choices": null}),
        json!({"usage": null}),
        json!({"choices": null, "usage": {"prompt_tokens": null, "completion_tokens": "2"}}),
        json!({"choices": [{}]}),
        json!({"choices": [null]}),
        json!({"error": null, "choices": []}),
        chunk(json!({"index": 0, "delta": null})),
        chunk(json!({"index": 0})),
        chunk(json!({"index": 0, "delta": {"content": null}})),
        chunk(json!({"index": 0, "delta": {"content": null, "tool_calls": null, "reasoning_content": null}})),
        chunk(json!({"index": 0, "delta": {"tool_calls": []}, "finish_reason": null})),
        chunk(json!({"index": 0, "delta": {"role": null, "content": ""}})),
    ];
    let plain = Reply::stream()
        .chunk(&filter)
        .say("one ")
        .chunk(&json!({}))
        .say("two")
        .finish("stop")
        .chunk(&usage)
        .done();
    let mut replies = vec![plain];
    replies.extend(odd.iter().map(|chunk| {
        Reply::stream()
            .chunk(chunk)
            .say("one ")
            .chunk(chunk)
            .say("two")
            .chunk(chunk)
            .finish("stop")
            .chunk(chunk)
            .done()
    }));
    all_answer("one two", replies).await;
}

/// Fields of wrong types and absurd sizes neither panic nor make memory grow.
#[tokio::test]
async fn case_087_fields_of_wrong_types() {
    let call = |index: Value, arguments: Value| {
        json!({"tool_calls": [{"index": index, "id": "c", "type": "function",
            "function": {"name": "list_dir", "arguments": arguments}}]})
    };
    let deltas = [
        json!({"content": 7}),
        json!({"content": {"text": "x"}}),
        json!({"content": [{"type": "text", "text": "x"}]}),
        json!({"reasoning_content": 7}),
        json!({"tool_calls": {"index": 0}}),
        json!({"tool_calls": "none"}),
        json!({"tool_calls": [null]}),
        json!({"tool_calls": [7]}),
        json!({"tool_calls": [{}]}),
        json!({"tool_calls": [{"index": 0, "function": null}]}),
        json!({"tool_calls": [{"index": 0, "function": {"name": 7, "arguments": {}}}]}),
        call(json!(4_294_967_295_u64), json!("{}")),
        call(json!(u64::MAX), json!("{}")),
        call(json!(-1), json!("{}")),
        call(json!("0"), json!("{}")),
        call(json!(0.5), json!("{}")),
        call(json!(0), json!(7)),
        call(json!(0), json!([1])),
        call(json!(0), json!(true)),
        call(json!(0), json!(null)),
        json!([]),
        json!("text"),
    ];
    let chunks = [
        json!({"choices": {"index": 0}}),
        json!({"choices": "none"}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": 7}]}),
        json!({"choices": [], "usage": {"prompt_tokens": -1, "completion_tokens": 1e308}}),
        json!({"choices": [], "usage": {"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX, "total_tokens": u64::MAX}}),
        json!({"choices": [], "usage": [1, 2]}),
        json!({"choices": [], "usage": "many"}),
        json!({"error": 7}),
        json!({"error": []}),
        json!(null),
        json!([]),
        json!(7),
        json!("text"),
    ];
    let replies = deltas
        .into_iter()
        .map(|delta| chunk(json!({"index": 0, "delta": delta})))
        .chain(chunks)
        .map(|chunk| Reply::stream().say("one ").chunk(&chunk).say("two").finish("stop").done());
    for (number, reply) in replies.enumerate() {
        // Whether such a chunk is passed over or is a fault: the turn ends, and the next one works.
        let mut first = Some(reply);
        let rig = Plan::respond(move |_| first.take().unwrap_or_else(|| Reply::text("fine")))
            .no_retries()
            .start()
            .await;
        let turn = rig.turn("go").await;
        assert!(turn.text.starts_with("one "), "chunk {number}: {turn:#?}");
        if turn.response.is_err() {
            failed(&turn);
        }
        rig.assert_rows_ended();
        answered(&rig.turn("again").await, "fine");
        let memory = peak_rss_bytes(rig.agent.pid()).unwrap();
        assert!(memory < 128 << 20, "chunk {number}: {memory} bytes of memory");
    }
}
