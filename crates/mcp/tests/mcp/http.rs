//! Sessions, streams and calls over HTTP, in raw requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass_mcp::{HttpOptions, HttpServer, Limits, Server, Token};

use super::library::TOKEN;
use super::support::{HANG, Host, server_with, text};

/// A server and its address.
pub struct Site {
    pub server: Server,
    pub http: HttpServer,
    address: String,
}

pub struct Request {
    pub method: &'static str,
    pub path: &'static str,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn remove(&mut self, name: &str) {
        self.headers.retain(|(known, _)| known != name);
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }
}

pub struct Response {
    pub status: u16,
    pub head: String,
    body: String,
}

impl Response {
    fn read(mut stream: BufReader<TcpStream>) -> Self {
        let head = read_head(&mut stream);
        let mut body = String::new();
        let _ = stream.read_to_string(&mut body);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body }
    }

    pub fn session(&self) -> String {
        let line = self.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        line.unwrap().to_owned()
    }

    /// The only message of the answer.
    pub fn json(&self) -> Value {
        match &*self.messages() {
            [message] => message.clone(),
            messages => panic!("{messages:?}"),
        }
    }

    fn messages(&self) -> Vec<Value> {
        if self.head.contains("content-type: application/json") {
            return vec![serde_json::from_str(&self.body).unwrap()];
        }
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

impl Site {
    pub fn start(host: &Arc<Host>, limits: Limits) -> Self {
        let server = server_with(host, limits);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let options = HttpOptions::local(Token::new(TOKEN.to_owned()).unwrap());
        let http = HttpServer::start(listener, &server, options).unwrap();
        Self { server, http, address }
    }

    pub fn post(&self, body: &str) -> Request {
        let headers = [
            ("host", &*self.address),
            ("authorization", &format!("Bearer {TOKEN}")),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("connection", "close"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Request { method: "POST", path: "/mcp", headers, body: body.to_owned() }
    }

    /// Sends a request, and returns the stream of its answer.
    fn open(&self, request: &Request) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
        for (name, value) in &request.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !request.headers.iter().any(|(name, _)| name == "transfer-encoding") {
            head += &format!("content-length: {}\r\n", request.body.len());
        }
        // A server that refuses may close before it has read everything.
        let _ = stream.write_all(format!("{head}\r\n{}", request.body).as_bytes());
        BufReader::new(stream)
    }

    pub fn send(&self, request: &Request) -> Response {
        Response::read(self.open(request))
    }

    fn session(&self) -> String {
        self.send(&self.post(&initialize())).session()
    }

    fn in_session(&self, session: &str, body: &str) -> Request {
        let mut request = self.post(body);
        request.set("mcp-session-id", session);
        request
    }
}

fn read_head(stream: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    head
}

/// The next message of a stream of events.
fn next_event(stream: &mut BufReader<TcpStream>) -> Value {
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0);
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str(data).unwrap();
        }
    }
}

pub fn initialize() -> String {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "raw", "version": "0" } } })
    .to_string()
}

pub fn ping() -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string()
}

