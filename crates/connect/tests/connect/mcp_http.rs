//! Faulty HTTP servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_connect::{Certainty, Connect, Connectors, Job, Limits, Reply, Target};
use windlass_kernel::Code;
use windlass_testkit::example_binary;

use crate::common::{self, PATIENT, eventually, failure, success};

fn target(url: &str, bearer: Option<&str>) -> Target {
    let (server, url) = ("web".to_owned(), url.to_owned());
    Target::McpHttp { server, url, bearer: bearer.map(str::to_owned) }
}

fn call(target: &Target) -> Reply {
    Connectors::new().perform(&common::job(target, "t", &json!({})))
}

/// A server with scripted answers, which records the requests.
struct Fake {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn new(answer: impl Fn(&Value) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let stream = stream.unwrap();
                    if let Some((head, body)) = read_request(&stream) {
                        let message = serde_json::from_slice(&body).unwrap_or(Value::Null);
                        let method = message["method"].as_str().unwrap_or("none").to_owned();
                        log.lock().unwrap().push(format!("{method}\n{head}"));
                        // The client may close the connection during a long answer.
                        let answer = answer(&message);
                        let _ = (&stream).write_all(&answer);
                        if answer.is_empty() {
                            // Never answered: wait until the client gives up.
                            let _ = (&stream).read_to_end(&mut Vec::new());
                            log.lock().unwrap().push("hung up\n".to_owned());
                        }
                    }
                });
            }
        });
        Self { url, asked }
    }

    /// How often a method was asked for.
    fn count(&self, method: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|asked| asked.starts_with(&format!("{method}\n"))).count()
    }
}

fn read_request(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap_or("0").parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn http(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn json_answer(message: &Value, result: &Value) -> Vec<u8> {
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    http("200 OK", "Content-Type: application/json\r\nMcp-Session-Id: s-1\r\n", &answer.to_string())
}

/// A correct server up to the tool call, which is answered by `answer`.
fn good_until_call(answer: impl Fn(&Value) -> Vec<u8> + Send + Sync + 'static) -> Fake {
    Fake::new(move |message| match message["method"].as_str() {
        Some("initialize") => {
            let info = json!({ "name": "fake", "version": "1" });
            let result = json!({
                "protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": info
            });
            json_answer(message, &result)
        }
        Some("tools/list") => json_answer(message, &json!({ "tools": [{ "name": "t" }] })),
        Some("tools/call") => answer(message),
        Some("ping") => json_answer(message, &json!({})),
        _ => http("202 Accepted", "", ""),
    })
}

fn done() -> Value {
    json!({ "content": [], "isError": false })
}

#[test]
fn a_refused_connection_did_not_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let reply = call(&target(&format!("http://{address}/mcp"), None));
    let (message, _) = failure(reply, Code::ToolServerUnavailable, Certainty::DidNotRun);
    assert!(message.contains("cannot reach"), "{message}");
}

#[test]
fn an_address_that_is_none_did_not_run() {
    for url in ["", "not a url", "ftp://127.0.0.1/", "file:///etc/passwd", "http://"] {
        let reply = call(&target(url, None));
        failure(reply, Code::ToolServerUnavailable, Certainty::DidNotRun);
    }
    let reply = call(&target("http://127.0.0.1:1/", Some("new\nline")));
    failure(reply, Code::ToolServerUnavailable, Certainty::DidNotRun);
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = good_until_call(|message| json_answer(message, &done()));
    let location = format!("Location: {}\r\n", elsewhere.url);
    let moved = location.clone();
    let fake = Fake::new(move |_| http("307 Temporary Redirect", &location, ""));
    let (message, _) = failure(
        call(&target(&fake.url, Some("secret"))),
        Code::ToolProtocolError,
        Certainty::DidNotRun,
    );
    assert!(message.contains("redirect"), "{message}");
    let fake = good_until_call(move |_| http("302 Found", &moved, ""));
    failure(call(&target(&fake.url, None)), Code::ToolProtocolError, Certainty::Unknown);
    assert!(elsewhere.asked.lock().unwrap().is_empty(), "nobody went there");
}

#[test]
fn the_bearer_is_sent_and_needed() {
    let mut server = Command::new(example_binary("test_server"))
        .args(["--http", "--bearer", "s3cret"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();
    let connectors = Connectors::new();
    let args = json!({});
    let with = target(url, Some("s3cret"));
    let good = connectors.perform(&common::job(&with, "get", &args));
    let other = target(url, Some("other"));
    let bad = connectors.perform(&common::job(&other, "get", &args));
    server.kill().unwrap();
    server.wait().unwrap();
    success(good);
    let (message, _) = failure(bad, Code::ToolServerUnavailable, Certainty::DidNotRun);
    assert!(message.contains("401") && !message.contains("other"), "{message}");
}

#[test]
fn session_and_version_go_with_every_later_request() {
    let fake = good_until_call(|message| json_answer(message, &done()));
    let connectors = Connectors::new();
    let (target, args) = (target(&fake.url, None), json!({}));
    for _ in 0..2 {
        assert_eq!(success(connectors.perform(&common::job(&target, "t", &args))), done());
    }
    drop(connectors);
    let asked = fake.asked.lock().unwrap().clone();
    let methods: Vec<_> = asked.iter().map(|asked| asked.lines().next().unwrap()).collect();
    let expected = [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
        "ping",
        "tools/call",
        "none",
    ];
    assert_eq!(methods, expected);
    for asked in asked.iter().skip(1) {
        assert!(asked.contains("mcp-session-id: s-1"), "{asked}");
        assert!(asked.contains("mcp-protocol-version: 2025-03-26"), "{asked}");
    }
    assert!(asked.last().unwrap().contains("delete /mcp"), "{asked:?}");
}

#[test]
fn a_forgotten_session_is_opened_anew_once() {
    let fake = good_until_call(|_| http("404 Not Found", "", ""));
    let reply = call(&target(&fake.url, None));
    failure(reply, Code::ToolServerUnavailable, Certainty::DidNotRun);
    assert_eq!((fake.count("initialize"), fake.count("tools/call")), (2, 2));
    let calls = AtomicUsize::new(0);
    let fake = good_until_call(move |message| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => http("404 Not Found", "", ""),
        _ => json_answer(message, &done()),
    });
    assert_eq!(success(call(&target(&fake.url, None))), done());
    assert_eq!((fake.count("initialize"), fake.count("tools/call")), (2, 2));
}

#[test]
fn a_request_that_timed_out_is_not_kept_open() {
    let fake = good_until_call(|_| Vec::new());
    let connectors = Connectors::new();
    let (target, args) = (target(&fake.url, None), json!({}));
    let limits = Limits { timeout: Duration::from_secs(2), ..PATIENT };
    let reply = connectors.perform(&Job { limits, ..common::job(&target, "t", &args) });
    failure(reply, Code::ToolTimeout, Certainty::Unknown);
    eventually("we hung up", || fake.count("hung up") == 1);
    eventually("the server was told", || fake.count("notifications/cancelled") == 1);
    assert_eq!(fake.count("tools/call"), 1);
}

#[test]
fn a_status_is_judged() {
    for (status, code, certainty) in [
        ("503 Service Unavailable", Code::ToolServerUnavailable, Certainty::Unknown),
        ("500 Internal Server Error", Code::ToolServerUnavailable, Certainty::Unknown),
        ("403 Forbidden", Code::ToolServerUnavailable, Certainty::DidNotRun),
        ("400 Bad Request", Code::ToolProtocolError, Certainty::Unknown),
        ("202 Accepted", Code::ToolProtocolError, Certainty::Unknown),
    ] {
        let fake = good_until_call(move |_| http(status, "", ""));
        failure(call(&target(&fake.url, None)), code, certainty);
        assert_eq!(fake.count("tools/call"), 1);
    }
}

#[test]
fn a_long_body_is_cut_off() {
    let limits = Limits { output_bytes_max: 1000, ..PATIENT };
    let announced = |_: &Value| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
        format!("{head}Content-Length: 9000000000000\r\n\r\n{{").into_bytes()
    };
    let unannounced = |_: &Value| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
        format!("{head}{}", " ".repeat(200_000)).into_bytes()
    };
    let event = |_: &Value| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ";
        format!("{head}{}", "x".repeat(200_000)).into_bytes()
    };
    for (fake, certainty) in [
        (good_until_call(announced), Certainty::Ran),
        (good_until_call(unannounced), Certainty::Ran),
        // It need not be the answer.
        (good_until_call(event), Certainty::Unknown),
    ] {
        let (target, args) = (target(&fake.url, None), json!({}));
        let job = Job { limits, ..common::job(&target, "t", &args) };
        failure(Connectors::new().perform(&job), Code::ToolOutputTooLarge, certainty);
    }
}

