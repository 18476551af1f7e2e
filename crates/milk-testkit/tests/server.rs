//! The scripted model server, seen from a client that reads raw bytes.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use milk_testkit::server::{Cut, Framing, LineEnd, Outcome};
use milk_testkit::{Gate, ModelServer, Reply, Script, Step, ToolCall};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// A client on a bare socket.
struct Client {
    socket: TcpStream,
}

impl Client {
    fn connect(server: &ModelServer) -> Self {
        let socket = TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { socket }
    }

    fn post(&mut self, path: &str, body: &Value) {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nX-Tag: one\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.socket.write_all((head + &body).as_bytes()).unwrap();
    }

    fn chat(&mut self, text: &str) {
        self.post("/v1/chat/completions", &user(text));
    }

    /// Reads until `end` has come.
    fn read_to(&mut self, end: &str) -> String {
        let mut got = Vec::new();
        let mut byte = [0];
        while !got.ends_with(end.as_bytes()) {
            assert_eq!(
                self.socket.read(&mut byte).unwrap(),
                1,
                "ended in {:?}",
                String::from_utf8_lossy(&got)
            );
            got.push(byte[0]);
        }
        String::from_utf8_lossy(&got).into_owned()
    }

    /// Reads until the server closes.
    fn read_all(&mut self) -> String {
        let mut got = Vec::new();
        self.socket.read_to_end(&mut got).unwrap();
        String::from_utf8(got).unwrap()
    }

    /// Reads one whole chunked answer: its head, and its body put together.
    fn answer(&mut self) -> (String, String) {
        let head = self.read_to("\r\n\r\n");
        let mut body = String::new();
        loop {
            let size = self.read_to("\r\n");
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            let mut data = vec![0; size + 2];
            self.socket.read_exact(&mut data).unwrap();
            if size == 0 {
                return (head, body);
            }
            body += std::str::from_utf8(&data[..size]).unwrap();
        }
    }
}

fn user(text: &str) -> Value {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": text}]})
}

/// The JSON of all `data: ` events but `[DONE]`.
fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn text_of(body: &str) -> String {
    let delta =
        |event: &Value| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
    events(body).iter().map(delta).collect()
}

#[tokio::test]
async fn replies_are_played_in_order_on_one_connection_and_recorded() {
    let server = ModelServer::script([Reply::text("one"), Reply::deltas(["t", "wo"])]).await;
    let mut client = Client::connect(&server);
    client.chat("first");
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("content-type: text/event-stream"));
    assert_eq!(text_of(&body), "one");
    assert!(body.ends_with("data: [DONE]\n\n"));
    let finish: Vec<Value> = events(&body).iter().map(|e| e["choices"][0]["finish_reason"].clone()).collect();
    assert!(finish.contains(&json!("stop")));
    client.chat("second");
    assert_eq!(text_of(&client.answer().1), "two");

    let (first, second) = (server.request(0).await, server.request(1).await);
    assert_eq!((first.last_user(), second.last_user()), ("first".to_owned(), "second".to_owned()));
    assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!((first.header("x-tag"), first.model()), (Some("one"), "m"));
    assert_eq!((first.connection, second.connection, server.connections()), (0, 0, 1));
    assert_eq!(server.replied(1).await, Outcome::Played);
    assert!(server.request(0).await.connection_closed.is_none());
    drop(client);
    server.closed(1).await;
    assert!(!server.sent(0).is_empty());
    server.assert_played();
}

#[tokio::test]
async fn a_gate_holds_the_rest_back_until_it_opens() {
    let gate = Gate::new();
    let server = ModelServer::script([Reply::stream().say("before").wait(&gate).say("after").end()]).await;
    let mut client = Client::connect(&server);
    client.chat("x");
    gate.reached().await;
    let held = client.read_to("before");
    client.socket.set_nonblocking(true).unwrap();
    let mut rest = [0; 4096];
    let count = client.socket.read(&mut rest).unwrap_or(0);
    assert!(!held.contains("after") && !String::from_utf8_lossy(&rest[..count]).contains("after"));
    client.socket.set_nonblocking(false).unwrap();
    gate.open();
    assert!(client.read_to("[DONE]").contains("after"));
}

#[tokio::test]
async fn nothing_comes_before_a_held_head() {
    let gate = Gate::new();
    let server = ModelServer::script([Reply::text("x").held(&gate)]).await;
    let mut client = Client::connect(&server);
    client.chat("x");
    gate.reached().await;
    client.socket.set_nonblocking(true).unwrap();
    assert_eq!(client.socket.read(&mut [0; 16]).unwrap_err().kind(), ErrorKind::WouldBlock);
    client.socket.set_nonblocking(false).unwrap();
    gate.open();
    assert_eq!(text_of(&client.answer().1), "x");
}

