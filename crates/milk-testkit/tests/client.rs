//! The recording client, against a small agent written in shell.
#![cfg(unix)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use milk_testkit::client::{Direction, Signal, Speaker};
use milk_testkit::{AgentProcess, Answer, Launch, Matcher, Policy};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// Speaks v2. The prompt's text says what happens: `ask`, `flood`, `junk`, `fail`, `quit`, else it is answered.
const AGENT: &str = r#"
say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'"$1"'}}'; }
chunk() { update '{"sessionUpdate":"agent_message_chunk","messageId":"a","content":{"type":"text","text":"'"$1"'"}}'; }
state() { update '{"sessionUpdate":"state_update","state":"'"$1"'"'"$2"'}'; }
finish() { state idle ',"stopReason":"end_turn"'; say '{"jsonrpc":"2.0","id":'"$1"',"result":{"messageId":"u"}}'; }
echo started >&2
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  case "$line" in
    *'"method":"initialize"'*)
      say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":2,"info":{"name":"sh","version":"1"}}}' ;;
    *'"method":"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
    *'"method":"session/prompt"'*)
      prompt=$id
      state running
      case "$line" in
        *ask*) say '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s",
          "title":"Allow?","options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},
          {"optionId":"no","name":"No","kind":"reject_once"}]}}' | tr -d '\n'; echo ;;
        *flood*) i=0; while [ $i -lt 3000 ]; do chunk x; i=$((i+1)); done; finish "$prompt" ;;
        *junk*) echo 'Warning: not protocol'; finish "$prompt" ;;
        *wrong*) chunk x | sed 's/agent_message_chunk/agent_msg_chunk/'; finish "$prompt" ;;
        *fail*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32000,"message":"no"}}' ;;
        *quit*) exit 3 ;;
        *) chunk "one "; chunk two; finish "$prompt" ;;
      esac ;;
    *'"id":"q"'*) chunk "$(printf '%s' "$line" | tr -d '"{}')"; finish "$prompt" ;;
    *'"method":"session/cancel"'*) state idle ',"stopReason":"cancelled"' ;;
    *) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"method not found"}}' ;;
  esac
done
"#;

fn launch(script: &str) -> Launch {
    Launch::new("sh").args(["-c", script])
}

async fn started(launch: Launch) -> AgentProcess {
    let agent = AgentProcess::start(launch);
    agent.initialize(2).await;
    assert_eq!(agent.new_session("/w").await, "s");
    agent
}

fn fails(check: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(check)).is_err()
}

#[tokio::test]
async fn a_turn_is_recorded_in_order() {
    let agent = started(launch(AGENT)).await;
    let turn = agent.turn("s", "hello").await;
    assert_eq!(turn.text, "one two");
    assert_eq!(turn.stop_reason.as_deref(), Some("end_turn"));
    assert_eq!(turn.response, Ok(json!({"messageId": "u"})));
    assert_eq!(agent.until_idle("s").await, "end_turn");
    let transcript = agent.transcript();
    transcript.assert_order(&[
        Matcher::sent("initialize"),
        Matcher::sent("session/new"),
        Matcher::sent("session/prompt").session("s"),
        Matcher::state("running"),
        Matcher::update("agent_message_chunk"),
        Matcher::state("idle"),
        Matcher::response(&turn.id),
    ]);
    assert_eq!(transcript.version(), 2);
    assert_eq!(
        transcript.kinds("s"),
        ["state_update", "agent_message_chunk", "agent_message_chunk", "state_update"]
    );
    let texts = transcript.texts("s");
    assert_eq!((texts.len(), texts[0].speaker, texts[0].text.as_str()), (1, Speaker::Agent, "one two"));
    assert!(agent.shutdown().await.success());
    assert_eq!(agent.stderr(), "started\n");
}

