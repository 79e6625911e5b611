//! OpenAI Responses.

use serde_json::{Value, json};

use super::{Answer, Event, Part, message};
use crate::script::CallKind;
use crate::tools::ReadyCall;
use crate::transcript::{Item, ToolResult, Turn, list, string, text_of};

pub fn items(body: &Value, items: &mut Vec<Item>) {
    let instructions = string(body, "instructions");
    if !instructions.is_empty() {
        items.push(Item::System(instructions.to_owned()));
    }
    if let Some(text) = body.get("input").and_then(Value::as_str) {
        items.push(Item::User(text.to_owned()));
    }
    for item in list(body, "input") {
        items.extend(match string(item, "type") {
            // A message may leave out its type.
            "message" | "" => {
                message(string(item, "role"), item.get("content").map(text_of).unwrap_or_default())
            }
            kind if kind.ends_with("_output") => Some(Item::Result(ToolResult {
                id: string(item, "call_id").to_owned(),
                text: item.get("output").map(text_of).unwrap_or_default(),
            })),
            kind if kind.ends_with("_call") => Some(Turn::call(string(item, "call_id"))),
            // Thoughts, and what only the client understands.
            _ => None,
        });
    }
}

fn message_item(answer: &Answer, status: &str, content: &[Value]) -> Value {
    json!({
        "type": "message",
        "id": format!("msg_{}", answer.id),
        "role": "assistant",
        "status": status,
        "content": content,
    })
}

fn text_part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [] })
}

fn call_item(call: &ReadyCall) -> Value {
    let input = &call.input;
    let mut item = match call.kind {
        CallKind::Function => {
            json!({ "type": "function_call", "name": call.name, "arguments": input.to_string() })
        }
        CallKind::Custom => {
            json!({ "type": "custom_tool_call", "name": call.name, "input": text_of(input) })
        }
        CallKind::LocalShell => {
            let action = json!({ "type": "exec", "command": input.get("command") });
            json!({ "type": "local_shell_call", "action": action })
        }
        CallKind::ToolSearch => {
            json!({ "type": "tool_search_call", "execution": "client", "arguments": input })
        }
    };
    if let Some(fields) = item.as_object_mut() {
        fields.insert("id".to_owned(), Value::from(format!("item_{}", call.id)));
        fields.insert("call_id".to_owned(), Value::from(call.id.clone()));
        fields.insert("status".to_owned(), Value::from("completed"));
        if let Some(namespace) = &call.namespace {
            fields.insert("namespace".to_owned(), Value::from(namespace.clone()));
        }
    }
    item
}

fn response(answer: &Answer, status: &str, output: &[Value]) -> Value {
    let usage = answer.usage;
    let usage = json!({
        "input_tokens": usage.input,
        "input_tokens_details": { "cached_tokens": usage.cached },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": usage.input.saturating_add(usage.output),
    });
    json!({
        "id": format!("resp_{}", answer.id),
        "object": "response",
        "model": answer.model,
        "status": status,
        "output": output,
        "usage": (status == "completed").then_some(usage),
    })
}

fn output(answer: &Answer) -> Vec<Value> {
    let text = message_item(answer, "completed", &[text_part(&answer.text)]);
    let text = Some(text).filter(|_| !answer.text.is_empty());
    text.into_iter().chain(answer.calls.iter().map(call_item)).collect()
}

pub fn document(answer: &Answer) -> Value {
    response(answer, "completed", &output(answer))
}

pub fn failed(answer: &Answer, error: &Value) -> Event {
    let mut response = response(answer, "failed", &[]);
    if let Some(fields) = response.as_object_mut() {
        fields.insert("error".to_owned(), error.clone());
    }
    Event::typed(Part::Content, "response.failed", json!({ "response": response }))
}

pub fn events(answer: &Answer) -> Vec<Event> {
    let created = json!({ "response": response(answer, "in_progress", &[]) });
    let mut events = vec![Event::typed(Part::Head, "response.created", created)];
    let output = output(answer);
    for (index, item) in output.iter().enumerate() {
        let is_text = index == 0 && !answer.text.is_empty();
        if is_text {
            events.extend(text_events(answer));
        } else {
            let added = json!({ "output_index": index, "item": item });
            events.push(Event::typed(Part::Content, "response.output_item.added", added));
        }
        let done = json!({ "output_index": index, "item": item });
        events.push(Event::typed(Part::Content, "response.output_item.done", done));
    }
    let completed = json!({ "response": response(answer, "completed", &output) });
    events.push(Event::typed(Part::End, "response.completed", completed));
    events
}

/// The beginning of a text; it is the first item.
fn text_events(answer: &Answer) -> [Event; 3] {
    let place = |mut fields: Value| {
        if let Some(fields) = fields.as_object_mut() {
            fields.insert("output_index".to_owned(), Value::from(0));
            fields.insert("content_index".to_owned(), Value::from(0));
            fields.insert("item_id".to_owned(), Value::from(format!("msg_{}", answer.id)));
        }
        fields
    };
    let item = message_item(answer, "in_progress", &[]);
    let added = json!({ "output_index": 0, "item": item });
    let part = place(json!({ "part": text_part("") }));
    let delta = place(json!({ "delta": answer.text }));
    [
        Event::typed(Part::Head, "response.output_item.added", added),
        Event::typed(Part::Head, "response.content_part.added", part),
        Event::typed(Part::Content, "response.output_text.delta", delta),
    ]
}
