//! Anthropic's messages.

use serde_json::{Map, Value, json};

use super::turn::{Draft, Entry, Request, Turn, items, text};

/// The most tokens of an answer, unless the user sets another number: the service wants one.
const OUTPUT_TOKENS: u64 = 16_384;

/// The body of a request.
pub(super) fn request(request: &Request<'_>) -> Value {
    let mut messages: Vec<Value> = request.transcript.iter().map(message).collect();
    // Everything up to here is read from the service's cache the next time.
    let last = messages.last_mut().and_then(|message| message.get_mut("content"));
    let last = last.and_then(Value::as_array_mut).and_then(|blocks| blocks.last_mut());
    if let Some(block) = last.and_then(Value::as_object_mut) {
        block.insert("cache_control".to_owned(), cached());
    }
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.input_schema }))
        .collect();
    json!({
        "model": request.model,
        "max_tokens": request.output_max.unwrap_or(OUTPUT_TOKENS),
        "stream": true,
        "system": [{ "type": "text", "text": request.system, "cache_control": cached() }],
        "tools": tools,
        "messages": messages,
    })
}

fn cached() -> Value {
    json!({ "type": "ephemeral" })
}

fn message(entry: &Entry) -> Value {
    match entry {
        Entry::User(text) => {
            json!({ "role": "user", "content": [{ "type": "text", "text": text }] })
        }
        Entry::Assistant(turn) => json!({ "role": "assistant", "content": blocks(turn) }),
        Entry::Results(results) => {
            let block = |reply: &super::turn::CallReply| {
                json!({
                    "type": "tool_result", "tool_use_id": reply.id, "is_error": reply.is_error,
                    "content": reply.text,
                })
            };
            json!({ "role": "user", "content": results.iter().map(block).collect::<Vec<_>>() })
        }
    }
}

fn blocks(turn: &Turn) -> Vec<Value> {
    let said = Some(turn.text.trim_end()).filter(|text| !text.is_empty());
    // The service accepts no message without content.
    let said = said.or_else(|| turn.calls.is_empty().then_some("(nothing)"));
    let said = said.map(|text| json!({ "type": "text", "text": text }));
    let calls = turn.calls.iter().map(|call| {
        json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.repeated() })
    });
    turn.carried.iter().cloned().chain(said).chain(calls).collect()
}

/// Takes an event of the answer, or the whole answer.
pub(super) fn event(draft: &mut Draft, value: &Value) {
    let number = value.get("index").and_then(Value::as_u64).unwrap_or_default();
    let part = |key: &str| value.get(key).unwrap_or(&Value::Null);
    match text(value, "type") {
        "content_block_start" => block(draft, number, part("content_block")),
        "content_block_delta" => delta(draft, number, part("delta")),
        "message" => {
            for (number, content) in (0..).zip(items(value, "content")) {
                block(draft, number, content);
            }
        }
        _ => {}
    }
}

fn block(draft: &mut Draft, number: u64, content: &Value) {
    match text(content, "type") {
        "text" => draft.text.push_str(text(content, "text")),
        "tool_use" => {
            let input = content.get("input").and_then(Value::as_object);
            // In a stream it is empty here, and comes in parts.
            let input = input.filter(|input| !input.is_empty());
            let input = input.map(|input| Value::Object(input.clone()).to_string());
            let (id, name) = (text(content, "id"), text(content, "name"));
            draft.call(Some(number), id, name, &input.unwrap_or_default());
        }
        "thinking" | "redacted_thinking" => draft.carry(number, content.clone()),
        _ => {}
    }
}

fn delta(draft: &mut Draft, number: u64, delta: &Value) {
    match text(delta, "type") {
        "text_delta" => draft.text.push_str(text(delta, "text")),
        "input_json_delta" => draft.call(Some(number), "", "", text(delta, "partial_json")),
        "thinking_delta" => extend(draft.carried(number), "thinking", text(delta, "thinking")),
        "signature_delta" => extend(draft.carried(number), "signature", text(delta, "signature")),
        _ => {}
    }
}

fn extend(carried: Option<&mut Value>, key: &str, more: &str) {
    let Some(fields) = carried.and_then(Value::as_object_mut) else { return };
    let whole = format!("{}{more}", known(fields, key));
    fields.insert(key.to_owned(), Value::String(whole));
}

fn known<'a>(fields: &'a Map<String, Value>, key: &str) -> &'a str {
    fields.get(key).and_then(Value::as_str).unwrap_or_default()
}
