//! The floor: the least that an ACP agent can do on this machine, to measure a real one against.
//!
//! It speaks just enough v2 for the bench (string search instead of JSON, a thread a turn, one kept connection a
//! session) and passes a model's deltas on as they come. It is no agent: it has no tools, no history, no errors.
//! `FLOOR_MODEL` is the model server's address, `127.0.0.1:PORT`.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

type Connection = Option<BufReader<TcpStream>>;

fn main() -> io::Result<()> {
    let model = std::env::var("FLOOR_MODEL").expect("FLOOR_MODEL names the model server");
    let mut sessions: HashMap<String, Arc<Mutex<Connection>>> = HashMap::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let id = between(&line, "\"id\":", ",").unwrap_or("null").to_owned();
        match between(&line, "\"method\":\"", "\"") {
            Some("initialize") => emit(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":2,"info":{{"name":"floor","version":"0"}},"capabilities":{{"session":{{}}}}}}}}"#
            ))?,
            Some("session/new") => {
                let session = format!("s{}", sessions.len());
                sessions.insert(session.clone(), Arc::default());
                emit(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"sessionId":"{session}"}}}}"#))?;
            }
            Some("session/prompt") => {
                let session = between(&line, "\"sessionId\":\"", "\"").unwrap_or_default().to_owned();
                let text = between(&line, "\"text\":\"", "\"}").unwrap_or_default().to_owned();
                let connection = sessions[&session].clone();
                let model = model.clone();
                std::thread::spawn(move || {
                    let mut connection = connection.lock().expect("one turn at a time");
                    turn(&mut connection, &model, &session, &id, &text)
                        .expect("the turn's pipes and sockets work");
                });
            }
            _ => (),
        }
    }
    Ok(())
}

fn turn(connection: &mut Connection, model: &str, session: &str, id: &str, text: &str) -> io::Result<()> {
    let update = |update: &str| {
        emit(&format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
        ))
    };
    update(r#"{"sessionUpdate":"state_update","state":"running"}"#)?;
    ask(connection, model, text, |event| match between(event, "\"content\":\"", "\"") {
        None | Some("") => Ok(()),
        Some(delta) => update(&format!(
            r#"{{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{{"type":"text","text":"{delta}"}}}}"#
        )),
    })?;
    update(r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}"#)?;
    emit(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"messageId":"u"}}}}"#))
}

/// One streamed request; each event's line goes to `each`.
fn ask(
    connection: &mut Connection,
    model: &str,
    text: &str,
    mut each: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    if connection.is_none() {
        let stream = TcpStream::connect(model)?;
        stream.set_nodelay(true)?;
        *connection = Some(BufReader::with_capacity(64 << 10, stream));
    }
    let server = connection.as_mut().expect("connected above");
    let body =
        format!(r#"{{"model":"bench","stream":true,"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: model\r\ncontent-type: application/json\r\ncontent-length:";
    server.get_mut().write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes())?;

    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        server.read_line(&mut line)?;
    }
    let mut pending = Vec::new();
    loop {
        line.clear();
        server.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
        let start = pending.len();
        pending.resize(start + size + 2, 0);
        server.read_exact(&mut pending[start..])?;
        pending.truncate(start + size);
        if size == 0 {
            return Ok(());
        }
        let whole = pending.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        for event in pending[..whole].split(|&byte| byte == b'\n') {
            each(std::str::from_utf8(event).map_err(io::Error::other)?)?;
        }
        pending.drain(..whole);
    }
}

fn emit(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let from = text.find(start)? + start.len();
    let to = text[from..].find(end)? + from;
    Some(&text[from..to])
}
