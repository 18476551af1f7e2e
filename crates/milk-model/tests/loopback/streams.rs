//! Streams as real servers send them (bug cases 082 to 094).

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use milk_core::model::{ModelErrorKind, ModelEvent, Usage};
use milk_core::ports::Model as _;
use milk_model::chat::Patience;
use milk_model::{ChatConfig, ChatModel};
use milk_testkit::server::{Cut, Framing, LineEnd};
use milk_testkit::{Gate, ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::*;

/// A model on this server that waits this long between bytes.
fn impatient(server: &ModelServer, between_bytes: Duration) -> ChatModel {
    let patience = Patience { between_bytes, ..Patience::default() };
    model(ChatConfig { patience, ..config(server.url()) })
}

#[tokio::test]
async fn an_ordinary_turn_reuses_its_connection() {
    let server = ModelServer::script([
        Reply::deltas(["Hel", "lo"]),
        Reply::tool("read_file", read_1()),
        Reply::text("done"),
    ])
    .await;
    let model = on(&server);
    let first = say(&model, "hi").await;
    assert_eq!(first.success(), "Hello");
    assert_eq!(first.usage, Some(Usage { input: 10, cached: 0, output: 5 }));
    let second = say(&model, "read 1").await;
    second.success();
    assert_eq!(second.told_calls(), [r#"read_file {"path":"1"}"#]);
    let history = [vec![user("read 1")], second.into_history()].concat();
    assert_eq!(respond(&model, request(history)).await.success(), "done");
    let request = server.request(2).await;
    assert_eq!(request.tool_results(), [("history-0".to_owned(), "result".to_owned())]);
    assert_eq!(
        (request.path.as_str(), request.body["stream"].as_bool()),
        ("/v1/chat/completions", Some(true))
    );
    assert_eq!(server.connections(), 1, "the connection is kept between turns");
    server.assert_played();
}

#[tokio::test]
async fn case_082_comments_and_other_fields() {
    let reply = Reply::stream()
        .bytes(": ping\n\n:\nevent: message\nid: 3\nretry: 10\n")
        .say("a")
        .bytes(": between\n\n")
        .say("b")
        .finish("stop")
        .bytes(": before the end\n")
        .done();
    let server = ModelServer::script([reply]).await;
    assert_eq!(say(&on(&server), "hi").await.success(), "ab");
}

#[tokio::test]
async fn case_083_line_ends_and_spaces() {
    for line_end in [LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr] {
        for prefix in ["data:", "data: ", "data:  "] {
            let reply = Reply::deltas(["a ", "b"]).line_end(line_end).data_prefix(prefix);
            let server = ModelServer::script([reply]).await;
            assert_eq!(say(&on(&server), "hi").await.success(), "a b", "{line_end:?} {prefix:?}");
        }
    }
}

#[tokio::test]
async fn case_085_characters_split_over_packets() {
    let text = "naïve 漢字 👩‍🚀";
    let server = ModelServer::script([Reply::text(text).byte_by_byte()]).await;
    assert_eq!(say(&on(&server), "hi").await.success(), text);
}

#[tokio::test]
async fn case_086_unicode_line_separators_are_data() {
    let text = "a\u{2028}b\u{2029}c\u{85}d\u{b}e";
    let raw = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
        text.replace('\u{b}', "\\u000b")
    );
    let server = ModelServer::script([Reply::stream().bytes(raw).end()]).await;
    assert_eq!(say(&on(&server), "hi").await.success(), text);
}

#[tokio::test]
async fn case_087_chunks_with_no_choice_in_them() {
    let reply = Reply::stream()
        .chunk(&json!({"choices": [], "prompt_filter_results": []}))
        .say("a")
        .chunk(&json!({}))
        .chunk(&json!({"choices": null}))
        .chunk(&json!({"choices": [{"delta": null}]}))
        .delta(json!({"content": null}))
        .say("b")
        .finish("stop")
        .usage(7, 8)
        .done();
    let server = ModelServer::script([reply]).await;
    let outcome = say(&on(&server), "hi").await;
    assert_eq!(outcome.success(), "ab");
    assert_eq!(outcome.usage, Some(Usage { input: 7, cached: 0, output: 8 }));
}

#[tokio::test]
async fn case_088_a_stream_that_breaks_off_is_an_error_and_half_a_call_is_never_given() {
    let say_three = || Reply::stream().say("a").say("b").say("c");
    let half = || {
        let first = json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "read_file", "arguments": "{\"pa"}}]});
        Reply::stream().say("a").delta(first)
    };
    for reply in [
        say_three().close(),
        say_three().reset(),
        say_three().framing(Framing::UntilClose),
        half().close(),
        half().reset(),
    ] {
        let server = ModelServer::script([reply]).await;
        let outcome = say(&on(&server), "hi").await;
        assert_eq!(outcome.failure().kind, ModelErrorKind::BrokenStream, "{outcome:?}");
        assert!(outcome.calls.is_empty() && outcome.text.starts_with('a'));
        assert_eq!(server.count(), 1, "what was shown is not said again");
        let next = ModelServer::script([Reply::text("next")]).await;
        assert_eq!(say(&on(&next), "hi").await.success(), "next");
    }
}

