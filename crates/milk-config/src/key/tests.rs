use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

#[test]
fn every_row_fits_its_container() {
    let mut seen = BTreeSet::new();
    for key in KEYS {
        assert!(seen.insert(key.path), "{} twice", key.path);
        assert!(!key.help.is_empty() && !key.help.ends_with('.'), "{}", key.path);
        if let Some((parent, _)) = key.path.rsplit_once('.') {
            let (container, kind) = match parent.strip_suffix("[]") {
                Some(list) => (list, Kind::Entries),
                None => (parent, Kind::Section),
            };
            assert_eq!(find(container).map(|key| key.kind), Some(kind), "{}", key.path);
            assert!(seen.contains(container), "{} comes before its container", key.path);
        }
        let container = matches!(key.kind, Kind::Section | Kind::Entries) || key.path.ends_with("[].name");
        assert_eq!(key.project == Project::Inside, container, "{}", key.path);
    }
}

#[test]
fn every_default_is_a_value_of_its_kind() {
    for key in KEYS {
        match key.default {
            Default::SameAs(other) => {
                let other = find(other).unwrap_or_else(|| panic!("{}", key.path));
                assert_eq!(
                    std::mem::discriminant(&other.kind),
                    std::mem::discriminant(&key.kind),
                    "{}",
                    key.path
                );
                assert!(!matches!(other.default, Default::SameAs(_)), "{}", key.path);
            }
            default => {
                if let Some(value) = default.value() {
                    assert_eq!(key.kind.accept(&value), Some(value), "{}", key.path);
                }
            }
        }
    }
}

#[test]
fn every_rule_fits_its_kind() {
    for key in KEYS {
        let fits = match key.project {
            Project::Harmless | Project::NeedsTrust | Project::Inside => true,
            Project::OnlyBool(_) => key.kind == Kind::Bool,
            Project::OnlyText(word) => matches!(key.kind, Kind::Choice(words) if words.contains(&word)),
            Project::AtMost => matches!(key.kind, Kind::Int(..)),
            Project::Added | Project::Narrowed => key.kind == Kind::TextList,
            Project::PlainAgent => key.kind == Kind::Text,
        };
        assert!(fits, "{}", key.path);
    }
}

/// R38, by the words that name danger: whatever sounds like a command, a destination or a right needs trust.
#[test]
fn nothing_that_sounds_dangerous_is_harmless() {
    let danger = [
        "cmd",
        "command",
        "bin",
        "args",
        "url",
        "path",
        "header",
        "key",
        "token",
        "secret",
        "tls",
        "allow",
        "skip_perm",
        "provider",
        "settings",
        "env",
        "cwd",
        "override",
        "oversight",
        "prompt_file",
        "dirs",
        "editor",
        "mcp",
        "debug",
    ];
    let known_safe = [
        "agents[].context_window_tokens",
        "agents[].limits.compaction_trigger_tokens",
        "rules.escalate_above_tokens",
        "rules.local_below_tokens",
        "rules.escalate_keywords",
        "rules.path_ref_weight",
    ];
    for key in KEYS.iter().filter(|key| key.project == Project::Harmless && !known_safe.contains(&key.path)) {
        let word = danger.iter().find(|word| key.path.contains(**word));
        assert_eq!(word, None, "{}", key.path);
        assert!(
            !matches!(key.kind, Kind::Secret | Kind::SecretMap | Kind::Object | Kind::ObjectList),
            "{}",
            key.path
        );
    }
}

#[test]
fn kinds_take_what_they_say() {
    for (kind, value, accepted) in [
        (Kind::Bool, json!(false), Some(json!(false))),
        (Kind::Bool, json!("false"), None),
        (Kind::Bool, json!(0), None),
        (Kind::Int(-1, 9), json!(-1), Some(json!(-1))),
        (Kind::Int(-1, 9), json!(9.0), Some(json!(9))),
        (Kind::Int(-1, 9), json!(9.5), None),
        (Kind::Int(-1, 9), json!(10), None),
        (Kind::Int(-1, 9), json!(1e300), None),
        (Kind::Int(-1, 9), json!(u64::MAX), None),
        (Kind::Int(-1, 9), json!("5"), None),
        (Kind::Share, json!(0.85), Some(json!(0.85))),
        (Kind::Share, json!(1.1), None),
        (Kind::Text, json!(""), Some(json!(""))),
        (Kind::Text, json!(["a"]), None),
        (Kind::Word, json!("gpt-5"), Some(json!("gpt-5"))),
        (Kind::Word, json!("--dangerously"), None),
        (Kind::Word, json!("a\nb"), None),
        (Kind::Choice(&["on", "off"]), json!("on"), Some(json!("on"))),
        (Kind::Choice(&["on", "off"]), json!("ON"), None),
        (Kind::TextList, json!(["a"]), Some(json!(["a"]))),
        (Kind::TextList, json!(["a", 1]), None),
        (Kind::TextList, json!("a"), None),
        (Kind::SecretMap, json!({"a": "b"}), Some(json!({"a": "b"}))),
        (Kind::SecretMap, json!({"a": 1}), None),
        (Kind::Object, json!({"a": null}), Some(json!({"a": null}))),
        (Kind::Object, json!([]), None),
        (Kind::ObjectList, json!([{}]), Some(json!([{}]))),
        (Kind::ObjectList, json!([1]), None),
    ] {
        assert_eq!(kind.accept(&value), accepted, "{kind:?} {value}");
    }
}

#[test]
fn typing_errors_find_what_was_meant() {
    for (parent, name, meant) in [
        ("", "agnet", None), // two edits in a short word could be anything
        ("", "agets", Some("agents")),
        ("", "show_reasonning", Some("show_reasoning")),
        ("agents[]", "modle", None),
        ("agents[]", "mode", Some("model")),
        ("agents[]", "apikey", Some("api_key")),
        ("agents[].limits", "tool_timeout_sec", Some("tool_timeout_secs")),
        ("agents[]", "tool_timeout_sec", None),
        ("", "default_route", None),
        ("", "x", None),
        ("", "", None),
        ("", &"x".repeat(100_000), None),
    ] {
        assert_eq!(similar(parent, name), meant, "{parent} {name:.40}");
    }
}

#[test]
fn defaults_fill_only_what_is_missing() {
    let mut map = json!({"show_reasoning": false, "rules": {"local_threshold": 0}, "x": 1});
    fill_defaults(map.as_object_mut().unwrap());
    assert_eq!(map["show_reasoning"], json!(false));
    assert_eq!(map["rules"]["local_threshold"], json!(0));
    assert_eq!(map["rules"]["escalate_threshold"], json!(6));
    assert_eq!(map["local_max_tool_iterations"], json!(50));
    assert_eq!(map["x"], json!(1));
    assert!(map.get("agents").is_none() && map.get("acp_session_load").is_none());
}

#[test]
fn the_reference_has_a_row_for_each_key() {
    let text = reference();
    assert_eq!(text.lines().count(), KEYS.len() + 2);
    assert!(text.contains("| `agents[].model` |"));
    for line in text.lines() {
        assert_eq!(line.replace("\\|", "").matches('|').count(), 6, "{line}");
    }
}