#[tokio::test]
async fn a_client_that_goes_is_seen_and_ends_the_reply() {
    let replies =
        [Reply::stream().say("a").hang(), Reply::silence(), Reply::headers_only(), Reply::text("next")];
    let server = ModelServer::script(replies).await;
    for index in 0..3 {
        let mut client = Client::connect(&server);
        client.chat("x");
        server.request(index).await;
        if index == 2 {
            client.read_to("\r\n\r\n");
        }
        client.socket.shutdown(Shutdown::Both).unwrap();
        server.closed(index).await;
        assert_eq!(server.replied(index).await, Outcome::Abandoned);
    }
    let mut client = Client::connect(&server);
    client.chat("x");
    assert_eq!(text_of(&client.answer().1), "next");
}

#[tokio::test]
async fn close_and_reset_cut_the_body() {
    let server = ModelServer::script([
        Reply::stream().say("half").close(),
        Reply::stream().say("half").reset(),
        Reply::broken(),
        Reply::raw().bytes("HTTP/1.1 200 OK\r\ncontent-le").close(),
    ])
    .await;
    let mut client = Client::connect(&server);
    client.chat("x");
    let got = client.read_all();
    assert!(got.contains("half") && !got.ends_with("0\r\n\r\n"), "{got}");

    for _ in 0..2 {
        let mut client = Client::connect(&server);
        client.chat("x");
        let error = client.socket.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    let mut client = Client::connect(&server);
    client.chat("x");
    assert_eq!(client.read_all(), "HTTP/1.1 200 OK\r\ncontent-le");
    assert_eq!(server.replied(1).await, Outcome::Cut);
}

#[tokio::test]
async fn framing_line_ends_and_prefix_are_as_asked() {
    let server = ModelServer::script([
        Reply::text("a").framing(Framing::ContentLength),
        Reply::text("b").framing(Framing::UntilClose).line_end(LineEnd::CrLf).data_prefix("data:"),
    ])
    .await;
    let mut client = Client::connect(&server);
    client.chat("x");
    let head = client.read_to("\r\n\r\n");
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    client.socket.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    assert!(body.ends_with("data: [DONE]\n\n") && !body.contains('\r') && !head.contains("chunked"));

    client.chat("x");
    let got = client.read_all();
    assert!(got.ends_with("data:[DONE]\r\n\r\n") && !got.contains("transfer-encoding"));
    let (_, body) = got.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.matches('\n').count(), body.matches("\r\n").count());
}

#[tokio::test]
async fn bytes_can_go_out_one_by_one() {
    let server = ModelServer::script([Reply::stream().say("é漢").end().byte_by_byte()]).await;
    let mut client = Client::connect(&server);
    client.chat("x");
    client.read_to("\r\n\r\n");
    let first = client.read_to("\r\n");
    assert_eq!(first, "1\r\n");
    assert!(client.read_to("0\r\n\r\n").matches("1\r\n").count() > 100);
    let sent = server.replied(0).await;
    assert_eq!(sent, Outcome::Played);
}

#[tokio::test]
async fn tool_calls_come_whole_or_in_pieces_with_ids_of_their_own() {
    let calls = || {
        [
            ToolCall::new("read_file", json!({"path": "ä"})).pieces(4),
            ToolCall::new("bash", json!({})).raw_arguments("{cut"),
            ToolCall::new("grep", json!({})).id("mine"),
        ]
    };
    let replies =
        [Reply::tools(calls()), Reply::tools(calls()).framing(Framing::ContentLength).close_after()];
    let server = ModelServer::script(replies).await;
    let mut client = Client::connect(&server);
    client.chat("x");
    let events = events(&client.answer().1);
    let calls: Vec<&Value> = events.iter().map(|e| &e["choices"][0]["delta"]["tool_calls"][0]).collect();
    let of = |index: u64| calls.iter().filter(move |call| call["index"] == index);
    let arguments =
        |index| -> String { of(index).filter_map(|c| c["function"]["arguments"].as_str()).collect() };
    assert_eq!((arguments(0).as_str(), arguments(1).as_str()), (r#"{"path":"ä"}"#, "{cut"));
    assert_eq!(of(0).count(), 4);
    assert_eq!(of(0).filter(|call| call.get("id").is_some()).count(), 1);
    let ids: Vec<&str> = calls.iter().filter_map(|call| call["id"].as_str()).collect();
    assert_eq!(ids, ["call_0_0", "call_0_1", "mine"]);

    // The announced length holds for calls too: the next read is the end.
    client.chat("x");
    let got = client.read_all();
    let (head, body) = got.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head} {}", body.len());
}

#[tokio::test]
async fn other_paths_have_their_own_answers() {
    let script =
        Script::replies([]).models(["a", "b"]).route("/api/tags", Reply::json(200, &json!({"models": []})));
    let server = ModelServer::start(script).await;
    let mut client = Client::connect(&server);
    let mut get = |path: &str| {
        client.socket.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        let head = client.read_to("\r\n\r\n");
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
        let mut body = vec![0; length];
        client.socket.read_exact(&mut body).unwrap();
        let status = head[9..12].to_owned();
        (status, serde_json::from_slice::<Value>(&body).unwrap())
    };
    let (status, models) = get("/v1/models");
    assert_eq!((status.as_str(), &models["data"][1]["id"]), ("200", &json!("b")));
    assert_eq!(get("/health").0, "200");
    assert_eq!(get("/api/tags?x=1"), ("200".to_owned(), json!({"models": []})));
    assert_eq!(get("/nowhere").0, "404");
    assert_eq!((server.count(), server.all_requests().len()), (0, 4));
}

#[tokio::test]
async fn errors_carry_status_headers_and_body() {
    let replies =
        [Reply::status(429).header("retry-after", "2"), Reply::body(500, "text/html", "<h1>no</h1>")];
    let server = ModelServer::script(replies).await;
    let mut client = Client::connect(&server);
    client.chat("x");
    let head = client.read_to("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 429 Too Many Requests\r\n") && head.contains("retry-after: 2\r\n"));
    client.read_to("}}");
    client.chat("x");
    assert!(client.read_to("</h1>").contains("content-type: text/html"));
}

