//! The temporary machine and the observers of processes.
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use milk_testkit::fault::{self, RefusedPort};
use milk_testkit::{AgentProcess, ModelServer, TestHome};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn configs_and_files_lie_where_milk_looks_for_them() {
    let (home, server) = (TestHome::new(), ModelServer::script([]).await);
    home.config(&server.config());
    home.project_config(&json!({"think": true}));
    let config: Value = serde_json::from_str(&home.read(home.milk_home().join("config.json"))).unwrap();
    assert_eq!(config["agents"][0]["url"], server.url());
    assert_eq!(home.read(".milk/config.json"), r#"{"think":true}"#);
    let file = home.write("deep/er/a.txt", "x");
    assert!(file.starts_with(home.workspace()) && home.exists("deep/er/a.txt") && !home.exists("b"));
    assert!(!home.outside().starts_with(home.workspace()));
    assert_ne!(home.another_workspace("two"), home.workspace());
}

#[test]
fn a_program_runs_in_the_home_with_input_and_output() {
    let home = TestHome::new();
    let output = home.run("sh", &["-c", "cat; pwd; echo $HOME; echo no >&2; exit 4"], "typed\n");
    let expected = format!("typed\n{}\n{}\n", home.workspace().display(), home.home().display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(4), b"no\n".as_slice()));
}

#[tokio::test]
async fn what_an_agent_leaves_behind_is_found_by_the_homes_marker_and_ends_with_it() {
    let home = TestHome::new();
    // A session of its own, as a shell tool's command has: out of reach of the agent's group.
    let agent = AgentProcess::start(home.launch("sh", &["-c", "setsid sleep 600 >&2 & read x"]));
    let marker = home.marker();
    while fault::alive_with_marker(&marker).len() < 2 {
        tokio::task::yield_now().await;
    }
    agent.close_stdin();
    agent.wait_exit(LIMIT).await;
    let left = fault::wait_gone(&marker, Duration::ZERO).await.unwrap_err();
    assert_eq!(left.len(), 1);
    assert!(fault::is_alive(left[0]));
    drop(agent);
    drop(home);
    assert_eq!(fault::wait_gone(&marker, LIMIT).await, Ok(()));
}

#[test]
fn a_home_goes_with_its_files_even_those_it_has_no_right_to() {
    let home = TestHome::new();
    let file = home.write("locked/inner/a.txt", "x");
    let root = home.root().to_owned();
    std::fs::set_permissions(file.parent().unwrap(), std::fs::Permissions::from_mode(0o500)).unwrap();
    std::fs::set_permissions(home.workspace().join("locked"), std::fs::Permissions::from_mode(0o000))
        .unwrap();
    drop(home);
    assert!(!root.exists());
}

#[test]
fn processes_can_be_measured() {
    let me = std::process::id();
    assert!(fault::rss_bytes(me).unwrap() > 100_000);
    assert!(fault::peak_rss_bytes(me) >= fault::rss_bytes(me).map(|rss| rss / 2));
    assert!(fault::threads(me).unwrap() >= 1 && fault::open_files(me).unwrap() >= 3);
    assert_eq!(fault::rss_bytes(u32::MAX), None);
}

#[tokio::test]
async fn a_refused_port_refuses_for_as_long_as_it_lives() {
    let port = RefusedPort::take().unwrap();
    for _ in 0..3 {
        let error = std::net::TcpStream::connect(port.address()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    assert!(port.url().ends_with(&port.address().port().to_string()));
}
