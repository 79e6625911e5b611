//! One HTTP/1.1 request per connection, read strictly and within limits.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;
use thiserror::Error;

/// The longest request line with headers.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The longest body.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The time in which a request must arrive in full.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that one write may wait for the client.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long, and for how much, a refused client is listened to.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
const DISCARD_BYTES_MAX: u64 = 1 << 20;

/// A request, read in full.
#[derive(Debug)]
pub struct Request {
    pub method: String,
    /// The path without the query, which can hold a key.
    pub path: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Why a request was not read.
#[derive(Debug, Error)]
pub enum RequestError {
    #[error("reading the request failed")]
    Io(#[from] io::Error),
    #[error("the connection ended within the request")]
    Truncated,
    #[error("{reason}")]
    Refused { status: u16, reason: &'static str },
}

impl RequestError {
    const fn bad(reason: &'static str) -> Self {
        Self::Refused { status: 400, reason }
    }
}

impl Request {
    /// The value of a header; the name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Reads until the deadline.
struct Reader<'a> {
    stream: &'a mut TcpStream,
    deadline: Instant,
}

impl Reader<'_> {
    /// Appends what has arrived; an end of the connection is an error.
    fn read_some(&mut self, buffer: &mut Vec<u8>, limit: usize) -> Result<(), RequestError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // A time-out of zero would mean none.
        self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut chunk = [0; 16 * 1024];
        let wanted = chunk.len().min(limit);
        let read = match chunk.get_mut(..wanted) {
            Some(space) => self.stream.read(space)?,
            None => 0,
        };
        let arrived = chunk.get(..read).filter(|arrived| !arrived.is_empty());
        buffer.extend_from_slice(arrived.ok_or(RequestError::Truncated)?);
        Ok(())
    }
}

/// Reads the one request of a connection; `None` if the client closed it without a byte.
pub fn read(stream: &mut TcpStream) -> Result<Option<Request>, RequestError> {
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut reader = Reader { stream, deadline: Instant::now() + REQUEST_TIMEOUT };
    let mut buffer = Vec::new();
    let head_end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if buffer.len() > HEAD_BYTES_MAX {
            return Err(RequestError::Refused { status: 431, reason: "the headers are too long" });
        }
        match reader.read_some(&mut buffer, HEAD_BYTES_MAX) {
            Err(RequestError::Truncated) if buffer.is_empty() => return Ok(None),
            read => read?,
        }
    };
    if head_end > HEAD_BYTES_MAX {
        return Err(RequestError::Refused { status: 431, reason: "the headers are too long" });
    }
    let mut body = buffer.split_off(head_end + 4);
    let mut request = head(buffer.get(..head_end).unwrap_or_default())?;
    let length = body_length(&request)?;
    if body.len() > length {
        return Err(RequestError::bad("there are bytes after the body"));
    }
    if request.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        reader.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    while body.len() < length {
        let missing = length - body.len();
        reader.read_some(&mut body, missing)?;
    }
    request.body = body;
    Ok(Some(request))
}

fn head(bytes: &[u8]) -> Result<Request, RequestError> {
    let text = std::str::from_utf8(bytes).map_err(|_| RequestError::bad("the head is not text"))?;
    let mut lines = text.split("\r\n");
    if text.replace("\r\n", "").contains(['\r', '\n', '\0']) {
        return Err(RequestError::bad("the head has a bare line end"));
    }
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(RequestError::bad("the request line is not one of HTTP/1.1"));
    };
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(RequestError::bad("the method is not one"));
    }
    let path = target.split('?').next().unwrap_or_default();
    if !path.starts_with('/') {
        return Err(RequestError::bad("the target is not a path"));
    }
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(RequestError::bad("a header has no `:`"))?;
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(RequestError::bad("a header has no name"));
        }
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Request { method: method.to_owned(), path: path.to_owned(), headers, body: Vec::new() })
}

