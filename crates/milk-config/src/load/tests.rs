use std::fs;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::config::{ClaudePermissions, PromptResponse, ReplayIds, Sandbox};
use crate::key::KEYS;

/// A home and a project, each with the config that a test gives it.
struct Place {
    _dir: tempfile::TempDir,
    home: MilkHome,
    project: PathBuf,
}

fn place(global: &Value, project: &Value) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let place = Place { home: MilkHome::at(base.join("home")), project: base.join("project"), _dir: dir };
    for (folder, content) in [(place.home.root(), global), (&place.project.join(".milk"), project)] {
        fs::create_dir_all(folder).unwrap();
        if !content.is_null() {
            fs::write(folder.join("config.json"), content.to_string()).unwrap();
        }
    }
    place
}

impl Place {
    fn load(&self, env: &Env) -> Loaded {
        load(&self.home, env, &self.project)
    }

    fn trust(&self) {
        Trust::load(&self.home).0.add(&self.home, &self.project).unwrap();
    }
}

/// The config of these two files, the project trusted.
fn trusted(global: &Value, project: &Value) -> Loaded {
    let place = place(global, project);
    place.trust();
    place.load(&Env::default())
}

fn texts(loaded: &Loaded) -> Vec<&str> {
    loaded.warnings.iter().map(|warning| warning.text.as_str()).collect()
}

fn origin_of(loaded: &Loaded, path: &str) -> Origin {
    loaded.config.origin(path)
}

