//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{Answer, Event, Part, message};
use crate::tools::ReadyCall;
use crate::transcript::{Item, ToolResult, Turn, list, string, text_of};

/// A fixed time keeps answers the same in every run.
const CREATED: u64 = 1_700_000_000;

pub fn items(body: &Value, items: &mut Vec<Item>) {
    for said in list(body, "messages") {
        let text = said.get("content").map(text_of).unwrap_or_default();
        items.extend(match string(said, "role") {
            "tool" => {
                let id = string(said, "tool_call_id").to_owned();
                Some(Item::Result(ToolResult { id, text }))
            }
            role => message(role, text),
        });
        items.extend(list(said, "tool_calls").iter().map(|call| Turn::call(string(call, "id"))));
    }
}

fn calls(answer: &Answer) -> Vec<Value> {
    let call = |(index, call): (usize, &ReadyCall)| {
        let function = json!({ "name": call.name, "arguments": call.input.to_string() });
        json!({ "index": index, "id": call.id, "type": "function", "function": function })
    };
    answer.calls.iter().enumerate().map(call).collect()
}

fn usage(answer: &Answer) -> Value {
    let usage = answer.usage;
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
        "prompt_tokens_details": { "cached_tokens": usage.cached },
    })
}

const fn finish_reason(answer: &Answer) -> &'static str {
    if answer.calls.is_empty() { "stop" } else { "tool_calls" }
}

pub fn document(answer: &Answer) -> Value {
    let text = Some(&answer.text).filter(|text| !text.is_empty());
    let mut message = json!({ "role": "assistant", "content": text });
    if !answer.calls.is_empty()
        && let Some(fields) = message.as_object_mut()
    {
        fields.insert("tool_calls".to_owned(), Value::from(calls(answer)));
    }
    json!({
        "id": format!("chatcmpl-{}", answer.id),
        "object": "chat.completion",
        "created": CREATED,
        "model": answer.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason(answer) }],
        "usage": usage(answer),
    })
}

pub fn events(answer: &Answer) -> Vec<Event> {
    let chunk = |part, delta: Value, reason: Option<&str>, usage: Option<Value>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        let chunk = json!({
            "id": format!("chatcmpl-{}", answer.id),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": answer.model,
            "choices": [choice],
            "usage": usage,
        });
        Event::plain(part, &chunk)
    };
    let text = json!({ "role": "assistant", "content": answer.text });
    let mut events = vec![chunk(Part::Content, text, None, None)];
    if !answer.calls.is_empty() {
        events.push(chunk(Part::Content, json!({ "tool_calls": calls(answer) }), None, None));
    }
    events.push(chunk(Part::End, json!({}), Some(finish_reason(answer)), Some(usage(answer))));
    events.push(Event { part: Part::End, name: None, data: "[DONE]".to_owned() });
    events
}
