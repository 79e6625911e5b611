//! A host whose calls the test holds in its hand, and a client that speaks in lines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_mcp::{
    ClientInfo, Identity, Limits, Progress, Server, ToolAnswer, ToolHost, ToolInfo, ToolUse,
};

type Act = dyn Fn(&ToolUse, &dyn Progress) -> ToolAnswer + Send + Sync;

/// A hanging test is ended by this; no test is decided by it.
pub const HANG: Duration = Duration::from_secs(100);

pub struct Host {
    pub tools: Mutex<Vec<ToolInfo>>,
    pub begun: Mutex<Vec<ToolUse>>,
    pub finished: Mutex<Vec<u64>>,
    pub listed: Mutex<Vec<ClientInfo>>,
    act: Box<Act>,
}

impl Host {
    pub fn new(
        act: impl Fn(&ToolUse, &dyn Progress) -> ToolAnswer + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            tools: Mutex::new(["read", "write"].map(tool).into()),
            begun: Mutex::default(),
            finished: Mutex::default(),
            listed: Mutex::default(),
            act: Box::new(act),
        })
    }

    /// A host that answers with its arguments.
    pub fn echo() -> Arc<Self> {
        Self::new(|tool_use, _| text(&tool_use.args.to_string()))
    }
}

impl ToolHost for Host {
    fn tools(&self) -> Vec<ToolInfo> {
        self.tools.lock().unwrap().clone()
    }

    fn call(&self, tool_use: ToolUse, progress: &dyn Progress) -> ToolAnswer {
        self.begun.lock().unwrap().push(tool_use.clone());
        let answer = (self.act)(&tool_use, progress);
        self.finished.lock().unwrap().push(tool_use.ordinal);
        answer
    }

    fn listed(&self, client: &ClientInfo) {
        self.listed.lock().unwrap().push(client.clone());
    }
}

pub fn tool(name: &str) -> ToolInfo {
    ToolInfo {
        name: name.to_owned(),
        title: None,
        description: format!("Does {name}."),
        input_schema: json!({ "type": "object", "x-kept": [1] }),
        output_schema: None,
        annotations: Some(json!({ "readOnlyHint": true, "x-later": "kept" })),
    }
}

pub fn text(text: &str) -> ToolAnswer {
    ToolAnswer::Result(json!({ "content": [{ "type": "text", "text": text }] }))
}

pub fn server(host: &Arc<Host>) -> Server {
    server_with(host, Limits::default())
}

pub fn server_with(host: &Arc<Host>, limits: Limits) -> Server {
    let identity =
        Identity { name: "windlass".to_owned(), version: "1".to_owned(), instructions: None };
    Server::with_limits(Arc::clone(host) as Arc<dyn ToolHost>, identity, limits)
}

/// A client that is connected by a pair of sockets.
pub struct Client {
    pub writer: UnixStream,
    reader: BufReader<UnixStream>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Client {
    pub fn connect(server: &Server) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = server.clone();
        let served = std::thread::spawn(move || {
            server.serve_stream("session-1", theirs.try_clone().unwrap(), theirs)
        });
        ours.set_read_timeout(Some(HANG)).unwrap();
        let reader = BufReader::new(ours.try_clone().unwrap());
        Self { writer: ours, reader, served }
    }

    /// Connects and initializes.
    pub fn ready(server: &Server) -> Self {
        let mut client = Self::connect(server);
        client.send(&json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "0" } } }));
        assert_eq!(client.receive()["result"]["protocolVersion"], "2025-11-25");
        client
    }

    pub fn line(&mut self, line: &str) {
        self.writer.write_all(line.as_bytes()).unwrap();
        self.writer.write_all(b"\n").unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.line(&message.to_string());
    }

    pub fn request(&mut self, id: i64, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    pub fn call(&mut self, id: i64, name: &str, args: &Value) {
        self.request(id, "tools/call", &json!({ "name": name, "arguments": args }));
    }

    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a request and returns its answer, which must come next.
    pub fn ask(&mut self, id: i64, method: &str, params: &Value) -> Value {
        self.request(id, method, params);
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Closes the connection, and returns how the serving ended.
    pub fn close(self) -> std::io::Result<()> {
        drop((self.writer, self.reader));
        self.served.join().unwrap()
    }

    /// Closes the connection without waiting for the server.
    pub fn die(self) -> JoinHandle<std::io::Result<()>> {
        self.served
    }

    /// Everything that the server still writes.
    pub fn rest(mut self) -> Vec<Value> {
        self.writer.shutdown(std::net::Shutdown::Write).unwrap();
        let lines = self.reader.by_ref().lines();
        let rest = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        self.served.join().unwrap().unwrap();
        rest
    }
}

/// The `_meta` of a request in the version without `initialize`.
pub fn inline_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "inline", "version": "3" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}
