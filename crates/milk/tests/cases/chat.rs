//! `milk chat`: a plain terminal client of milk, in process, and of any other ACP agent.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use milk_testkit::{ModelServer, Reply, Script, TestHome};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{MILK, assert_has, assert_has_any, assert_lacks, within};

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn all(output: &Output) -> String {
    stdout(output) + &String::from_utf8_lossy(&output.stderr)
}

/// A home whose config names this server.
fn home_of(server: &ModelServer) -> TestHome {
    let home = TestHome::new();
    home.config(&server.config());
    home
}

/// Both ways to reach milk: in process, and as an external agent over pipes.
fn both_ways(prompt: &str) -> [Vec<String>; 2] {
    let external = format!("'{MILK}' serve --acp");
    [vec!["chat".into(), prompt.into()], vec!["chat".into(), "--agent".into(), external, prompt.into()]]
}

fn run(home: &TestHome, args: &[String], input: &str) -> Output {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    home.run(MILK, &args, input)
}

#[tokio::test]
async fn a_prompt_prints_the_answer() {
    for args in both_ways("hello there") {
        let server = ModelServer::script([Reply::deltas(["one ", "two ", "three"])]).await;
        let home = home_of(&server);
        let output = run(&home, &args, "");
        assert!(output.status.success(), "{}", all(&output));
        assert_has(&stdout(&output), "one two three");
        assert_has(&server.request(0).await.last_user(), "hello there");
        assert!(!stdout(&output).contains('\u{1b}'), "no colours where no terminal is: {output:?}");
        server.assert_played();
    }
}

/// The text comes as the model produces it.
#[tokio::test]
async fn the_answer_streams() {
    let gate = milk_testkit::Gate::new();
    let server =
        ModelServer::script([Reply::stream().say("first half\n").wait(&gate).say("second half\n").end()])
            .await;
    let home = home_of(&server);
    let mut chat = Chat::start(&home, &["chat", "hello"]);
    let first = chat.line_with("first half");
    assert_lacks(&first, "second half");
    gate.open();
    chat.line_with("second half");
    assert!(chat.end(Duration::from_secs(10)).0);
}

fn writes_a_file() -> [Reply; 2] {
    [Reply::tool("write_file", json!({"path": "w.txt", "content": "new words\n"})), Reply::text("all done")]
}

#[tokio::test]
async fn a_yes_on_stdin_lets_a_tool_run() {
    for args in both_ways("write it") {
        let server = ModelServer::script(writes_a_file()).await;
        let home = home_of(&server);
        let output = run(&home, &args, "y\n");
        assert!(output.status.success(), "{}", all(&output));
        assert_eq!(home.read("w.txt"), "new words\n");
        let said = all(&output);
        assert_has(&said, "write_file");
        assert_has(&said, "w.txt");
        // The diff is there to judge by.
        assert_has(&said, "+new words");
        assert_has(&said, "all done");
    }
}

#[tokio::test]
async fn anything_but_a_yes_on_stdin_is_a_no() {
    for args in both_ways("write it") {
        for input in ["n\n", "", "\n", "maybe\n", "yikes\n", "no\n"] {
            let server = ModelServer::script(writes_a_file()).await;
            let home = home_of(&server);
            let output = run(&home, &args, input);
            assert!(!home.exists("w.txt"), "{input:?} let it run: {}", all(&output));
            // The model was told, and the turn went on.
            assert_has(&stdout(&output), "all done");
            assert!(output.status.success(), "{input:?}: {}", all(&output));
            assert_has_any(&server.request(1).await.tool_results()[0].1, &["denied"]);
        }
    }
}

#[tokio::test]
async fn yes_to_everything_needs_no_stdin() {
    let server = ModelServer::script(writes_a_file()).await;
    let home = home_of(&server);
    let output = home.run(MILK, &["chat", "--yes", "write it"], "");
    assert!(output.status.success(), "{}", all(&output));
    assert_eq!(home.read("w.txt"), "new words\n");
}

/// The question in the terminal cannot be repainted by what it is about.
#[tokio::test]
async fn a_crafted_command_cannot_repaint_the_terminal() {
    let command = "rm -rf build\r\u{1b}[2Kls -la \u{202e}\u{1b}]52;c;cm0=\u{7}";
    for args in both_ways("go") {
        let server =
            ModelServer::script([Reply::tool("bash", json!({"command": command})), Reply::text("all done")])
                .await;
        let home = home_of(&server);
        let said = all(&run(&home, &args, "n\n"));
        assert_has(&said, "rm -rf build");
        for raw in ["\u{1b}", "\r", "\u{202e}", "\u{7}"] {
            assert_lacks(&said, raw);
        }
    }
}