#[tokio::test]
async fn policies_answer_permission_questions() {
    let agent = started(launch(AGENT)).await;
    let cases = [
        (Policy::Allow, "optionId:yes"),
        (Policy::Deny, "optionId:no"),
        (Policy::Kind("reject_once".to_owned()), "optionId:no"),
        (Policy::Kind("allow_always".to_owned()), "code:-32602"),
        (Policy::Option("maybe".to_owned()), "optionId:maybe"),
        (Policy::script(|_| Answer::Result(Value::Null)), "result:null"),
        (Policy::script(|_| Answer::cancelled()), "outcome:cancelled"),
    ];
    for (policy, expected) in cases {
        agent.set_policy(policy);
        let turn = agent.turn("s", "ask").await;
        assert!(turn.text.contains(expected), "{} lacks {expected}", turn.text);
    }
}

#[tokio::test]
async fn a_held_question_waits_for_the_test() {
    let agent = started(launch(AGENT)).await;
    let prompt = agent.prompt("s", "ask");
    let question = agent.expect_request("session/request_permission").await;
    agent.sync().await;
    assert_eq!(agent.held(), std::slice::from_ref(&question));
    assert_eq!(agent.transcript().count(&Matcher::response(&prompt)), 0);
    agent.select(&question, "yes");
    agent.response(&prompt).await.unwrap();
    assert!(agent.held().is_empty());
    assert!(agent.transcript().agent_text("s").contains("optionId:yes"));
}

#[tokio::test]
async fn expect_goes_on_behind_the_last_match() {
    let agent = started(launch(AGENT)).await;
    let turn = agent.turn("s", "hello").await;
    let first = agent.expect_update("s", "agent_message_chunk").await;
    let second = agent.expect_update("s", "agent_message_chunk").await;
    assert_eq!((&first["content"]["text"], &second["content"]["text"]), (&json!("one "), &json!("two")));
    agent.expect(|message| turn.id.is_answered_by(message)).await;
}

#[tokio::test]
async fn errors_and_unknown_methods_are_results_of_their_own() {
    let agent = started(launch(AGENT)).await;
    assert_eq!(agent.request("foo/bar", json!({})).await.unwrap_err()["code"], -32601);
    let turn = agent.turn("s", "fail").await;
    assert_eq!(turn.response.unwrap_err()["code"], -32000);
    agent.prompt("s", "ask");
    agent.cancel("s");
    assert_eq!(agent.until_idle("s").await, "cancelled");
}

#[tokio::test]
async fn raw_bytes_are_recorded_by_line() {
    // Unchecked: this agent answers the empty line with nonsense.
    let agent = started(launch(AGENT).unchecked()).await;
    agent.send_bytes(br#"{"jsonrpc":"2.0","id":"x y","#);
    agent.send_bytes(b"\"method\":\"nope\"}\n\n");
    assert_eq!(agent.response("x y").await.unwrap_err()["code"], -32601);
    let sent: Vec<Vec<u8>> = agent.with_transcript(|transcript| {
        let to_agent = transcript.entries.iter().filter(|entry| entry.direction == Direction::ToAgent);
        to_agent.map(|entry| entry.raw.clone()).collect()
    });
    assert_eq!(sent[2], br#"{"jsonrpc":"2.0","id":"x y","method":"nope"}"#);
    assert_eq!(sent[3], b"");
}

#[tokio::test]
async fn a_line_that_is_no_protocol_fails_the_test_unless_unchecked() {
    let agent = started(launch(AGENT)).await;
    agent.turn("s", "junk").await;
    assert_eq!(agent.transcript().violations.len(), 1);
    assert!(fails(|| agent.verify()));
    assert!(fails(|| drop(agent)));

    let agent = started(launch(AGENT).unchecked()).await;
    agent.turn("s", "junk").await;
    drop(agent);
}

#[tokio::test]
async fn a_line_cut_off_by_the_agents_end_is_a_violation() {
    let agent = AgentProcess::start(launch("printf '{\"jsonrpc\":\"2.0\"'"));
    agent.wait_exit(Duration::from_secs(20)).await;
    assert!(fails(|| drop(agent)));
}

#[cfg(feature = "schema")]
#[tokio::test]
async fn a_message_that_the_schema_does_not_know_fails_the_test_unless_unvalidated() {
    let agent = started(launch(AGENT)).await;
    agent.turn("s", "wrong").await;
    let found = agent.transcript().validate(2);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("agent_msg_chunk"), "{found:?}");
    assert!(fails(|| drop(agent)));

    let agent = started(launch(AGENT).unvalidated()).await;
    agent.turn("s", "wrong").await;
    drop(agent);
}

#[tokio::test]
async fn waiting_ends_when_the_agent_does() {
    let agent = started(launch(AGENT)).await;
    let id = agent.prompt("s", "quit");
    let waiting = tokio::spawn(async move {
        let answer = agent.response(&id).await;
        drop((agent, answer));
    });
    let panic = waiting.await.unwrap_err().into_panic();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("the agent ended") && text.contains("exit status: 3"), "{text}");
    assert!(text.contains("started") && text.contains("session/prompt"), "{text}");
}

