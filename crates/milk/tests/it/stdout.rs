//! Only protocol is ever on stdout, whatever the start and whatever a command does: contract, Launching it;
//! cases 008, 009.

use milk_testkit::{AgentProcess, Launch, ModelServer, Policy, Reply, TestHome};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{MILK, Setup, assert_has, assert_lacks, prompt, request};

/// What a person reads and no protocol: on both outputs of a command.
const NOISE: &str = "echo noise; echo noise >&2";

/// How milk is started in one row of case 008.
struct Start {
    name: &'static str,
    home: TestHome,
    env: Vec<(&'static str, String)>,
    /// Variables of the home that this start does without.
    without: &'static [&'static str],
    model: Model,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    /// The scripted server, which the config names.
    Scripted,
    /// The demo agent, since no config could be read.
    Demo,
}

impl Start {
    /// In a home whose config is these bytes.
    fn with(name: &'static str, config: impl AsRef<[u8]>, model: Model) -> Self {
        let home = TestHome::new();
        std::fs::write(home.milk_home().join("config.json"), config).unwrap();
        Self { name, home, env: Vec::new(), without: &[], model }
    }

    /// In a home that has its config elsewhere.
    fn with_config_elsewhere(name: &'static str, config: &Value) -> Self {
        let home = TestHome::new();
        let file = home.root().join("elsewhere.json");
        std::fs::write(&file, config.to_string()).unwrap();
        Self { name, home, env: Vec::new(), without: &[], model: Model::Scripted }
            .env("MILK_CONFIG", |home| home.root().join("elsewhere.json").display().to_string())
    }

    fn env(mut self, name: &'static str, value: impl FnOnce(&TestHome) -> String) -> Self {
        self.env.push((name, value(&self.home)));
        self
    }

    fn envs<const N: usize>(self, variables: [(&'static str, &'static str); N]) -> Self {
        variables.into_iter().fold(self, |start, (name, value)| start.env(name, |_| value.to_owned()))
    }

    fn without(mut self, names: &'static [&'static str]) -> Self {
        self.without = names;
        self
    }

    fn spawn(&self) -> AgentProcess {
        // Where the user's config cannot be read, nothing may look for models on this machine all the same.
        self.home.project_config(&json!({"discovery": false}));
        let kept = self.home.agent_env().into_iter();
        let kept = kept.filter(|(name, _)| !self.without.iter().any(|dropped| name == dropped));
        let launch = Launch::new(MILK).args(["serve", "--acp"]).envs(kept).envs(self.env.clone());
        AgentProcess::start(launch.cwd(self.home.home()).policy(Policy::Allow))
    }
}

/// Homes that lack something, or in which nothing can be kept.
fn poor_homes(config: &Value) -> Vec<Start> {
    let read_only = Start::with("read-only state", config.to_string(), Model::Scripted);
    set_mode(&read_only.home.milk_home(), 0o555);
    let first_run = Start::with("first run ever", "", Model::Demo);
    std::fs::remove_dir_all(first_run.home.milk_home()).unwrap();
    let file = |home: &TestHome| {
        let file = home.root().join("a-file");
        std::fs::write(&file, "").unwrap();
        file.display().to_string()
    };
    let nowhere = |home: &TestHome| home.root().join("no/such/home").display().to_string();
    vec![
        Start::with("no HOME", config.to_string(), Model::Scripted).without(&["HOME"]),
        Start::with_config_elsewhere("a HOME that is not there", config)
            .env("HOME", nowhere)
            .without(&["MILK_HOME"]),
        Start::with_config_elsewhere("a file for a state folder", config).env("MILK_HOME", file),
        read_only,
        first_run,
    ]
}

