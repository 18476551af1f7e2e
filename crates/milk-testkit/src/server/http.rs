//! Just enough HTTP/1.1 to read requests: head, `content-length` and chunked bodies, `expect: 100-continue`; all bounded.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A head of at most this many bytes.
const HEAD_LIMIT: u64 = 64 << 10;
/// A body of at most this many bytes.
const BODY_LIMIT: usize = 192 << 20;

/// A request off the wire.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpRequest {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the client wants the connection closed after the answer.
    pub(crate) fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// Reads one request; `None` when the client closed before it sent one.
pub(crate) async fn read_request<R, W>(reader: &mut R, writer: &mut W) -> io::Result<Option<HttpRequest>>
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let Some(mut request) = read_head(reader).await? else {
        return Ok(None);
    };
    if request.header("expect").is_some() {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let chunked =
        request.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    request.body = if chunked {
        read_chunks(reader).await?
    } else {
        let length = request.header("content-length").unwrap_or("0");
        let length: usize = length.trim().parse().map_err(|_| malformed("content-length"))?;
        read_exactly(reader, length).await?
    };
    Ok(Some(request))
}

async fn read_head<R: AsyncBufRead + Unpin>(reader: &mut R) -> io::Result<Option<HttpRequest>> {
    let mut head = reader.take(HEAD_LIMIT);
    let mut first = read_line(&mut head).await?;
    while first.as_deref() == Some("") {
        first = read_line(&mut head).await?;
    }
    let Some(first) = first else {
        return Ok(None);
    };
    let mut words = first.split(' ');
    let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next()) else {
        return Err(malformed("request line"));
    };
    if !version.starts_with("HTTP/1.") {
        return Err(malformed("HTTP version"));
    }
    let (method, path) = (method.to_owned(), path.to_owned());
    let mut headers = Vec::new();
    loop {
        let line = read_line(&mut head).await?.ok_or_else(|| malformed("end of head"))?;
        if line.is_empty() {
            return Ok(Some(HttpRequest { method, path, headers, body: Vec::new() }));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| malformed("header"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// One line without its end; `None` at the end of input.
async fn read_line<R: AsyncBufRead + Unpin>(reader: &mut R) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if reader.read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(malformed("line end"));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

async fn read_exactly<R: AsyncBufRead + Unpin>(reader: &mut R, length: usize) -> io::Result<Vec<u8>> {
    if length > BODY_LIMIT {
        return Err(malformed("body length: over the kit's limit"));
    }
    let mut body = Vec::new();
    reader.take(length as u64).read_to_end(&mut body).await?;
    if body.len() < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(body) }
}

async fn read_chunks<R: AsyncBufRead + Unpin>(reader: &mut R) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(&mut reader.take(HEAD_LIMIT)).await?.ok_or_else(|| malformed("chunk"))?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| malformed("chunk size"))?;
        if size == 0 {
            while read_line(&mut reader.take(HEAD_LIMIT)).await?.is_some_and(|trailer| !trailer.is_empty()) {}
            return Ok(body);
        }
        if size > BODY_LIMIT - body.len() {
            return Err(malformed("body length: over the kit's limit"));
        }
        body.extend(read_exactly(reader, size).await?);
        read_line(&mut reader.take(2)).await?;
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed request: {what}"))
}

/// The reason phrase of a status.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Scripted",
    }
}
