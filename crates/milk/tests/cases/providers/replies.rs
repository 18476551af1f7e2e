//! What a reply means: tool calls against finish reasons, text and thoughts of several responses.

use milk_testkit::client::Speaker;
use milk_testkit::{Reply, ToolCall};
use serde_json::json;

use super::all_answer;
use crate::support::{Plan, answered, assert_has, ended, results};

// ---- 098: finish_reason and tool calls disagree

#[tokio::test]
async fn case_098_a_tool_call_runs_whatever_the_reason_says() {
    let call = || Reply::stream().role().call(ToolCall::new("read_file", json!({"path": "a.txt"})));
    let replies = [
        call().finish("stop").done(),
        call().finish("length").done(),
        call().finish("function_call").done(),
        call().finish("eos").done(),
        call().finish("").done(),
        call().done(),
        call().delta(json!({})).done(),
    ];
    for (number, reply) in replies.into_iter().enumerate() {
        let rig = Plan::replies([reply, Reply::text("fine")]).start().await;
        rig.home.write("a.txt", "content of a\n");
        let turn = rig.turn("go").await;
        if number == 1 && rig.server.count() == 1 {
            // Cut at the limit of tokens: the call may be incomplete, and then it is said so.
            ended(&turn, "max_tokens");
            continue;
        }
        answered(&turn, "fine");
        assert_has(&results(&rig.server.request(1).await)[0], "content of a");
    }
}

#[tokio::test]
async fn case_098_text_is_the_answer_whatever_the_reason_says() {
    let text = || Reply::stream().role().say("fine");
    all_answer(
        "fine",
        [
            text().finish("tool_calls").done(),
            text().delta(json!({"tool_calls": []})).finish("tool_calls").done(),
            text().finish("function_call").done(),
            text().finish("eos").done(),
            text().finish("").done(),
        ],
    )
    .await;
}

// ---- thoughts of the reply do not mix with its text (R8)

#[tokio::test]
async fn each_model_response_has_ids_of_its_own() {
    let rig = Plan::replies([
        Reply::stream()
            .think("first")
            .say("Let me look.")
            .call(ToolCall::new("read_file", json!({"path": "a.txt"})))
            .finish("tool_calls")
            .done(),
        Reply::stream().think("second").say("Found it.").end(),
    ])
    .start()
    .await;
    rig.home.write("a.txt", "x");
    let turn = rig.turn("go").await;
    ended(&turn, "end_turn");
    let messages = rig.agent.transcript().texts(&rig.session);
    let said: Vec<(Speaker, &str)> =
        messages.iter().map(|message| (message.speaker, message.text.as_str())).collect();
    assert_eq!(
        said,
        [
            (Speaker::User, "go"),
            (Speaker::Thought, "first"),
            (Speaker::Agent, "Let me look."),
            (Speaker::Thought, "second"),
            (Speaker::Agent, "Found it."),
        ]
    );
}
