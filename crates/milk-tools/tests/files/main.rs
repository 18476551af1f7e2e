//! The file tools in a real folder: what is shown is what is done, and nothing is damaged or blocked.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::format_collect,
    missing_debug_implementations,
    reason = "a test"
)]

mod borders;
mod changing;
#[path = "../kit/mod.rs"]
mod kit;
mod reading;

use kit::World;
use milk_core::tool::{ToolKind, ToolOutcome, ToolStatus};
use serde_json::json;

#[track_caller]
fn done(outcome: &ToolOutcome) -> &str {
    assert_eq!(outcome.status, ToolStatus::Completed, "{}", outcome.output);
    &outcome.output
}

#[track_caller]
fn failed(outcome: &ToolOutcome) -> &str {
    assert_eq!(outcome.status, ToolStatus::Failed, "{}", outcome.output);
    &outcome.output
}

#[test]
fn the_table_is_what_the_model_sees() {
    let world = World::new();
    let kit = world.kit();
    let names: Vec<_> = kit.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    let expected = [
        ("bash", ToolKind::Execute),
        ("read_file", ToolKind::Read),
        ("write_file", ToolKind::Edit),
        ("edit_file", ToolKind::Edit),
        ("delete_file", ToolKind::Delete),
        ("move_file", ToolKind::Move),
        ("list_dir", ToolKind::Read),
        ("find_files", ToolKind::Search),
        ("grep", ToolKind::Search),
        ("http_get", ToolKind::Fetch),
        ("http_request", ToolKind::Fetch),
    ];
    assert_eq!(names, expected.map(|(name, _)| name));
    for (name, kind) in expected {
        let tool = kit.tool(name);
        assert_eq!(tool.kind(), kind);
        let spec = tool.spec();
        assert!(!spec.description.is_empty() && !spec.description.ends_with('\n'));
        for required in spec.input_schema["required"].as_array().unwrap() {
            assert!(
                spec.input_schema["properties"][required.as_str().unwrap()].is_object(),
                "{name} {required}"
            );
        }
    }
}

#[tokio::test]
async fn missing_and_wrong_arguments_are_readable_080() {
    let world = World::new();
    let kit = world.kit();
    for (tool, arguments, problem) in [
        ("read_file", json!({}), "`path` is missing"),
        ("read_file", json!({"path": ""}), "must not be empty"),
        ("read_file", json!({"path": {"a": 1}}), "`path` must be a text"),
        ("read_file", json!({"path": "a", "offset": "x"}), "`offset` must be a whole number"),
        ("read_file", json!({"path": "a\0b"}), "no path"),
        ("read_file", json!({"path": "x".repeat(5000)}), "no path"),
        ("write_file", json!({"path": "a"}), "`content` is missing"),
        ("write_file", json!({"path": "a/", "content": ""}), "names a folder"),
        ("edit_file", json!({"path": "a", "old_string": "x"}), "`new_string` is missing"),
        ("edit_file", json!({"path": "a", "old_string": "", "new_string": "x"}), "must not be empty"),
        ("edit_file", json!({"path": "a", "old_string": "x", "new_string": "x"}), "the same"),
        ("edit_file", json!({"path": "none", "old_string": "x", "new_string": "y"}), "does not exist"),
        ("delete_file", json!({"path": "none"}), "does not exist"),
        ("move_file", json!({"source": "none", "destination": "b"}), "does not exist"),
        ("move_file", json!({"source": "a"}), "`destination` is missing"),
        ("find_files", json!({}), "`pattern` is missing"),
        ("find_files", json!({"pattern": "*", "path": "none"}), "does not exist"),
        ("grep", json!({"pattern": "("}), "no regular expression"),
        ("grep", json!({"pattern": "a\nb"}), "no regular expression"),
        ("grep", json!({"pattern": ""}), "must not be empty"),
        ("grep", json!({"pattern": "a", "recursive": "perhaps"}), "`recursive` must be true or false"),
        ("http_get", json!({"url": "file:///etc/passwd"}), "no http or https address"),
        ("http_get", json!({"url": "not an address"}), "no http or https address"),
        ("http_request", json!({"url": "http://a", "method": "GE T"}), "no HTTP method"),
        ("http_request", json!({"url": "http://a", "headers": {"a b": "c"}}), "is not valid"),
        ("http_request", json!({"url": "http://a", "headers": {"a": "c\r\nd: e"}}), "is not valid"),
    ] {
        let error = kit.prepare(tool, arguments.clone()).await.unwrap_err();
        assert!(error.message.contains(problem), "{tool} {arguments}: {}", error.message);
    }
    kit.write("a", "1\n2\n3\n4\n5\n6\n7\n");
    let typed = kit.call("read_file", json!({"path": "a", "offset": 2, "limit": 3})).await;
    let texts = kit.call("read_file", json!({"path": "a", "offset": "2", "limit": "3"})).await;
    assert_eq!(texts, typed);
    assert_eq!(done(&typed), "3\t3\n4\t4\n5\t5\n[lines 3 to 5 shown; more follow: read on with offset 5]\n");
    kit.write("7", "seven x seven x");
    assert_eq!(done(&kit.call("read_file", json!({"path": 7})).await), "1\tseven x seven x\n");
    let edit = json!({"path": 7, "old_string": "seven", "new_string": 8, "replace_all": "true"});
    assert_eq!(done(&kit.call("edit_file", edit).await), "edited 7 (2 replacements)");
    assert_eq!(kit.read("7"), "8 x 8 x");
}

#[tokio::test]
async fn paths_are_the_sessions_077() {
    let world = World::new();
    let (a, b) = (world.kit(), world.kit());
    a.write("x", "in a");
    b.write("x", "in b");
    for (kit, text) in [(&a, "in a"), (&b, "in b")] {
        assert_eq!(done(&kit.call("read_file", json!({"path": "x"})).await), format!("1\t{text}\n"));
        assert_eq!(done(&kit.call("grep", json!({"pattern": "in"})).await), format!("x:1:{text}\n"));
        assert_eq!(done(&kit.call("find_files", json!({"pattern": "x"})).await), "x\n");
        assert!(done(&kit.call("list_dir", json!({})).await).contains("  x\n"));
        done(&kit.call("write_file", json!({"path": "new", "content": text})).await);
        assert_eq!(kit.read("new"), text);
        let absolute = kit.path("x");
        assert_eq!(done(&kit.call("read_file", json!({"path": absolute})).await), format!("1\t{text}\n"));
    }
}

#[tokio::test]
async fn every_result_is_bounded() {
    let world = World::new();
    let kit = world.kit_with(|env| env.result_limit = 2000);
    for n in 0..400 {
        kit.write(&format!("d/a-rather-long-name-of-a-file-{n:04}"), "match match match match\n".repeat(20));
    }
    for (tool, arguments) in [
        ("list_dir", json!({"path": "d"})),
        ("find_files", json!({"pattern": "*"})),
        ("grep", json!({"pattern": "match"})),
        ("read_file", json!({"path": "d/a-rather-long-name-of-a-file-0001"})),
    ] {
        let outcome = kit.call(tool, arguments).await;
        assert!(outcome.output.len() < 2100, "{tool}: {}", outcome.output.len());
    }
}
