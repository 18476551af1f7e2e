//! Reading and listing: paged, bounded, and nothing blocks.

use serde_json::json;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use crate::kit::{self, Kit, World};
use crate::{done, failed};

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
