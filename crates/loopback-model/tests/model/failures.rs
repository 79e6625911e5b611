//! Steps that fail, and models that are stopped.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::support::{messages, post, request, start};

const PATH: &str = "/v1/messages";

#[test]
fn an_error_has_its_status_headers_and_body() {
    let model = start(&json!([
        { "error": { "status": 429, "headers": { "retry-after": "7" }, "body": { "a": 1 } } },
        { "error": { "status": 529 } },
    ]));
    let reply = post(&model, PATH, &messages(true));
    assert_eq!((reply.status, reply.json()), (429, json!({ "a": 1 })));
    assert!(reply.head.contains("\r\nretry-after: 7"), "{}", reply.head);
    let reply = post(&model, PATH, &messages(true));
    assert_eq!((reply.status, &reply.json()["error"]["message"]), (529, &json!("scripted 529")));
}

#[test]
fn a_connection_breaks_where_the_step_says() {
    let step = |at: &str| json!({ "text": "said", "calls": [{ "name": "fs_read" }], "drop": at });
    let model = start(&json!([{ "drop": "start" }, step("mid"), step("eof"), step("late")]));
    let is_reset = |end: &std::io::Result<()>| {
        end.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
    };
    // Of each answer: the first text, the call, the end of the message; and whether it was reset.
    for (at, expected, reset) in [
        ("start", [false, false, false], true),
        ("mid", [true, false, false], true),
        ("eof", [true, false, false], false),
        ("late", [true, true, false], true),
    ] {
        let reply = post(&model, PATH, &messages(true));
        let parts = ["text_delta", "input_json_delta", "message_stop"];
        assert_eq!(parts.map(|part| reply.body.contains(part)), expected, "{at}");
        assert_eq!(is_reset(&reply.end), reset, "{at}");
    }
    let model = start(&json!([{ "drop": "late", "text": "said" }]));
    assert!(is_reset(&post(&model, PATH, &messages(false)).end));
}

#[test]
fn an_error_comes_inside_of_a_stream_in_each_protocol() {
    let script = json!([{ "sse_error": { "type": "overloaded_error" }, "repeat": -1 }]);
    let model = start(&script);
    let tools = json!([{ "name": "a" }]);
    let body = json!({ "stream": true, "tools": tools });
    for (path, pointer) in [
        (PATH, "/error/type"),
        ("/v1/responses", "/response/error/type"),
        ("/v1/chat/completions", "/error/type"),
        ("/models/m:streamGenerateContent", "/error/type"),
    ] {
        let reply = post(&model, path, &body);
        let events = reply.events();
        let error = events.last().and_then(|event| event.pointer(pointer));
        assert_eq!((reply.status, error), (200, Some(&json!("overloaded_error"))), "{path}");
    }
    assert_eq!(post(&model, PATH, &messages(false)).status, 500);
}

#[test]
fn garbage_is_sent_as_it_is() {
    let model = start(&json!([{ "garbage": "}{ nothing", "repeat": 2 }]));
    for stream in [true, false] {
        let reply = post(&model, PATH, &messages(stream));
        assert_eq!((reply.status, reply.body.as_str()), (200, "}{ nothing"));
    }
}

#[test]
fn an_endless_text_ends_at_its_limit() {
    let model = start(&json!([{ "endless": 100_000, "repeat": -1 }]));
    for stream in [true, false] {
        let reply = post(&model, PATH, &messages(stream));
        assert!(reply.body.len() > 100_000, "{stream}: {}", reply.body.len());
        reply.end.unwrap();
    }
    let events = post(&model, PATH, &messages(true)).events();
    assert_eq!(events.last().unwrap()["type"], "message_stop");
}

#[test]
fn a_client_can_leave_an_endless_text() {
    let model = start(&json!([{ "endless": 200_000_000 }, { "text": "next" }]));
    let mut stream = TcpStream::connect(model.address()).unwrap();
    let body = messages(true).to_string();
    stream.write_all(&request("POST", PATH, "", &body)).unwrap();
    stream.read_exact(&mut [0; 10_000]).unwrap();
    drop(stream);
    assert!(post(&model, PATH, &messages(true)).body.contains("next"));
}

#[test]
fn waiting_for_requests_sees_them_before_they_are_answered_and_stopping_ends_them() {
    let model = start(&json!([{ "hang": 80_000 }]));
    assert!(!model.wait_for(1, Duration::ZERO));
    let mut stream = TcpStream::connect(model.address()).unwrap();
    stream.write_all(&request("POST", PATH, "", &messages(true).to_string())).unwrap();
    assert!(model.wait_for(1, Duration::from_secs(60)));
    // A request that never arrives in full must not hold the stop up either.
    let mut silent = TcpStream::connect(model.address()).unwrap();
    silent.write_all(b"POST /").unwrap();
    let address = model.address();
    drop(model);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_hanging_step_answers_late() {
    let model = start(&json!([{ "hang": 0.01 }, { "text": "own", "hang": 0.01 }]));
    assert!(post(&model, PATH, &messages(true)).body.contains("late"));
    assert!(post(&model, PATH, &messages(true)).body.contains("own"));
}
