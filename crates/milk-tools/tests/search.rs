//! Searching real trees.
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
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use kit::{Kit, World};
use milk_core::tool::ToolStatus;
use serde_json::{Value, json};

async fn call(kit: &Kit, tool: &str, arguments: Value) -> String {
    let outcome = kit.call(tool, arguments).await;
    assert_eq!(outcome.status, ToolStatus::Completed, "{}", outcome.output);
    outcome.output
}

const NO_MATCHES: &str = "[no matches; files that .gitignore excludes and binary files are not searched]\n";
const NO_FILES: &str = "[no files match; files that .gitignore excludes are not searched]\n";

#[tokio::test]
async fn lines_are_found() {
    let world = World::new();
    let kit = world.kit();
    kit.write("src/a.rs", "fn main() {\r\n    go();\r\n}\r\n");
    kit.write("src/deep/b.rs", "fn go() {}\n");
    kit.write("c.txt", "Go\ngo, go\n");
    kit.write("binary", b"go\0go");
    kit.write("latin1", b"go caf\xe9\n");
    kit.write(".hidden", "go\n");
    kit.write(".git/x", "go\n");
    let utf16: Vec<u8> = "\u{FEFF}go\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    kit.write("utf16", utf16);
    for (arguments, expected) in [
        (
            json!({"pattern": "go"}),
            ".hidden:1:go\nc.txt:2:go, go\nlatin1:1:go caf\u{FFFD}\nsrc/a.rs:2:    go();\nsrc/deep/b.rs:1:fn go() {}\nutf16:1:go\n",
        ),
        (json!({"pattern": "(?i)^go$"}), ".hidden:1:go\nc.txt:1:Go\nutf16:1:go\n"),
        (json!({"pattern": r"\}$", "path": "src"}), "src/a.rs:3:}\nsrc/deep/b.rs:1:fn go() {}\n"),
        (json!({"pattern": "go", "path": "src", "recursive": "false"}), "src/a.rs:2:    go();\n"),
        (json!({"pattern": "go", "path": "src/a.rs"}), "src/a.rs:2:    go();\n"),
        (json!({"pattern": "go", "include": "*.rs"}), "src/a.rs:2:    go();\nsrc/deep/b.rs:1:fn go() {}\n"),
        (json!({"pattern": "go", "include": "src/*.rs"}), "src/a.rs:2:    go();\n"),
        (json!({"pattern": "nothing"}), NO_MATCHES),
        (json!({"pattern": "go", "path": "binary"}), NO_MATCHES),
    ] {
        assert_eq!(call(&kit, "grep", arguments.clone()).await, expected, "{arguments}");
    }
}

#[tokio::test]
async fn files_are_found() {
    let world = World::new();
    let kit = world.kit();
    for name in ["a.ts", "src/b.ts", "src/deep/c.ts", "src/deep/c.tsx", ".cfg/d.ts", ".git/e.ts"] {
        kit.write(name, "");
    }
    symlink("a.ts", kit.path("link.ts")).unwrap();
    symlink("src", kit.path("folder.ts")).unwrap();
    symlink("nowhere", kit.path("dangling.ts")).unwrap();
    for (arguments, expected) in [
        (json!({"pattern": "*.ts"}), ".cfg/d.ts\na.ts\nlink.ts\nsrc/b.ts\nsrc/deep/c.ts\n"),
        (json!({"pattern": "**/*.ts"}), ".cfg/d.ts\na.ts\nlink.ts\nsrc/b.ts\nsrc/deep/c.ts\n"),
        (json!({"pattern": "src/**/*.ts*"}), "src/b.ts\nsrc/deep/c.ts\nsrc/deep/c.tsx\n"),
        (json!({"pattern": "deep/*", "path": "src"}), "src/deep/c.ts\nsrc/deep/c.tsx\n"),
        (json!({"pattern": "b.ts", "path": kit.path("src")}), "src/b.ts\n"),
        (json!({"pattern": "none"}), NO_FILES),
    ] {
        assert_eq!(call(&kit, "find_files", arguments.clone()).await, expected, "{arguments}");
    }
    // Outside of the session's directory the names are whole.
    let other = world.base().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("x"), "x").unwrap();
    let expected = format!("{}\n", other.join("x").display());
    assert_eq!(call(&kit, "find_files", json!({"pattern": "x", "path": "../other"})).await, expected);
}