/// Configs that cannot be read, or not as they were meant.
fn odd_configs(config: &Value) -> Vec<Start> {
    let mut wrong = config.clone();
    for (key, value) in [("retry_limit", json!("many")), ("acp_streaming", json!(1)), ("rules", json!([]))] {
        wrong[key] = value;
    }
    let nothing_right = json!({"agent": 5, "agents": "none", "mcp_servers": {}, "otel": 7});
    vec![
        Start::with("empty", "", Model::Demo),
        Start::with("truncated", r#"{"agent": "test", "agents": [{"name": "#, Model::Demo),
        Start::with("no object", "[1, 2]", Model::Demo),
        Start::with("no JSON", "agent: test\n", Model::Demo),
        Start::with("no UTF-8", b"\xFF\xFE{}", Model::Demo),
        Start::with("byte-order mark", format!("\u{feff}{config}"), Model::Scripted),
        Start::with("wrong types", wrong.to_string(), Model::Scripted),
        Start::with("nothing but wrong types", nothing_right.to_string(), Model::Demo),
    ]
}

/// Environments that make a program talk.
fn loud_environments(config: &Value) -> Vec<Start> {
    let start = |name| Start::with(name, config.to_string(), Model::Scripted);
    let trace = [("MILK_LOG", "trace"), ("RUST_LOG", "trace"), ("RUST_BACKTRACE", "1"), ("TERM", "xterm")];
    let odd =
        [("MILK_LOG", "no=such=filter,,"), ("RUST_LOG", "]["), ("LANG", "xx_XX"), ("LC_ALL", "nonsense")];
    vec![start("trace").envs(trace), start("odd log filter").envs(odd)]
}

fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Case 008: whatever the start, only protocol is on stdout, the handshake works and a command runs.
async fn assert_pure(starts: impl FnOnce(&Value) -> Vec<Start>) {
    let server = ModelServer::respond(|request| match request.tool_results().last() {
        None => Reply::tool("bash", json!({"command": NOISE})),
        Some((_, result)) => Reply::text(format!("it said {result}")),
    })
    .await;
    let mut config = server.config();
    config["discovery"] = false.into();
    for start in starts(&config) {
        let (name, agent) = (start.name, start.spawn());
        agent.initialize(2).await;
        let session = agent.new_session(start.home.workspace()).await;
        let prompt = match start.model {
            Model::Scripted => "make noise".to_owned(),
            Model::Demo => format!("run {NOISE}"),
        };
        let turn = agent.turn(&session, &prompt).await;
        assert!(turn.response.is_ok(), "{name}: {turn:#?}\n{}", agent.stderr());
        assert_eq!(turn.stop_reason.as_deref(), Some("end_turn"), "{name}: {turn:#?}");
        let rows = agent.transcript().tool_rows(&session);
        let row = rows.first().unwrap_or_else(|| panic!("{name}: no command was run: {turn:#?}"));
        assert_has(&row.fields.to_string(), "noise");
        assert_eq!(row.status(), "completed", "{name}: {row:#?}");
        // Checks every line on stdout.
        assert!(agent.shutdown().await.success(), "{name}: {}", agent.stderr());
    }
}

#[tokio::test]
async fn a_poor_home_puts_nothing_on_stdout() {
    assert_pure(poor_homes).await;
}

#[tokio::test]
async fn an_odd_config_puts_nothing_on_stdout() {
    assert_pure(odd_configs).await;
}

#[tokio::test]
async fn a_loud_environment_puts_nothing_on_stdout() {
    assert_pure(loud_environments).await;
}

/// Case 009
#[tokio::test]
async fn a_command_does_not_read_the_protocol() {
    let bash = |command: &str| Reply::tool("bash", json!({ "command": command }));
    let replies = [bash("cat; echo end"), bash("read x; echo got:$x:"), Reply::text("done")];
    let rig = Setup::replies(replies).policy(Policy::Allow).start().await;
    let session = rig.session().await;
    let mut lines = vec![prompt("p", &session, "go")];
    lines.extend((0..50).map(|id| request(id, "session/list", json!({}))));
    rig.agent.send_bytes(lines.concat().as_bytes());
    for id in 0..50 {
        rig.agent.response(id).await.unwrap();
    }
    rig.agent.response("p").await.unwrap();
    let results = rig.results(2).await;
    assert_has(&results[0], "end");
    assert_lacks(&results[0], "session/list");
    assert_has(&results[1], "got::");
}
