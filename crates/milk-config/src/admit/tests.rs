use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::key::KEYS;

fn judged(global: &Value, project: &Value) -> (Value, Vec<String>) {
    let admitted = admit(project.as_object().unwrap(), global.as_object().unwrap());
    (Value::Object(admitted.layer), admitted.held)
}

#[test]
fn a_project_may_add_but_never_loosen() {
    let agents = json!([
        {"name": "Safe", "url": "u", "model": "m", "limits": {"excluded_tools": ["bash"], "included_tools": ["a", "b"]}},
        {"name": "fast", "url": "u"},
        {"name": "yolo", "url": "u", "dangerously_skip_permissions": true},
        {"name": "free", "url": "u", "bash_allowed_patterns": ["*"]},
        {"name": "lax", "url": "u", "tls_skip_verify": true},
        {"name": "claude", "provider": "claude-cli"},
        {"name": "blank", "url": "u", "dangerously_skip_permissions": false, "bash_allowed_patterns": []},
    ]);
    let global = json!({"agent": "safe", "agents": agents, "retry_limit": 2, "mcp_servers": [{"name": "s", "url": "u"}]});
    let limits = |value: Value| json!({"agents": [{"name": "safe", "limits": value}]});
    let taken = |value: Value| (value, Vec::<String>::new());
    let held = |names: &[&str]| (json!({}), names.iter().map(|name| (*name).to_owned()).collect());
    for (project, expected) in [
        // Display and protocol.
        (
            json!({"show_reasoning": false, "colorization": "off"}),
            taken(json!({"show_reasoning": false, "colorization": "off"})),
        ),
        (json!({"acp_resume": true}), taken(json!({}))), // as it is anyway
        // Which agent.
        (json!({"agent": "FAST"}), taken(json!({"agent": "FAST"}))),
        (
            json!({"agent": "blank", "escalation_agent": "fast"}),
            taken(json!({"agent": "blank", "escalation_agent": "fast"})),
        ),
        (json!({"agent": "yolo"}), held(&["agent"])),
        (json!({"agent": "free"}), held(&["agent"])),
        (json!({"agent": "lax"}), held(&["agent"])),
        (json!({"agent": "claude"}), held(&["agent"])),
        (json!({"agent": "nobody"}), held(&["agent"])),
        (json!({"escalation_agent": "yolo"}), held(&["escalation_agent"])),
        // An agent that exists.
        (
            json!({"agents": [{"name": "safe", "model": "mA"}]}),
            taken(json!({"agents": [{"model": "mA", "name": "safe"}]})),
        ),
        (
            json!({"agents": [{"name": "safe", "model": "mA", "url": "http://evil", "api_key": "k", "token_cmd": "touch PWN", "headers": {"a": "b"}, "run_cmd": "x", "bin": "x", "prompt_file": "/etc/passwd", "request_overrides": {"tools": []}}]}),
            (
                json!({"agents": [{"model": "mA", "name": "safe"}]}),
                [
                    "url",
                    "api_key",
                    "token_cmd",
                    "headers",
                    "run_cmd",
                    "bin",
                    "prompt_file",
                    "request_overrides",
                ]
                .map(|key| format!("agents[safe].{key}"))
                .into(),
            ),
        ),
        (json!({"agents": [{"name": "safe", "url": "u"}]}), taken(json!({}))), // says what is so
        (
            json!({"agents": [{"name": "safe", "tls_skip_verify": true}]}),
            held(&["agents[safe].tls_skip_verify"]),
        ),
        (
            json!({"agents": [{"name": "lax", "tls_skip_verify": false}]}),
            taken(json!({"agents": [{"tls_skip_verify": false, "name": "lax"}]})),
        ),
        // A new one, whatever it is called.
        (
            json!({"agents": [{"name": "evil", "url": "http://evil", "run_cmd": "touch PWN"}]}),
            held(&["agents[evil]"]),
        ),
        (
            json!({"agents": [{"name": "claude-2", "provider": "claude-cli", "bin": "./pwn"}]}),
            held(&["agents[claude-2]"]),
        ),
        // Limits.
        (limits(json!({"max_tool_iterations": 50})), taken(json!({}))),
        (
            limits(json!({"max_tool_iterations": 20})),
            taken(json!({"agents": [{"limits": {"max_tool_iterations": 20}, "name": "safe"}]})),
        ),
        (limits(json!({"max_tool_iterations": 51})), held(&["agents[safe].limits.max_tool_iterations"])),
        (limits(json!({"max_tool_iterations": -1})), held(&["agents[safe].limits.max_tool_iterations"])),
        (
            limits(json!({"turn_timeout_secs": 900})),
            taken(json!({"agents": [{"limits": {"turn_timeout_secs": 900}, "name": "safe"}]})),
        ),
        (limits(json!({"tool_timeout_secs": 121})), held(&["agents[safe].limits.tool_timeout_secs"])),
        (
            limits(json!({"excluded_tools": ["http_get"]})),
            taken(json!({"agents": [{"limits": {"excluded_tools": ["bash", "http_get"]}, "name": "safe"}]})),
        ),
        (
            limits(json!({"excluded_tools": []})),
            taken(json!({"agents": [{"limits": {"excluded_tools": ["bash"]}, "name": "safe"}]})),
        ),
        (
            limits(json!({"included_tools": ["b", "c"]})),
            taken(json!({"agents": [{"limits": {"included_tools": ["b"]}, "name": "safe"}]})),
        ),
        (limits(json!({"included_tools": ["c"]})), held(&["agents[safe].limits.included_tools"])),
        (limits(json!({"included_tools": []})), held(&["agents[safe].limits.included_tools"])),
        (
            json!({"agents": [{"name": "fast", "limits": {"included_tools": ["c"]}}]}),
            taken(json!({"agents": [{"limits": {"included_tools": ["c"]}, "name": "fast"}]})),
        ),
        (json!({"retry_limit": 3}), held(&["retry_limit"])),
        (json!({"retry_limit": 0}), taken(json!({"retry_limit": 0}))),
        (json!({"agents": [{"name": "fast", "retry_limit": 3}]}), held(&["agents[fast].retry_limit"])),
        (json!({"local_max_tool_iterations": 0}), taken(json!({"local_max_tool_iterations": 0}))),
        (json!({"local_max_tool_iterations": 51}), held(&["local_max_tool_iterations"])),
        // Permissions.
        (json!({"dangerously_skip_permissions": true}), held(&["dangerously_skip_permissions"])),
        (
            json!({"dangerously_skip_permissions": false}),
            taken(json!({"dangerously_skip_permissions": false})),
        ),
        (
            json!({"agents": [{"name": "yolo", "dangerously_skip_permissions": false}]}),
            taken(json!({"agents": [{"dangerously_skip_permissions": false, "name": "yolo"}]})),
        ),
        (json!({"bash_allowed_patterns": ["*"]}), held(&["bash_allowed_patterns"])),
        (
            json!({"agents": [{"name": "safe", "bash_allowed_patterns": ["*"]}]}),
            held(&["agents[safe].bash_allowed_patterns"]),
        ),
        (json!({"sandbox": "off"}), held(&["sandbox"])),
        (
            json!({"sandbox": "on", "claude_permissions": "deny"}),
            taken(json!({"sandbox": "on", "claude_permissions": "deny"})),
        ),
        (
            json!({"permissions": {"background_default": "allow", "safety_default": "deny"}}),
            held(&["permissions.background_default"]),
        ),
        // Commands and destinations elsewhere.
        (
            json!({"mcp_servers": [{"name": "x", "transport": "stdio", "command": "touch", "args": ["PWN"]}]}),
            held(&["mcp_servers[x]"]),
        ),
        (
            json!({"mcp_servers": [{"name": "S", "enabled": false}]}),
            taken(json!({"mcp_servers": [{"enabled": false, "name": "S"}]})),
        ),
        (
            json!({"config_editors": ["touch PWN"], "acp_clients": {}}),
            held(&["config_editors", "acp_clients"]),
        ),
        (
            json!({"remote_oversight": {"backend": "telegram", "telegram": {"token": "t", "chat_id": 1}}}),
            held(&[
                "remote_oversight.backend",
                "remote_oversight.telegram.token",
                "remote_oversight.telegram.chat_id",
            ]),
        ),
        (json!({"some_future_key": {"command": "x"}}), taken(json!({}))),
    ] {
        assert_eq!(judged(&global, &project), expected, "{project}");
    }
}

