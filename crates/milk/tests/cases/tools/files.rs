//! Reading and writing: odd bytes, special files, line endings, whole writes, links that lead out.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use std::process::Command;
use std::time::{Duration, Instant};

use milk_testkit::{Policy, Reply, TestHome, fault};
use serde_json::json;

use super::{allow, permissive};
use crate::support::{Plan, Rig, answered, assert_has, assert_has_any, ended, subject, within, words};

// ---- 069: output that is not UTF-8

#[tokio::test]
async fn case_069_output_that_is_no_utf8() {
    let rig = permissive().await;
    let called = rig.call("bash", json!({"command": r"printf '\377\376A\360B'"})).await;
    assert_has(called.result(), "A");
    assert_has(called.result(), "B");
    assert_has(called.result(), "\u{fffd}");
    let name = OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(rig.home.workspace().join(name), "x\n").unwrap();
    for (tool, arguments) in [
        ("bash", json!({"command": "ls"})),
        ("list_dir", json!({"path": "."})),
        ("find_files", json!({"path": ".", "pattern": "*.txt"})),
        ("grep", json!({"path": ".", "pattern": "x"})),
    ] {
        let called = rig.call(tool, arguments).await;
        assert_has(called.result(), "caf");
        answered(&called.turn, "done");
    }
}

#[tokio::test]
async fn case_069_files_that_are_no_utf8() {
    let rig = permissive().await;
    rig.home.write("latin1.txt", b"caf\xe9 au lait\nsecond\n");
    let called = rig.call("read_file", json!({"path": "latin1.txt"})).await;
    assert_has(called.result(), "au lait");
    assert_has(called.result(), "second");
    rig.home.write("program", [0x7f, b'E', b'L', b'F', 0, 0, 1, 2, 3, 0xff, 0, 0]);
    let called = rig.call("read_file", json!({"path": "program"})).await;
    assert_has_any(called.result(), &["binary"]);
}

/// An edit of a file that is no UTF-8 loses none of its bytes.
#[tokio::test]
async fn case_069_an_edit_keeps_bytes_that_are_no_utf8() {
    let rig = permissive().await;
    rig.home.write("latin1.txt", b"caf\xe9\nsecond\n");
    let edit = json!({"path": "latin1.txt", "old_string": "second", "new_string": "2nd"});
    let called = rig.call("edit_file", edit).await;
    let bytes = fs::read(rig.home.workspace().join("latin1.txt")).unwrap();
    if called.row().status() == "completed" {
        assert_eq!(bytes, b"caf\xe9\n2nd\n");
    } else {
        assert_eq!(bytes, b"caf\xe9\nsecond\n", "a refused edit changes nothing");
    }
}

// ---- 071: special files

#[tokio::test]
async fn case_071_special_files_are_named_and_never_waited_for() {
    let rig = permissive().await;
    let workspace = rig.home.workspace();
    assert!(Command::new("mkfifo").arg(workspace.join("p")).status().unwrap().success());
    symlink("/dev/zero", workspace.join("z")).unwrap();
    let _socket = UnixListener::bind(workspace.join("s")).unwrap();
    rig.home.write("empty", "");
    fs::create_dir(workspace.join("folder")).unwrap();
    rig.home.write("src.txt", "the needle\n");
    let cases: [(&str, &[&str]); 5] = [
        ("p", &["pipe", "fifo"]),
        ("z", &["device"]),
        ("s", &["socket"]),
        ("empty", &["empty"]),
        ("folder", &["folder", "directory"]),
    ];
    for (path, kinds) in cases {
        let called = rig.call("read_file", json!({"path": path})).await;
        within(called.took, Duration::from_secs(2), path);
        assert_has_any(called.result(), kinds);
        answered(&called.turn, "done");
    }
    for (tool, arguments) in [
        ("grep", json!({"path": ".", "pattern": "needle"})),
        ("find_files", json!({"path": ".", "pattern": "src*"})),
        ("list_dir", json!({"path": "."})),
    ] {
        let called = rig.call(tool, arguments).await;
        within(called.took, Duration::from_secs(2), tool);
        assert_has(called.result(), "src.txt");
    }
    // Writers do not wait for them either.
    for (tool, arguments) in [
        ("write_file", json!({"path": "p", "content": "x"})),
        ("edit_file", json!({"path": "p", "old_string": "x", "new_string": "y"})),
        ("grep", json!({"path": "p", "pattern": "needle"})),
    ] {
        let called = rig.call(tool, arguments).await;
        within(called.took, Duration::from_secs(2), tool);
    }
}