#[tokio::test]
async fn a_request_too_many_and_a_bad_conversation_are_violations() {
    let server = ModelServer::start(Script::replies([Reply::text("x")]).unchecked()).await;
    let mut client = Client::connect(&server);
    let orphan = json!({"messages": [{"role": "tool", "tool_call_id": "z", "content": ""}]});
    client.post("/v1/chat/completions", &orphan);
    client.answer();
    client.chat("x");
    client.read_to("}}");
    let violations = server.violations();
    assert_eq!(violations.len(), 2, "{violations:?}");
    assert!(violations[0].contains("request 0") && violations[1].contains("no reply left"));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.assert_clean()));
    assert!(caught.is_err());
}

#[test]
fn dropping_a_server_that_saw_a_violation_fails_the_test() {
    let caught = std::panic::catch_unwind(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = ModelServer::script([]).await;
            let mut client = Client::connect(&server);
            client.chat("x");
            client.read_to("}}");
        });
    });
    assert!(caught.is_err());
}

#[tokio::test]
async fn a_responder_decides_by_the_request_and_its_panic_is_told() {
    let server = ModelServer::start(
        Script::respond(|request| match request.last_user().as_str() {
            "panic" => panic!("asked for"),
            text => Reply::text(format!("got {text}")),
        })
        .unchecked(),
    )
    .await;
    let mut client = Client::connect(&server);
    client.chat("this");
    assert_eq!(text_of(&client.answer().1), "got this");
    client.chat("panic");
    client.read_to("}}");
    client.chat("that");
    assert_eq!(text_of(&client.answer().1), "got that");
    assert_eq!(server.violations(), ["request 1: the responder panicked"]);
}

#[tokio::test]
async fn odd_requests_are_refused_or_read() {
    let server = ModelServer::script([Reply::text("big"), Reply::text("chunked")]).await;
    for junk in ["\x16\x03\x01\x02\r\n\r\n", "GET\r\n\r\n", "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n"] {
        let mut client = Client::connect(&server);
        client.socket.write_all(junk.as_bytes()).unwrap();
        assert!(client.read_all().starts_with("HTTP/1.1 400 "), "{junk:?}");
    }
    let mut client = Client::connect(&server);
    client.chat(&"x".repeat(8_000_000));
    assert_eq!(text_of(&client.answer().1), "big");
    assert_eq!(server.request(0).await.last_user().len(), 8_000_000);

    let head =
        "POST /chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
    client.socket.write_all(head.as_bytes()).unwrap();
    client.read_to("100 Continue\r\n\r\n");
    let body = user("in chunks").to_string();
    let (one, two) = body.split_at(10);
    let chunks =
        format!("{:x}\r\n{one}\r\n{:x};x=y\r\n{two}\r\n0\r\nTrailer: t\r\n\r\n", one.len(), two.len());
    client.socket.write_all(chunks.as_bytes()).unwrap();
    assert_eq!(text_of(&client.answer().1), "chunked");
    assert_eq!(server.request(1).await.last_user(), "in chunks");
}

