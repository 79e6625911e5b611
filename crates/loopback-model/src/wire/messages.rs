//! Anthropic Messages.

use serde_json::{Value, json};

use super::{Answer, Event, Part, message};
use crate::transcript::{Item, ToolResult, Turn, list, string, text_of};

pub fn items(body: &Value, items: &mut Vec<Item>) {
    if let Some(system) = body.get("system") {
        items.push(Item::System(text_of(system)));
    }
    for said in list(body, "messages") {
        let (role, content) = (string(said, "role"), said.get("content").unwrap_or(&Value::Null));
        let Some(blocks) = content.as_array() else {
            items.extend(message(role, text_of(content)));
            continue;
        };
        for block in blocks {
            items.extend(match string(block, "type") {
                "tool_result" => Some(Item::Result(ToolResult {
                    id: string(block, "tool_use_id").to_owned(),
                    text: block.get("content").map(text_of).unwrap_or_default(),
                })),
                "tool_use" => Some(Turn::call(string(block, "id"))),
                "text" => message(role, text_of(block)),
                // Thoughts, pictures and documents.
                _ => None,
            });
        }
    }
}

fn head(answer: &Answer, content: &[Value], stop: Option<&str>) -> Value {
    let usage = answer.usage;
    json!({
        "id": format!("msg_{}", answer.id),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input.saturating_sub(usage.cached),
            "output_tokens": usage.output,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": 0,
        },
    })
}

const fn stop_reason(answer: &Answer) -> &'static str {
    if answer.calls.is_empty() { "end_turn" } else { "tool_use" }
}

pub fn document(answer: &Answer) -> Value {
    let text = json!({ "type": "text", "text": answer.text });
    let text = Some(text).filter(|_| !answer.text.is_empty());
    let calls = answer.calls.iter().map(
        |call| json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.input }),
    );
    let content: Vec<Value> = text.into_iter().chain(calls).collect();
    head(answer, &content, Some(stop_reason(answer)))
}

pub fn events(answer: &Answer) -> Vec<Event> {
    let start = json!({ "message": head(answer, &[], None) });
    let mut events = vec![Event::typed(Part::Head, "message_start", start)];
    let mut blocks = Vec::new();
    if !answer.text.is_empty() {
        let delta = json!({ "type": "text_delta", "text": answer.text });
        blocks.push((json!({ "type": "text", "text": "" }), delta));
    }
    for call in &answer.calls {
        let empty = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        let input = call.input.to_string();
        blocks.push((empty, json!({ "type": "input_json_delta", "partial_json": input })));
    }
    for (index, (empty, delta)) in blocks.into_iter().enumerate() {
        let start = json!({ "index": index, "content_block": empty });
        events.push(Event::typed(Part::Head, "content_block_start", start));
        let delta = json!({ "index": index, "delta": delta });
        events.push(Event::typed(Part::Content, "content_block_delta", delta));
        let stop = json!({ "index": index });
        events.push(Event::typed(Part::Content, "content_block_stop", stop));
    }
    let delta = json!({
        "delta": { "stop_reason": stop_reason(answer), "stop_sequence": null },
        "usage": { "output_tokens": answer.usage.output },
    });
    events.push(Event::typed(Part::End, "message_delta", delta));
    events.push(Event::typed(Part::End, "message_stop", json!({})));
    events
}
