//! Where paths lead: links, private and protected places, the outside.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use milk_core::tool::Effect;
use serde_json::json;

use crate::done;
use crate::kit::{Kit, World, run};

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
