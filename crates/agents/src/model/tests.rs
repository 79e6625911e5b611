//! Answers of the services, as they come over the wire.

use serde_json::{Value, json};
use windlass_broker::{End, ModelResponse, ModelTrouble, Usage};
use windlass_testkit::Random;

use super::api::{ModelApi, TurnReader};
use super::turn::{CallReply, Entry, ModelCall, Request, Turn};
use windlass_mcp::ToolInfo;

use super::*;

fn read(api: ModelApi, pieces: &[&[u8]], end: End) -> (ModelResponse, Turn) {
    let mut reader = TurnReader::new(api, 200, &[], 0);
    pieces.iter().for_each(|piece| reader.push(piece));
    reader.finish(end)
}

fn call(id: &str, name: &str, arguments: &str) -> ModelCall {
    let [id, name, arguments] = [id, name, arguments].map(str::to_owned);
    ModelCall { id, name, arguments }
}

const ANTHROPIC: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":7,"cache_read_input_tokens":90,"cache_creation_input_tokens":3,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s1"}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I look — "}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"twice."}}

data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_a","name":"fs_read","input":{}}}

data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_b","name":"fs_list","input":{}}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"é.md\"}"}}

data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":40}}

data: {"type":"message_stop"}

"#;

const CHAT: &str = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"I look — "}}]}

data: {"choices":[{"index":0,"delta":{"content":"twice."}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"fs_read","arguments":""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"é.md\"}"}},{"index":1,"id":"call_b","function":{"name":"fs_list","arguments":""}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":90}}}

data: [DONE]

"#;

const RESPONSES: &str = r#"event: response.created
data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}

data: {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}

data: {"type":"response.output_text.delta","output_index":1,"delta":"I look"}

data: {"type":"response.output_item.done","output_index":1,"item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look — twice."}]}}

data: {"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_a","name":"fs_read","arguments":"{\"path\":\"é.md\"}"}}

data: {"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","id":"fc_2","call_id":"call_b","name":"fs_list","arguments":""}}

data: {"type":"response.completed","response":{"status":"completed","output":[{"type":"function_call","call_id":"call_a","name":"fs_read","arguments":"{\"path\":\"é.md\"}"}],"usage":{"input_tokens":100,"output_tokens":40,"input_tokens_details":{"cached_tokens":90}}}}

"#;

const SAMPLES: [(ModelApi, &str, &str); 3] = [
    (ModelApi::Anthropic, ANTHROPIC, "toolu"),
    (ModelApi::OpenAiChat, CHAT, "call"),
    (ModelApi::OpenAiResponses, RESPONSES, "call"),
];