fn call(id: i64, meta: &Value) -> String {
    let params = json!({ "name": "read", "arguments": { "id": id }, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

/// A host whose calls wait for the test.
fn held() -> (Arc<Host>, Receiver<()>, Sender<()>) {
    let (begin, begun) = channel();
    let (release, released) = channel::<()>();
    let (begin, released) = (Mutex::new(begin), Mutex::new(released));
    let host = Host::new(move |tool_use, progress| {
        progress.say("waits");
        begin.lock().unwrap().send(()).unwrap();
        released.lock().unwrap().recv().unwrap();
        text(&tool_use.args.to_string())
    });
    (host, begun, release)
}

#[test]
fn a_session_lists_calls_and_ends() {
    let host = Host::echo();
    let site = Site::start(&host, Limits::default());
    let opened = site.send(&site.post(&initialize()));
    assert_eq!(opened.json()["result"]["protocolVersion"], "2025-11-25");
    let (session, other) = (opened.session(), site.session());
    assert_ne!(session, other);
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(site.send(&site.in_session(&session, initialized)).status, 202);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let listed = site.send(&site.in_session(&session, list)).json();
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 2);
    for (session, id) in [(&session, 1), (&other, 1), (&session, 2)] {
        let answer = site.send(&site.in_session(session, &call(id, &json!({})))).json();
        assert_eq!(answer["result"]["content"][0]["text"], json!({ "id": id }).to_string());
    }
    let ordinals: Vec<_> = host
        .begun
        .lock()
        .unwrap()
        .iter()
        .map(|call| (call.session.clone(), call.ordinal))
        .collect();
    assert_eq!(ordinals, [(session.clone(), 1), (other, 1), (session.clone(), 2)]);
    assert_eq!(host.listed.lock().unwrap()[0].session, session);
    let mut end = site.in_session(&session, "");
    end.method = "DELETE";
    assert_eq!(site.send(&end).status, 204);
    assert_eq!(site.send(&site.in_session(&session, list)).status, 404);
}

#[test]
fn a_call_streams_its_progress_and_its_answer() {
    let (host, begun, release) = held();
    let site = Site::start(&host, Limits::default());
    let session = site.session();
    let request = site.in_session(&session, &call(3, &json!({ "progressToken": 9 })));
    let mut stream = site.open(&request);
    begun.recv_timeout(HANG).unwrap();
    assert!(read_head(&mut stream).contains("content-type: text/event-stream"));
    let progress = next_event(&mut stream);
    assert_eq!(
        progress["params"],
        json!({ "progressToken": 9, "progress": 1, "message": "waits" })
    );
    // A second request with the same id is refused meanwhile.
    let refused = site.send(&site.in_session(&session, &call(3, &json!({})))).json();
    assert_eq!(refused["error"]["code"], -32600);
    release.send(()).unwrap();
    assert_eq!(next_event(&mut stream)["result"]["content"][0]["text"], r#"{"id":3}"#);
}

#[test]
fn a_client_that_disconnects_does_not_interrupt_its_call() {
    let (host, begun, release) = held();
    let site = Site::start(&host, Limits::default());
    let session = site.session();
    let stream = site.open(&site.in_session(&session, &call(1, &json!({}))));
    begun.recv_timeout(HANG).unwrap();
    drop(stream);
    release.send(()).unwrap();
    // Dropping the server waits for the call.
    drop(site);
    assert_eq!(*host.finished.lock().unwrap(), [1]);
}

#[test]
fn a_server_that_ends_finishes_its_calls_and_answers_them() {
    let (host, begun, release) = held();
    let site = Site::start(&host, Limits::default());
    let session = site.session();
    let stream = site.open(&site.in_session(&session, &call(1, &json!({}))));
    begun.recv_timeout(HANG).unwrap();
    let Site { http, .. } = site;
    let ended = std::thread::spawn(move || drop(http));
    release.send(()).unwrap();
    ended.join().unwrap();
    assert_eq!(*host.finished.lock().unwrap(), [1]);
    let answer = Response::read(stream).json();
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"id":1}"#);
}

#[test]
fn a_session_hears_that_the_tools_have_changed() {
    let host = Host::echo();
    let site = Site::start(&host, Limits::default());
    let session = site.session();
    let mut listen = site.in_session(&session, "");
    listen.method = "GET";
    let mut first = site.open(&listen);
    assert!(read_head(&mut first).starts_with("HTTP/1.1 200"));
    site.server.tools_changed();
    assert_eq!(next_event(&mut first)["method"], "notifications/tools/list_changed");
    // A later stream takes its place.
    let mut second = site.open(&listen);
    read_head(&mut second);
    site.server.tools_changed();
    assert_eq!(next_event(&mut second)["method"], "notifications/tools/list_changed");
    let mut rest = String::new();
    first.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("data:"), "{rest}");
    listen.set("mcp-protocol-version", "2026-07-28");
    assert_eq!(site.send(&listen).status, 405);
    // Open streams do not hold up the end.
    drop(site);
}

#[test]
fn requests_without_a_session_have_statuses() {
    let host = Host::echo();
    let site = Site::start(&host, Limits::default());
    let send = |method: &str, meta: &Value| {
        let params = json!({ "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut request = site.post(&body.to_string());
        let version = &meta["io.modelcontextprotocol/protocolVersion"];
        request.set("mcp-protocol-version", version.as_str().unwrap_or("2026-07-28"));
        request.set("mcp-method", method);
        let response = site.send(&request);
        (response.status, response.json()["error"]["code"].clone())
    };
    let meta = super::support::inline_meta();
    assert_eq!(send("tools/list", &meta), (200, Value::Null));
    assert_eq!(send("resources/read", &meta), (404, json!(-32601)));
    assert_eq!(send("tools/list", &json!({})), (400, json!(-32600)));
    let mut unknown = meta;
    unknown["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    assert_eq!(send("tools/list", &unknown), (400, json!(-32022)));
}

#[test]
fn a_client_that_has_closed_its_sending_half_gets_its_answer() {
    let host = Host::echo();
    let site = Site::start(&host, Limits::default());
    let session = site.session();
    let stream = site.open(&site.in_session(&session, &call(7, &json!({}))));
    stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    let response = Response::read(stream);
    assert_eq!(response.status, 200, "{}", response.head);
    let last = response.messages().pop().unwrap();
    assert_eq!(last["id"], 7, "{last}");
}
