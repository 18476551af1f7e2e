//! The file tools in a real folder: what is shown is what is done, and nothing is damaged or blocked.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::format_collect,
    missing_debug_implementations,
    reason = "a test"
)]

mod kit;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kit::{Kit, World, run};
use milk_core::tool::{Effect, FileAction, ToolKind, ToolOutcome, ToolStatus};
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
async fn a_tilde_is_the_home() {
    let world = World::new();
    let kit = world.kit();
    fs::create_dir(world.base().join("home")).unwrap();
    fs::write(world.base().join("home/notes"), "at home").unwrap();
    assert_eq!(done(&kit.call("read_file", json!({"path": "~/notes"})).await), "1\tat home\n");
    let call = kit.prepare("write_file", json!({"path": "~/other", "content": ""})).await.unwrap();
    assert_eq!(call.effect, Effect::WritesOutside { paths: vec![world.base().join("home/other")] });
}

#[tokio::test]
async fn reading_pages() {
    let world = World::new();
    let kit = world.kit();
    kit.write("lines", (1..=1200).map(|n| format!("line {n}\n")).collect::<String>());
    let page = kit.call("read_file", json!({"path": "lines"})).await;
    let page = done(&page);
    assert!(page.starts_with("1\tline 1\n2\tline 2\n"));
    assert!(page.ends_with("500\tline 500\n[lines 1 to 500 shown; more follow: read on with offset 500]\n"));
    let page = kit.call("read_file", json!({"path": "lines", "offset": 1000})).await;
    assert!(done(&page).starts_with("1001\tline 1001\n") && page.output.ends_with("1200\tline 1200\n"));
    let page = kit.call("read_file", json!({"path": "lines", "offset": 1199, "limit": 1})).await;
    assert_eq!(done(&page), "1200\tline 1200\n");
    let page = kit.call("read_file", json!({"path": "lines", "offset": 1200})).await;
    assert_eq!(done(&page), "[the file has 1200 lines: none after the offset 1200]");
    let page = kit.call("read_file", json!({"path": "lines", "limit": 0})).await;
    assert!(done(&page).starts_with("1\tline 1\n[lines 1 to 1 shown"));

    // Pages that end because they are full lose no line.
    kit.write("wide", (1..=300).map(|n| format!("{n} {}\n", "x".repeat(200))).collect::<String>());
    let (mut offset, mut seen) = (0, 0);
    loop {
        let page = kit.call("read_file", json!({"path": "wide", "offset": offset})).await;
        assert!(page.output.len() <= kit::RESULT_LIMIT, "{}", page.output.len());
        seen += done(&page).lines().filter(|line| line.ends_with("xxx")).count();
        let Some((_, next)) = page.output.rsplit_once("read on with offset ") else { break };
        offset = next.trim_end_matches("]\n").parse::<usize>().unwrap();
        assert_eq!(offset, seen);
    }
    assert_eq!(seen, 300);
}

#[tokio::test]
async fn reading_odd_texts_069() {
    let world = World::new();
    let kit = world.kit();
    let long = format!("{}é\nshort\n", "x".repeat(3_000_000));
    for (name, bytes, expected) in [
        ("empty", b"".as_slice(), "[the file is empty]"),
        ("no-newline", b"a\nb", "1\ta\n2\tb\n"),
        ("blank", b"\n\n", "1\t\n2\t\n"),
        ("crlf", b"a\r\nb\r\n", "1\ta\n2\tb\n"),
        ("bom", "\u{FEFF}a\n\u{FEFF}b\n".as_bytes(), "1\ta\n2\t\u{FEFF}b\n"),
        (
            "latin1",
            b"caf\xe9\n",
            "1\tcaf\u{FFFD}\n[the file is not UTF-8: what is not is shown as \u{FFFD}]\n",
        ),
        ("late-nul", &[&b"x".repeat(9000)[..], b"\n\0\n"].concat(), "…"),
    ] {
        kit.write(name, bytes);
        let got = kit.call("read_file", json!({"path": name})).await;
        if expected != "…" {
            assert_eq!(done(&got), expected, "{name}");
        }
        assert!(!got.output.contains('\0'));
    }
    kit.write("long", long);
    let got = kit.call("read_file", json!({"path": "long"})).await;
    assert_eq!(done(&got), format!("1\t{}… [a line of 2.8 MiB]\n2\tshort\n", "x".repeat(2000)));
    for (name, bytes, kind) in [
        ("nul", b"a\0b".as_slice(), "a binary file (3 B)"),
        ("utf16", b"\xff\xfea\0", "UTF-16 text (4 B)"),
        ("elf", b"\x7fELF\x02\0\0", "a binary file (7 B)"),
    ] {
        kit.write(name, bytes);
        let got = kit.call("read_file", json!({"path": name})).await;
        assert!(failed(&got).contains(kind), "{}", got.output);
    }
}

