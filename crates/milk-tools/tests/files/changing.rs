//! Writing, editing, moving, deleting: what is shown is what is done, or nothing is.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use milk_core::tool::{Effect, FileAction, ToolStatus};
use serde_json::json;

use crate::kit::{self, World, run};
use crate::{done, failed};

#[tokio::test]
async fn what_is_shown_is_what_is_written_055() {
    let world = World::new();
    let kit = world.kit();
    kit.write("a.txt", "one\ntwo\nthree\ntwo\n");
    let arguments = json!({"path": "a.txt", "old_string": "two", "new_string": "2", "replace_all": true});
    let call = kit.prepare("edit_file", arguments).await.unwrap();
    assert_eq!(call.title, "edit_file: a.txt");
    assert_eq!(call.effect, Effect::Writes);
    let change = call.changes[0].clone();
    assert_eq!((change.action, change.path), (FileAction::Modify, kit.path("a.txt")));
    assert_eq!(change.old_text.as_deref(), Some("one\ntwo\nthree\ntwo\n"));
    assert_eq!(change.new_text.as_deref(), Some("one\n2\nthree\n2\n"));
    assert_eq!((call.locations[0].path.clone(), call.locations[0].line), (kit.path("a.txt"), Some(2)));
    assert_eq!(kit.read("a.txt"), "one\ntwo\nthree\ntwo\n", "nothing happens before the yes");
    assert_eq!(done(&run(call).await), "edited a.txt (2 replacements)");
    assert_eq!(kit.read("a.txt"), "one\n2\nthree\n2\n");

    let call = kit.prepare("write_file", json!({"path": "a.txt", "content": "new\n"})).await.unwrap();
    let change = call.changes[0].clone();
    assert_eq!(change.old_text.as_deref(), Some("one\n2\nthree\n2\n"));
    assert_eq!(change.new_text.as_deref(), Some("new\n"));
    assert_eq!(done(&run(call).await), "wrote a.txt (1 lines, 4 bytes)");
    assert_eq!(kit.read("a.txt"), "new\n");

    let call = kit.prepare("write_file", json!({"path": "deep/new.txt", "content": "x"})).await.unwrap();
    assert_eq!((&call.changes[0].action, call.changes[0].old_text.as_deref()), (&FileAction::Create, None));
    assert!(!kit.path("deep").exists());
    done(&run(call).await);
    assert_eq!(kit.read("deep/new.txt"), "x");

    let call =
        kit.prepare("move_file", json!({"source": "deep/new.txt", "destination": "b/c.txt"})).await.unwrap();
    assert_eq!(call.title, "move_file: deep/new.txt → b/c.txt");
    assert_eq!(call.changes[0].action, FileAction::Move { from: kit.path("deep/new.txt") });
    assert_eq!(call.changes[0].path, kit.path("b/c.txt"));
    done(&run(call).await);
    assert_eq!(kit.read("b/c.txt"), "x");
    assert!(!kit.path("deep/new.txt").exists());

    let call = kit.prepare("delete_file", json!({"path": "b/c.txt"})).await.unwrap();
    let change = &call.changes[0];
    assert_eq!(
        (&change.action, change.old_text.as_deref(), change.new_text.as_deref()),
        (&FileAction::Delete, Some("x"), None)
    );
    done(&run(call).await);
    assert!(!kit.path("b/c.txt").exists());
    done(&kit.call("delete_file", json!({"path": "b"})).await);
    assert!(!kit.path("b").exists());

    let call = kit.prepare("write_file", json!({"path": "a.txt", "content": "new\n"})).await.unwrap();
    assert!(call.changes.is_empty());
    assert!(done(&run(call).await).contains("already has this content"));
}

