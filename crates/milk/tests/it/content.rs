//! What of a prompt's blocks reaches the model: R13, R4; case 145.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Rig, Setup, assert_has, assert_lacks, ended, refused};

/// Sends a prompt of these blocks and gives the user message that the model got.
async fn sent(rig: &Rig, session: &str, blocks: Value) -> String {
    let before = rig.server.count();
    let id = rig.agent.prompt_blocks(session, blocks.clone());
    let response = rig.agent.response(&id).await;
    assert!(response.is_ok(), "{blocks}: {response:?}");
    rig.server.request(before).await.last_user()
}

/// Asserts that a text holds these parts, in this order.
#[track_caller]
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut place = 0;
    for part in parts {
        match text[place..].find(part) {
            Some(found) => place += found + part.len(),
            None => panic!("{part:?} is missing, or not in order, in:\n{text}"),
        }
    }
}

/// Case 145
#[tokio::test]
async fn linked_and_embedded_context_reaches_the_model_in_order() {
    for version in [1, 2] {
        let rig = Setup::echo().version(version).start().await;
        let session = rig.session().await;
        let file = rig.home.write("dir x/a.txt", "line one\nline two\nline three\n");
        let uri = format!("file://{}#L2:3", file.display().to_string().replace(' ', "%20"));
        let blocks = json!([
            {"type": "text", "text": "Look at"},
            {"type": "resource_link", "uri": uri, "name": "a.txt"},
            {"type": "text", "text": "and"},
            {"type": "resource_link", "uri": "https://example.invalid/x?q=1", "name": "x", "title": "The X"},
            {"type": "resource", "resource": {"uri": "file:///embedded.rs", "mimeType": "text/x-rust",
                "text": "fn main() {\n\tprintln!(\"<hi> & \\\\ ```\");\n}\n"}},
            {"type": "resource", "resource": {"uri": "file:///data.bin", "blob": "AAECAwQ="}},
            {"type": "text", "text": "please"},
        ]);
        let text = sent(&rig, &session, blocks).await;
        assert_in_order(
            &text,
            &[
                "Look at",
                "dir x/a.txt",
                "and",
                "https://example.invalid/x?q=1",
                "embedded.rs",
                "fn main() {\n\tprintln!(\"<hi> & \\\\ ```\");\n}\n",
                "data.bin",
                "please",
            ],
        );
        assert_lacks(&text, "AAECAwQ=");
        rig.assert_usable(&session).await;
    }
}

/// R13: text blocks are joined by a newline.
#[tokio::test]
async fn text_blocks_are_joined_by_a_newline() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    let blocks = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"},
        {"type": "text", "text": "three", "annotations": null, "_meta": {"x": 1}}]);
    assert_has(&sent(&rig, &session, blocks).await, "one\ntwo\nthree");
}

/// Case 145: an unknown kind of block is noted and not fatal, and fields that are null or odd neither.
#[tokio::test]
async fn what_milk_does_not_know_is_not_fatal() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    for block in [
        json!({"type": "_foo", "data": [1, 2]}),
        json!({"type": "video", "url": "x"}),
        json!({"type": "resource_link", "uri": "not a uri at all", "name": null}),
        json!({"type": "resource_link", "uri": "file://", "name": "n", "size": -1}),
        json!({"type": "resource_link", "uri": "file:///%zz%", "name": "n"}),
        json!({"type": "resource", "resource": {"uri": "", "text": "t", "mimeType": null}}),
    ] {
        let blocks = json!([{"type": "text", "text": "before"}, block, {"type": "text", "text": "after"}]);
        let text = sent(&rig, &session, blocks).await;
        assert_in_order(&text, &["before", "after"]);
    }
    let blocks = json!([{"type": "text", "text": "see"}, {"type": "_foo"}]);
    assert_has(&sent(&rig, &session, blocks).await, "_foo");
}

