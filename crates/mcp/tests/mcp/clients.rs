//! Messages in the form in which the real clients send them.

use serde_json::{Value, json};
use windlass_mcp::{ClientInfo, ToolUse};

use super::support::{Client, Host, inline_meta, server, tool};

/// What a client sends, and what the host must see of it.
struct Recorded {
    initialize: Value,
    protocol: &'static str,
    meta: Value,
    call_id: Option<&'static str>,
    /// Further requests, each with the field of its result that must be an empty list.
    asks: &'static [(&'static str, &'static str)],
    cancels_after_answer: bool,
}

fn recorded() -> [Recorded; 4] {
    [
        Recorded {
            initialize: json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "roots": {}, "elicitation": { "form": {}, "url": {} } },
                "clientInfo": { "name": "claude-code", "title": "Claude Code", "version": "2.1.325" },
            }),
            protocol: "2025-11-25",
            meta: json!({ "claudecode/toolUseId": "toolu_01", "progressToken": 3 }),
            call_id: Some("toolu_01"),
            asks: &[],
            cancels_after_answer: false,
        },
        Recorded {
            initialize: json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "elicitation": {} },
                "clientInfo": { "name": "codex-mcp-client", "title": "Codex", "version": "0.166.0" },
            }),
            protocol: "2025-06-18",
            meta: json!({
                "callId": "call_7", "itemId": "i_call_7", "threadId": "t", "sessionId": "s",
                "windowId": "t:0", "progressToken": 1,
                "x-codex-turn-metadata": {
                    "turn_id": "9", "turn_started_at_unix_ms": 1_794_880_672_547_u64,
                },
            }),
            call_id: Some("call_7"),
            asks: &[
                ("resources/list", "resources"),
                ("resources/templates/list", "resourceTemplates"),
            ],
            cancels_after_answer: false,
        },
        Recorded {
            initialize: json!({
                "protocolVersion": "2025-03-26",
                "capabilities": { "roots": { "listChanged": true } },
                "clientInfo": { "name": "gemini-cli-mcp-client-w", "version": "0.61.0" },
            }),
            protocol: "2025-03-26",
            meta: json!({ "progressToken": "q1w2e3" }),
            call_id: None,
            asks: &[("prompts/list", "prompts"), ("resources/list", "resources")],
            cancels_after_answer: false,
        },
        Recorded {
            // A version that this server does not know.
            initialize: json!({
                "protocolVersion": "2099-01-01", "capabilities": {},
                "clientInfo": { "name": "opencode", "version": "1.18.33" },
            }),
            protocol: "2025-11-25",
            meta: json!({ "progressToken": 3 }),
            call_id: None,
            asks: &[("prompts/list", "prompts")],
            cancels_after_answer: true,
        },
    ]
}