#[tokio::test]
async fn a_file_that_changed_meanwhile_is_left_alone() {
    let world = World::new();
    let kit = world.kit();
    let calls = [
        ("edit_file", json!({"path": "f", "old_string": "one", "new_string": "two"})),
        ("write_file", json!({"path": "f", "content": "two"})),
        ("delete_file", json!({"path": "f"})),
        ("move_file", json!({"source": "f", "destination": "g"})),
    ];
    for (tool, arguments) in calls {
        kit.write("f", "one");
        let call = kit.prepare(tool, arguments).await.unwrap();
        kit.write("f", "one, by another hand");
        let outcome = run(call).await;
        assert!(failed(&outcome).contains("has changed since"), "{tool}: {}", outcome.output);
        assert_eq!(kit.read("f"), "one, by another hand");
        assert!(!kit.path("g").exists());
    }
    // A file that appeared is a change, too.
    let call = kit.prepare("write_file", json!({"path": "new", "content": "mine"})).await.unwrap();
    kit.write("new", "theirs");
    failed(&run(call).await);
    assert_eq!(kit.read("new"), "theirs");
    let call = kit.prepare("move_file", json!({"source": "f", "destination": "to"})).await.unwrap();
    kit.write("to", "theirs");
    failed(&run(call).await);
    assert_eq!((kit.read("to"), kit.path("f").exists()), ("theirs".into(), true));
    // And so is a folder that became a link out of the workspace.
    fs::create_dir(kit.path("sub")).unwrap();
    let call = kit.prepare("write_file", json!({"path": "sub/x", "content": "mine"})).await.unwrap();
    assert_eq!(call.effect, Effect::Writes);
    let outside = world.base().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir(kit.path("sub")).unwrap();
    symlink(&outside, kit.path("sub")).unwrap();
    failed(&run(call).await);
    assert!(!outside.join("x").exists());
}

#[tokio::test]
async fn a_cancelled_call_changes_nothing() {
    let world = World::new();
    let kit = world.kit();
    let call = kit.prepare("write_file", json!({"path": "f", "content": "x"})).await.unwrap();
    let run = (call.run)(kit::quiet());
    drop(run);
    assert!(!kit.path("f").exists());
    let call = kit.prepare("write_file", json!({"path": "f", "content": "x"})).await.unwrap();
    let context = kit::quiet();
    context.cancel.cancel();
    let outcome = (call.run)(context).await;
    // Either it was done before it noticed, or nothing was.
    assert_eq!(outcome.status == ToolStatus::Completed, kit.path("f").exists(), "{}", outcome.output);
    assert!(matches!(outcome.status, ToolStatus::Completed | ToolStatus::Cancelled));
}

#[tokio::test]
async fn edits_keep_line_ends_072() {
    let world = World::new();
    let kit = world.kit();
    for (bytes, old, new, expected) in [
        ("a\r\nb\r\nc\r\n", "b\nc", "B\nC", "a\r\nB\r\nC\r\n"),
        ("\u{FEFF}a\nb", "b", "B", "\u{FEFF}a\nB"),
        ("a\r\nb\nc\r\n", "b", "B", "a\r\nB\nc\r\n"),
    ] {
        kit.write("f", bytes);
        let arguments = json!({"path": "f", "old_string": old, "new_string": new});
        let call = kit.prepare("edit_file", arguments).await.unwrap();
        assert_eq!(call.changes[0].new_text.as_deref(), Some(expected));
        done(&run(call).await);
        assert_eq!(kit.read("f"), expected);
    }
    kit.write("f", "a\r\nb\r\n");
    let outcome = kit.call("write_file", json!({"path": "f", "content": "x\ny\n"})).await;
    assert_eq!(done(&outcome), "wrote f (2 lines, 6 bytes, CRLF line ends kept)");
    assert_eq!(kit.read("f"), "x\r\ny\r\n");
}

#[tokio::test]
async fn edits_that_cannot_be_made_are_explained() {
    let world = World::new();
    let kit = world.kit();
    kit.write("f", "fn a() {\n\tone();\n}\nx\nx\n");
    kit.write("latin1", b"caf\xe9 x");
    kit.write("large", "x".repeat(17 << 20));
    for (path, old, problem) in [
        ("f", "nothing like it", "old_string not found in f: read the file"),
        ("f", "    one();\n}", "line 2 begins a passage that differs in white space only"),
        ("f", "x", "old_string is ambiguous: found 2 occurrences in f (first lines: 4, 5)"),
        ("latin1", "x", "is not UTF-8 text"),
        ("large", "x", "is larger than 16.0 MiB"),
    ] {
        let arguments = json!({"path": path, "old_string": old, "new_string": "y"});
        let error = kit.prepare("edit_file", arguments).await.unwrap_err();
        assert!(error.message.contains(problem), "{}", error.message);
    }
    assert_eq!(fs::read(kit.path("latin1")).unwrap(), b"caf\xe9 x");
}