#[test]
fn a_stream_becomes_a_turn() {
    for (api, sample, prefix) in SAMPLES {
        let (response, turn) = read(api, &[sample.as_bytes()], End::Done);
        let calls = vec![
            call(&format!("{prefix}_a"), "fs_read", r#"{"path":"é.md"}"#),
            call(&format!("{prefix}_b"), "fs_list", ""),
        ];
        let thinking = json!({ "type": "thinking", "thinking": "hm", "signature": "s1" });
        let carried = if api == ModelApi::Anthropic { vec![thinking] } else { Vec::new() };
        assert_eq!(turn, Turn { text: "I look — twice.".to_owned(), calls, carried }, "{api:?}");
        assert_eq!(response.trouble, None, "{api:?}");
        let usage = response.usage;
        assert_eq!(usage.input + usage.cached_write + usage.cached_read, 100, "{api:?}");
        assert_eq!((usage.output, usage.cached_read), (40, 90), "{api:?}");
        assert!(!response.is_partial, "{api:?}");
    }
}

#[test]
fn any_split_of_the_bytes_gives_the_same_turn() {
    let mut random = Random::new(0x5b11_7000);
    for (api, sample, _) in SAMPLES {
        let whole = read(api, &[sample.as_bytes()], End::Done);
        for _ in 0..200 {
            let mut pieces = Vec::new();
            let mut rest = sample.as_bytes();
            while !rest.is_empty() {
                let most = u64::try_from(rest.len()).unwrap().min(80);
                let (piece, after) =
                    rest.split_at(usize::try_from(1 + random.below(most)).unwrap());
                pieces.push(piece);
                rest = after;
            }
            assert_eq!(read(api, &pieces, End::Done), whole, "{api:?} {pieces:?}");
        }
    }
}

#[test]
fn an_answer_that_breaks_off_is_a_trouble_wherever_it_does() {
    for (api, sample, _) in SAMPLES {
        let end = sample.rfind("data: {\"type\":\"message_stop\"").unwrap_or_else(|| {
            sample
                .rfind("finish_reason")
                .or_else(|| sample.rfind("\"response.completed\""))
                .unwrap()
        });
        for at in 0..end {
            let (response, _) = read(api, &[&sample.as_bytes()[..at]], End::Broken);
            assert_eq!(response.trouble, Some(ModelTrouble::Cut), "{api:?} {at}");
        }
    }
}

#[test]
fn an_answer_in_one_document_is_read_too() {
    let documents = [
        json!({ "type": "message", "content": [{ "type": "text", "text": "t" },
            { "type": "tool_use", "id": "a", "name": "n", "input": { "x": 1 } }], "stop_reason": "tool_use" }),
        json!({ "choices": [{ "finish_reason": "tool_calls", "message": { "content": "t",
            "tool_calls": [{ "id": "a", "function": { "name": "n", "arguments": { "x": 1 } } }] } }] }),
        json!({ "status": "completed", "output": [
            { "type": "message", "content": [{ "type": "output_text", "text": "t" }] },
            { "type": "function_call", "call_id": "a", "name": "n", "arguments": "{\"x\":1}" }] }),
    ];
    for (api, document) in ModelApi::ALL.into_iter().zip(documents) {
        let (response, turn) = read(api, &[document.to_string().as_bytes()], End::Done);
        assert_eq!((turn.text.as_str(), response.trouble), ("t", None), "{api:?}");
        assert_eq!(turn.calls, [call("a", "n", "{\"x\":1}")], "{api:?}");
    }
}

#[test]
fn calls_are_told_apart_when_a_server_numbers_them_badly() {
    let event = |calls: Value| {
        format!("data: {}\n\n", json!({ "choices": [{ "delta": { "tool_calls": calls } }] }))
    };
    let function = |name: &str, text: &str| json!({ "name": name, "arguments": text });
    // All have the number 0.
    let alike = [
        event(json!([{ "index": 0, "id": "a", "function": function("n", "{\"x\"") }])),
        event(json!([{ "index": 0, "function": function("", ":1}") }])),
        event(json!([{ "index": 0, "id": "b", "function": function("n", "{}") }])),
    ];
    let (_, turn) = read(ModelApi::OpenAiChat, &[alike.concat().as_bytes()], End::Done);
    assert_eq!(turn.calls, [call("a", "n", "{\"x\":1}"), call("b", "n", "{}")]);
    // None has a number or an id.
    let bare =
        event(json!([{ "function": function("n", "{}") }, { "function": function("m", "{}") }]));
    let (_, turn) = read(ModelApi::OpenAiChat, &[bare.as_bytes()], End::Done);
    assert_eq!(turn.calls, [call("", "n", "{}"), call("", "m", "{}")]);
}

#[test]
fn arguments_that_are_no_object_are_an_error() {
    for (arguments, is_valid) in [
        ("", true),
        ("{}", true),
        ("{\"a\":1}", true),
        ("{\"a\":", false),
        ("[]", false),
        ("1", false),
    ] {
        let call = call("a", "n", arguments);
        assert_eq!(call.parsed().is_ok(), is_valid, "{arguments}");
        assert!(call.repeated().is_object());
    }
}

fn conversation() -> Vec<Entry> {
    let calls = vec![call("a", "n", "{\"x\":1}"), call("b", "n", "{bad")];
    let reply = |id: &str, text: &str, is_error| {
        let [id, text] = [id, text].map(str::to_owned);
        CallReply { id, text, is_error }
    };
    vec![
        Entry::User("do it".to_owned()),
        Entry::Assistant(Turn { text: "I do".to_owned(), calls, carried: Vec::new() }),
        Entry::Results(vec![reply("a", "fine", false), reply("b", "no", true)]),
        Entry::Assistant(Turn::default()),
        Entry::User("go on".to_owned()),
    ]
}

fn body(api: ModelApi) -> Value {
    let tool = ToolInfo {
        name: "n".to_owned(),
        title: None,
        description: "d".to_owned(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        annotations: None,
    };
    let transcript = conversation();
    api.request(&Request {
        model: "m",
        system: "s",
        transcript: &transcript,
        tools: &[tool],
        output_max: Some(99),
    })
}

#[test]
fn requests_have_the_form_of_their_service() {
    let cached = json!({ "type": "ephemeral" });
    assert_eq!(
        body(ModelApi::Anthropic),
        json!({
            "model": "m", "max_tokens": 99, "stream": true,
            "system": [{ "type": "text", "text": "s", "cache_control": cached }],
            "tools": [{ "name": "n", "description": "d", "input_schema": { "type": "object" } }],
            "messages": [
                { "role": "user", "content": [{ "type": "text", "text": "do it" }] },
                { "role": "assistant", "content": [{ "type": "text", "text": "I do" },
                    { "type": "tool_use", "id": "a", "name": "n", "input": { "x": 1 } },
                    { "type": "tool_use", "id": "b", "name": "n", "input": {} }] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "a", "is_error": false, "content": "fine" },
                    { "type": "tool_result", "tool_use_id": "b", "is_error": true, "content": "no" }] },
                { "role": "assistant", "content": [{ "type": "text", "text": "(nothing)" }] },
                { "role": "user", "content": [{ "type": "text", "text": "go on", "cache_control": cached }] },
            ],
        })
    );
    let function = |id: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": "n", "arguments": arguments } });
    assert_eq!(
        body(ModelApi::OpenAiChat),
        json!({
            "model": "m", "max_completion_tokens": 99, "stream": true,
            "stream_options": { "include_usage": true },
            "tools": [{ "type": "function",
                "function": { "name": "n", "description": "d", "parameters": { "type": "object" } } }],
            "messages": [
                { "role": "system", "content": "s" },
                { "role": "user", "content": "do it" },
                { "role": "assistant", "content": "I do",
                    "tool_calls": [function("a", "{\"x\":1}"), function("b", "{}")] },
                { "role": "tool", "tool_call_id": "a", "content": "fine" },
                { "role": "tool", "tool_call_id": "b", "content": "Error: no" },
                { "role": "assistant", "content": "" },
                { "role": "user", "content": "go on" },
            ],
        })
    );
    let said = |role: &str, kind: &str, text: &str| json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] });
    assert_eq!(
        body(ModelApi::OpenAiResponses),
        json!({
            "model": "m", "max_output_tokens": 99, "stream": true, "store": false, "instructions": "s",
            "tools": [{ "type": "function", "name": "n", "description": "d",
                "parameters": { "type": "object" }, "strict": false }],
            "input": [
                said("user", "input_text", "do it"),
                said("assistant", "output_text", "I do"),
                { "type": "function_call", "call_id": "a", "name": "n", "arguments": "{\"x\":1}" },
                { "type": "function_call", "call_id": "b", "name": "n", "arguments": "{}" },
                { "type": "function_call_output", "call_id": "a", "output": "fine" },
                { "type": "function_call_output", "call_id": "b", "output": "Error: no" },
                said("user", "input_text", "go on"),
            ],
        })
    );
}

