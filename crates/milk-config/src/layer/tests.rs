use std::fs;
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

const GOOD: &str = r#"{"z": 1, "agent": "a", "key": "sk-SECRET-123"}"#;

struct Place {
    _dir: tempfile::TempDir,
    home: MilkHome,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    Place { home: MilkHome::at(dir.path()), _dir: dir }
}

fn global(place: &Place) -> (Option<Value>, Vec<String>) {
    let mut warnings = Vec::new();
    let layer = read_global(&place.home, &mut warnings);
    let texts = warnings.iter().map(|warning| warning.to_string().replace(&file_of(place), "FILE")).collect();
    (layer.map(|layer| Value::Object(layer.raw)), texts)
}

fn file_of(place: &Place) -> String {
    place.home.config_file().display().to_string()
}

/// Ways in which a file is no config, with the words that tell which.
fn faults() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("empty", b"".into(), "FILE: is empty"),
        ("blank", b" \n\t".into(), "FILE: is empty"),
        ("byte order mark alone", b"\xef\xbb\xbf".into(), "FILE: is empty"),
        ("truncated", b"{\"a\":\n{\"sk-SECRET-123".into(), "FILE:2: is not valid JSON"),
        ("not UTF-8", b"{\"a\": \"\xff\"}".into(), "FILE:1: is not valid JSON"),
        ("zeros", b"\0\0\0".into(), "FILE:1: is not valid JSON"),
        ("no object", b"[\"sk-SECRET-123\"]".into(), "FILE: is not valid JSON (an object is wanted)"),
        ("two", b"{}{}".into(), "FILE:1: is not valid JSON"),
        ("too deep", "[".repeat(100_000).into(), "FILE:1: is not valid JSON"),
        (
            "too large",
            vec![b' '; usize::try_from(MAX_CONFIG_BYTES).unwrap() + 1],
            "FILE: is larger than 4194304 bytes",
        ),
    ]
}

#[test]
fn a_missing_file_is_nothing_to_tell() {
    let place = place();
    assert_eq!(global(&place), (None, vec![]));
    assert!(!place.home.config_file().exists() && !place.home.config_backup().exists());
}

#[test]
fn a_missing_file_that_was_named_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let named = dir.path().join("other.json");
    let env = milk_files::Env::of([("MILK_HOME", dir.path()), ("MILK_CONFIG", &named)]);
    let place = Place { home: MilkHome::resolve(&env).unwrap(), _dir: dir };
    let told = "FILE: is named by MILK_CONFIG and does not exist; the defaults count";
    assert_eq!(global(&place), (None, vec![told.to_owned()]));
}

#[test]
fn a_good_file_is_read_in_its_order_and_copied() {
    for text in [GOOD.to_owned(), format!("\u{feff}{GOOD}")] {
        let place = place();
        fs::write(place.home.config_file(), &text).unwrap();
        let (layer, warnings) = global(&place);
        assert_eq!(layer.unwrap().to_string(), GOOD.replace(": ", ":").replace(", ", ","));
        assert_eq!(warnings, Vec::<String>::new());
        let backup = place.home.config_backup();
        assert_eq!(fs::read_to_string(&backup).unwrap(), text);
        assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn the_copy_is_written_only_when_it_differs() {
    let place = place();
    let backup = place.home.config_backup();
    let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&backup).unwrap());
    fs::write(place.home.config_file(), "{}").unwrap();
    global(&place);
    let first = inode();
    global(&place);
    assert_eq!(inode(), first);
    fs::write(place.home.config_file(), "{ }").unwrap();
    global(&place);
    assert_eq!(fs::read_to_string(&backup).unwrap(), "{ }");
}

#[test]
fn a_faulty_file_gives_way_to_the_copy() {
    for (name, content, words) in faults() {
        let place = place();
        fs::write(place.home.config_file(), GOOD).unwrap();
        global(&place);
        fs::write(place.home.config_file(), &content).unwrap();

        let (layer, warnings) = global(&place);
        assert_eq!(layer.unwrap()["agent"], json!("a"), "{name}");
        assert_eq!(warnings.len(), 1, "{name}");
        assert!(warnings[0].starts_with(words), "{name}: {}", warnings[0]);
        assert!(warnings[0].contains("recovered from config.json.bak"), "{name}: {}", warnings[0]);
        assert!(!warnings[0].contains("SECRET"), "{name}: {}", warnings[0]);
        assert_eq!(fs::read(place.home.config_file()).unwrap(), content, "{name}: the file is its owner's");
        assert_eq!(fs::read_to_string(place.home.config_backup()).unwrap(), GOOD, "{name}");
    }
}

#[test]
fn a_faulty_file_without_a_copy_leaves_the_defaults() {
    for (name, content, words) in faults() {
        for copy in [None, Some("{")] {
            let place = place();
            fs::write(place.home.config_file(), &content).unwrap();
            if let Some(copy) = copy {
                fs::write(place.home.config_backup(), copy).unwrap();
            }
            let (layer, warnings) = global(&place);
            assert_eq!(layer, None, "{name}");
            assert_eq!(warnings.len(), 1, "{name}");
            assert!(
                warnings[0].starts_with(words) && warnings[0].ends_with("; the defaults count"),
                "{warnings:?}"
            );
        }
    }
}

#[test]
fn what_is_no_file_is_told() {
    let place = place();
    fs::create_dir(place.home.config_file()).unwrap();
    assert_eq!(global(&place), (None, vec!["FILE: is not a regular file; the defaults count".to_owned()]));
    fs::write(place.home.config_backup(), GOOD).unwrap();
    assert_eq!(global(&place).0.unwrap()["agent"], json!("a"));
}

#[test]
fn a_file_that_may_not_be_read_is_told() {
    let place = place();
    // A link to itself cannot be read by anybody, root included.
    std::os::unix::fs::symlink(place.home.config_file(), place.home.config_file()).unwrap();
    let (layer, warnings) = global(&place);
    assert_eq!((layer, warnings.len()), (None, 1));
    assert!(warnings[0].starts_with("FILE: cannot be read ("), "{warnings:?}");
}

#[test]
fn a_copy_that_cannot_be_written_is_let_be() {
    let place = place();
    fs::write(place.home.config_file(), GOOD).unwrap();
    fs::create_dir(place.home.config_backup()).unwrap();
    let (layer, warnings) = global(&place);
    assert!(layer.is_some() && warnings.is_empty());
}

#[test]
fn a_faulty_project_file_is_left_out() {
    for (name, content, words) in faults() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        fs::write(&file, content).unwrap();
        let mut warnings = Vec::new();
        assert_eq!(read_project(&file, &mut warnings), None, "{name}");
        let text = warnings[0].to_string().replace(&file.display().to_string(), "FILE");
        assert!(text.starts_with(words) && text.ends_with("; it is left out"), "{name}: {text}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{name}: nothing is written there");
    }
}

#[test]
fn debug_shows_no_value() {
    let place = place();
    fs::write(place.home.config_file(), GOOD).unwrap();
    let shown = format!("{:?}", read_global(&place.home, &mut Vec::new()));
    assert!(shown.contains("agent") && !shown.contains("SECRET"), "{shown}");
}
