use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::key::fill_defaults;

/// The agent of an entry under a root, and what was wrong with it.
fn built(root: Value, entry: &Value, env: &Env) -> (Agent, Vec<String>, BTreeSet<String>) {
    let Value::Object(mut root) = root else { panic!("an object") };
    fill_defaults(&mut root);
    let mut referenced = BTreeSet::new();
    let mut problems = Vec::new();
    let mut workshop = Workshop {
        env,
        root: &root,
        base_of: &|key| PathBuf::from(if key == "prompt_file" { "/project" } else { "/global" }),
        referenced: &mut referenced,
        problems: &mut problems,
    };
    let agent = workshop.build(entry.as_object().unwrap());
    (agent, problems.into_iter().map(|(key, text)| format!("{key} {text}")).collect(), referenced)
}

fn agent(entry: &Value) -> Agent {
    built(json!({}), entry, &Env::default()).0
}

fn key(value: &str) -> Credential {
    Credential::Key(Secret::new(value))
}

#[test]
fn a_server_is_reached_at_one_right_address() {
    for (entry, chat, models) in [
        (json!({"url": "http://h:1"}), "http://h:1/v1/chat/completions", "http://h:1/v1/models"),
        (json!({"url": "http://h:1/v1/"}), "http://h:1/v1/chat/completions", "http://h:1/v1/models"),
        (
            json!({"url": "http://h", "chat_path": "/chat/completions"}),
            "http://h/chat/completions",
            "http://h/models",
        ),
        (json!({"url": "http://h", "chat_path": "/x/chat"}), "http://h/x/chat", "http://h/v1/models"),
        (
            json!({"provider": "openai"}),
            "https://api.openai.com/v1/chat/completions",
            "https://api.openai.com/v1/models",
        ),
        (
            json!({"provider": "OpenAI", "url": ""}),
            "https://api.openai.com/v1/chat/completions",
            "https://api.openai.com/v1/models",
        ),
        (
            json!({"provider": "gemini"}),
            "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
            "https://generativelanguage.googleapis.com/v1beta/openai/models",
        ),
        (
            json!({"provider": "openai", "url": "http://proxy"}),
            "http://proxy/v1/chat/completions",
            "http://proxy/v1/models",
        ),
        (
            json!({"provider": "ollama"}),
            "http://127.0.0.1:11434/v1/chat/completions",
            "http://127.0.0.1:11434/v1/models",
        ),
    ] {
        let agent = agent(&entry);
        let shown = |url: Option<ServerUrl>| url.map(|url| url.expose().to_owned());
        assert_eq!(shown(agent.endpoint()).as_deref(), Some(chat), "{entry}");
        assert_eq!(shown(agent.models_endpoint()).as_deref(), Some(models), "{entry}");
    }
}

#[test]
fn an_agent_without_a_usable_server_is_told() {
    let env = Env::default();
    for (entry, problem) in [
        (json!({}), "url is missing, and the provider is none that milk knows"),
        (json!({"provider": "local"}), "url is missing, and the provider is none that milk knows"),
        (json!({"url": "example.com"}), "url needs to begin with http:// or https://"),
        (json!({"url": "http://["}), "url is not a valid URL"),
        (json!({"url": "${NONE}"}), "url does not count: the variable NONE is not set"),
    ] {
        let (agent, problems, _) = built(json!({}), &entry, &env);
        assert_eq!((agent.url, problems), (None, vec![problem.to_owned()]), "{entry}");
        let (_, problems, _) = built(json!({}), &json!({"provider": "claude-cli"}), &env);
        assert!(problems.is_empty(), "a program needs none");
    }
}

