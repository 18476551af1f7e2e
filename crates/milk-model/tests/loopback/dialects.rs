//! What servers want in a request, learnt from what they answer (bug cases 095 to 116, as far as requests show them).

use milk_core::model::ModelErrorKind;
use milk_model::ChatConfig;
use milk_model::chat::EmptyContent;
use milk_testkit::{ModelServer, Reply, ToolCall};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::*;

/// A request that follows a reply with a call, which came with reasoning.
async fn after_a_call_with_reasoning(model: &milk_model::ChatModel) -> milk_core::model::ModelRequest {
    let first = say(model, "read 1").await;
    first.success();
    request([vec![user("read 1")], first.into_history()].concat())
}

fn reasoned_call() -> Reply {
    let call = ToolCall::new("read_file", read_1());
    Reply::stream().think("I should ").think("read it").call(call).finish("tool_calls").done()
}

#[tokio::test]
async fn case_110_reasoning_goes_back_where_it_came_from() {
    let server = ModelServer::respond(|request| {
        let lacks = |message: &Value| message["reasoning_content"] != "I should read it";
        match request.with_role("assistant") {
            messages if messages.is_empty() => reasoned_call(),
            messages if messages.iter().any(|message| lacks(message)) => Reply::status(400),
            _ => Reply::text("done"),
        }
    })
    .await;
    let model = on(&server);
    let request = after_a_call_with_reasoning(&model).await;
    assert_eq!(respond(&model, request).await.success(), "done");
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn case_110_a_server_that_refuses_the_field_is_asked_without_it() {
    let server = ModelServer::respond(|request| {
        let has = |message: &&Value| message.get("reasoning_content").is_some();
        if request.with_role("assistant").iter().any(has) {
            let message = "Unrecognized request argument supplied: messages[2].reasoning_content";
            return Reply::json(400, &json!({"error": {"message": message}}));
        }
        if request.tool_results().is_empty() { reasoned_call() } else { Reply::text("done") }
    })
    .await;
    let model = on(&server);
    let request = after_a_call_with_reasoning(&model).await;
    let outcome = respond(&model, request.clone()).await;
    assert_eq!((outcome.success(), outcome.retries.len(), server.count()), ("done", 0, 3));
    assert_eq!(respond(&model, request).await.success(), "done");
    assert_eq!(server.count(), 4, "it is remembered");
}

#[tokio::test]
async fn a_server_that_refuses_stream_options_is_asked_without_them() {
    let server = ModelServer::respond(|request| match request.body.get("stream_options") {
        Some(_) => Reply::json(
            422,
            &json!({"detail": [{"loc": ["body", "stream_options"], "msg": "extra fields not permitted"}]}),
        ),
        None => Reply::text("ok"),
    })
    .await;
    let model = on(&server);
    for count in [2, 3] {
        assert_eq!(say(&model, "hi").await.success(), "ok");
        assert_eq!(server.count(), count);
    }
    assert_eq!(server.request(0).await.body["stream_options"], json!({"include_usage": true}));
}

#[tokio::test]
async fn a_refusal_that_stays_is_not_taken_for_the_field() {
    let message = "bad value near stream_options or tools";
    let server =
        ModelServer::respond(move |_| Reply::json(400, &json!({"error": {"message": message}}))).await;
    let model = on(&server);
    for count in [2, 4] {
        assert_eq!(say(&model, "hi").await.failure().kind, ModelErrorKind::BadRequest);
        assert_eq!(server.count(), count, "nothing is learnt from a request that failed anyway");
    }
}

#[tokio::test]
async fn case_095_and_096_overflow_and_what_is_none() {
    let overflow = json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_ctx": 8192, "n_prompt_tokens": 9000,
        "message": "the request exceeds the available context size"}});
    let server = ModelServer::script([Reply::json(400, &overflow)]).await;
    let outcome = say(&on(&server), "hi").await;
    assert_eq!(outcome.failure().kind, ModelErrorKind::ContextTooLong);
    assert!(outcome.failure().details.contains("8192"), "{outcome:?}");
    let memory =
        json!({"error": "model requires more system memory (9 GiB) than is available; context deadline"});
    let server = ModelServer::respond(move |_| Reply::json(500, &memory)).await;
    let outcome = say(&on(&server), "hi").await;
    assert_eq!(outcome.failure().kind, ModelErrorKind::ServerFailed);
    assert!(outcome.failure().details.contains("smaller model"), "{outcome:?}");
}