#[tokio::test]
async fn case_088_nothing_was_shown_so_the_request_is_repeated() {
    for broken in
        [Reply::broken(), Reply::stream().role().close(), Reply::stream().role().reset(), Reply::stream()]
    {
        let server = ModelServer::script([broken, Reply::text("whole")]).await;
        let outcome = say(&on(&server), "hi").await;
        assert_eq!(outcome.success(), "whole");
        assert_eq!(outcome.retries.len(), 1, "{outcome:?}");
        server.assert_played();
    }
}

#[tokio::test]
async fn case_088_complete_without_its_last_marks() {
    let complete = || Reply::stream().say("a").finish("stop");
    let raw_end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n";
    for reply in [
        complete(),
        complete().close(),
        complete().reset(),
        complete().framing(Framing::UntilClose),
        Reply::stream().say("a").bytes(raw_end),
        Reply::stream().say("a").bytes("data: [DONE]"),
    ] {
        let server = ModelServer::script([reply]).await;
        assert_eq!(say(&on(&server), "hi").await.success(), "a");
    }
}

#[tokio::test]
async fn case_089_a_socket_that_stays_open_holds_nothing_up() {
    let server = ModelServer::script([Reply::text("a").hang()]).await;
    let start = Instant::now();
    assert_eq!(say(&on(&server), "hi").await.success(), "a");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let server = ModelServer::script([Reply::stream().say("a").finish("stop").hang().cut(Cut::Burst)]).await;
    let outcome = say(&impatient(&server, Duration::from_millis(100)), "hi").await;
    assert_eq!(outcome.success(), "a");
}

#[tokio::test]
async fn case_090_errors_in_the_stream() {
    let error = json!({"error": {"message": "overloaded", "code": 502}, "choices": []});
    let server = ModelServer::script([Reply::stream().say("a").say("b").chunk(&error).done()]).await;
    let outcome = say(&on(&server), "hi").await;
    let failure = outcome.failure();
    assert_eq!((failure.kind, failure.status), (ModelErrorKind::ServerFailed, Some(502)));
    assert!(failure.details.contains("overloaded"), "{failure}");
    let server = ModelServer::script([Reply::stream().say("a").finish("error").done()]).await;
    assert_eq!(say(&on(&server), "hi").await.failure().kind, ModelErrorKind::ServerFailed);
    let server = ModelServer::script([Reply::stream().chunk(&error).done(), Reply::text("ok")]).await;
    assert_eq!(say(&on(&server), "hi").await.success(), "ok");
}

#[tokio::test]
async fn case_093_silence_is_limited_and_slowness_is_not() {
    let silent = Reply::stream().say("a").say("b").say("c").hang().cut(Cut::Burst);
    let server = ModelServer::script([silent, Reply::text("usable")]).await;
    let model = impatient(&server, Duration::from_millis(150));
    let outcome = say(&model, "hi").await;
    assert_eq!((outcome.text.as_str(), outcome.failure().kind), ("abc", ModelErrorKind::TimedOut));
    server.closed(0).await;
    assert_eq!(say(&model, "hi").await.success(), "usable");
    let pause = Duration::from_millis(200);
    let slow = (0..10).fold(Reply::stream(), |reply, _| reply.say("x").pause(pause)).end();
    let server = ModelServer::script([slow]).await;
    // The answer takes longer than the limit, no silence does.
    let outcome = say(&impatient(&server, Duration::from_millis(1_500)), "hi").await;
    assert_eq!(outcome.success(), "xxxxxxxxxx");
}

