//! Conversations in the forms of the real clients.

use serde_json::{Value, json};
use windlass_loopback_model::{AnsweredBy, LoopbackModel, Protocol, ToolResult};

use crate::support::{Reply, request, send_raw, start};

const CLIENTS: [(Protocol, &str); 4] = [
    (Protocol::Messages, include_str!("clients/claude.json")),
    (Protocol::Responses, include_str!("clients/codex.json")),
    (Protocol::Gemini, include_str!("clients/gemini.json")),
    (Protocol::ChatCompletions, include_str!("clients/opencode.json")),
];

fn script() -> Value {
    json!({ "conversations": [{ "when": "look at a.txt", "steps": [
        { "text": "I read.", "calls": [{ "name": "fs_read", "input": { "path": "a.txt" } }] },
        { "text": "all done", "usage": { "input": 30, "output": 4, "cached": 20 } },
    ]}]})
}

fn ask(model: &LoopbackModel, client: &Value, body: &Value) -> Reply {
    let headers = format!("{}: secret\r\n", client["credentials"].as_str().unwrap());
    let path = client["path"].as_str().unwrap();
    send_raw(model.address(), &request("POST", path, &headers, &body.to_string()))
}

/// The one call of an answer, stream or document: its name, id, arguments and namespace.
fn call(protocol: Protocol, events: &[Value]) -> (Value, Value, Value, Value) {
    let parsed = |text: &Value| serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap();
    let find = |pointer: &str| events.iter().find_map(|event| event.pointer(pointer)).cloned();
    match protocol {
        Protocol::Messages => {
            let mut blocks = events.iter().filter_map(|event| event.get("content_block"));
            let block = blocks.next_back().unwrap();
            let mut deltas = events.iter().filter_map(|event| event.pointer("/delta/partial_json"));
            (
                block["name"].clone(),
                block["id"].clone(),
                parsed(deltas.next_back().unwrap()),
                Value::Null,
            )
        }
        Protocol::Responses => {
            let mut items =
                events.iter().filter(|event| event["type"] == "response.output_item.done");
            let item = &items.next_back().unwrap()["item"];
            let arguments = parsed(&item["arguments"]);
            (item["name"].clone(), item["call_id"].clone(), arguments, item["namespace"].clone())
        }
        Protocol::ChatCompletions => {
            let call = find("/choices/0/delta/tool_calls/0").unwrap();
            let function = &call["function"];
            let arguments = parsed(&function["arguments"]);
            (function["name"].clone(), call["id"].clone(), arguments, Value::Null)
        }
        Protocol::Gemini => {
            let call = find("/candidates/0/content/parts/0/functionCall").unwrap();
            (call["name"].clone(), call["id"].clone(), call["args"].clone(), Value::Null)
        }
    }
}

/// The request as a client that is not streaming would send it.
fn without_stream(client: &Value, body: &Value) -> (Value, Value) {
    let (mut client, mut body) = (client.clone(), body.clone());
    let path = client["path"].as_str().unwrap().replace("streamGenerate", "generate");
    client["path"] = Value::from(path);
    if let Some(stream) = body.get_mut("stream") {
        *stream = Value::Bool(false);
    }
    (client, body)
}

