//! Searching, and whose directory a relative path is in.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use milk_testkit::TestHome;
use serde_json::{Value, json};

use super::allow;
use crate::support::{Plan, assert_has, assert_lacks, within};

// ---- 076: searching big trees

#[tokio::test]
async fn case_076_searching_a_big_tree() {
    let home = TestHome::new();
    home.write(".gitignore", "node_modules/\n");
    home.write("src/main.ts", "const needle = 1;\n");
    symlink(".", home.workspace().join("loop")).unwrap();
    for package in 0..50 {
        for file in 0..100 {
            home.write(format!("node_modules/p{package}/f{file}.ts"), "const needle = 2;\n");
        }
    }
    let rig = Plan::obedient().start_in(home).await;
    for (tool, arguments) in [
        ("grep", json!({"path": ".", "pattern": "needle"})),
        ("find_files", json!({"path": ".", "pattern": "**/*.ts"})),
        ("find_files", json!({"path": ".", "pattern": "*.ts"})),
    ] {
        let called = rig.call(tool, arguments).await;
        called.asked(0);
        within(called.took, Duration::from_secs(5), tool);
        assert_eq!(called.result().matches("main.ts").count(), 1, "found once: {}", called.result());
        assert_lacks(called.result(), "node_modules");
    }
    let called = rig.call("list_dir", json!({"path": "."})).await;
    within(called.took, Duration::from_secs(5), "list_dir");
    assert_has(called.result(), "src");
    assert_has(called.result(), "loop");
}

// ---- 077: paths are relative to the session, not to the process

#[tokio::test]
async fn case_077_paths_are_relative_to_the_session() {
    let rig = Plan::obedient().process_cwd("/").policy(allow()).start().await;
    let places = ["a", "b"].map(|name| rig.home.another_workspace(name));
    for (place, word) in places.iter().zip(["alpha", "beta"]) {
        rig.home.write(place.join("x"), format!("needle {word}\n"));
    }
    let a = rig.session_in(&places[0]).await;
    let b = rig.session_in(&places[1]).await;
    let calls = [
        ("grep", json!({"path": ".", "pattern": "needle"})),
        ("grep", json!({"pattern": "needle", "path": "x"})),
        ("find_files", json!({"path": ".", "pattern": "x"})),
        ("list_dir", json!({"path": "."})),
        ("read_file", json!({"path": "x"})),
        ("bash", json!({"command": "pwd; cat x"})),
        ("write_file", json!({"path": "made", "content": "made"})),
    ];
    for (tool, arguments) in calls {
        let turns = [&a, &b].map(|session| rig.agent.prompt(session, &order_of(tool, &arguments)));
        for turn in turns {
            rig.agent.response(turn).await.unwrap();
        }
        for (session, own, others) in [(&a, "alpha", "beta"), (&b, "beta", "alpha")] {
            let transcript = rig.agent.transcript();
            let rows = transcript.tool_rows(session);
            let row = rows.last().unwrap();
            assert_eq!(row.status(), "completed", "{tool}: {row:#?}");
            let output = row.fields["rawOutput"].to_string();
            assert_lacks(&output, others);
            if ["grep", "read_file", "bash"].contains(&tool) {
                assert_has(&output, own);
            }
        }
    }
    assert!(places.iter().all(|place| place.join("made").is_file()));
    assert!(!Path::new("/made").exists());
}

fn order_of(tool: &str, arguments: &Value) -> String {
    format!("Please make these calls: {}", json!([[tool, arguments]]))
}