#[tokio::test]
async fn a_dropped_server_closes_its_connections_and_its_port() {
    let server = ModelServer::script([Reply::silence()]).await;
    let mut client = Client::connect(&server);
    client.chat("x");
    server.request(0).await;
    let address = server.address();
    drop(server);
    assert!(matches!(client.socket.read(&mut [0; 8]), Ok(0) | Err(_)));
    assert!(TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn the_server_does_not_need_the_tests_runtime() {
    let server = ModelServer::script([Reply::text("x")]).await;
    // No await between: the test's only thread is blocked all the while.
    let mut client = Client::connect(&server);
    client.chat("x");
    assert_eq!(text_of(&client.answer().1), "x");
}

#[tokio::test]
async fn paced_steps_do_not_drift() {
    let step = Duration::from_millis(20);
    let reply = (1..=10).fold(Reply::stream(), |reply, n| reply.step(Step::At(step * n)).say("t")).end();
    let server = ModelServer::script([reply]).await;
    let mut client = Client::connect(&server);
    client.chat("x");
    client.answer();
    server.replied(0).await;
    let sent = server.sent(0);
    assert!(sent[9].duration_since(sent[0]) >= Duration::from_millis(165), "{sent:?}");
}

// ---- directive mode

async fn directive() -> (ModelServer, Client) {
    let server = ModelServer::start(Script::directive()).await;
    let client = Client::connect(&server);
    (server, client)
}

#[tokio::test]
async fn directive_say_and_think() {
    let (_server, mut client) = directive().await;
    client.chat("please [[think let me see]] [[say 5 tokens 0 rate]]");
    let (_, body) = client.answer();
    assert_eq!(text_of(&body), "w0 w1 w2 w3 w4 ");
    let thought: String = events(&body)
        .iter()
        .filter_map(|e| e["choices"][0]["delta"]["reasoning_content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(thought, "let me see");
    client.chat("[[say 4 tokens 500 rate]]");
    assert_eq!(text_of(&client.answer().1), "w0 w1 w2 w3 ");
}

#[tokio::test]
async fn directive_tools_one_after_another_then_text() {
    let (server, mut client) = directive().await;
    let mut conversation = user(r#"[[tool bash {"command": "ls"}]] [[tool grep {"pattern": "]]"}]]"#);
    for (name, result) in [("bash", "a.txt"), ("grep", "found it")] {
        client.post("/chat/completions", &conversation);
        let events = events(&client.answer().1);
        let call =
            &events.iter().find(|e| e["choices"][0]["delta"]["tool_calls"].is_array()).unwrap()["choices"][0];
        assert_eq!(call["delta"]["tool_calls"][0]["function"]["name"], name);
        let id = call["delta"]["tool_calls"][0]["id"].clone();
        assert!(events.iter().any(|e| e["choices"][0]["finish_reason"] == "tool_calls"));
        let messages = conversation["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
    }
    client.post("/chat/completions", &conversation);
    assert_eq!(text_of(&client.answer().1), "The tool answered: found it");
    server.assert_clean();
}

#[tokio::test]
async fn directive_fail_hang_echo_and_plain_json() {
    let (server, mut client) = directive().await;
    client.chat("[[fail 429 7]]");
    assert!(client.read_to("}}").contains("retry-after: 7"));
    client.chat("what is this?");
    let (_, body) = client.answer();
    assert_eq!(text_of(&body), "You said: what is this?");
    assert!(events(&body).len() > 4, "several deltas");
    let mut plain = user(r#"[[tool bash {"command": "ls"}]]"#);
    plain["stream"] = false.into();
    client.post("/chat/completions", &plain);
    client.read_to("\r\n\r\n");
    let mut stream = serde_json::Deserializer::from_reader(&client.socket).into_iter::<Value>();
    let completion = stream.next().unwrap().unwrap();
    assert_eq!(completion["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(completion["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "bash");
    client.chat("[[say 2 tokens 0 rate]] [[hang]]");
    client.read_to("w1 ");
    drop(client);
    assert_eq!(server.replied(3).await, Outcome::Abandoned);
}

#[tokio::test]
async fn a_burst_is_a_few_large_writes() {
    let reply = (0..2000).fold(Reply::stream(), |reply, _| reply.say("word ")).end().cut(Cut::Burst);
    let server = ModelServer::script([reply]).await;
    let mut client = Client::connect(&server);
    client.chat("x");
    assert_eq!(text_of(&client.answer().1).len(), 10_000);
    server.replied(0).await;
    assert!(server.sent(0).len() < 20);
}

#[tokio::test]
async fn a_server_that_runs_for_long_forgets_old_requests() {
    let (server, mut client) = directive().await;
    for index in 0..40 {
        client.chat(&format!("number {index}"));
        client.answer();
    }
    let kept = server.requests();
    assert_eq!((server.count(), kept.len()), (40, 32));
    assert_eq!((kept[0].chat_index, kept[31].last_user().as_str()), (Some(8), "number 39"));
    client.chat(&"x".repeat(5 << 20));
    client.answer();
    assert_eq!(server.requests().len(), 1);
}
