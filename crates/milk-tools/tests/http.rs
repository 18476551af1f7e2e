//! The HTTP tools against servers on loopback.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::format_collect,
    missing_debug_implementations,
    reason = "a test"
)]

mod kit;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::{Kit, World};
use milk_core::tool::{Effect, ToolOutcome, ToolStatus};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that answers each connection by a function of the request, and keeps the requests.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn new(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (Arc::clone(&requests), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                tokio::spawn(async move {
                    let request = read_request(&mut stream).await;
                    kept.lock().unwrap().push(request.clone());
                    let _ = stream.write_all(&answer(&request)).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { address, requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn read_request(stream: &mut tokio::net::TcpStream) -> String {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut piece).await {
            Ok(length) if length > 0 => request.extend_from_slice(&piece[..length]),
            _ => return text,
        }
    }
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

async fn get(kit: &Kit, url: &str) -> ToolOutcome {
    kit.call("http_get", json!({"url": url})).await
}

#[tokio::test]
async fn an_answer_is_described() {
    let world = World::new();
    let kit = world.kit();
    let server = Server::new(|request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        match path {
            "/text" => answer("200 OK", "content-type: text/plain\r\nx-other: y\r\n", "héllo\n".as_bytes()),
            "/missing" => {
                answer("404 Not Found", "content-type: application/json\r\n", b"{\"error\":\"no\"}")
            }
            "/empty" => answer("204 No Content", "", b""),
            "/image" => answer("200 OK", "content-type: image/png\r\n", b"\x89PNG\r\n\x1a\n\0\0"),
            "/latin1" => answer("200 OK", "content-type: text/plain; charset=latin1\r\n", b"un caf\xe9 noir"),
            _ => answer("200 OK", "content-type: text/plain\r\n", &b"0123456789".repeat(10_000)),
        }
    })
    .await;
    let call = kit.prepare("http_get", json!({"url": server.url("/text")})).await.unwrap();
    assert_eq!(call.title, format!("http_get: {}", server.url("/text")));
    assert_eq!(call.effect, Effect::Network { url: server.url("/text") });
    assert_eq!(server.requests().len(), 0, "nothing is sent before the yes");
    let outcome = kit::run(call).await;
    assert_eq!(outcome.output, "HTTP/1.1 200 OK\ncontent-type: text/plain\ncontent-length: 7\n\nhéllo\n");
    assert_eq!(outcome.status, ToolStatus::Completed);
    let outcome = get(&kit, &server.url("/missing")).await;
    assert!(
        outcome.output.starts_with("HTTP/1.1 404 Not Found\n")
            && outcome.output.ends_with("{\"error\":\"no\"}\n")
    );
    for (path, expected) in [
        ("/empty", "[no body]\n"),
        ("/image", "[binary body, image/png, 10 B: not shown]\n"),
        ("/latin1", "un caf\u{FFFD} noir\n"),
        ("/big", "\n[only the first 8192 bytes of 97.6 KiB are shown; max_bytes gives more]\n"),
    ] {
        let outcome = get(&kit, &server.url(path)).await;
        assert!(outcome.output.ends_with(expected), "{}", outcome.output);
    }
    let cut = kit.call("http_get", json!({"url": server.url("/big"), "max_bytes": "15"})).await;
    assert!(cut.output.contains("\n\n012345678901234\n[only the first 15 bytes"), "{}", cut.output);
    let all = kit.call("http_get", json!({"url": server.url("/big"), "max_bytes": 10_000_000})).await;
    assert!(all.output.len() <= kit::RESULT_LIMIT, "{}", all.output.len());
}

#[tokio::test]
async fn a_request_is_sent_as_asked() {
    let world = World::new();
    let kit = world.kit();
    let server = Server::new(|_| answer("201 Created", "", b"")).await;
    let arguments = json!({
        "url": server.url("/items?a=b"),
        "method": "post",
        "headers": {"Content-Type": "application/json", "X-Count": 3, "Host": "evil", "Content-Length": "1"},
        "body": {"a": 1},
    });
    let call = kit.prepare("http_request", arguments).await.unwrap();
    assert_eq!(call.title, format!("http_request: POST {} (sends 12 B)", server.url("/items?a=b")));
    kit::run(call).await;
    let request = server.requests().remove(0);
    assert!(request.starts_with("POST /items?a=b HTTP/1.1\r\n"), "{request}");
    for part in [
        "content-type: application/json\r\n",
        "x-count: 3\r\n",
        "user-agent: milk/",
        "\r\n\r\n{\n  \"a\": 1\n}",
    ] {
        assert!(request.contains(part), "{request}");
    }
    assert!(!request.contains("evil") && !request.contains("content-length: 1\r\n"), "{request}");
}

#[tokio::test]
async fn redirects_are_followed_and_bounded() {
    let world = World::new();
    let kit = world.kit();
    let other = Server::new(|_| answer("200 OK", "", b"elsewhere")).await;
    let to_other = other.url("/x");
    let server = Server::new(move |request| {
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let to = |to: &str| answer("302 Found", &format!("location: {to}\r\n"), b"");
        match path.as_str() {
            "/loop" => to("/loop"),
            "/file" => to("file:///etc/passwd"),
            "/metadata" => to("http://169.254.169.254/latest"),
            "/localhost" => to("http://localhost:1/"),
            "/other" => to(&to_other),
            "/once" => to("/end"),
            "/keep" => answer("307 Temporary Redirect", "location: /end\r\n", b""),
            "/keep-other" => answer("307 Temporary Redirect", &format!("location: {to_other}\r\n"), b""),
            _ => answer("200 OK", "", b"the end"),
        }
    })
    .await;
    let url = |path: &str| server.url(path);
    let outcome = get(&kit, &url("/once")).await;
    assert!(outcome.output.starts_with(&format!("[redirected: 302 to {}]\nHTTP/1.1 200 OK\n", url("/end"))));
    assert!(outcome.output.ends_with("\nthe end\n"));
    for (path, note) in [
        ("/loop", "there were too many"),
        ("/file", "it leaves http"),
        ("/metadata", "it leads into the local network"),
        ("/localhost", "it leads into the local network"),
    ] {
        let outcome = get(&kit, &url(path)).await;
        assert!(
            outcome.output.ends_with(&format!("[redirect not followed: {note}"))
                || outcome.output.contains(note),
            "{}",
            outcome.output
        );
        assert!(outcome.output.contains("HTTP/1.1 302 Found\n"));
    }
    assert_eq!(server.requests().iter().filter(|request| request.starts_with("GET /loop")).count(), 6);

    // Headers stay with the machine that they were meant for; a body is carried on only there.
    let arguments =
        json!({"url": url("/other"), "method": "GET", "headers": {"Authorization": "Bearer KEY"}});
    let outcome = kit.call("http_request", arguments).await;
    assert!(outcome.output.ends_with("elsewhere\n"), "{}", outcome.output);
    assert!(!other.requests()[0].to_ascii_lowercase().contains("bearer"));
    let post =
        |path: &str| json!({"url": url(path), "method": "POST", "body": "text", "headers": {"X-A": "b"}});
    kit.call("http_request", post("/once")).await;
    kit.call("http_request", post("/keep")).await;
    let last: Vec<_> = server.requests().into_iter().filter(|request| request.contains(" /end ")).collect();
    assert!(
        last[1].starts_with("GET /end") && !last[1].contains("text") && last[1].contains("x-a: b"),
        "{}",
        last[1]
    );
    assert!(last[2].starts_with("POST /end") && last[2].ends_with("text"), "{}", last[2]);
    let outcome = kit.call("http_request", post("/keep-other")).await;
    assert!(outcome.output.contains("carry the request to another machine"), "{}", outcome.output);
    assert_eq!(other.requests().len(), 1);
}

#[tokio::test]
async fn failures_are_readable_and_hold_no_address() {
    let world = World::new();
    let kit = world.kit();
    // A port that was free a moment ago and is nobody's.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let outcome = get(&kit, &format!("http://{address}/path?key=SECRET")).await;
    assert_eq!(outcome.status, ToolStatus::Failed);
    assert!(outcome.output.starts_with("cannot connect to 127.0.0.1"), "{}", outcome.output);
    assert!(!outcome.output.contains("SECRET"), "{}", outcome.output);

    let server = Server::new(|_| b"this is not HTTP at all\r\n\r\n".to_vec()).await;
    let outcome = get(&kit, &server.url("/?key=SECRET")).await;
    assert_eq!(outcome.status, ToolStatus::Failed);
    assert!(!outcome.output.contains("SECRET"), "{}", outcome.output);

    let cut = Server::new(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart".to_vec()).await;
    let outcome = get(&kit, &cut.url("/")).await;
    assert_eq!(outcome.status, ToolStatus::Failed, "{}", outcome.output);
}

#[tokio::test]
async fn a_cancel_and_the_time_limit_end_it() {
    let world = World::new();
    let kit = world.kit();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let call = kit.prepare("http_get", json!({"url": url})).await.unwrap();
    let context = kit::quiet();
    let cancel = context.cancel.clone();
    let running = tokio::spawn((call.run)(context));
    let (_connection, _) = silent.accept().await.unwrap();
    let start = Instant::now();
    cancel.cancel();
    let outcome = running.await.unwrap();
    assert_eq!((outcome.status, outcome.output.as_str()), (ToolStatus::Cancelled, "cancelled"));
    assert!(start.elapsed() < Duration::from_secs(1));

    let call = kit.prepare("http_get", json!({"url": url})).await.unwrap();
    let mut context = kit::quiet();
    context.time_limit = Some(Duration::from_millis(50));
    let outcome = (call.run)(context).await;
    assert_eq!((outcome.status, outcome.output.as_str()), (ToolStatus::Failed, "stopped after 0.05 s"));
}

#[tokio::test]
async fn a_body_without_end_is_cut() {
    let world = World::new();
    let kit = world.kit();
    // More than would ever be read: sent as one chunk that is never finished.
    let server = Server::new(|_| {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7fffffff\r\n".as_slice();
        [head, &b"x".repeat(1 << 20)].concat()
    })
    .await;
    let outcome = get(&kit, &server.url("/")).await;
    assert!(
        outcome.output.ends_with("[only the first 8192 bytes are shown; max_bytes gives more]\n"),
        "{}",
        outcome.output.len()
    );
}
