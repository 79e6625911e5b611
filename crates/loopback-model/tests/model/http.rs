//! What is asked besides answers, and requests that are refused.

use serde_json::json;

use crate::support::{messages, post, request, send_raw, start};

#[test]
fn lists_of_models_and_counts_of_tokens_take_no_step() {
    let model = start(&json!([{ "text": "first" }]));
    let address = model.address();
    let reply = send_raw(address, &request("GET", "/v1/models?limit=1", "", ""));
    assert_eq!((reply.status, &reply.json()["data"][0]["id"]), (200, &json!("loopback")));
    let reply = send_raw(address, &request("HEAD", "/", "", ""));
    assert_eq!((reply.status, reply.body.as_str()), (200, ""));
    let body = messages(false);
    assert_eq!(
        post(&model, "/v1/messages/count_tokens", &body).json(),
        json!({ "input_tokens": 10 })
    );
    assert_eq!(post(&model, "/models/m:countTokens", &body).json(), json!({ "totalTokens": 10 }));
    assert_eq!(post(&model, "/v1/elsewhere", &body).status, 404);
    assert_eq!(send_raw(address, &request("GET", "/v1/messages", "", "")).status, 404);
    assert_eq!(send_raw(address, &request("PUT", "/v1/messages", "", "")).status, 405);
    let others = [
        "GET /v1/models",
        "HEAD /",
        "POST /v1/messages/count_tokens",
        "POST /models/m:countTokens",
        "POST /v1/elsewhere",
        "GET /v1/messages",
    ];
    assert_eq!(model.other_requests(), others);
    assert_eq!(model.requests(), []);
    assert!(post(&model, "/v1/messages", &body).body.contains("first"));
}

#[test]
fn requests_beyond_the_limits_are_refused() {
    let model = start(&json!([]));
    let long = format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(64 * 1024));
    let length =
        format!("POST /v1/messages HTTP/1.1\r\ncontent-length: {}\r\n\r\n", 64 * 1024 * 1024 + 1);
    for (bytes, status) in [
        (long.as_bytes(), 431),
        (length.as_bytes(), 413),
        (b"POST /v1/messages HTTP/1.1\r\n\r\n".as_slice(), 411),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 1\r\n\r\n{}", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 1\r\n\r\n{", 400),
        (b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 501),
        (b"no request\r\n\r\n", 400),
    ] {
        assert_eq!(send_raw(model.address(), bytes).status, status);
    }
    assert_eq!(model.requests(), []);
}

#[test]
fn a_client_that_asks_may_send_its_body() {
    let model = start(&json!([{ "text": "first" }]));
    let body = messages(false).to_string();
    let bytes = request("POST", "/v1/messages", "expect: 100-continue\r\n", &body);
    let reply = send_raw(model.address(), &bytes);
    assert_eq!(reply.status, 100);
    assert!(reply.body.contains("first"), "{}", reply.body);
}