#[test]
fn a_credential_is_found_or_told() {
    let env = Env::of([("KEY", " k1\n"), ("OPENAI_API_KEY", "k2"), ("BAD", "a\r\nb")]);
    for (entry, credential, problem) in [
        (json!({"api_key": "plain"}), key("plain"), None),
        (json!({"api_key": " ${KEY} "}), key("k1"), None),
        (
            json!({"api_key": "${NONE}"}),
            Credential::None,
            Some("api_key does not count: the variable NONE is not set"),
        ),
        (json!({"api_key": "${BAD}"}), Credential::None, Some("api_key has characters that no key can have")),
        (json!({"token_cmd": "print-token"}), Credential::Command(Secret::new("print-token")), None),
        (json!({"token_cmd": "print-token", "api_key": "plain"}), key("plain"), None),
        (json!({"api_key": ""}), Credential::None, None),
        // A known provider's own variable goes to its own address only.
        (json!({"provider": "openai", "url": ""}), key("k2"), None),
        (json!({"provider": "openai", "url": "https://api.openai.com/v1"}), key("k2"), None),
        (json!({"provider": "openai", "url": "https://api.openai.com.evil"}), Credential::None, None),
        (json!({"provider": "openai", "url": "http://api.openai.com"}), Credential::None, None),
        (
            json!({"provider": "openai", "url": "", "api_key": "${NONE}"}),
            Credential::None,
            Some("api_key does not count: the variable NONE is not set"),
        ),
        (json!({"provider": "groq", "url": ""}), Credential::None, None),
    ] {
        let mut full = json!({"url": "http://h"});
        full.as_object_mut().unwrap().extend(entry.as_object().unwrap().clone());
        let (agent, problems, _) = built(json!({}), &full, &env);
        assert_eq!(agent.credential, credential, "{entry}");
        assert_eq!(problems.first().map(String::as_str), problem, "{entry}");
    }
}

#[test]
fn headers_are_safe_to_send() {
    let env = Env::of([("TOKEN", "t1"), ("BREAK", "a\nX-Evil: 1")]);
    let headers = json!({
        "Authorization": "Bearer ${TOKEN}", "x-title": "one", "X-Title": "two",
        "Bad Name": "x", "X-Break": "${BREAK}", "X-None": "${NONE}",
    });
    let (agent, problems, referenced) =
        built(json!({}), &json!({"url": "http://h", "headers": headers}), &env);
    let sent: Vec<_> = agent.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(sent, [("Authorization", "Bearer t1"), ("X-Title", "two")]);
    assert_eq!(
        problems,
        [
            "headers have a name or value that HTTP does not allow; it is left out",
            "headers have a name or value that HTTP does not allow; it is left out",
            "headers does not count: the variable NONE is not set",
        ]
    );
    assert_eq!(referenced.into_iter().collect::<Vec<_>>(), ["BREAK", "NONE", "TOKEN"]);
}

#[test]
fn limits_come_from_the_entry_the_root_or_the_table() {
    let iterations = |root: Value, limits: Value| {
        built(root, &json!({"limits": limits}), &Env::default()).0.limits.max_tool_iterations
    };
    for (root, limits, expected) in [
        (json!({}), json!({}), Some(50)),
        (json!({"local_max_tool_iterations": 7}), json!({}), Some(7)),
        (json!({"local_max_tool_iterations": 7}), json!({"max_tool_iterations": 9}), Some(9)),
        (json!({"local_max_tool_iterations": 7}), json!({"max_tool_iterations": 0}), Some(50)),
        (json!({"local_max_tool_iterations": 0}), json!({}), Some(50)),
        (json!({"local_max_tool_iterations": -1}), json!({}), None),
        (json!({}), json!({"max_tool_iterations": -1}), None),
    ] {
        assert_eq!(iterations(root.clone(), limits.clone()), expected, "{root} {limits}");
    }
}

#[test]
fn times_are_durations_or_none() {
    let secs = |n| Some(Duration::from_secs(n));
    let standard = agent(&json!({}));
    assert_eq!(standard.timeouts, Timeouts { connect: secs(10), first_byte: secs(600), idle: secs(120) });
    assert_eq!((standard.limits.tool_timeout, standard.limits.turn_timeout), (secs(120), None));
    assert_eq!(standard.retry_limit, 4);

    let root = json!({"connect_timeout_secs": 1, "first_byte_timeout_secs": -1, "idle_timeout_secs": 0, "retry_limit": 2});
    let entry = json!({
        "connect_timeout_secs": 3, "retry_limit": 0, "limits": {"tool_timeout_secs": -1, "turn_timeout_secs": 5},
    });
    let (own, _, _) = built(root.clone(), &entry, &Env::default());
    assert_eq!(own.timeouts, Timeouts { connect: secs(3), first_byte: None, idle: secs(120) });
    assert_eq!((own.limits.tool_timeout, own.limits.turn_timeout, own.retry_limit), (None, secs(5), 0));
    assert_eq!(built(root, &json!({}), &Env::default()).0.retry_limit, 2);
}

