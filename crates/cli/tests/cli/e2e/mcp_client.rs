//! An MCP client over the standard streams of the real binary, one line a message.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Outcome, Place};

/// A server over stdio, which helper programs write in tests: its tool `do` runs `lab.sh`, and its descriptions come
/// from files.
pub const SERVER: &str = r#"
while read -r line; do
    id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case $line in
    *'"initialize"'*)
        result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*)
        result='{"tools":[{"name":"do","description":"'$(cat description 2>/dev/null)'","inputSchema":{"type":"object"}},
            {"name":"readIt","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}'
        result=$(printf %s "$result" | tr -d '\n') ;;
    *'"tools/call"'*)
        text=$(bash lab.sh 2>&1 | tr '\n"\\' '   ')
        result='{"content":[{"type":"text","text":"'$text'"}],"isError":false}' ;;
    *) continue ;;
    esac
    [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// A client of a running `windlass mcp …`.
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last_id: u64,
}

impl Client {
    /// Starts the binary and shakes hands.
    pub fn start(place: &Place, args: &[&str]) -> Self {
        Self::of(place.command(args))
    }

    /// Starts a command and shakes hands.
    pub fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stdin = child.stdin.take();
        let mut client = Self { child, stdin, stdout, last_id: 0 };
        let info = json!({ "name": "tester", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
        let result = client.ask("initialize", params);
        assert_eq!(result["result"]["serverInfo"]["name"], "windlass", "{result}");
        client.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client
    }

    /// Sends a line.
    pub fn line(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{text}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.line(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string(),
        );
        id
    }

    /// The next message.
    #[track_caller]
    pub fn next(&mut self) -> Value {
        let mut line = String::new();
        if self.stdout.read_line(&mut line).unwrap() == 0 {
            let mut text = String::new();
            let mut stderr = self.child.stderr.take().unwrap();
            std::io::Read::read_to_string(&mut stderr, &mut text).unwrap();
            panic!("the server has ended: {text}");
        }
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The answer to a request; messages before it are dropped.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Makes a request and returns its answer.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// The names of the tools.
    #[track_caller]
    pub fn tools(&mut self) -> Vec<String> {
        let list = self.ask("tools/list", json!({}));
        let tools = list["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Calls a tool and returns its result.
    #[track_caller]
    pub fn call(&mut self, tool: &str, args: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": args }));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Closes the client's side.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits for the end; what was printed until then is lost.
    pub fn wait(mut self) -> Outcome {
        drop(self.stdin.take());
        // The rest must be read, or it might not end.
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut self.stdout, &mut rest).unwrap();
        Outcome::of("windlass mcp".to_owned(), self.child.wait_with_output().unwrap())
    }
}

/// Whether a result is an error, and its first text.
#[track_caller]
pub fn told(result: &Value) -> (bool, &str) {
    let text = result["content"][0]["text"].as_str();
    (result["isError"] == true, text.unwrap_or_else(|| panic!("no text in {result}")))
}

/// The first id in a text.
#[track_caller]
pub fn id_in(text: &str) -> String {
    let pattern = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    let found = regex::Regex::new(pattern).unwrap().find(text);
    found.unwrap_or_else(|| panic!("no id in {text}")).as_str().to_owned()
}