/// Nor can the model's words.
#[tokio::test]
async fn the_models_words_cannot_command_the_terminal() {
    for args in both_ways("go") {
        let server =
            ModelServer::script([Reply::text("before \u{1b}]52;c;cm0=\u{7}\u{1b}[2J\u{9b}2J after")]).await;
        let home = home_of(&server);
        let said = all(&run(&home, &args, ""));
        assert_has(&said, "before");
        assert_has(&said, "after");
        for raw in ["\u{1b}", "\u{7}", "\u{9b}"] {
            assert_lacks(&said, raw);
        }
    }
}

#[tokio::test]
async fn a_failed_turn_is_told_and_is_the_exit_status() {
    for args in both_ways("hello") {
        let server = ModelServer::script([Reply::status(401)]).await;
        let home = home_of(&server);
        let output = run(&home, &args, "");
        assert!(!output.status.success(), "{}", all(&output));
        assert_has(&all(&output), "401");
    }
}

#[tokio::test]
async fn an_agent_that_cannot_be_started_is_told() {
    let home = TestHome::new();
    for command in ["/nowhere/agent --acp", "sh -c 'echo no protocol; exit 3'", "true", ""] {
        let began = Instant::now();
        let output = home.run(MILK, &["chat", "--agent", command, "hello"], "");
        within(began.elapsed(), Duration::from_secs(10), command);
        assert!(!output.status.success(), "{command:?}: {}", all(&output));
        assert!(!output.stderr.is_empty(), "{command:?} failed in silence");
    }
}

/// On a fresh machine, the README's first command works: the demo agent reads a file.
#[tokio::test]
async fn with_no_model_configured_the_demo_works() {
    for args in both_ways("read README.md") {
        let home = TestHome::new();
        home.config(&json!({"discovery": false}));
        home.write("README.md", "# The words of the readme\n");
        let output = run(&home, &args, "");
        assert!(output.status.success(), "{}", all(&output));
        assert_has(&all(&output), "The words of the readme");
        assert_has_any(&all(&output), &["demo"]);
    }
}

#[tokio::test]
async fn the_demo_asks_before_it_runs_a_command() {
    for (answer, runs) in [("y\n", true), ("n\n", false)] {
        let home = TestHome::new();
        home.config(&json!({"discovery": false}));
        let output = home.run(MILK, &["chat", "run touch made"], answer);
        assert_eq!(home.exists("made"), runs, "{}", all(&output));
        assert!(output.status.success(), "{}", all(&output));
    }
}

#[tokio::test]
async fn without_a_prompt_each_line_is_one() {
    let server = ModelServer::script([Reply::text("first answer"), Reply::text("second answer")]).await;
    let home = home_of(&server);
    let output = home.run(MILK, &["chat"], "first question\nsecond question\n");
    assert!(output.status.success(), "{}", all(&output));
    assert_has(&stdout(&output), "first answer");
    assert_has(&stdout(&output), "second answer");
    assert_has(&server.request(1).await.body["messages"].to_string(), "first question");
}

#[tokio::test]
async fn it_works_in_the_directory_that_it_is_given() {
    for args in both_ways("look") {
        let server =
            ModelServer::script([Reply::tool("read_file", json!({"path": "x"})), Reply::text("done")]).await;
        let home = home_of(&server);
        let other = home.another_workspace("other");
        home.write(other.join("x"), "words of the other place\n");
        let mut args = args;
        args.splice(1..1, ["--cwd".to_owned(), other.display().to_string()]);
        let output = run(&home, &args, "");
        assert!(output.status.success(), "{}", all(&output));
        assert_has(&server.request(1).await.tool_results()[0].1, "words of the other place");
    }
}

#[tokio::test]
async fn an_interrupt_cancels_the_turn_and_ends() {
    for args in both_ways("hello") {
        let server = ModelServer::start(Script::replies([Reply::stream().say("beginning\n").hang()])).await;
        let home = home_of(&server);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut chat = Chat::start(&home, &args);
        chat.line_with("beginning");
        chat.interrupt();
        server.closed(0).await;
        let (ended_well, _) = chat.end(Duration::from_secs(5));
        assert!(!ended_well, "a cancelled turn is no success");
        assert!(milk_testkit::fault::wait_gone(&home.marker(), Duration::from_secs(2)).await.is_ok());
    }
}