fn body_length(request: &Request) -> Result<usize, RequestError> {
    if request.header("transfer-encoding").is_some() {
        return Err(RequestError::Refused { status: 501, reason: "the body has no length" });
    }
    if request.header("content-encoding").is_some_and(|coding| coding != "identity") {
        return Err(RequestError::Refused { status: 415, reason: "the body is compressed" });
    }
    let mut lengths = request.headers.iter().filter(|(name, _)| name == "content-length");
    let (length, second) = (lengths.next(), lengths.next());
    if second.is_some() {
        return Err(RequestError::bad("there are two lengths"));
    }
    let Some((_, length)) = length else {
        return match request.method.as_str() {
            "POST" => Err(RequestError::Refused { status: 411, reason: "the body has no length" }),
            _ => Ok(0),
        };
    };
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RequestError::bad("the length is not a number"));
    }
    let length: Option<usize> = length.parse().ok().filter(|length| *length <= BODY_BYTES_MAX);
    length.ok_or(RequestError::Refused { status: 413, reason: "the body is too long" })
}

/// Writes an answer in full.
pub fn reply(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    let mut head = status_line(status);
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}

/// Writes an answer of JSON.
pub fn reply_json(stream: &mut TcpStream, status: u16, body: &Value) -> io::Result<()> {
    reply(stream, status, &[("content-type", "application/json")], body.to_string().as_bytes())
}

/// Begins an event stream, which ends with the connection.
pub fn start_events(stream: &mut TcpStream) -> io::Result<()> {
    let headers = "content-type: text/event-stream\r\ncache-control: no-cache\r\n";
    let head = format!("{}{headers}connection: close\r\n\r\n", status_line(200));
    stream.write_all(head.as_bytes())
}

/// Reads what the client still sends, within limits: closing at once would reset the connection, and
/// the client could lose the answer.
pub fn discard(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(DISCARD_TIMEOUT))?;
    io::copy(&mut stream.take(DISCARD_BYTES_MAX), &mut io::sink())?;
    Ok(())
}

fn status_line(status: u16) -> String {
    // Clients read the number only.
    let reason = if status < 300 { "OK" } else { "Scripted" };
    format!("HTTP/1.1 {status} {reason}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> u16 {
        match head(text.as_bytes()).and_then(|request| body_length(&request)) {
            Err(RequestError::Refused { status, .. }) => status,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn a_head_is_read_without_its_query() {
        let request = head(b"POST /v1/messages?key=k HTTP/1.1\r\nContent-Length:  12 ").unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/messages"));
        assert_eq!(request.header("content-length"), Some("12"));
        assert_eq!(body_length(&request).unwrap(), 12);
        assert_eq!(body_length(&head(b"GET /models HTTP/1.1").unwrap()).unwrap(), 0);
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for (text, status) in [
            ("POST / HTTP/1.0\r\ncontent-length: 1", 400),
            ("POST  / HTTP/1.1", 400),
            ("post / HTTP/1.1", 400),
            ("GET http://elsewhere/ HTTP/1.1", 400),
            ("GET / HTTP/1.1\nhost: a", 400),
            ("GET / HTTP/1.1\r\nhost", 400),
            ("GET / HTTP/1.1\r\n host: a", 400),
            ("GET / HTTP/1.1\r\nhost : a", 400),
            ("POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1", 400),
            ("POST / HTTP/1.1\r\ncontent-length: +1", 400),
            ("POST / HTTP/1.1\r\ncontent-length: ", 400),
            ("POST / HTTP/1.1", 411),
            ("POST / HTTP/1.1\r\ncontent-length: 67108865", 413),
            ("POST / HTTP/1.1\r\ncontent-length: 99999999999999999999", 413),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 1", 501),
            ("POST / HTTP/1.1\r\ncontent-encoding: zstd\r\ncontent-length: 1", 415),
        ] {
            assert_eq!(refusal(text), status, "{text:?}");
        }
        assert!(head(b"GET /\xff HTTP/1.1").is_err());
    }
}