#[tokio::test]
async fn gitignore_is_honoured() {
    let world = World::new();
    let kit = world.kit();
    kit.write(".gitignore", "*.log\n/build/\n!keep.log\n");
    kit.write("sub/.gitignore", "secret\n");
    for name in ["a.log", "keep.log", "build/x", "sub/build/x", "sub/secret", "sub/a.log", "src/secret"] {
        kit.write(name, "hit\n");
    }
    let expected = ".gitignore\nkeep.log\nsrc/secret\nsub/.gitignore\nsub/build/x\n";
    assert_eq!(call(&kit, "find_files", json!({"pattern": "*"})).await, expected);
    let expected = "keep.log:1:hit\nsrc/secret:1:hit\nsub/build/x:1:hit\n";
    assert_eq!(call(&kit, "grep", json!({"pattern": "hit"})).await, expected);
    // A folder below keeps the rules of those above it.
    let expected = "sub/build/x:1:hit\n";
    assert_eq!(call(&kit, "grep", json!({"pattern": "hit", "path": "sub"})).await, expected);
}

/// The tree of case 076: a loop of links, a large ignored folder, one match.
fn big_tree(kit: &Kit, ignored: usize) {
    symlink(".", kit.path("loop")).unwrap();
    kit.write(".gitignore", "node_modules\n");
    kit.write("src/found.ts", "export const needle = 1;\n");
    crowd(kit, "node_modules", ignored);
}

/// Many small files in folders of a hundred.
fn crowd(kit: &Kit, folder: &str, count: usize) {
    for n in 0..count {
        let name = format!("{folder}/p{}/f{n}.ts", n / 100);
        if n % 100 == 0 {
            kit.write(&name, "const needle = 0;\n");
        } else {
            fs::write(kit.path(&name), "const needle = 0;\n").unwrap();
        }
    }
}

/// Searches the tree of case 076 and prints how long each call took.
async fn search_big_tree(ignored: usize) {
    let world = World::new();
    let kit = world.kit();
    big_tree(&kit, ignored);
    let limit = Duration::from_secs(5);
    for (tool, arguments, expected) in [
        ("grep", json!({"pattern": "needle"}), "src/found.ts:1:export const needle = 1;\n"),
        ("find_files", json!({"pattern": "**/*.ts"}), "src/found.ts\n"),
        ("list_dir", json!({}), "link               loop → .\n"),
        // Asked for by its name, the ignored folder is searched.
        ("grep", json!({"pattern": "needl[e] = 1", "path": "node_modules"}), NO_MATCHES),
        ("find_files", json!({"pattern": "f1*.ts", "path": "node_modules"}), "more files match"),
    ] {
        let start = Instant::now();
        let got = call(&kit, tool, arguments.clone()).await;
        let took = start.elapsed();
        println!("{tool} {arguments}: {took:?}");
        assert!(took < limit, "{tool} {arguments}: {took:?}");
        let exact = matches!(tool, "grep") || expected.ends_with(".ts\n");
        assert!(if exact { got == expected } else { got.contains(expected) }, "{tool}: {got}");
    }
}

#[tokio::test]
async fn big_trees_are_quick_076() {
    search_big_tree(6_000).await;
}

#[tokio::test]
#[ignore = "makes 60,000 files: run by hand, to measure"]
async fn bigger_trees_are_quick_076() {
    search_big_tree(60_000).await;
}

#[tokio::test]
async fn results_are_bounded_and_say_what_is_missing() {
    let world = World::new();
    let kit = world.kit();
    kit.write("many", "match\n".repeat(700));
    kit.write("wide", format!("match {}\n", "x".repeat(5000)));
    let got = call(&kit, "grep", json!({"pattern": "match"})).await;
    assert_eq!(got.lines().filter(|line| line.starts_with("many:")).count(), 200);
    assert!(got.ends_with("[501 more lines match; narrow the pattern or the path]\n"), "{got}");
    let got = call(&kit, "grep", json!({"pattern": "match", "path": "wide"})).await;
    assert!(got.ends_with("… [4606 more bytes in this line]\n"), "{got}");
    kit.write("endless", "match\n".repeat(50_000));
    let got = call(&kit, "grep", json!({"pattern": "match", "path": "endless"})).await;
    assert!(got.ends_with("[a great many more lines match; narrow the pattern or the path]\n"), "{got}");
    crowd(&kit, "crowd", 620);
    let got = call(&kit, "find_files", json!({"pattern": "f*.ts"})).await;
    assert!(got.ends_with("[120 more files match; narrow the pattern or the path]\n"), "{got}");
}

#[tokio::test]
async fn what_cannot_be_searched_is_counted() {
    let world = World::new();
    let kit = world.kit();
    kit.write("endless-line", "x".repeat(20 << 20));
    kit.write("z", "needle\n");
    let got = call(&kit, "grep", json!({"pattern": "needle"})).await;
    assert_eq!(got, "z:1:needle\n[1 files or folders could not be read]\n");
}