/// Case 145: a missing file is still mentioned; one outside the workspace is not read unasked.
#[tokio::test]
async fn links_are_mentioned_and_not_followed_out_of_the_workspace() {
    let rig = Setup::echo().start().await;
    let session = rig.session().await;
    let secret = rig.home.outside().join("secret.txt");
    std::fs::write(&secret, "the-secret-content").unwrap();
    std::os::unix::fs::symlink(&secret, rig.home.workspace().join("innocent.txt")).unwrap();
    for path in [secret, rig.home.workspace().join("innocent.txt"), rig.home.workspace().join("missing.txt")]
    {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let uri = format!("file://{}", path.display());
        let link =
            json!([{"type": "text", "text": "see"}, {"type": "resource_link", "uri": uri, "name": name}]);
        let text = sent(&rig, &session, link).await;
        assert_has(&text, &name);
        assert_lacks(&text, "the-secret-content");
    }
}

/// R4: a wrong type in a field that milk needs is refused; one that is left out is not milk's end.
#[tokio::test]
async fn blocks_of_the_wrong_type_are_refused() {
    let rig = Setup::echo().unvalidated().start().await;
    let session = rig.session().await;
    for blocks in [
        json!([{"type": "text", "text": 5}]),
        json!([{"type": "text", "text": {}}]),
        json!([{"type": 7}]),
        json!(["text"]),
        json!([null]),
        json!({"type": "text", "text": "no list"}),
    ] {
        let params = json!({"sessionId": session, "prompt": blocks});
        let answer = rig.agent.request("session/prompt", params).await;
        assert!(answer.is_err(), "{blocks}: {answer:?}");
        refused(answer, -32602);
    }
    for block in [json!({"type": "text"}), json!({"type": "resource"}), json!({"text": "no type"}), json!({})]
    {
        let blocks = json!([{"type": "text", "text": "hello"}, block]);
        let id = rig.agent.prompt_blocks(&session, blocks);
        if let Err(error) = rig.agent.response(&id).await {
            refused(Err(error), -32602);
        }
    }
    rig.assert_usable(&session).await;
}

/// R13: an image reaches a model that can see; otherwise the user is told, and the text goes through.
#[tokio::test]
async fn an_image_for_a_model_that_cannot_see_is_told() {
    for version in [1, 2] {
        let rig = Setup::respond(|_| milk_testkit::Reply::text("ok")).version(version).start().await;
        let session = rig.session().await;
        let image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        let blocks = json!([{"type": "text", "text": "what is this"},
            {"type": "image", "mimeType": "image/png", "data": image}]);
        let mark = rig.mark();
        let text = sent(&rig, &session, blocks).await;
        assert_has(&text, "what is this");
        assert_lacks(&text, image);
        let told = crate::support::said(&rig.since(mark)).to_lowercase();
        assert!(
            told.contains("image") || told.contains("picture"),
            "v{version}: the user is not told: {told}"
        );
    }
}

/// The echo shows what the user sent (contract: the accept-echo of each user message).
#[tokio::test]
async fn the_echo_holds_the_text_of_the_prompt() {
    for version in [1, 2] {
        let rig = Setup::echo().version(version).start().await;
        let session = rig.session().await;
        let blocks = json!([{"type": "text", "text": "Look at"},
            {"type": "resource", "resource": {"uri": "file:///notes.txt", "text": "the embedded text"}}]);
        let id = rig.agent.prompt_blocks(&session, blocks);
        let response = rig.agent.response(&id).await.unwrap();
        let transcript = rig.agent.transcript();
        let texts = transcript.texts(&session);
        assert_has(&texts[0].text, "Look at");
        assert_eq!(texts[0].id.as_deref(), response["messageId"].as_str());
    }
}

/// An empty prompt is answered, and never an empty turn.
#[tokio::test]
async fn an_empty_prompt_is_answered() {
    let rig = Setup::respond(|_| milk_testkit::Reply::text("ok")).start().await;
    let session = rig.session().await;
    for blocks in [json!([]), json!([{"type": "text", "text": ""}]), json!([{"type": "text", "text": " \n"}])]
    {
        let id = rig.agent.prompt_blocks(&session, blocks.clone());
        if let Err(error) = rig.agent.response(&id).await {
            refused(Err(error), -32602);
        }
        ended(&rig.agent.turn(&session, "go on").await, "end_turn");
    }
}