#[tokio::test]
async fn case_104_arguments_in_any_form_go_back_as_text() {
    let call = |arguments: Value| json!({"tool_calls": [{"id": "a", "function": {"name": "read_file", "arguments": arguments}}]});
    for arguments in [read_1(), json!("\"{\\\"path\\\":\\\"1\\\"}\"")] {
        let reply = Reply::stream().delta(call(arguments)).finish("tool_calls").done();
        let server = ModelServer::script([reply, Reply::text("done")]).await;
        let model = on(&server);
        let first = say(&model, "hi").await;
        assert_eq!(first.told_calls(), [r#"read_file {"path":"1"}"#]);
        let history = [vec![user("hi")], first.into_history()].concat();
        respond(&model, request(history)).await.success();
        let sent = assistants(&server.request(1).await);
        assert_eq!(sent[0]["tool_calls"][0]["function"]["arguments"], r#"{"path":"1"}"#);
    }
}

#[tokio::test]
async fn case_105_unusable_ids_are_left_to_the_caller() {
    let calls = |id: Value| {
        json!({"tool_calls": [
        {"index": 0, "id": id, "function": {"name": "bash", "arguments": "{}"}},
        {"index": 1, "id": id, "function": {"name": "bash", "arguments": "{}"}}]})
    };
    for (id, expected) in [(json!(""), None), (json!(null), None), (json!("call_1"), Some("call_1"))] {
        let server =
            ModelServer::script([Reply::stream().delta(calls(id)).finish("tool_calls").done()]).await;
        let outcome = say(&on(&server), "hi").await;
        let ids: Vec<Option<&str>> = outcome.calls.iter().map(|call| call.id.as_deref()).collect();
        assert_eq!(ids, [expected, expected]);
    }
}

#[tokio::test]
async fn case_106_a_call_written_as_text_is_made_and_not_shown() {
    for text in [
        r#"<tool_call>{"name":"read_file","arguments":{"path":"1"}}</tool_call>"#,
        "<tool_call><function=read_file><parameter=path>1</parameter></function></tool_call>",
        r#"{"name":"read_file","arguments":{"path":"1"}}"#,
    ] {
        let deltas: Vec<String> = text.chars().map(String::from).collect();
        let server = ModelServer::script([Reply::deltas(deltas)]).await;
        let outcome = say(&on(&server), "hi").await;
        assert_eq!(
            (outcome.success(), outcome.told_calls()),
            ("", vec![r#"read_file {"path":"1"}"#.to_owned()]),
            "{text}"
        );
    }
}

#[tokio::test]
async fn case_108_thinking_stays_out_of_the_answer() {
    let replies = [
        Reply::stream().think("a").say("b").end(),
        Reply::deltas(["<", "thi", "nk>a</th", "ink>", "b"]),
        Reply::stream().delta(json!({"reasoning": "a"})).say("b").end(),
        Reply::stream()
            .delta(json!({"reasoning_details": [{"type": "reasoning.text", "text": "a"}]}))
            .say("b")
            .end(),
    ];
    for reply in replies {
        let server = ModelServer::script([reply]).await;
        let outcome = say(&on(&server), "hi").await;
        assert_eq!((outcome.success(), outcome.thought.as_str()), ("b", "a"));
    }
}

#[tokio::test]
async fn case_111_content_is_always_there() {
    for (empty_content, expected) in [(EmptyContent::EmptyText, json!("")), (EmptyContent::Null, Value::Null)]
    {
        let server = ModelServer::script([Reply::tool("read_file", read_1()), Reply::text("done")]).await;
        let model = model(ChatConfig { empty_content, ..config(server.url()) });
        let first = say(&model, "hi").await;
        respond(&model, request([vec![user("hi")], first.into_history()].concat())).await.success();
        assert_eq!(assistants(&server.request(1).await)[0].get("content"), Some(&expected));
    }
}

#[tokio::test]
async fn case_112_one_system_message_first() {
    let server = ModelServer::script([Reply::text("ok")]).await;
    say(&on(&server), "hi").await.success();
    let request = server.request(0).await;
    assert_eq!((request.with_role("system").len(), &request.messages()[0]["role"]), (1, &json!("system")));
}

#[tokio::test]
async fn case_116_no_usage_is_no_usage() {
    let server = ModelServer::script([
        Reply::stream().say("a").finish("stop").done(),
        Reply::stream().say("a").finish("stop").usage(0, 0).done(),
    ])
    .await;
    let model = on(&server);
    for _ in 0..2 {
        let outcome = say(&model, "hi").await;
        assert_eq!((outcome.success(), outcome.usage), ("a", None));
    }
}

#[tokio::test]
async fn overrides_reach_the_server() {
    let server = ModelServer::script([Reply::text("ok")]).await;
    let request_overrides =
        object(&json!({"temperature": 0.5, "stream_options": null, "reasoning_effort": "low"}));
    say(&model(ChatConfig { request_overrides, ..config(server.url()) }), "hi").await.success();
    let body = server.request(0).await.body;
    assert_eq!((&body["temperature"], &body["reasoning_effort"]), (&json!(0.5), &json!("low")));
    assert_eq!(body.get("stream_options"), None);
}