#[tokio::test]
async fn case_071_a_big_sparse_file_is_paged() {
    let rig = permissive().await;
    let path = rig.home.write("big", "a line of text\n".repeat(10_000));
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(5 << 30).unwrap();
    let called = rig.call("read_file", json!({"path": "big", "limit": 3})).await;
    within(called.took, Duration::from_secs(2), "read_file");
    assert_has(called.result(), "a line of text");
    assert!(called.result().len() < 4096, "three lines were asked for");
    let called = rig.call("grep", json!({"path": ".", "pattern": "nowhere"})).await;
    answered(&called.turn, "done");
    assert!(fault::peak_rss_bytes(rig.agent.pid()).unwrap() < 256 << 20, "the file was held in memory");
}

// ---- 072: edits keep line endings

async fn edited(before: &[u8], old: &str, new: &str) -> Vec<u8> {
    let rig = permissive().await;
    rig.home.write("f", before);
    let called = rig.call("edit_file", json!({"path": "f", "old_string": old, "new_string": new})).await;
    assert_eq!(called.row().status(), "completed", "{called:#?}");
    fs::read(rig.home.workspace().join("f")).unwrap()
}

#[tokio::test]
async fn case_072_an_edit_keeps_crlf() {
    assert_eq!(edited(b"a\r\nb\r\nc\r\n", "b\nc", "B\nC").await, b"a\r\nB\r\nC\r\n");
    assert_eq!(edited(b"a\r\nb\r\nc\r\n", "b\r\nc", "B\r\nC").await, b"a\r\nB\r\nC\r\n");
    assert_eq!(edited(b"a\r\nb\r\nc\r\n", "b", "B1\nB2").await, b"a\r\nB1\r\nB2\r\nc\r\n");
}

#[tokio::test]
async fn case_072_an_edit_keeps_bom_and_missing_final_newline() {
    assert_eq!(edited("\u{feff}a\nb".as_bytes(), "b", "B").await, "\u{feff}a\nB".as_bytes());
    assert_eq!(edited("\u{feff}a\nb".as_bytes(), "a", "A").await, "\u{feff}A\nb".as_bytes());
    assert_eq!(edited("\u{feff}a\r\nb".as_bytes(), "a\nb", "A\nB").await, "\u{feff}A\r\nB".as_bytes());
}

#[tokio::test]
async fn case_072_an_edit_changes_only_its_own_line_of_a_mixed_file() {
    assert_eq!(edited(b"a\r\nb\nc\r\n", "b", "B").await, b"a\r\nB\nc\r\n");
    assert_eq!(edited(b"a\nb\r\nc\n", "b", "B").await, b"a\nB\r\nc\n");
}

// ---- 073: writes are all or nothing and keep the mode

#[tokio::test]
async fn case_073_the_mode_is_kept() {
    let rig = permissive().await;
    let path = rig.home.write("run.sh", "#!/bin/sh\necho one\n");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    for wanted in [0o755, 0o640, 0o600] {
        fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).unwrap();
        rig.home.write("run.sh", "#!/bin/sh\necho one\n");
        let edit = json!({"path": "run.sh", "old_string": "one", "new_string": "two"});
        ended(&rig.call("edit_file", edit).await.turn, "end_turn");
        assert_eq!((mode(), rig.home.read("run.sh").as_str()), (wanted, "#!/bin/sh\necho two\n"));
        let write = json!({"path": "run.sh", "content": "#!/bin/sh\necho three\n"});
        ended(&rig.call("write_file", write).await.turn, "end_turn");
        assert_eq!((mode(), rig.home.read("run.sh").as_str()), (wanted, "#!/bin/sh\necho three\n"));
    }
}

