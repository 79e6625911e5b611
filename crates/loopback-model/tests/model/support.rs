//! A client that sends one request and reads all that comes back.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::{Value, json};
use windlass_loopback_model::{LoopbackModel, Script};

/// What came back, and how the connection ended.
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
    pub end: io::Result<()>,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The data of all events.
    pub fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

pub fn start(script: &Value) -> LoopbackModel {
    LoopbackModel::start(Script::from_json(&script.to_string()).unwrap()).unwrap()
}

pub fn send_raw(address: SocketAddr, request: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    // A server that refuses early may not read all of it.
    let _ = stream.write_all(request);
    let _ = stream.shutdown(Shutdown::Write);
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).map(drop);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Reply { status, head: head.to_owned(), body: body.to_owned(), end }
}

pub fn request(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: a\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

pub fn post(model: &LoopbackModel, path: &str, body: &Value) -> Reply {
    let headers = "content-type: application/json\r\n";
    send_raw(model.address(), &request("POST", path, headers, &body.to_string()))
}

/// A Messages request that offers one tool.
pub fn messages(stream: bool) -> Value {
    json!({
        "model": "m",
        "stream": stream,
        "messages": [{ "role": "user", "content": "work" }],
        "tools": [{ "name": "fs_read" }],
    })
}
