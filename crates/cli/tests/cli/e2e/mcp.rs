//! `windlass mcp serve`: the registered tools for MCP clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use crate::e2e::mcp_client::{Client, SERVER, id_in, told};
use crate::harness::Place;

const DECIDE: [&str; 4] = ["--by", "ada", "--reason", "a test"];
const SERVE: [&str; 2] = ["mcp", "serve"];

/// A project with a registered server whose tool runs `lab.sh`.
fn lab(script: &str) -> Place {
    let place = Place::with_project();
    place.write("server.sh", SERVER);
    place.write("lab.sh", script);
    let tools = "[server.lab]\nconnector = \"mcp-stdio\"\ncommand = [\"bash\", \"server.sh\"]\n\
        [server.lab.tool.do]\nclass = \"write\"\n";
    place.append(".windlass/tools.toml", tools);
    let rule = "[[rule]]\nid = \"lab\"\nverdict = \"allow\"\nreason = \"a test\"\ntool = \"lab/do\"\n\
        matches = [{ tool = \"lab/do\" }]\n";
    place.write(".windlass/policy/lab.toml", rule);
    place
}

#[test]
fn a_client_sees_and_calls_what_the_policy_allows() {
    let place = Place::with_server();
    let mut client = Client::start(&place, &SERVE);
    let tools = client.tools();
    for name in ["shell_read", "fs_read", "count_add", "count_get"] {
        assert!(tools.iter().any(|tool| tool == name), "{name} in {tools:?}");
    }
    // One whose server cannot be started has no tools, and says so.
    assert!(!tools.iter().any(|tool| tool == "broken_get"), "{tools:?}");
    assert_eq!(told(&client.call("shell_read", json!({ "line": "echo one" }))), (false, "one\n"));
    let added = client.call("count_add", json!({ "text": "x" }));
    assert_eq!(added["structuredContent"], json!({ "added": true, "count": 1 }), "{added}");
    let failed = client.call("count_fail", json!({}));
    assert_eq!(told(&failed), (true, "it did not work"), "{failed}");
    let denied = client.call("shell_read", json!({ "line": "frobnicate" }));
    let (is_error, text) = told(&denied);
    assert!(is_error && text.contains("[POLICY_DENIED]"), "{denied}");
    let unknown = client.ask("tools/call", json!({ "name": "broken_get", "arguments": {} }));
    assert!(unknown["error"].is_object(), "{unknown}");
    client.wait().exit(0).warns("the tools of server `broken` are not offered");
    place.run(&["verify"]).exit(0);
    let shown = place.run(&["call", "list", "--json"]).exit(0).json();
    assert_eq!(shown.as_array().unwrap().len(), 4, "{shown}");
}

#[test]
fn only_the_named_tools_are_offered() {
    let place = Place::with_project();
    let mut client = Client::start(&place, &["mcp", "serve", "--tools", "shell/read,fs/read"]);
    assert_eq!(client.tools(), ["fs_read", "shell_read"]);
    client.wait().exit(0);
    let unknown = place.run(&["mcp", "serve", "--tools", "no/tool"]);
    unknown.fails_with(3, "TOOL_UNCLASSIFIED_DENIED");
}

#[test]
fn a_repeated_call_is_answered_from_the_record() {
    let place = Place::with_server();
    let call = json!({ "name": "count_add", "arguments": { "text": "x" }, "_meta": { "callId": "call_01A09q90qw90lq91" } });
    for _ in 0..2 {
        let mut client = Client::start(&place, &SERVE);
        let first = client.ask("tools/call", call.clone());
        let second = client.ask("tools/call", call.clone());
        assert_eq!(first["result"]["structuredContent"]["count"], 1, "{first}");
        assert_eq!(first["result"], second["result"]);
        client.wait().exit(0);
    }
    assert_eq!(place.executed(), 1);
    let mut client = Client::start(&place, &SERVE);
    let other = json!({ "name": "count_add", "arguments": { "text": "y" }, "_meta": { "callId": "call_01A09q90qw90lq91" } });
    let other = client.ask("tools/call", other);
    assert!(told(&other["result"]).1.contains("[IDEMPOTENCY_CONFLICT]"), "{other}");
    // Without an id every call is a new one.
    for count in 2..4 {
        let added = client.call("count_add", json!({ "text": "x" }));
        assert_eq!(added["structuredContent"]["count"], count, "{added}");
    }
}

#[test]
fn a_call_waits_until_a_person_has_decided() {
    let place = Place::with_project();
    let mut client = Client::start(&place, &SERVE);
    for (answer, is_error, says) in
        [("approve", false, "HOME="), ("deny", true, "[DENIED_BY_PERSON]")]
    {
        let params = json!({
            "name": "shell_read", "arguments": { "line": "env" }, "_meta": { "progressToken": "p" },
        });
        let call = client.send("tools/call", params);
        let progress = client.next();
        assert_eq!(progress["method"], "notifications/progress", "{progress}");
        let id = id_in(progress["params"]["message"].as_str().unwrap());
        place.run(&[&["call", answer, &id][..], &DECIDE].concat()).exit(0);
        let result = client.answer(call)["result"].clone();
        let (found, text) = told(&result);
        assert!(found == is_error && text.contains(says), "{result}");
    }
    client.wait().exit(0);
}