/// The folder of case 071.
fn special_files(kit: &Kit) -> std::os::unix::net::UnixListener {
    use odd_files::{fifo, sparse};
    fifo(&kit.path("p"));
    symlink("/dev/zero", kit.path("z")).unwrap();
    kit.write("empty", "");
    fs::create_dir(kit.path("folder")).unwrap();
    sparse(&kit.path("sparse"), 5 << 30, b"");
    sparse(&kit.path("sparse-text"), 5 << 30, "needle\n".repeat(2000).as_bytes());
    kit.write("plain", "needle\n");
    std::os::unix::net::UnixListener::bind(kit.path("s")).unwrap()
}

/// Odd files made with programs that every machine has.
mod odd_files {
    use std::fs::File;
    use std::io::Write;
    use std::path::Path;

    pub(super) fn fifo(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    pub(super) fn sparse(path: &Path, length: u64, head: &[u8]) {
        let mut file = File::create(path).unwrap();
        file.write_all(head).unwrap();
        file.set_len(length).unwrap();
    }
}

#[tokio::test]
async fn special_files_block_nothing_071() {
    let world = World::new();
    let kit = world.kit();
    let _socket = special_files(&kit);
    for (name, expected) in [
        ("p", "is a named pipe"),
        ("z", "is a device"),
        ("s", "is a socket"),
        ("folder", "is a folder"),
        ("empty", "the file is empty"),
        ("sparse", "a binary file (5.0 GiB)"),
        ("sparse-text", "499\tneedle\n500\tneedle\n[lines 1 to 500 shown"),
    ] {
        for arguments in [json!({"path": name}), json!({"path": name, "limit": 500})] {
            let start = Instant::now();
            let got = kit.call("read_file", arguments).await;
            assert!(start.elapsed() < Duration::from_secs(2), "{name}: {:?}", start.elapsed());
            assert!(got.output.contains(expected), "{name}: {}", got.output);
        }
        if name.starts_with("sparse") {
            continue;
        }
        for (tool, arguments) in [
            ("edit_file", json!({"path": name, "old_string": "a", "new_string": "b"})),
            ("write_file", json!({"path": name, "content": "x"})),
        ] {
            let start = Instant::now();
            let prepared = kit.prepare(tool, arguments).await;
            assert!(start.elapsed() < Duration::from_secs(2), "{tool} {name}");
            assert_eq!(prepared.is_err(), name != "empty" || tool == "edit_file", "{tool} {name}");
        }
    }
    let start = Instant::now();
    let found = kit.call("find_files", json!({"pattern": "*"})).await;
    assert_eq!(done(&found), "empty\nplain\nsparse\nsparse-text\n");
    let found = kit.call("grep", json!({"pattern": "needle", "include": "plain"})).await;
    assert_eq!(done(&found), "plain:1:needle\n");
    let found = kit.call("grep", json!({"pattern": "needle"})).await;
    assert!(done(&found).contains("plain:1:needle\n"));
    for name in ["p", "z", "s"] {
        let got = kit.call("grep", json!({"pattern": "x", "path": name})).await;
        assert!(failed(&got).contains("only files and folders are searched"), "{}", got.output);
    }
    let listed = kit.call("list_dir", json!({"path": "."})).await;
    for row in [
        "pipe               p\n",
        "socket             s\n",
        "z → /dev/zero\n",
        "folder/\n",
        "5.0 GiB  sparse\n",
    ] {
        assert!(done(&listed).contains(row), "{row}: {}", listed.output);
    }
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

#[tokio::test]
async fn far_into_a_large_file_ends() {
    let world = World::new();
    let kit = world.kit();
    odd_files::sparse(&kit.path("f"), 5 << 30, "first\n".repeat(2000).as_bytes());
    let start = Instant::now();
    let got = kit.call("read_file", json!({"path": "f", "offset": 2000})).await;
    // One line of zeros, or beyond what is read: told either way, and soon.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(got.output.len() < kit::RESULT_LIMIT);
    let got = kit.call("read_file", json!({"path": "f", "offset": 1_000_000})).await;
    assert!(got.output.contains("lies more than 256.0 MiB into the file"), "{}", got.output);
}

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

/// `W/notes.md → X/victim`, `W/out → X`, `W/in → W/sub`, and what is in them.
fn links(world: &World, kit: &Kit) -> PathBuf {
    let outside = world.base().join("x");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "victim").unwrap();
    fs::write(outside.join("a"), "a").unwrap();
    symlink(outside.join("victim"), kit.path("notes.md")).unwrap();
    symlink(&outside, kit.path("out")).unwrap();
    kit.write("sub/file", "file");
    symlink("sub", kit.path("in")).unwrap();
    outside
}

#[tokio::test]
async fn links_that_leave_are_judged_by_where_they_lead_074() {
    let world = World::new();
    let kit = world.kit();
    let x = links(&world, &kit);
    let outside = |name: &str| Effect::WritesOutside { paths: vec![x.join(name)] };
    for (tool, arguments, effect, shown) in [
        ("write_file", json!({"path": "notes.md", "content": ""}), outside("victim"), "x/victim"),
        ("write_file", json!({"path": "out/new", "content": ""}), outside("new"), "x/new"),
        (
            "edit_file",
            json!({"path": "notes.md", "old_string": "victim", "new_string": ""}),
            outside("victim"),
            "x/victim",
        ),
        ("delete_file", json!({"path": "out/a"}), outside("a"), "x/a"),
        ("move_file", json!({"source": "out/a", "destination": "b"}), outside("a"), "x/a"),
        ("move_file", json!({"source": "sub/file", "destination": "out/b"}), outside("b"), "x/b"),
        (
            "write_file",
            json!({"path": "../other", "content": ""}),
            Effect::WritesOutside { paths: vec![world.base().join("other")] },
            "other",
        ),
        ("write_file", json!({"path": "in/file", "content": ""}), Effect::Writes, "in/file"),
        (
            "edit_file",
            json!({"path": "in/file", "old_string": "f", "new_string": ""}),
            Effect::Writes,
            "in/file",
        ),
        // The link itself lies inside.
        ("delete_file", json!({"path": "notes.md"}), Effect::Writes, "notes.md (a link)"),
        (
            "move_file",
            json!({"source": "notes.md", "destination": "n.md"}),
            Effect::Writes,
            "notes.md → n.md",
        ),
    ] {
        let call = kit.prepare(tool, arguments.clone()).await.unwrap();
        assert_eq!(call.effect, effect, "{tool} {arguments}");
        assert!(call.title.contains(shown), "{}", call.title);
        let asks = matches!(effect, Effect::WritesOutside { .. });
        assert_eq!(call.title.contains("outside the workspace"), asks, "{}", call.title);
        assert!(call.locations.iter().all(|location| location.path.is_absolute()));
    }
    done(&kit.call("write_file", json!({"path": "notes.md", "content": "through"})).await);
    assert_eq!(fs::read_to_string(x.join("victim")).unwrap(), "through");
    assert!(kit.path("notes.md").is_symlink(), "the link stays");
    done(&kit.call("delete_file", json!({"path": "notes.md"})).await);
    assert!(x.join("victim").exists() && !kit.path("notes.md").is_symlink());
    done(&kit.call("write_file", json!({"path": "in/new", "content": "n"})).await);
    assert_eq!(kit.read("sub/new"), "n");
}

#[tokio::test]
async fn a_workspace_that_is_a_link_works_074() {
    let world = World::new();
    let real = world.base().join("real");
    fs::create_dir(&real).unwrap();
    let door = world.base().join("door");
    symlink(&real, &door).unwrap();
    let kit = world.kit_at(&door, |_| ());
    let call = kit.prepare("write_file", json!({"path": "f", "content": "x"})).await.unwrap();
    assert_eq!(call.effect, Effect::Writes);
    done(&run(call).await);
    assert_eq!(fs::read_to_string(real.join("f")).unwrap(), "x");
    assert_eq!(done(&kit.call("grep", json!({"pattern": "x"})).await).lines().count(), 1);
}

#[tokio::test]
async fn protected_folders_always_ask() {
    let world = World::new();
    let kit = world.kit();
    for path in
        [".git/hooks/pre-commit", ".git/config", ".milk/config.json", "sub/.git/config", ".GIT/config"]
    {
        let call = kit.prepare("write_file", json!({"path": path, "content": "x"})).await.unwrap();
        assert_eq!(call.effect, Effect::WritesOutside { paths: vec![kit.path(path)] });
        assert_eq!(call.title, format!("write_file: {path} (protected)"));
    }
    for path in [".gitignore", ".github/x", "a.git/x"] {
        let call = kit.prepare("write_file", json!({"path": path, "content": "x"})).await.unwrap();
        assert_eq!(call.effect, Effect::Writes, "{path}");
    }
    // Where the workspace itself lies does not count.
    let below = world.base().join(".milk/w");
    fs::create_dir_all(&below).unwrap();
    let kit = world.kit_at(&below, |_| ());
    assert_eq!(
        kit.prepare("write_file", json!({"path": "a", "content": ""})).await.unwrap().effect,
        Effect::Writes
    );
}

#[tokio::test]
async fn private_places_ask_for_reading_too() {
    let world = World::new();
    let home = world.base().join("home");
    fs::create_dir_all(home.join(".milk")).unwrap();
    fs::write(home.join(".milk/config.json"), "{\"api_key\": \"SECRET\"}").unwrap();
    fs::write(home.join("other"), "SECRET in plain sight").unwrap();
    symlink(".milk/config.json", home.join("innocent")).unwrap();
    // The home itself is the workspace.
    let kit = world.kit_at(&home, |_| ());
    for (tool, arguments) in [
        ("read_file", json!({"path": ".milk/config.json"})),
        ("read_file", json!({"path": "~/.milk/config.json"})),
        ("read_file", json!({"path": "innocent"})),
        ("list_dir", json!({"path": ".milk"})),
        ("grep", json!({"pattern": "a", "path": ".milk"})),
        ("find_files", json!({"pattern": "a", "path": ".milk"})),
        ("read_file", json!({"path": "/proc/self/environ"})),
        ("grep", json!({"pattern": "KEY", "path": "/proc/self"})),
        ("read_file", json!({"path": format!("/proc/{}/environ", std::process::id())})),
    ] {
        let effect = kit.prepare(tool, arguments.clone()).await.unwrap().effect;
        assert!(matches!(effect, Effect::ReadsPrivate { .. }), "{tool} {arguments}: {effect:?}");
    }
    for path in [".milk/config.json", ".milk/new"] {
        let effect = kit.prepare("write_file", json!({"path": path, "content": ""})).await.unwrap().effect;
        assert!(matches!(effect, Effect::WritesOutside { .. }), "{effect:?}");
    }
    // What a search would have needed to ask for, it does not see.
    let call = kit.prepare("grep", json!({"pattern": "SECRET"})).await.unwrap();
    assert_eq!(call.effect, Effect::ReadOnly);
    assert_eq!(done(&run(call).await), "other:1:SECRET in plain sight\n");
    let found = kit.call("find_files", json!({"pattern": "*"})).await;
    assert_eq!(done(&found), "innocent\nother\n");
    let effect = kit.prepare("read_file", json!({"path": "/proc/cpuinfo"})).await.unwrap().effect;
    assert_eq!(effect, Effect::ReadOnly);
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
async fn listing_is_bounded_and_fit_to_be_shown() {
    let world = World::new();
    let kit = world.kit();
    assert_eq!(done(&kit.call("list_dir", json!({})).await), "[the folder is empty]");
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9\x1b[2K\n");
    kit.write("b", "12345");
    fs::write(kit.root.join(odd), "").unwrap();
    fs::create_dir(kit.path("a")).unwrap();
    let listed = kit.call("list_dir", json!({"path": ""})).await;
    let expected = "dir                a/\nfile          5 B  b\nfile          0 B  caf\u{FFFD}\\u{1b}[2K⏎\n";
    assert_eq!(done(&listed), expected);
    for n in 0..1200 {
        kit.write(&format!("many/{n:04}"), "");
    }
    let listed = kit.call("list_dir", json!({"path": "many"})).await;
    assert!(done(&listed).ends_with("[200 more entries are not shown]\n"));
    assert!(listed.output.len() <= kit::RESULT_LIMIT + 100);
    let got = kit.call("list_dir", json!({"path": "b"})).await;
    assert!(failed(&got).contains("is a file, not a folder"));
}

#[tokio::test]
async fn titles_show_what_would_repaint_056() {
    let world = World::new();
    let kit = world.kit();
    for arguments in [
        json!({"path": "a\u{1b}[2K\u{202e}b\rc\nd", "content": ""}),
        json!({"path": "../\u{9b}2K", "content": ""}),
    ] {
        let title = kit.prepare("write_file", arguments).await.unwrap().title;
        assert!(!title.contains(|c: char| c.is_control() || c == '\u{202e}'), "{title:?}");
    }
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