#[tokio::test]
async fn case_094_a_slow_first_token_is_no_failure() {
    let pause = Duration::from_millis(200);
    let comments = (0..8).fold(Reply::stream(), |reply, _| reply.bytes(": wait\n\n").pause(pause));
    let server = ModelServer::script([comments.say("late").end().cut(Cut::Burst)]).await;
    // The limit between bytes does not count yet, and the one on the first byte begins anew with each comment.
    let patience = Patience {
        first_byte: Duration::from_millis(1_200),
        between_bytes: Duration::from_millis(100),
        ..Patience::default()
    };
    let outcome = say(&model(ChatConfig { patience, ..config(server.url()) }), "hi").await;
    assert_eq!(outcome.success(), "late");
    let defaults = Patience::default();
    assert_eq!((defaults.first_byte.as_secs(), defaults.between_bytes.as_secs()), (600, 120));
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    for reply in [Reply::silence(), Reply::headers_only()] {
        let server = ModelServer::script([reply]).await;
        let patience = Patience { first_byte: Duration::from_millis(100), ..Patience::default() };
        let outcome = say(&model(ChatConfig { patience, ..config(server.url()) }), "hi").await;
        assert_eq!(outcome.failure().kind, ModelErrorKind::TimedOut);
        server.request(0).await;
        assert_eq!(server.count(), 1, "a slow server is not asked again");
    }
}

#[tokio::test]
async fn dropping_the_stream_ends_the_request() {
    let gate = Gate::new();
    for reply in [Reply::silence(), Reply::stream().say("a").wait(&gate), Reply::text("x").held(&gate)] {
        let server = ModelServer::script([reply]).await;
        let model = on(&server);
        let mut stream = model.respond(request(vec![user("hi")]));
        assert_eq!(server.count(), 0, "nothing is sent before the stream is polled");
        tokio::select! {
            () = async { while stream.next().await.is_some() {} } => panic!("the reply never ends"),
            _ = async { server.request(0).await } => {}
        }
        drop(stream);
        server.closed(0).await;
    }
}

#[tokio::test]
async fn text_comes_as_it_is_sent() {
    let gate = Gate::new();
    let server = ModelServer::script([Reply::stream().say("first").wait(&gate).say(" second").end()]).await;
    let model = on(&server);
    let mut stream = model.respond(request(vec![user("hi")]));
    assert_eq!(stream.next().await, Some(Ok(ModelEvent::Text("first".into()))));
    gate.reached().await;
    gate.open();
    assert_eq!(stream.next().await, Some(Ok(ModelEvent::Text(" second".into()))));
}

#[tokio::test]
async fn a_broken_piece_is_an_error_and_words_between_are_not() {
    let server = ModelServer::script([Reply::stream().say("a").event("{\"choices\":[").end()]).await;
    assert_eq!(say(&on(&server), "hi").await.failure().kind, ModelErrorKind::BrokenStream);
    let server = ModelServer::script([Reply::stream().event("keep-alive").say("a").event("").end()]).await;
    assert_eq!(say(&on(&server), "hi").await.success(), "a");
    let huge = Reply::stream().bytes(vec![b'x'; 17 << 20]);
    let server = ModelServer::respond(move |_| huge.clone()).await;
    let outcome = say(&on(&server), "hi").await;
    assert_eq!(outcome.failure().kind, ModelErrorKind::BrokenStream);
    assert!(outcome.failure().details.contains("longer than"), "{outcome:?}");
}

#[tokio::test]
async fn bodies_that_are_no_stream() {
    let message = json!({"role": "assistant", "content": "whole"});
    let body = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
    let server = ModelServer::script([Reply::json(200, &body)]).await;
    assert_eq!(say(&on(&server), "hi").await.success(), "whole");
    let server = ModelServer::script([Reply::json(200, &json!({"error": "no such thing"}))]).await;
    let policy = milk_model::retry::RetryPolicy { tries: 1, ..Default::default() };
    let outcome = say(&model(ChatConfig { retry: policy, ..config(server.url()) }), "hi").await;
    assert!(outcome.failure().details.contains("no such thing"), "{outcome:?}");
    let page = "<!doctype html><title>Welcome to nginx!</title>";
    let server = ModelServer::script([Reply::body(200, "text/html", page)]).await;
    let outcome = say(&on(&server), "hi").await;
    assert_eq!(outcome.failure().kind, ModelErrorKind::NotFound);
    assert!(outcome.failure().details.contains("“Welcome to nginx!”"), "{outcome:?}");
}