/// Whenever milk dies, the file is wholly old or wholly new, and after the next start nothing is left beside it but what
/// a page of the manual tells of.
#[tokio::test]
async fn case_073_a_kill_in_mid_write_leaves_a_whole_file() {
    let (old, new) = ("old\n".repeat(1 << 20), "new\n".repeat(1 << 20));
    let home = TestHome::new();
    home.write("big", &old);
    let write = json!({"path": "big", "content": new});
    let mut rig = Plan::respond(move |request| match request.messages().last() {
        Some(newest) if newest["role"] == "tool" => Reply::text("done"),
        _ => Reply::tool("write_file", write.clone()),
    })
    .root("dangerously_skip_permissions", true)
    .start_in(home)
    .await;
    let workspace = rig.home.workspace();
    let big = workspace.join("big");
    // The moments of the kill: while something lies beside the file, and when the file is another one.
    let is_under_way = |inode: u64| names_in(&workspace).len() > 1 || inode_of(&big) != inode;
    let is_done = |inode: u64| inode_of(&big) != inode;
    let moments: [&dyn Fn(u64) -> bool; 2] = [&is_under_way, &is_done];
    for round in 0..6 {
        for name in names_in(&workspace) {
            fs::remove_file(workspace.join(name)).unwrap();
        }
        rig.home.write("big", &old);
        let (inode, deadline) = (inode_of(&big), Instant::now() + Duration::from_secs(10));
        rig.agent.prompt(&rig.session, "go");
        while !moments[round % moments.len()](inode) {
            assert!(Instant::now() < deadline, "round {round}: the write does not come");
        }
        rig.agent.kill();
        rig.agent.wait_exit(Duration::from_secs(5)).await;
        let content = rig.home.read("big");
        assert!(content == old || content == new, "round {round}: {} bytes", content.len());
        rig = rig.revived().await;
        let manual = manual();
        for stray in names_in(&workspace).into_iter().filter(|name| name != "big") {
            let pattern = stray.rsplit_once('.').map_or(stray.as_str(), |(pattern, _)| pattern);
            assert!(manual.contains(pattern), "{stray} is left beside the file after the next start");
        }
    }
}

fn inode_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.ino())
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The pages for users.
fn manual() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = names_in(&root.join("docs")).into_iter().map(|name| root.join("docs").join(name));
    pages.chain([root.join("README.md")]).filter_map(|page| fs::read_to_string(page).ok()).collect()
}

// ---- 074: links that leave the workspace

struct Links {
    rig: Rig,
    victim: std::path::PathBuf,
}

/// `notes.md` and `out` lead out of the workspace; every tool has been said yes to inside it.
async fn linked() -> Links {
    let rig = Plan::obedient().policy(allow()).start().await;
    let (workspace, outside) = (rig.home.workspace(), rig.home.outside());
    let victim = rig.home.write(outside.join("victim"), "victim\n");
    rig.home.write(outside.join("a"), "a\n");
    symlink(&victim, workspace.join("notes.md")).unwrap();
    symlink(&outside, workspace.join("out")).unwrap();
    rig.home.write("in.txt", "in\n");
    rig.home.write("gone.txt", "x\n");
    for (tool, arguments) in [
        ("write_file", json!({"path": "w.txt", "content": "x"})),
        ("edit_file", json!({"path": "in.txt", "old_string": "in", "new_string": "inside"})),
        ("delete_file", json!({"path": "gone.txt"})),
        ("move_file", json!({"source": "w.txt", "destination": "w2.txt"})),
    ] {
        rig.call(tool, arguments).await.asked(1);
    }
    Links { rig, victim }
}