#[tokio::test]
async fn a_paused_reader_lets_the_pipe_fill_and_then_gets_everything() {
    let agent = started(launch(AGENT)).await;
    agent.pause_reading();
    let id = agent.prompt("s", "flood");
    // 3000 updates are more than a pipe holds: the agent cannot have finished, so this is no race.
    let early = tokio::time::timeout(Duration::from_millis(200), agent.response(id.clone())).await;
    assert!(early.is_err());
    agent.resume_reading();
    agent.response(id).await.unwrap();
    assert_eq!(agent.transcript().agent_text("s").len(), 3000);
}

#[tokio::test]
async fn a_vanished_reader_breaks_the_agents_pipe() {
    let agent =
        AgentProcess::start(launch("while echo '{\"jsonrpc\":\"2.0\",\"method\":\"_x\"}'; do :; done"));
    agent.expect(|message| message["method"] == "_x").await;
    agent.close_stdout();
    assert!(!agent.wait_exit(Duration::from_secs(20)).await.success());
}

#[tokio::test]
async fn signals_and_kill_end_the_agent() {
    let agent =
        AgentProcess::start(launch("trap 'exit 7' TERM; echo ready >&2; while :; do sleep 0.01; done"));
    while !agent.stderr().contains("ready") {
        tokio::task::yield_now().await;
    }
    agent.signal(Signal::Terminate);
    assert_eq!(agent.wait_exit(Duration::from_secs(20)).await.code(), Some(7));

    let agent = AgentProcess::start(launch("exec sleep 600"));
    assert!(milk_testkit::fault::is_alive(agent.pid()) || cfg!(not(target_os = "linux")));
    agent.kill();
    assert_eq!(agent.wait_exit(Duration::from_secs(20)).await.code(), None);
}

#[tokio::test]
async fn dropping_it_ends_the_agent_and_its_group() {
    let marker = format!("milk-testkit-drop-{}", std::process::id());
    let agent = AgentProcess::start(launch("sleep 600 & exec sleep 600").env("MARK", &marker));
    if cfg!(target_os = "linux") {
        milk_testkit::fault::wait_alive(&marker, Duration::from_secs(20)).await.unwrap();
    }
    drop(agent);
    assert_eq!(milk_testkit::fault::wait_gone(&marker, Duration::from_secs(20)).await, Ok(()));
}

#[tokio::test]
async fn the_environment_is_what_was_given() {
    let agent = AgentProcess::start(launch("env >&2").env("GIVEN", "1").env("GIVEN", "2"));
    agent.wait_exit(Duration::from_secs(20)).await;
    // What a process has said may be read a moment after it has ended.
    let told = async {
        while !agent.stderr().contains("GIVEN=") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), told).await.expect("the environment is told");
    let env = agent.stderr();
    let names: Vec<&str> = env.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let own = ["PATH", "GIVEN", "PWD", "SHLVL", "_", "OLDPWD"];
    assert!(names.iter().all(|name| own.contains(name)), "{names:?}");
    assert!(env.contains("GIVEN=2\n"));
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    assert!(AgentProcess::try_start(Launch::new("/no/such/program")).is_err());
}