#[tokio::test]
async fn large_texts_are_changed_without_being_shown() {
    let world = World::new();
    let kit = world.kit();
    let text = "line\n".repeat(300_000);
    kit.write("large", format!("first\n{text}"));
    let arguments = json!({"path": "large", "old_string": "first", "new_string": "FIRST"});
    let call = kit.prepare("edit_file", arguments).await.unwrap();
    assert_eq!(call.title, "edit_file: large (too large to show the change)");
    assert_eq!((&call.changes[0].old_text, &call.changes[0].new_text), (&None, &None));
    done(&run(call).await);
    assert_eq!(kit.read("large"), format!("FIRST\n{text}"));
    let call = kit.prepare("write_file", json!({"path": "large", "content": "small"})).await.unwrap();
    assert!(call.title.contains("replaces a file that is not shown"), "{}", call.title);
    assert_eq!(call.changes[0].new_text.as_deref(), Some("small"));
    done(&run(call).await);
    assert_eq!(kit.read("large"), "small");
}

#[tokio::test]
async fn the_mode_is_kept_and_nothing_is_left_over_073() {
    let world = World::new();
    let kit = world.kit();
    kit.write("run.sh", "#!/bin/sh\necho a\n");
    fs::set_permissions(kit.path("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    done(&kit.call("edit_file", json!({"path": "run.sh", "old_string": "a\n", "new_string": "b\n"})).await);
    done(&kit.call("write_file", json!({"path": "run.sh", "content": "#!/bin/sh\n"})).await);
    assert_eq!(fs::metadata(kit.path("run.sh")).unwrap().mode() & 0o7777, 0o755);
    let names: Vec<_> = fs::read_dir(&kit.root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["run.sh"]);
}

#[tokio::test]
async fn moves_and_deletes_that_are_refused() {
    let world = World::new();
    let kit = world.kit();
    kit.write("f", "f");
    kit.write("dir/x", "x");
    for (tool, arguments, problem) in [
        ("delete_file", json!({"path": "dir"}), "with something in it"),
        ("delete_file", json!({"path": "."}), "with something in it"),
        ("move_file", json!({"source": "f", "destination": "dir/x"}), "exists already"),
        ("move_file", json!({"source": "f", "destination": "dir"}), "such as dir/f"),
        ("move_file", json!({"source": "f", "destination": "f"}), "exists already"),
    ] {
        let error = kit.prepare(tool, arguments).await.unwrap_err();
        assert!(error.message.contains(problem), "{}", error.message);
    }
    let into_itself = kit.call("move_file", json!({"source": "dir", "destination": "dir/y/z"})).await;
    failed(&into_itself);
    assert_eq!(kit.read("dir/x"), "x");
    done(&kit.call("move_file", json!({"source": "dir", "destination": "other/dir"})).await);
    assert_eq!(kit.read("other/dir/x"), "x");
}

#[tokio::test]
async fn two_writers_of_one_file_do_not_mix_t12() {
    let world = World::new();
    let kit = world.kit();
    kit.write("f", "start");
    let mut calls = Vec::new();
    for n in 0..20 {
        calls.push(
            kit.prepare("write_file", json!({"path": "f", "content": format!("{n}").repeat(1000)}))
                .await
                .unwrap(),
        );
    }
    let runs: Vec<_> = calls.into_iter().map(|call| tokio::spawn(run(call))).collect();
    let mut wrote = 0;
    for run in runs {
        wrote += usize::from(run.await.unwrap().status == ToolStatus::Completed);
    }
    assert_eq!(wrote, 1, "all but the first see that the file has changed");
    assert_ne!(kit.read("f"), "start");
}