/// A running `milk chat`, for tests that look at it before it ends.
struct Chat {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Chat {
    fn start(home: &TestHome, args: &[&str]) -> Self {
        let mut command = Command::new(MILK);
        command.args(args).env_clear().envs(home.agent_env()).current_dir(home.workspace());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads up to the line with this text, and gives all that was read.
    #[track_caller]
    fn line_with(&mut self, text: &str) -> String {
        let mut read = String::new();
        while !read.contains(text) {
            assert_ne!(self.lines.read_line(&mut read).unwrap(), 0, "{text:?} did not come: {read}");
        }
        read
    }

    fn interrupt(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
    }

    /// Waits for its end: whether it was a success, and the rest of what it said.
    #[track_caller]
    fn end(mut self, limit: Duration) -> (bool, String) {
        drop(self.child.stdin.take().map(|mut stdin| stdin.flush()));
        self.end_by_itself(limit)
    }

    /// The same while its input stays open: an end of input is an answer too.
    #[track_caller]
    fn end_by_itself(mut self, limit: Duration) -> (bool, String) {
        let _input = self.child.stdin.take();
        let mut rest = String::new();
        let began = Instant::now();
        self.lines.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        within(began.elapsed(), limit, "the end");
        (status.success(), rest)
    }
}

/// The third answer is for ever, in this folder.
#[tokio::test]
async fn always_on_stdin_lasts() {
    let server = ModelServer::script(writes_a_file().into_iter().chain(writes_a_file())).await;
    let home = home_of(&server);
    let output = home.run(MILK, &["chat", "write it"], "a\n");
    assert!(output.status.success(), "{}", all(&output));
    std::fs::remove_file(home.workspace().join("w.txt")).unwrap();
    let output = home.run(MILK, &["chat", "write it"], "");
    assert!(output.status.success(), "{}", all(&output));
    assert_eq!(home.read("w.txt"), "new words\n");
}

#[tokio::test]
async fn an_interrupt_at_a_question_is_no_yes() {
    for args in both_ways("write it") {
        let server = ModelServer::start(Script::replies(writes_a_file()).unchecked()).await;
        let home = home_of(&server);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut chat = Chat::start(&home, &args);
        chat.line_with("Allow write_file?");
        chat.interrupt();
        let (ended_well, _) = chat.end_by_itself(Duration::from_secs(5));
        assert!(!ended_well, "a cancelled turn is no success");
        assert!(!home.exists("w.txt"));
    }
}

/// `milk chat … | head -1`: the reader goes away in the middle.
#[tokio::test]
async fn a_reader_that_goes_away_ends_it_quietly() {
    let long = (0..5_000).fold(Reply::stream(), |reply, number| reply.say(format!("line {number}\n"))).end();
    for args in both_ways("hello") {
        let server = ModelServer::start(Script::replies([long.clone()])).await;
        let home = home_of(&server);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut chat = Chat::start(&home, &args);
        chat.line_with("line 0");
        let (mut child, lines) = (chat.child, chat.lines);
        drop(lines);
        let began = Instant::now();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        child.wait().unwrap();
        within(began.elapsed(), Duration::from_secs(5), "the end");
        assert_lacks(&stderr, "panicked");
    }
}

/// Another agent: it speaks only v1, writes junk between its lines, and asks for things that a terminal does not have.
const OTHER: &str = r#"
say() { printf '%s\n' "$1"; }
echo "a greeting that is no protocol"
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}; id=${id%%\}*}
  case "$line" in
    *'"method":"initialize"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}}' ;;
    *'"method":"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
    *'"method":"session/prompt"'*)
      prompt=$id
      say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"something_new","x":1}}}'
      say '{"jsonrpc":"2.0","id":"f","method":"fs/read_text_file","params":{"sessionId":"s","path":"/etc/hostname"}}' ;;
    *'"id":"f"'*)
      case "$line" in *'"error"'*) ;; *) say '{"jsonrpc":"2.0","id":'"$prompt"',"error":{"code":-32603,"message":"that was no error"}}' ;; esac
      say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"do the thing","kind":"other","status":"pending"}}}'
      say '{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","title":"do the thing"},"options":[{"optionId":"ja","name":"Do it","kind":"allow_once"},{"optionId":"nein","name":"Leave it","kind":"reject_once"}]}}' ;;
    *'"id":7'*)
      case "$line" in *'"ja"'*) word=granted ;; *'"nein"'*) word=refused ;; *) word=odd ;; esac
      say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"it was '"$word"'"}}}}'
      say '{"jsonrpc":"2.0","id":'"$prompt"',"result":{"stopReason":"end_turn"}}' ;;
  esac
done
"#;

#[tokio::test]
async fn another_agent_of_version_1_is_driven_the_same_way() {
    for (input, word) in [("y\n", "it was granted"), ("n\n", "it was refused")] {
        let home = TestHome::new();
        let script = home.write("agent.sh", OTHER);
        let command = format!("sh '{}'", script.display());
        let output = home.run(MILK, &["chat", "--agent", &command, "hello"], input);
        assert!(output.status.success(), "{}", all(&output));
        assert_has(&all(&output), "do the thing");
        assert_has(&stdout(&output), word);
    }
}