#[tokio::test]
async fn case_074_writing_through_links_asks_with_the_real_path() {
    let Links { rig, victim } = linked().await;
    rig.agent.set_policy(Policy::Deny);
    let outside = rig.home.outside();
    let attempts = [
        ("write_file", json!({"path": "notes.md", "content": "pwned"}), victim.clone()),
        ("write_file", json!({"path": "out/new", "content": "pwned"}), outside.join("new")),
        ("write_file", json!({"path": "out/deeper/new", "content": "pwned"}), outside.join("deeper/new")),
        ("write_file", json!({"path": "../outside/new", "content": "pwned"}), outside.join("new")),
        ("write_file", json!({"path": outside.join("new"), "content": "pwned"}), outside.join("new")),
        ("write_file", json!({"path": "sub/../out/./new", "content": "pwned"}), outside.join("new")),
        (
            "edit_file",
            json!({"path": "notes.md", "old_string": "victim", "new_string": "pwned"}),
            victim.clone(),
        ),
        ("delete_file", json!({"path": "out/a"}), outside.join("a")),
        ("move_file", json!({"source": "in.txt", "destination": "out/in.txt"}), outside.join("in.txt")),
        ("move_file", json!({"source": "out/a", "destination": "taken"}), outside.join("a")),
    ];
    for (tool, arguments, real) in attempts {
        let called = rig.call(tool, arguments.clone()).await;
        // Refused outright, or asked with the real path shown.
        assert!(called.questions.len() <= 1, "{called:#?}");
        for question in &called.questions {
            assert_has(&words(question), real.to_str().unwrap());
            assert_eq!(subject(question), called.row().id);
        }
        assert_eq!(called.row().status(), "failed", "{tool} {arguments}");
        let left: Vec<String> = ["victim", "a"].map(|name| rig.home.read(outside.join(name))).to_vec();
        assert_eq!(left, ["victim\n", "a\n"], "{tool} {arguments}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 2, "{tool} {arguments}");
    }
}

/// With a yes, the write goes where the question said, and the link stays a link.
#[tokio::test]
async fn case_074_a_yes_writes_to_the_target_and_keeps_the_link() {
    let Links { rig, victim } = linked().await;
    let called = rig.call("write_file", json!({"path": "notes.md", "content": "agreed"})).await;
    called.asked(1);
    assert_eq!(rig.home.read(&victim), "agreed");
    assert!(rig.home.workspace().join("notes.md").is_symlink());
    // Each time anew: the yes to one place outside is none to another.
    rig.agent.set_policy(Policy::Deny);
    rig.call("write_file", json!({"path": "out/new", "content": "x"})).await.asked(1);
    assert!(!rig.home.outside().join("new").exists());
}

#[tokio::test]
async fn case_074_links_inside_the_workspace_work() {
    let home = TestHome::new();
    fs::create_dir(home.workspace().join("sub")).unwrap();
    symlink("sub", home.workspace().join("inner")).unwrap();
    home.write("sub/target.txt", "before\n");
    symlink("sub/target.txt", home.workspace().join("link.txt")).unwrap();
    let rig = Plan::obedient().policy(allow()).start_in(home).await;
    rig.call("write_file", json!({"path": "sub/first.txt", "content": "1"})).await.asked(1);
    rig.call("write_file", json!({"path": "inner/second.txt", "content": "2"})).await.asked(0);
    assert_eq!(rig.home.read("sub/second.txt"), "2");
    rig.call("write_file", json!({"path": "link.txt", "content": "after\n"})).await.asked(0);
    assert_eq!(rig.home.read("sub/target.txt"), "after\n");
    assert!(rig.home.workspace().join("link.txt").is_symlink());
}

#[tokio::test]
async fn case_074_a_workspace_that_is_a_link_works() {
    let rig = Plan::obedient().policy(allow()).start().await;
    let link = rig.home.root().join("link-to-work");
    symlink(rig.home.workspace(), &link).unwrap();
    let session = rig.session_in(&link).await;
    rig.call_in(&session, "write_file", json!({"path": "a.txt", "content": "1"})).await.asked(1);
    rig.call_in(&session, "write_file", json!({"path": "sub/b.txt", "content": "2"})).await.asked(0);
    rig.call_in(&session, "write_file", json!({"path": link.join("c.txt"), "content": "3"})).await.asked(0);
    assert_eq!(["a.txt", "sub/b.txt", "c.txt"].map(|name| rig.home.read(name)), ["1", "2", "3"]);
    let called = rig.call_in(&session, "bash", json!({"command": "pwd -P"})).await;
    assert_has(called.result(), rig.home.workspace().to_str().unwrap());
}

/// The path leads inside while the question is open, and outside when the yes comes.
#[tokio::test]
async fn case_074_a_link_swapped_under_the_question_does_not_lead_out() {
    for file in ["sub/w.txt", "sub/deeper/w.txt"] {
        let rig = Plan::obedient().start().await;
        fs::create_dir(rig.home.workspace().join("sub")).unwrap();
        let prompt = rig.begin("write_file", json!({"path": file, "content": "x"}));
        let question = rig.agent.expect_request("session/request_permission").await;
        fs::remove_dir(rig.home.workspace().join("sub")).unwrap();
        symlink(rig.home.outside(), rig.home.workspace().join("sub")).unwrap();
        rig.agent.select(&question, "allow");
        rig.agent.response(prompt).await.unwrap();
        assert_eq!(fs::read_dir(rig.home.outside()).unwrap().count(), 0, "{file} was written outside");
        assert_eq!(rig.agent.transcript().tool_rows(&rig.session)[0].status(), "failed");
    }
}

/// What cannot be done is told, without a question where that is known before, and changes nothing.
#[tokio::test]
async fn writes_that_cannot_be_done_are_told() {
    let rig = permissive().await;
    fs::create_dir(rig.home.workspace().join("folder")).unwrap();
    rig.home.write("folder/full.txt", "x");
    rig.home.write("file.txt", "one two two\n");
    let long = "n".repeat(5000);
    for (tool, arguments) in [
        ("write_file", json!({"path": "folder", "content": "x"})),
        ("write_file", json!({"path": "file.txt/below", "content": "x"})),
        ("write_file", json!({"path": "", "content": "x"})),
        ("write_file", json!({"path": "a\u{0}b", "content": "x"})),
        ("write_file", json!({"path": long, "content": "x"})),
        ("edit_file", json!({"path": "file.txt", "old_string": "three", "new_string": "x"})),
        ("edit_file", json!({"path": "file.txt", "old_string": "two", "new_string": "x"})),
        ("edit_file", json!({"path": "file.txt", "old_string": "", "new_string": "x"})),
        ("edit_file", json!({"path": "nowhere.txt", "old_string": "a", "new_string": "x"})),
        ("edit_file", json!({"path": "folder", "old_string": "a", "new_string": "x"})),
        ("delete_file", json!({"path": "nowhere.txt"})),
        ("delete_file", json!({"path": "folder"})),
        ("delete_file", json!({"path": "."})),
        ("move_file", json!({"source": "nowhere.txt", "destination": "x"})),
        ("move_file", json!({"source": "file.txt", "destination": "file.txt/x"})),
        ("move_file", json!({"source": "folder", "destination": "folder/inside"})),
    ] {
        let called = rig.call(tool, arguments.clone()).await;
        assert_eq!(called.row().status(), "failed", "{tool} {arguments}: {}", called.result());
        assert!(!called.result().trim().is_empty(), "{tool} {arguments} failed in silence");
        assert_eq!(rig.home.read("file.txt"), "one two two\n", "{tool} {arguments}");
        assert_eq!(rig.home.read("folder/full.txt"), "x", "{tool} {arguments}");
    }
}

/// A move onto a file that is there must not lose it in silence: refused, or asked with a word about it.
#[tokio::test]
async fn a_move_onto_another_file_loses_nothing_in_silence() {
    let rig = Plan::obedient().policy(allow()).start().await;
    rig.home.write("from.txt", "from");
    rig.home.write("onto.txt", "onto");
    let called = rig.call("move_file", json!({"source": "from.txt", "destination": "onto.txt"})).await;
    if rig.home.read("onto.txt") != "onto" {
        let asked: String = called.questions.iter().map(words).collect();
        assert_has_any(&asked, &["overwrit", "replac", "exist"]);
    }
}

/// A link is deleted, and what it leads to stays.
#[tokio::test]
async fn case_074_deleting_a_link_leaves_its_target() {
    let Links { rig, victim } = linked().await;
    let called = rig.call("delete_file", json!({"path": "notes.md"})).await;
    answered(&called.turn, "done");
    assert_eq!(rig.home.read(&victim), "victim\n");
}

/// A file of some megabytes arrives byte for byte.
#[tokio::test]
async fn a_big_write_arrives_whole() {
    let rig = permissive().await;
    let content = "a line of the file – naïve 漢字\n".repeat(200_000);
    let called = rig.call("write_file", json!({"path": "big.txt", "content": content})).await;
    assert_eq!(called.row().status(), "completed");
    assert!(rig.home.read("big.txt") == content, "the bytes differ");
    rig.assert_usable().await;
}