#[test]
fn a_result_is_as_long_as_the_context_bears() {
    for (root, entry, expected) in [
        (json!({}), json!({}), 20_000),
        (json!({}), json!({"context_window_tokens": 32_768}), 13_107),
        (json!({}), json!({"context_window_tokens": 100}), 4096),
        (json!({}), json!({"context_window_tokens": i64::MAX}), 51_200),
        (json!({"local_tool_result_max_bytes": 500}), json!({"context_window_tokens": 32_768}), 500),
        (json!({"local_tool_result_max_bytes": 500}), json!({"limits": {"tool_result_max_bytes": 600}}), 600),
    ] {
        let (agent, _, _) = built(root.clone(), &entry, &Env::default());
        assert_eq!(agent.limits.tool_result_max_bytes, expected, "{root} {entry}");
    }
}

#[test]
fn paths_are_absolute() {
    let env = Env::of([("HOME", "/home/me")]);
    for (entry, prompt, problems) in [
        (json!({"prompt_file": "p.md"}), Some(Prompt::File("/project/p.md".into())), 0),
        (json!({"prompt_file": "~/p.md"}), Some(Prompt::File("/home/me/p.md".into())), 0),
        (json!({"prompt_file": "/p.md", "prompt": "x"}), Some(Prompt::File("/p.md".into())), 1),
        (json!({"prompt": "x"}), Some(Prompt::Text("x".into())), 0),
        (json!({"prompt": ""}), None, 0),
    ] {
        let mut full = json!({"url": "http://h"});
        full.as_object_mut().unwrap().extend(entry.as_object().unwrap().clone());
        let (agent, told, _) = built(json!({}), &full, &env);
        assert_eq!((agent.prompt, told.len()), (prompt, problems), "{entry}");
    }
    assert_eq!(agent(&json!({"tls_ca_cert": "ca.pem"})).tls.ca_cert, Some("/global/ca.pem".into()));
}

#[test]
fn the_rest_is_as_written() {
    let entry = json!({
        "name": " a ", "url": "http://h", "model": "m", "vision": true, "context_window_tokens": 9,
        "tls_skip_verify": true, "bash_allowed_patterns": ["ls"], "dangerously_skip_permissions": true,
        "system_prompt_tier": "minimal", "disable_project_instructions": true,
        "request_overrides": {"seed": null, "temperature": 0},
        "limits": {"included_tools": ["bash"], "excluded_tools": ["grep"]},
    });
    let agent = agent(&entry);
    assert_eq!((agent.name.as_str(), agent.model.as_deref()), ("a", Some("m")));
    assert_eq!((agent.vision, agent.context_window_tokens), (true, Some(9)));
    assert!(
        agent.tls.skip_verify && agent.dangerously_skip_permissions && agent.disable_project_instructions
    );
    assert_eq!(
        (agent.bash_allowed_patterns, agent.system_prompt_tier),
        (vec!["ls".into()], PromptTier::Minimal)
    );
    assert_eq!(Value::Object(agent.request_overrides), json!({"seed": null, "temperature": 0}));
    assert_eq!(agent.limits.included_tools, ["bash"]);
    assert_eq!(agent.limits.excluded_tools, ["grep"]);
}

#[test]
fn debug_shows_no_secret() {
    let agent = agent(&json!({
        "name": "a", "url": "http://u:pw-SECRET@h/?key=q-SECRET", "api_key": "sk-SECRET", "token_cmd": "echo c-SECRET",
        "headers": {"X-Key": "h-SECRET"}, "request_overrides": {"k": "r-SECRET"},
    }));
    let shown = format!("{agent:?}");
    assert!(shown.contains("http://h/") && shown.contains("X-Key"), "{shown}");
    assert!(!shown.contains("SECRET"), "{shown}");
    for secret in ["pw-SECRET", "q-SECRET", "sk-SECRET", "h-SECRET"] {
        assert!(agent.secrets().contains(&Secret::new(secret)), "{secret}");
    }
}

#[test]
fn a_found_server_has_the_limits_of_the_root() {
    let mut root = json!({"retry_limit": 1, "local_max_tool_iterations": 3}).as_object().unwrap().clone();
    fill_defaults(&mut root);
    let secret = Secret::new("k");
    let server = Found {
        name: "found",
        provider: "gemini",
        url: "https://generativelanguage.googleapis.com/v1beta/openai",
        model: Some("m"),
        key: Some(&secret),
    };
    let agent = found(&server, &root).unwrap();
    assert_eq!((agent.name.as_str(), agent.model.as_deref(), agent.retry_limit), ("found", Some("m"), 1));
    assert_eq!((agent.limits.max_tool_iterations, agent.credential), (Some(3), key("k")));
    assert_eq!(agent.chat_path, "/chat/completions");
    assert_eq!(found(&Found { url: "nowhere", ..server }, &root).unwrap_err(), UrlError::Scheme);
}
