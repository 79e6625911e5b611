//! Requests over HTTP that are refused.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use windlass_mcp::{HttpOptions, HttpServer, Limits, Reach, StartError, Token};

use super::http::{Site, initialize, ping};
use super::library::TOKEN;
use super::support::{Host, server};

#[test]
fn requests_that_are_not_for_this_server_are_refused() {
    let site = Site::start(&Host::echo(), Limits::default());
    let body = ping();
    let status = |change: &dyn Fn(&mut super::http::Request)| {
        let mut request = site.post(&body);
        change(&mut request);
        site.send(&request).status
    };
    assert_eq!(status(&|_| {}), 400, "there is no session");
    assert_eq!(status(&|request| request.remove("authorization")), 401);
    assert_eq!(status(&|request| request.set("authorization", "Bearer wrong-wrong-wrong")), 401);
    assert_eq!(status(&|request| request.set("host", "evil.example")), 403);
    assert_eq!(status(&|request| request.set("origin", "https://evil.example")), 403);
    assert_eq!(status(&|request| request.set("origin", "null")), 403);
    assert_eq!(status(&|request| request.path = "/"), 404);
    assert_eq!(status(&|request| request.path = "/mcp/x"), 404);
    assert_eq!(status(&|request| request.method = "PUT"), 405);
    assert_eq!(status(&|request| request.method = "OPTIONS"), 405);
    assert_eq!(status(&|request| request.set("accept", "application/json")), 406);
    assert_eq!(status(&|request| request.set("content-type", "text/plain")), 415);
    assert_eq!(status(&|request| request.set("mcp-session-id", "unknown")), 404);
    assert_eq!(status(&|request| request.set("mcp-protocol-version", "1999-01-01")), 400);
    assert_eq!(status(&|request| request.body = "{".to_owned()), 400);
    // Without the token, nothing else is told.
    let mut request = site.post(&body);
    request.remove("authorization");
    request.path = "/other";
    assert_eq!(site.send(&request).status, 401);
    assert!(site.send(&request).head.contains("www-authenticate: Bearer"));
}

#[test]
fn bodies_are_limited() {
    let host = Host::echo();
    let site = Site::start(&host, Limits { message_bytes_max: 10_000, ..Limits::default() });
    let mut request = site.post(&" ".repeat(10_001));
    assert_eq!(site.send(&request).status, 413);
    // The length is not told in advance.
    request.body = format!("2711\r\n{}\r\n0\r\n\r\n", " ".repeat(0x2711));
    request.set("transfer-encoding", "chunked");
    assert_eq!(site.send(&request).status, 413);
    assert_eq!(site.send(&site.post(&initialize())).status, 200);
}

#[test]
fn sessions_are_limited_in_number() {
    let site = Site::start(&Host::echo(), Limits { sessions_max: 2, ..Limits::default() });
    let open = || site.send(&site.post(&initialize()));
    let first = open();
    assert_eq!((first.status, open().status), (200, 200));
    let refused = open();
    assert_eq!(refused.status, 503);
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("as many sessions are open"), "{message}");
    let mut end = site.post("");
    end.method = "DELETE";
    end.set("mcp-session-id", &first.session());
    assert_eq!(site.send(&end).status, 204);
    assert_eq!(site.send(&end).status, 404);
    assert_eq!((open().status, open().status), (200, 503));
    // One that is not opened properly does not count.
    let site = Site::start(&Host::echo(), Limits { sessions_max: 1, ..Limits::default() });
    let mut bad = site.post(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#);
    assert_eq!(site.send(&bad).json()["error"]["code"], -32602);
    bad.body = initialize();
    assert_eq!(site.send(&bad).status, 200);
}

#[test]
fn idle_sessions_end() {
    let limits = Limits { sessions_max: 1, session_idle: Duration::ZERO, ..Limits::default() };
    let site = Site::start(&Host::echo(), limits);
    let session = site.send(&site.post(&initialize())).session();
    let mut request = site.post(&ping());
    request.set("mcp-session-id", &session);
    assert_eq!(site.send(&request).status, 404);
    // They make room for others.
    for _ in 0..3 {
        assert_eq!(site.send(&site.post(&initialize())).status, 200);
    }
}

#[test]
fn headers_must_say_what_the_message_says() {
    let host = Host::echo();
    let site = Site::start(&host, Limits::default());
    let params = json!({ "name": "read", "_meta": super::support::inline_meta() });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let status = |headers: [Option<&str>; 3]| {
        let mut request = site.post(&body.to_string());
        let names = ["mcp-protocol-version", "mcp-method", "mcp-name"];
        for (name, value) in names.into_iter().zip(headers) {
            if let Some(value) = value {
                request.set(name, value);
            }
        }
        site.send(&request).status
    };
    let (version, method, name) = (Some("2026-07-28"), Some("tools/call"), Some("read"));
    assert_eq!(status([version, method, name]), 200);
    assert_eq!(status([None, method, name]), 400);
    assert_eq!(status([Some("2025-11-25"), method, name]), 400);
    assert_eq!(status([version, None, name]), 400);
    assert_eq!(status([version, Some("tools/list"), name]), 400);
    assert_eq!(status([version, method, None]), 400);
    assert_eq!(status([version, method, Some("write")]), 400);
    assert_eq!(host.begun.lock().unwrap().len(), 1);
}

#[test]
fn only_this_machine_reaches_it_unless_told_otherwise() {
    let server = server(&Host::echo());
    let mut options = HttpOptions::local(Token::new(TOKEN.to_owned()).unwrap());
    let any = || TcpListener::bind("0.0.0.0:0").unwrap();
    let refused = HttpServer::start(any(), &server, options.clone());
    assert!(matches!(refused, Err(StartError::NotLoopback(_))), "{refused:?}");
    options.reach = Reach::Network;
    assert!(HttpServer::start(any(), &server, options).is_ok());
}