#[test]
fn nothing_configured_is_the_defaults_and_writes_nothing() {
    let place = place(&Value::Null, &Value::Null);
    for loaded in [place.load(&Env::default()), load_global(&place.home, &Env::default())] {
        let config = &loaded.config;
        assert!(loaded.warnings.is_empty() && loaded.held.is_empty() && loaded.held_notice().is_none());
        assert!(config.agents().is_empty() && config.primary().is_none() && config.escalation().is_none());
        assert_eq!(config.escalation_agent(), "claude");
        assert!(
            config.show_reasoning() && config.discovery() && config.acp_resume() && config.acp_streaming()
        );
        assert!(!config.skip_permissions());
        assert_eq!(config.acp_prompt_response(), PromptResponse::Held);
        assert_eq!(config.acp_replay_ids(), ReplayIds::Hist);
        assert_eq!((config.acp_session_load(), config.acp_clients()), (None, None));
        assert_eq!((config.claude_permissions(), config.sandbox()), (ClaudePermissions::Ask, Sandbox::Auto));
        assert_eq!(origin_of(&loaded, "show_reasoning"), Origin::Default);
        assert!(config.global().is_none() && config.project().is_none());
    }
    assert_eq!(fs::read_dir(place.home.root()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(place.project.join(".milk")).unwrap().count(), 0);
}

#[test]
fn every_key_that_is_read_says_what_the_file_says() {
    let global = json!({
        "show_reasoning": false, "discovery": false, "acp_resume": false, "acp_streaming": false,
        "acp_prompt_response": "accepted", "acp_replay_ids": "live", "acp_session_load": false,
        "acp_clients": {"zed": {"echo": false}}, "claude_permissions": "deny", "sandbox": "off",
        "dangerously_skip_permissions": true, "escalation_agent": "b", "agent": "B", "bash_allowed_patterns": ["ls"],
        "agents": [
            {"name": "a", "url": "http://a"},
            {"name": "b", "url": "http://b", "bash_allowed_patterns": ["cargo test"]},
        ],
    });
    let loaded = trusted(&global, &Value::Null);
    let config = &loaded.config;
    assert_eq!(texts(&loaded), Vec::<&str>::new());
    assert!(
        !config.show_reasoning() && !config.discovery() && !config.acp_resume() && !config.acp_streaming()
    );
    assert_eq!(config.acp_prompt_response(), PromptResponse::Accepted);
    assert_eq!(config.acp_replay_ids(), ReplayIds::Live);
    assert_eq!(config.acp_session_load(), Some(false));
    assert_eq!(config.acp_clients().unwrap()["zed"], json!({"echo": false}));
    assert_eq!((config.claude_permissions(), config.sandbox()), (ClaudePermissions::Deny, Sandbox::Off));
    assert!(config.skip_permissions());
    let primary = config.primary().unwrap();
    assert_eq!((primary.name.as_str(), config.escalation().unwrap().name.as_str()), ("b", "b"));
    assert_eq!(config.bash_allowed_patterns(primary), ["ls", "cargo test"]);
    assert_eq!(trusted(&json!({"sandbox": "on"}), &Value::Null).config.sandbox(), Sandbox::On);
}

#[test]
fn the_primary_agent_is_named_or_the_first_that_is_no_program() {
    let agents = json!([{"name": "cli", "provider": "claude-cli"}, {"name": "x", "url": "http://x"}, {"name": "y", "url": "http://y"}]);
    for (agent, primary, warning) in [
        (Value::Null, "x", None),
        (json!(""), "x", None),
        (json!("Y"), "y", None),
        (json!("cli"), "cli", None),
        (json!("gone"), "x", Some("agent names gone, and there is no such agent")),
    ] {
        let loaded = trusted(&json!({"agents": agents, "agent": agent}), &Value::Null);
        assert_eq!(loaded.config.primary().unwrap().name, primary, "{agent}");
        assert_eq!(texts(&loaded).first().copied(), warning, "{agent}");
    }
}

#[test]
fn skipping_permissions_is_the_roots_word_or_the_claude_agents() {
    let claude = json!([{"name": "c", "provider": "claude-cli", "dangerously_skip_permissions": true}]);
    let other = json!([{"name": "c", "url": "http://c", "dangerously_skip_permissions": true}]);
    for (global, project, skip) in [
        (json!({"agents": claude}), Value::Null, true),
        (json!({"agents": other}), Value::Null, false),
        (json!({"agents": claude, "dangerously_skip_permissions": false}), Value::Null, false),
        (json!({"dangerously_skip_permissions": true}), Value::Null, true),
        (
            json!({"dangerously_skip_permissions": true}),
            json!({"dangerously_skip_permissions": false}),
            false,
        ),
        (json!({}), json!({"dangerously_skip_permissions": true}), true), // trusted
    ] {
        assert_eq!(trusted(&global, &project).config.skip_permissions(), skip, "{global} {project}");
    }
}

#[test]
fn the_projects_false_and_zero_count() {
    let global = json!({"acp_resume": true, "retry_limit": 3, "rules": {"local_threshold": 5, "path_ref_weight": 1}, "agents": [{"name": "a", "url": "http://a"}]});
    let loaded =
        trusted(&global, &json!({"acp_resume": false, "retry_limit": 0, "rules": {"local_threshold": 0}}));
    assert!(!loaded.config.acp_resume());
    assert_eq!(loaded.config.agents()[0].retry_limit, 0);
    let shown = loaded.config.shown();
    assert_eq!(
        (&shown["rules"]["local_threshold"], &shown["rules"]["path_ref_weight"]),
        (&json!(0), &json!(1))
    );
    for (path, origin) in [
        ("acp_resume", Origin::Local),
        ("rules.local_threshold", Origin::Local),
        ("rules.path_ref_weight", Origin::Global),
        ("rules.local_verb_weight", Origin::Default),
    ] {
        assert_eq!(origin_of(&loaded, path), origin, "{path}");
    }
}

/// C1: a project's file changes what it names and nothing else, for every key of the table.
#[test]
fn a_project_file_imposes_no_defaults() {
    let mut global = Map::new();
    fill_defaults(&mut global);
    for key in KEYS.iter().filter(|key| !key.path.contains(['[', '.'])) {
        let changed = match key.default.value() {
            Some(Value::Bool(value)) => json!(!value),
            Some(Value::Number(number)) => json!(number.as_i64().unwrap() + 1),
            _ => continue,
        };
        global.insert(key.path.to_owned(), changed);
    }
    let loaded = trusted(&Value::Object(global.clone()), &json!({"agent": ""}));
    let mut shown = loaded.config.shown();
    assert_eq!(shown.shift_remove("agent"), Some(json!("")));
    assert_eq!(Value::Object(shown), Value::Object(global));
}

#[test]
fn a_wrong_value_costs_its_key_and_names_its_file() {
    let place = place(
        &json!({"show_reasoning": "no", "acp_resume": false, "agents": [{"name": "a"}]}),
        &json!({"retry_limit": -5, "agents": [{"name": "A", "url": "nowhere", "model": "m"}]}),
    );
    place.trust();
    let loaded = place.load(&Env::default());
    assert!(loaded.config.show_reasoning() && !loaded.config.acp_resume());
    assert_eq!(loaded.config.agents()[0].model.as_deref(), Some("m"));
    let told: Vec<String> = loaded.warnings.iter().map(Warning::to_string).collect();
    let base = place.project.parent().unwrap().display().to_string();
    assert_eq!(
        told.iter().map(|text| text.replace(&base, "")).collect::<Vec<_>>(),
        [
            "/home/config.json: show_reasoning is ignored: it has to be true or false",
            "/project/.milk/config.json: retry_limit is ignored: it has to be a whole number from 0 to 100",
            "/project/.milk/config.json: agents[a].url needs to begin with http:// or https://",
        ]
    );
}

#[test]
fn a_broken_file_of_either_kind_costs_that_file() {
    let place = place(&json!({"acp_resume": false}), &json!({"show_reasoning": false}));
    fs::write(place.project.join(".milk/config.json"), "{").unwrap();
    let loaded = place.load(&Env::default());
    assert!(!loaded.config.acp_resume() && loaded.config.show_reasoning());
    assert_eq!(loaded.warnings.len(), 1);

    fs::write(place.home.config_file(), "{").unwrap();
    let recovered = place.load(&Env::default());
    assert!(!recovered.config.acp_resume());
    assert_eq!(recovered.warnings.len(), 2);

    fs::remove_file(place.home.config_backup()).unwrap();
    let defaults = place.load(&Env::default());
    assert!(defaults.config.acp_resume());
    assert_eq!(defaults.warnings.len(), 2);
}

#[test]
fn an_untrusted_project_counts_as_far_as_it_is_harmless() {
    let place = place(
        &json!({"agents": [{"name": "a", "url": "http://a", "model": "m", "api_key": "sk-GLOBAL-1"}]}),
        &json!({
            "show_reasoning": false, "dangerously_skip_permissions": true, "bash_allowed_patterns": ["*"],
            "agents": [
                {"name": "a", "model": "mA", "url": "http://evil", "token_cmd": "touch PWN"},
                {"name": "evil", "url": "http://evil", "api_key": "${OPENAI_API_KEY}"},
            ],
            "agent": "evil",
        }),
    );
    let env = Env::of([("OPENAI_API_KEY", "sk-ENV-12345")]);
    let loaded = place.load(&env);
    let config = &loaded.config;
    assert!(!config.show_reasoning() && !config.skip_permissions());
    assert_eq!(config.agents().len(), 1);
    let agent = config.primary().unwrap();
    assert_eq!((agent.model.as_deref(), agent.url.as_ref().unwrap().host()), (Some("mA"), "a".to_owned()));
    assert!(config.bash_allowed_patterns(agent).is_empty());
    assert_eq!(
        loaded.held,
        [
            "dangerously_skip_permissions",
            "bash_allowed_patterns",
            "agents[a].url",
            "agents[a].token_cmd",
            "agents[evil]",
            "agent"
        ]
    );
    assert!(loaded.held_notice().unwrap().contains("milk trust"));
    assert_eq!(texts(&loaded), Vec::<&str>::new());

    place.trust();
    let loaded = place.load(&env);
    assert!(loaded.held.is_empty() && loaded.config.skip_permissions());
    assert_eq!(loaded.config.primary().unwrap().name, "evil");
    assert_eq!(origin_of(&loaded, "agents[A].url"), Origin::Local);
}

#[test]
fn a_broken_trust_file_trusts_nothing_and_is_told() {
    let place = place(&json!({}), &json!({"bash_allowed_patterns": ["*"]}));
    place.trust();
    fs::write(place.home.trust_file(), "{").unwrap();
    let loaded = place.load(&Env::default());
    assert_eq!(loaded.held, ["bash_allowed_patterns"]);
    assert_eq!(loaded.warnings.len(), 1);
    assert_eq!(loaded.warnings[0].file, place.home.trust_file());
}

#[test]
fn two_projects_keep_their_own_settings() {
    let a = place(
        &json!({"agents": [{"name": "x", "url": "http://x"}]}),
        &json!({"agents": [{"name": "x", "model": "mA"}]}),
    );
    let b = a.project.with_file_name("b");
    fs::create_dir_all(b.join(".milk")).unwrap();
    fs::write(b.join(".milk/config.json"), r#"{"agents": [{"name": "x", "model": "mB"}]}"#).unwrap();
    for (cwd, model) in [(&a.project, "mA"), (&b, "mB"), (&a.project, "mA")] {
        let loaded = load(&a.home, &Env::default(), cwd);
        assert_eq!(loaded.config.agents()[0].model.as_deref(), Some(model));
    }
}

#[test]
fn only_the_directory_itself_has_a_project_file() {
    let place = place(&json!({}), &json!({"show_reasoning": false}));
    let inner = place.project.join("inner");
    fs::create_dir(&inner).unwrap();
    assert!(load(&place.home, &Env::default(), &inner).config.show_reasoning());
}

#[test]
fn milks_own_home_is_no_project() {
    let place = place(&Value::Null, &json!({"bash_allowed_patterns": ["ls"], "show_reasoning": false}));
    let link = place.project.with_file_name("link");
    symlink(&place.project, &link).unwrap();
    for home in [place.project.join(".milk"), link.join(".milk")] {
        let loaded = load(&MilkHome::at(home), &Env::default(), &place.project);
        assert!(loaded.held.is_empty() && loaded.config.project().is_none());
        assert!(!loaded.config.show_reasoning());
        assert_eq!(origin_of(&loaded, "show_reasoning"), Origin::Global);
    }
}

#[test]
fn milk_config_moves_the_global_file_alone() {
    let place = place(&json!({"agent": "home"}), &json!({"show_reasoning": false}));
    let moved = place.project.with_file_name("moved.json");
    fs::write(&moved, r#"{"acp_resume": false}"#).unwrap();
    let env = Env::of([("MILK_HOME", place.home.root()), ("MILK_CONFIG", &moved)]);
    let loaded = load(&MilkHome::resolve(&env).unwrap(), &env, &place.project);
    assert!(!loaded.config.acp_resume() && !loaded.config.show_reasoning());
    assert!(!loaded.config.shown().contains_key("agent"));
}

#[test]
fn unknown_keys_stay_in_the_layers() {
    let loaded = trusted(&json!({"zz": 1, "agent": "", "aa": {"b": [1]}}), &json!({"later": true}));
    let keys: Vec<&String> = loaded.config.global().unwrap().raw.keys().collect();
    assert_eq!(keys, ["zz", "agent", "aa"]);
    assert_eq!(loaded.config.project().unwrap().raw["later"], json!(true));
    assert_eq!(loaded.config.shown()["aa"], json!({"b": [1]}));
}

#[test]
fn relative_files_belong_to_the_file_that_names_them() {
    let agents = |file: &str| json!({"agents": [{"name": "a", "url": "http://a", "prompt_file": file}]});
    for (project, expected) in [(Value::Null, "home/p.md"), (agents("q.md"), "project/q.md")] {
        let place = place(&agents("p.md"), &project);
        place.trust();
        let expected = place.project.parent().unwrap().join(expected);
        let agent = place.load(&Env::default()).config.agents()[0].clone();
        assert_eq!(agent.prompt, Some(crate::agent::Prompt::File(expected)));
    }
}

#[test]
fn secrets_are_known_wherever_they_are() {
    let place = place(
        &json!({
            "agents": [{
                "name": "a", "url": "https://h/?key=sk-QUERY-1", "api_key": "${MY_KEY}",
                "headers": {"X-Auth": "Bearer hd-SECRET", "User-Agent": "milk-agent"},
            }],
            "mcp_servers": [{"name": "m", "api_key": "sk-MCP-1234"}],
            "remote_oversight": {"telegram": {"token": "123456:AAFAKE"}},
        }),
        &json!({"agents": [{"name": "local", "url": "http://l", "api_key": "sk-LOCAL-123", "apikey": "sk-TYPO-123"}]}),
    );
    place.trust();
    let env = Env::of([("MY_KEY", "sk-MINE-123"), ("GROQ_API_KEY", "gsk-UNUSED"), ("FOO", "bar-bar-bar")]);
    let config = place.load(&env).config;
    for secret in [
        "sk-QUERY-1",
        "sk-MINE-123",
        "hd-SECRET",
        "sk-MCP-1234",
        "123456:AAFAKE",
        "sk-LOCAL-123",
        "sk-TYPO-123",
        "gsk-UNUSED",
    ] {
        assert_eq!(config.redact(&format!("<{secret}>")), "<***>", "{secret}");
    }
    for plain in ["milk-agent", "bar-bar-bar", "MY_KEY", "a"] {
        assert_eq!(config.redact(plain), plain);
    }
    let everything = format!("{config:?} {}", Value::Object(config.shown()));
    for secret in config.secrets() {
        assert!(!everything.contains(secret.expose()));
    }
    assert!(everything.contains("${MY_KEY}"));
}

#[test]
fn children_do_not_get_milks_secrets() {
    let global = json!({
        "agents": [{
            "name": "a", "url": "http://${LLM_HOST}/?k=${URL_KEY}", "api_key": "${MY_KEY}",
            "headers": {"X-User": "${USER}", "X-Token": "${HEADER_TOKEN}"},
        }],
        "mcp_servers": [{"name": "m", "api_key": "sk-MCP-1234"}],
    });
    let env = Env::of([
        ("PATH", "/bin"),
        ("HOME", "/home/me"),
        ("USER", "somebody"),
        ("FOO", "bar"),
        ("LLM_HOST", "localhost"),
        ("URL_KEY", "sk-URL-1234"),
        ("MY_KEY", "sk-MINE-123"),
        ("SAME_KEY", "sk-MINE-123"),
        ("MCP_KEY", "sk-MCP-1234"),
        ("HEADER_TOKEN", "hd-TOKEN"),
        ("GROQ_API_KEY", "gsk-UNUSED"),
        ("GROQ_COPY", "gsk-UNUSED"),
    ]);
    let place = place(&global, &Value::Null);
    let config = place.load(&env).config;
    let names = config.secret_env_names();
    for (name, _) in env.iter() {
        let kept = ["PATH", "HOME", "USER", "FOO", "LLM_HOST"].contains(&name);
        assert_eq!(!names.contains(name), kept, "{name}");
    }
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "TELEGRAM_BOT_TOKEN"] {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn an_untrusted_project_cannot_choose_what_is_masked() {
    let agents = json!([{"name": "e", "url": "http://e", "api_key": "${FOO}"}, {"name": "f", "api_key": "permission"}]);
    let place = place(&json!({}), &json!({"agents": agents, "secret": "permission"}));
    let config = place.load(&Env::of([("FOO", "bar-bar-bar"), ("BAR", "permission")])).config;
    assert!(!config.secret_env_names().contains("FOO") && !config.secret_env_names().contains("BAR"));
    assert_eq!(config.redact("bar-bar-bar permission"), "bar-bar-bar permission");
}

#[test]
fn a_snapshot_does_not_change_with_the_files() {
    let place = place(&json!({"acp_resume": false}), &Value::Null);
    let before = place.load(&Env::default()).config;
    let clone = before.clone();
    fs::write(place.home.config_file(), "{}").unwrap();
    assert!(!before.acp_resume() && !clone.acp_resume());
    assert!(place.load(&Env::default()).config.acp_resume());
}