#[test]
fn a_stream_is_read_up_to_its_answer() {
    fn events(message: &Value, answer: &str) -> Vec<u8> {
        let asked = r#"{"jsonrpc":"2.0","id":"s","method":"roots/list"}"#;
        let told = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
        let answer = answer.replace("ID", &message["id"].to_string());
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let body = format!(": hi\n\ndata: {told}\n\ndata: {asked}\n\n{answer}");
        format!("{head}{body}").into_bytes()
    }
    let result = r#"data: {"jsonrpc":"2.0","id":ID,"result":{"content":[],"isError":false}}"#;
    let good = good_until_call(move |message| events(message, &format!("{result}\n\n")));
    assert_eq!(success(call(&target(&good.url, None))), done());
    assert_eq!(good.count("none"), 2, "a refusal, and the end of the session");

    let cut = good_until_call(move |message| events(message, result));
    failure(call(&target(&cut.url, None)), Code::ToolServerUnavailable, Certainty::Unknown);
    let nonsense = good_until_call(move |message| events(message, "data: nonsense\n\n"));
    failure(call(&target(&nonsense.url, None)), Code::ToolProtocolError, Certainty::Unknown);
}

#[test]
fn another_answer_is_not_ours() {
    let fake = good_until_call(|_| json_answer(&json!({ "id": 999 }), &done()));
    failure(call(&target(&fake.url, None)), Code::ToolProtocolError, Certainty::Unknown);
}

#[test]
fn tls_works_without_further_setting_up() {
    let fake = Fake::new(|_| b"not TLS".to_vec());
    let reply = call(&target(&fake.url.replace("http://", "https://"), None));
    let (message, _) = failure(reply, Code::ToolServerUnavailable, Certainty::DidNotRun);
    assert!(message.contains("cannot reach"), "{message}");
}

#[test]
fn the_loopback_is_not_reached_through_a_proxy() {
    // The environment cannot be changed from inside, so another process runs one of these tests.
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mcp_http::session_and_version_go_with_every_later_request"])
        .env("http_proxy", "http://127.0.0.1:1")
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("ALL_PROXY", "http://127.0.0.1:1")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}