#[test]
fn limits_compare_with_what_counts_now() {
    let iterations = |n: i64| json!({"agents": [{"name": "a", "limits": {"max_tool_iterations": n}}]});
    let agent =
        |value: Value| json!({"local_max_tool_iterations": 10, "agents": [{"name": "a", "limits": value}]});
    for (global, wanted, allowed) in [
        (agent(json!({})), 10, true),
        (agent(json!({})), 11, false),
        (agent(json!({})), 0, false), // 0 is the default, 50
        (agent(json!({"max_tool_iterations": 100})), 100, true),
        (agent(json!({"max_tool_iterations": 100})), 0, true),
        (agent(json!({"max_tool_iterations": -1})), 1_000, true),
        (agent(json!({"max_tool_iterations": 0})), 51, false),
    ] {
        let (_, held) = judged(&global, &iterations(wanted));
        assert_eq!(held.is_empty(), allowed, "{wanted} over {global}");
    }
}

/// Whatever a file says, only keys that the table calls harmless or careful pass, on agents that exist.
#[test]
fn nothing_that_needs_trust_ever_passes() {
    let sample = |kind: Kind| match kind {
        Kind::Bool => json!(true),
        Kind::Int(_, max) => json!(max),
        Kind::Share => json!(0.5),
        Kind::Choice(words) => json!(words[words.len() - 1]),
        Kind::TextList => json!(["x"]),
        Kind::SecretMap | Kind::Object => json!({"x": "y"}),
        Kind::ObjectList => json!([{"x": "y"}]),
        _ => json!("x"),
    };
    let global = json!({"agents": [{"name": "a"}], "mcp_servers": [{"name": "a"}]});
    for key in KEYS.iter().filter(|key| key.project == Project::NeedsTrust) {
        let value = sample(key.kind);
        if key.default.value().as_ref() == Some(&value) {
            continue;
        }
        let project = key.path.rsplit('.').fold(value, |inner, part| match part.strip_suffix("[]") {
            Some(list) => {
                let mut entry = json!({"name": "a"});
                entry.as_object_mut().unwrap().extend(inner.as_object().unwrap().clone());
                json!({list: [entry]})
            }
            None => json!({part: inner}),
        });
        let (layer, held) = judged(&global, &project);
        assert_eq!((layer, held.len()), (json!({}), 1), "{}", key.path);
    }
}

#[test]
fn a_hostile_file_names_a_bounded_number_of_keys() {
    let agents: Vec<Value> = (0..10_000).map(|n| json!({"name": format!("\u{1b}{n}")})).collect();
    let (layer, held) = judged(&json!({}), &json!({"agents": agents}));
    assert_eq!(layer, json!({}));
    assert_eq!(held.len(), MAX_HELD + 1);
    assert_eq!(held[0], "agents[\u{fffd}0]");
    assert_eq!(held[MAX_HELD], "and 9968 more");
}