#[test]
fn the_real_clients_get_what_they_ask_for() {
    for recorded in recorded() {
        let host = Host::echo();
        let mut client = Client::connect(&server(&host));
        let hello = client.ask(0, "initialize", &recorded.initialize);
        assert_eq!(
            hello["result"],
            json!({
                "protocolVersion": recorded.protocol,
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "windlass", "version": "1" },
            })
        );
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        assert_eq!(client.ask(1, "ping", &json!({}))["result"], json!({}));
        for (method, field) in recorded.asks {
            assert_eq!(client.ask(2, method, &json!({}))["result"], json!({ *field: [] }));
        }
        let listed = client.ask(2, "tools/list", &json!({}));
        let expected = |name: &str| {
            let tool = tool(name);
            json!({
                "name": tool.name, "description": tool.description,
                "inputSchema": tool.input_schema, "annotations": tool.annotations,
            })
        };
        assert_eq!(listed["result"], json!({ "tools": [expected("read"), expected("write")] }));

        let params =
            json!({ "name": "read", "arguments": { "path": "a" }, "_meta": recorded.meta });
        let answer = client.ask(3, "tools/call", &params);
        let content = json!([{ "type": "text", "text": r#"{"path":"a"}"# }]);
        assert_eq!(answer["result"], json!({ "content": content }));
        if recorded.cancels_after_answer {
            let params = json!({ "requestId": 3, "reason": "done" });
            client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": params }));
        }
        // The id is free again, and arguments may be left out.
        assert_eq!(
            client.ask(3, "tools/call", &json!({ "name": "write" }))["result"]["content"][0]["text"],
            "{}"
        );
        client.close().unwrap();

        let info = &recorded.initialize["clientInfo"];
        let seen = ClientInfo {
            name: info["name"].as_str().unwrap().to_owned(),
            version: info["version"].as_str().unwrap().to_owned(),
            protocol: recorded.protocol.to_owned(),
            session: "session-1".to_owned(),
        };
        assert_eq!(*host.listed.lock().unwrap(), [seen]);
        let seen = |name: &str, args, call_id: Option<&str>, ordinal| ToolUse {
            name: name.to_owned(),
            args,
            call_id: call_id.map(str::to_owned),
            session: "session-1".to_owned(),
            ordinal,
        };
        assert_eq!(
            *host.begun.lock().unwrap(),
            [
                seen("read", json!({ "path": "a" }), recorded.call_id, 1),
                seen("write", json!({}), None, 2)
            ]
        );
    }
}

#[test]
fn a_client_without_initialize_says_who_it_is_in_each_request() {
    let host = Host::echo();
    let mut client = Client::connect(&server(&host));
    let meta = inline_meta();
    let found = client.ask(1, "server/discover", &json!({ "_meta": meta }))["result"].clone();
    assert_eq!(found["resultType"], "complete");
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    let known =
        json!({ "io.modelcontextprotocol/serverInfo": { "name": "windlass", "version": "1" } });
    assert_eq!(found["_meta"], known);
    let listed = client.ask(2, "tools/list", &json!({ "_meta": meta }))["result"].clone();
    assert_eq!(listed["resultType"], "complete");
    assert_eq!((&listed["ttlMs"], &listed["cacheScope"]), (&json!(0), &json!("private")));
    let params = json!({ "name": "read", "arguments": { "n": 1 }, "_meta": meta });
    let answer = client.ask(3, "tools/call", &params);
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"n":1}"#);
    assert_eq!(answer["result"]["resultType"], "complete");

    let mut wrong = meta.clone();
    wrong["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let refused = client.ask(4, "tools/list", &json!({ "_meta": wrong }));
    assert_eq!(refused["error"]["data"]["requested"], "2099-01-01");
    let mut wrong = meta;
    wrong.as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    let refused = client.ask(5, "tools/list", &json!({ "_meta": wrong }));
    assert_eq!(refused["error"]["code"], -32602);
    client.close().unwrap();
    let listed = host.listed.lock().unwrap();
    let seen: Vec<_> = listed.iter().map(|client| (&*client.name, &*client.protocol)).collect();
    assert_eq!(seen, [("inline", "2026-07-28")]);
}

#[test]
fn a_client_that_has_not_introduced_itself_gets_nothing() {
    let host = Host::echo();
    let mut client = Client::connect(&server(&host));
    assert_eq!(client.ask(1, "ping", &json!({}))["result"], json!({}));
    for method in ["tools/list", "tools/call", "resources/list"] {
        let refused = client.ask(2, method, &json!({ "name": "read" }));
        assert_eq!(refused["error"]["code"], -32600, "{method}");
    }
    client.close().unwrap();
    assert_eq!(host.begun.lock().unwrap().len() + host.listed.lock().unwrap().len(), 0);
}

#[test]
fn a_client_that_probes_finds_the_version_without_initialize() {
    // Claude Code: a probe, a subscription, and only then its requests.
    let host = Host::echo();
    let server = server(&host);
    let mut client = Client::connect(&server);
    let meta = inline_meta();
    let request = |id: Value, method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        json!({ "method": method, "params": params, "jsonrpc": "2.0", "id": id })
    };
    client.send(&request(json!("server-discover-probe-1"), "server/discover", json!({})));
    assert_eq!(client.receive()["id"], "server-discover-probe-1");
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    client.send(&request(json!("listen:0"), "subscriptions/listen", filter));
    let acknowledged = client.receive();
    let id = &acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(id, "listen:0");
    client.send(&request(json!(0), "server/discover", json!({})));
    assert_eq!(client.receive()["result"]["capabilities"]["tools"]["listChanged"], true);
    client.send(&request(json!(1), "tools/list", json!({})));
    assert_eq!(client.receive()["result"]["tools"].as_array().unwrap().len(), 2);
    let mut call = request(json!(2), "tools/call", json!({ "name": "read", "arguments": {} }));
    call["params"]["_meta"]["claudecode/toolUseId"] = json!("toolu_1");
    call["params"]["_meta"]["progressToken"] = json!(2);
    client.send(&call);
    assert_eq!(client.receive()["result"]["content"][0]["text"], "{}");
    client.close().unwrap();
    assert_eq!(host.begun.lock().unwrap()[0].call_id.as_deref(), Some("toolu_1"));
}

#[test]
fn an_answer_to_a_ping_has_the_form_of_its_version() {
    let mut client = Client::connect(&server(&Host::echo()));
    let answer = client.ask(1, "ping", &json!({ "_meta": inline_meta() }));
    assert_eq!(answer["result"], json!({ "resultType": "complete" }));
    let answer = client.ask(2, "ping", &json!({ "_meta": 1 }));
    assert_eq!(answer["result"], json!({}));
    client.close().unwrap();
}

#[test]
fn the_last_line_counts_without_its_end() {
    use std::io::Write as _;
    let mut client = Client::ready(&server(&Host::echo()));
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "read", "arguments": { "a": 1 } } });
    client.writer.write_all(call.to_string().as_bytes()).unwrap();
    let rest = client.rest();
    assert_eq!(rest[0]["result"]["content"][0]["text"], json!({ "a": 1 }).to_string());
}
