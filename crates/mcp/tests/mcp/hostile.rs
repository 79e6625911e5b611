//! Lines that no honest client sends.

use std::io::Write as _;

use serde_json::{Value, json};
use windlass_mcp::{Limits, ToolAnswer};

use super::support::{Client, Host, server, server_with};

#[test]
fn a_bad_line_is_answered_and_the_connection_lives() {
    let host = Host::echo();
    let mut client = Client::ready(&server(&host));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_args = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"read","arguments":{deep}}}}}"#
    );
    let call = |params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)
    };
    let lines: [(String, i64, Value); 20] = [
        ("hello".to_owned(), -32700, Value::Null),
        (r#"{"jsonrpc":"2.0","#.to_owned(), -32700, Value::Null),
        ("\u{0}".to_owned(), -32700, Value::Null),
        (deep, -32600, Value::Null),
        ("[]".to_owned(), -32600, Value::Null),
        ("{}".to_owned(), -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":7}"#.to_owned(), -32600, json!(7)),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#.to_owned(), -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":7,"method":"shutdown"}"#.to_owned(), -32601, json!(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"resources/read"}"#.to_owned(), -32601, json!(7)),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen"}"#.to_owned(),
            -32601,
            json!(7),
        ),
        (deep_args, -32602, json!(7)),
        (call("[]"), -32602, json!(7)),
        (call("{}"), -32602, json!(7)),
        (call(r#"{"name":1}"#), -32602, json!(7)),
        (call(r#"{"name":"read","arguments":[]}"#), -32602, json!(7)),
        (call(r#"{"name":"read","arguments":{"a":1,"a":2}}"#), -32602, json!(7)),
        (call(r#"{"name":"read","arguments":{"a":9007199254740993}}"#), -32602, json!(7)),
        (call(r#"{"name":"read","_meta":"x"}"#), -32602, json!(7)),
        (call(r#"{"name":"no_such_tool"}"#), -32602, json!(7)),
    ];
    for (line, code, id) in lines {
        client.line(&line);
        let answer = client.receive();
        let excerpt = &line[..line.len().min(99)];
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{excerpt}");
    }
    // Nothing of this is answered.
    for line in [
        "",
        "  \r",
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"read"}}"#,
    ] {
        client.line(line);
    }
    client.writer.write_all(b"\xff\xfe\n").unwrap();
    assert_eq!(client.receive()["error"]["code"], -32700);
    assert_eq!(client.ask(8, "ping", &json!({}))["result"], json!({}));
    client.close().unwrap();
    assert_eq!(host.begun.lock().unwrap().len(), 0);
}

#[test]
fn a_message_that_is_too_long_is_skipped() {
    let host = Host::echo();
    let limits = Limits { message_bytes_max: 200_000, ..Limits::default() };
    let mut client = Client::ready(&server_with(&host, limits));
    for (bytes, accepted) in [(190_000, true), (200_000, false), (5_000_000, false)] {
        let mut writer = client.writer.try_clone().unwrap();
        let text = "x".repeat(bytes);
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "read", "arguments": { "text": text } } });
        let sent = std::thread::spawn(move || writeln!(writer, "{line}").unwrap());
        let answer = client.receive();
        sent.join().unwrap();
        assert_eq!(answer.get("result").is_some(), accepted, "{bytes}");
        if !accepted {
            assert_eq!(answer["error"]["code"], -32600);
        }
    }
    assert_eq!(client.ask(2, "ping", &json!({}))["result"], json!({}));
    client.close().unwrap();
    assert_eq!(host.finished.lock().unwrap().len(), 1);
}

#[test]
fn half_a_message_at_the_end_is_answered_with_an_error() {
    let host = Host::echo();
    let mut client = Client::ready(&server(&host));
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}"#;
    client.writer.write_all(line.as_bytes()).unwrap();
    let rest = client.rest();
    assert_eq!((rest.len(), &rest[0]["error"]["code"]), (1, &json!(-32700)));
    assert_eq!(host.begun.lock().unwrap().len(), 0);
}

#[test]
fn a_host_that_fails_is_answered_for() {
    let host = Host::new(|tool_use, _| match tool_use.args["how"].as_str() {
        Some("panic") => panic!("as the test wants"),
        Some("list") => ToolAnswer::Result(json!([1])),
        _ => ToolAnswer::Error("a person refused".to_owned()),
    });
    let mut client = Client::ready(&server(&host));
    for how in ["panic", "list"] {
        client.call(1, "read", &json!({ "how": how }));
        assert_eq!(client.receive()["error"]["code"], -32603, "{how}");
    }
    client.call(2, "read", &json!({}));
    let content = json!([{ "type": "text", "text": "a person refused" }]);
    assert_eq!(client.receive()["result"], json!({ "content": content, "isError": true }));
    client.close().unwrap();
}

#[test]
fn the_list_has_pages() {
    let host = Host::echo();
    *host.tools.lock().unwrap() =
        (0..5).map(|number| super::support::tool(&format!("t{number}"))).collect();
    let limits = Limits { tools_page: 2, ..Limits::default() };
    let mut client = Client::ready(&server_with(&host, limits));
    let mut names = Vec::new();
    let mut params = json!({});
    loop {
        let page = client.ask(1, "tools/list", &params)["result"].clone();
        let tools = page["tools"].as_array().unwrap();
        names.push(tools.iter().map(|tool| tool["name"].clone()).collect::<Vec<_>>());
        let Some(cursor) = page.get("nextCursor") else { break };
        params = json!({ "cursor": cursor });
    }
    assert_eq!(names, [vec!["t0", "t1"], vec!["t2", "t3"], vec!["t4"]]);
    for cursor in [json!("6"), json!("-1"), json!("x"), json!(2)] {
        let refused = client.ask(2, "tools/list", &json!({ "cursor": cursor }));
        assert_eq!(refused["error"]["code"], -32602, "{cursor}");
    }
    client.close().unwrap();
}