#[test]
fn each_client_calls_a_tool_and_goes_on_after_a_restart() {
    for (protocol, client) in CLIENTS {
        let client: Value = serde_json::from_str(client).unwrap();
        let model = start(&script());
        let reply = ask(&model, &client, &client["first"]);
        reply.end.as_ref().unwrap();
        assert!(reply.head.contains("content-type: text/event-stream"), "{protocol:?}");
        let (name, id, input, namespace) = call(protocol, &reply.events());
        assert_eq!((&name, input), (&client["tool"], json!({ "path": "a.txt" })), "{protocol:?}");
        let expected = if protocol == Protocol::Responses { json!("mcp__w") } else { Value::Null };
        assert_eq!(namespace, expected, "{protocol:?}");

        // Another server has the same script, and knows nothing of the first.
        let restarted = start(&script());
        let shown = client["resumed"].to_string().replace("CALL_ID", id.as_str().unwrap());
        let reply = ask(&restarted, &client, &serde_json::from_str(&shown).unwrap());
        assert!(reply.body.contains("all done"), "{protocol:?}: {}", reply.body);

        let seen = &model.requests()[0];
        let offered: Vec<String> = seen.tools.iter().map(ToString::to_string).collect();
        assert_eq!(json!(offered), client["offered"], "{protocol:?}");
        assert_eq!((seen.protocol, seen.turns, seen.stream), (protocol, 0, true));
        assert_eq!(seen.answered_by, AnsweredBy::Step { conversation: Some(0), step: 0 });
        assert!(seen.system.contains("You are an agent."), "{protocol:?}");
        assert!(seen.user.last().unwrap().contains("Please look at a.txt"), "{protocol:?}");
        assert!(seen.credentials && !seen.path.contains('?') && !seen.model.is_empty());
        let seen = &restarted.requests()[0];
        let result = ToolResult { id: id.as_str().unwrap().to_owned(), text: "hello".to_owned() };
        assert_eq!((seen.results.first(), seen.turns), (Some(&result), 1), "{protocol:?}");
        assert_eq!(seen.answered_by, AnsweredBy::Step { conversation: Some(0), step: 1 });
        assert!(seen.user.last().unwrap().contains("go on"), "{protocol:?}");
    }
}

#[test]
fn an_answer_can_be_one_document() {
    for ((protocol, client), [name, text, cached]) in CLIENTS.into_iter().zip([
        ["/content/1/name", "/content/0/text", "/usage/cache_read_input_tokens"],
        ["/output/1/name", "/output/0/content/0/text", "/usage/input_tokens_details/cached_tokens"],
        [
            "/candidates/0/content/parts/1/functionCall/name",
            "/candidates/0/content/parts/0/text",
            "/usageMetadata/cachedContentTokenCount",
        ],
        [
            "/choices/0/message/tool_calls/0/function/name",
            "/choices/0/message/content",
            "/usage/prompt_tokens_details/cached_tokens",
        ],
    ]) {
        let client: Value = serde_json::from_str(client).unwrap();
        let mut steps = script();
        steps["conversations"][0]["steps"][0]["usage"] = json!({ "cached": 7 });
        let model = start(&steps);
        let (client, body) = without_stream(&client, &client["first"]);
        let answer = ask(&model, &client, &body).json();
        assert_eq!(answer.pointer(name), Some(&client["tool"]), "{protocol:?}");
        assert_eq!(answer.pointer(text), Some(&json!("I read.")), "{protocol:?}");
        assert_eq!(answer.pointer(cached), Some(&json!(7)), "{protocol:?}");
        assert!(!model.requests()[0].stream);
    }
}

#[test]
fn a_request_without_tools_takes_no_step() {
    let model = start(&script());
    for (protocol, client) in CLIENTS {
        let client: Value = serde_json::from_str(client).unwrap();
        let mut body = client["first"].clone();
        body.as_object_mut().unwrap().remove("tools");
        if let Some(input) = body.get_mut("input").and_then(Value::as_array_mut) {
            input.remove(0);
        }
        assert!(ask(&model, &client, &body).body.contains("side"), "{protocol:?}");
    }
    assert!(model.requests().iter().all(|seen| seen.answered_by == AnsweredBy::Side));
}

#[test]
fn tools_that_are_not_offered_are_told_and_not_called() {
    let model = start(&json!([
        { "calls": [{ "name": "fs_read" }, { "name": "delete" }] },
        { "calls": [{ "name": "=Bash", "input": { "command": "id" }, "id": "mine" }] },
    ]));
    for (protocol, client) in CLIENTS.into_iter().take(1) {
        let client: Value = serde_json::from_str(client).unwrap();
        let reply = ask(&model, &client, &client["first"]);
        assert!(reply.body.contains("tools that are not offered: delete"), "{protocol:?}");
        assert!(!reply.body.contains("tool_use"), "{}", reply.body);
        assert_eq!(model.requests()[0].not_offered, ["delete"]);
        let (name, id, ..) = call(protocol, &ask(&model, &client, &client["first"]).events());
        assert_eq!((name, id), (json!("Bash"), json!("mine")));
    }
}
