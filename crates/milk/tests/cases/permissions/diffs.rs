//! The diff comes before the question, and what was shown is what is done.

use crate::support::{Plan, patched};
use milk_testkit::client::ToolRow;
use serde_json::{Value, json};

// ---- 055: the diff comes before the question, and what was shown is what is done

const BEFORE: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\ntwo\nten\n";
const AFTER: &str = "one\nTWO\nthree\nfour\nfive\nsix\nseven\neight\nnine\nTWO\nten\n";

fn edits() -> [(&'static str, Value); 2] {
    [
        (
            "edit_file",
            json!({"path": "a.txt", "old_string": "two", "new_string": "TWO", "replace_all": true}),
        ),
        ("write_file", json!({"path": "a.txt", "content": AFTER})),
    ]
}

fn diffs(row: &ToolRow) -> Vec<&Value> {
    let content = row.fields["content"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    content.iter().filter(|part| part["type"] == "diff").collect()
}

#[tokio::test]
async fn case_055_the_whole_diff_is_there_before_the_question() {
    for (tool, arguments) in edits() {
        let rig = Plan::obedient().start().await;
        let path = rig.home.write("a.txt", BEFORE);
        let prompt = rig.begin(tool, arguments);
        let question = rig.agent.expect_request("session/request_permission").await;
        // The question is the newest line but for the state; what came before it has the diff.
        let row = rig.agent.transcript().tool_rows(&rig.session).remove(0);
        let [diff] = diffs(&row)[..] else { panic!("{tool}: a diff before the question: {row:#?}") };
        let change = &diff["changes"][0];
        assert_eq!((change["operation"].as_str(), change["path"].as_str()), (Some("modify"), path.to_str()));
        assert_eq!(diff["patch"]["format"], "git_patch");
        assert_eq!(patched(BEFORE, diff["patch"]["text"].as_str().unwrap()), AFTER, "{tool}: all hunks");
        assert_eq!(rig.home.read("a.txt"), BEFORE);
        rig.agent.select(&question, "allow");
        rig.agent.response(prompt).await.unwrap();
        assert_eq!(rig.home.read("a.txt"), AFTER, "{tool}");
    }
}

#[tokio::test]
async fn case_055_the_diff_for_v1_has_both_texts() {
    for (tool, arguments) in edits() {
        let rig = Plan::obedient().version(1).start().await;
        let path = rig.home.write("a.txt", BEFORE);
        let prompt = rig.begin(tool, arguments);
        let question = rig.agent.expect_request("session/request_permission").await;
        let row = rig.agent.transcript().tool_rows(&rig.session).remove(0);
        let [diff] = diffs(&row)[..] else { panic!("{tool}: a diff before the question: {row:#?}") };
        assert_eq!(diff["path"], path.to_str().unwrap());
        assert_eq!(
            (diff["oldText"].as_str(), diff["newText"].as_str()),
            (Some(BEFORE), Some(AFTER)),
            "{tool}"
        );
        rig.agent.select(&question, "allow");
        rig.agent.response(prompt).await.unwrap();
        assert_eq!(rig.home.read("a.txt"), AFTER, "{tool}");
    }
}

#[tokio::test]
async fn case_055_a_new_file_is_shown_as_added() {
    for version in [1, 2] {
        let rig = Plan::obedient().version(version).start().await;
        let prompt = rig.begin("write_file", json!({"path": "sub/new.txt", "content": "a\nb"}));
        let question = rig.agent.expect_request("session/request_permission").await;
        let path = rig.home.workspace().join("sub/new.txt");
        let row = rig.agent.transcript().tool_rows(&rig.session).remove(0);
        let [diff] = diffs(&row)[..] else { panic!("a diff before the question: {row:#?}") };
        if version == 1 {
            assert_eq!(diff["path"], path.to_str().unwrap());
            assert!(diff["oldText"].is_null(), "a new file has no old text: {diff}");
            assert_eq!(diff["newText"], "a\nb");
        } else {
            let change = &diff["changes"][0];
            assert_eq!((change["operation"].as_str(), change["path"].as_str()), (Some("add"), path.to_str()));
            assert_eq!(patched("", diff["patch"]["text"].as_str().unwrap()), "a\nb");
        }
        assert!(!rig.home.exists("sub"), "nothing is made before the yes");
        rig.agent.select(&question, "allow");
        rig.agent.response(prompt).await.unwrap();
        assert_eq!(rig.home.read("sub/new.txt"), "a\nb");
    }
}

/// The user saves the file while the question is open: their text is never lost to a diff that they did not see.
#[tokio::test]
async fn case_055_a_file_that_changed_under_the_question_is_not_overwritten() {
    for (tool, arguments) in edits() {
        let rig = Plan::obedient().start().await;
        rig.home.write("a.txt", BEFORE);
        let prompt = rig.begin(tool, arguments);
        let question = rig.agent.expect_request("session/request_permission").await;
        rig.home.write("a.txt", "the user's own words, with two in them\n");
        rig.agent.select(&question, "allow");
        rig.agent.response(prompt).await.unwrap();
        assert_eq!(rig.home.read("a.txt"), "the user's own words, with two in them\n", "{tool}");
        assert_eq!(rig.agent.transcript().tool_rows(&rig.session)[0].status(), "failed", "{tool}");
    }
}