#[test]
fn addresses_end_as_the_service_has_them() {
    for (api, endpoint, url) in [
        (ModelApi::Anthropic, "https://a.example", "https://a.example/v1/messages"),
        (ModelApi::Anthropic, "https://a.example/v1/", "https://a.example/v1/messages"),
        (ModelApi::OpenAiChat, "http://a.example/v1", "http://a.example/v1/chat/completions"),
        (ModelApi::OpenAiResponses, "http://a.example/v1/", "http://a.example/v1/responses"),
    ] {
        assert_eq!(api.url(endpoint), url);
    }
}

#[test]
fn a_response_costs_what_its_tokens_do() {
    let prices = Prices { input: 3_000_000, output: 15_000_000, cached: 300_000 };
    let used = Usage { input: 1000, output: 100, cached_read: 10_000, cached_write: 0 };
    assert_eq!(prices.cost(used), 3000 + 1500 + 3000);
    assert_eq!(prices.cost(Usage { cached_read: 1, ..Usage::default() }), 1);
    assert_eq!(Prices::default().cost(used), 0);
    let most =
        Usage { input: u64::MAX, output: u64::MAX, cached_read: u64::MAX, cached_write: u64::MAX };
    let dear = Prices { input: u64::MAX, output: u64::MAX, cached: u64::MAX };
    assert_eq!(dear.cost(most), u64::MAX);
}

#[test]
fn a_credential_is_not_shown() {
    let settings = ModelSettings {
        name: "local".to_owned(),
        api: ModelApi::Anthropic,
        model: None,
        endpoint: Endpoint {
            url: "https://a.example".to_owned(),
            headers: vec![("x-api-key".to_owned(), "s3cret".to_owned())],
        },
        silence: Duration::from_secs(1),
        context_tokens: 1,
        output_tokens: None,
        prices: Prices::default(),
    };
    assert!(!format!("{settings:?}").contains("s3cret"));
}