#[test]
fn a_call_that_was_approved_later_is_let_through_once() {
    let place = Place::with_project();
    let mut client = Client::start(&place, &["mcp", "serve", "--wait", "0"]);
    let args = json!({ "line": "env" });
    let held = client.call("shell_read", args.clone());
    let (is_error, text) = told(&held);
    assert!(is_error && text.contains("[CALL_ON_HOLD]"), "{held}");
    let id = id_in(text);
    assert!(text.contains(&format!("windlass call approve {id}")), "{held}");
    // It is the same question until it is answered.
    assert_eq!(id_in(told(&client.call("shell_read", args.clone())).1), id);
    place.run(&[&["call", "approve", &id][..], &DECIDE].concat()).exit(0);
    let result = client.call("shell_read", args.clone());
    assert!(told(&result).1.contains("HOME="), "{result}");
    assert_ne!(id_in(told(&client.call("shell_read", args)).1), id);
}

#[test]
fn hostile_lines_are_answered_and_change_nothing() {
    let place = Place::with_project();
    let mut client = Client::start(&place, &["mcp", "serve", "--tools", "shell/read"]);
    for (line, code) in [
        ("hello", -32700),
        ("[]", -32600),
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"shell_read","arguments":[]}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"shell_read","arguments":{"a":1,"a":2}}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"shell/read"}}"#,
            -32602,
        ),
        (r#"{"jsonrpc":"2.0","id":"a","method":"windlass/approve"}"#, -32601),
    ] {
        client.line(line);
        let answer = client.next();
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
    assert_eq!(told(&client.call("shell_read", json!({ "line": "echo x" }))), (false, "x\n"));
    client.wait().exit(0);
    assert_eq!(place.ids().len(), 1);
}

#[test]
fn many_calls_are_made_at_once() {
    let place = Place::with_server();
    let tools = "[server.count.tool.meet]\nclass = \"write\"\ntimeout_ms = 600000\n";
    place.append(".windlass/tools.toml", tools);
    let mut client = Client::start(&place, &["mcp", "serve", "--tools", "count/meet"]);
    let ids: Vec<u64> = (0..64)
        .map(|n| {
            let args = json!({ "calls": 64, "n": n });
            client.send("tools/call", json!({ "name": "count_meet", "arguments": args }))
        })
        .collect();
    let mut answered: Vec<u64> = ids
        .iter()
        .map(|_| {
            let answer = client.next();
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            answer["id"].as_u64().unwrap()
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, ids);
    client.wait().exit(0);
    assert_eq!(place.executed(), 64);
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_call_in_progress_is_finished_before_the_end() {
    for end in ["closed", "-INT", "-TERM"] {
        let place = lab("touch begun; until [ -e go ]; do sleep 0.05; done; echo done");
        let mut client = Client::start(&place, &["mcp", "serve", "--tools", "lab/do"]);
        let call = client.send("tools/call", json!({ "name": "lab_do", "arguments": {} }));
        windlass_testkit::eventually("it has begun", || place.work().join("begun").exists());
        match end {
            "closed" => client.close_input(),
            signal => client.signal(signal),
        }
        std::fs::write(place.work().join("go"), "").unwrap();
        let answer = client.answer(call);
        assert_eq!(told(&answer["result"]), (false, "done "), "{end}: {answer}");
        client.wait().exit(0);
        let list = place.run(&["call", "list", "--json"]).exit(0).json();
        assert_eq!(list[0]["current_state"], "COMPLETED", "{end}: {list}");
    }
}

#[test]
fn a_call_that_waits_for_a_person_does_not_keep_the_server() {
    let place = Place::with_project();
    let mut client = Client::start(&place, &SERVE);
    let params = json!({
        "name": "shell_read", "arguments": { "line": "env" }, "_meta": { "progressToken": 1 },
    });
    let call = client.send("tools/call", params);
    client.next();
    client.signal("-INT");
    let answer = client.answer(call);
    assert!(told(&answer["result"]).1.contains("[CALL_ON_HOLD]"), "{answer}");
    client.wait().exit(0);
}

#[test]
fn an_untrusted_configuration_serves_nothing() {
    let place = Place::with_project();
    place.write_untrusted(".windlass/policy/more.toml", "");
    for line in [&SERVE[..], &["mcp", "wrap", "--name", "x", "--", "touch", "began"]] {
        place.run(line).fails_with(3, "PROJECT_UNTRUSTED");
    }
    assert!(!place.work().join("began").exists());
}

#[test]
fn http_needs_the_token() {
    let place = Place::with_project();
    let file = place.base().join("token");
    let mut command = place.command(&["mcp", "serve", "--http", "127.0.0.1:0", "--token-file"]);
    let mut child = command.arg(&file).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("serving http://").unwrap_or_else(|| panic!("{line}"));
    let (address, path) = url.split_at(url.find('/').unwrap());
    let token = std::fs::read_to_string(&file).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    }})
    .to_string();
    for (token, status) in [("wrong-wrong-wrong", "401"), (token.trim(), "200")] {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for address in ["0.0.0.0:0", "nonsense"] {
        place.run(&["mcp", "serve", "--http", address]).exit(2).warns("[REQUEST_INVALID]");
    }
}
