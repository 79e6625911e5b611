//! OpenAI's responses.

use serde_json::{Value, json};

use super::turn::{Draft, Entry, Request, items, text};

/// The body of a request. Nothing is stored at the service: each request has the whole conversation.
pub(super) fn request(request: &Request<'_>) -> Value {
    let mut input = Vec::new();
    for entry in request.transcript {
        match entry {
            Entry::User(text) => input.push(message("user", "input_text", text)),
            Entry::Assistant(turn) => {
                if !turn.text.is_empty() {
                    input.push(message("assistant", "output_text", &turn.text));
                }
                input.extend(turn.calls.iter().map(|call| {
                    json!({
                        "type": "function_call", "call_id": call.id, "name": call.name,
                        "arguments": call.repeated().to_string(),
                    })
                }));
            }
            Entry::Results(results) => input.extend(results.iter().map(|reply| {
                json!({ "type": "function_call_output", "call_id": reply.id, "output": reply.marked() })
            })),
        }
    }
    let tool = |tool: &windlass_mcp::ToolInfo| {
        json!({
            "type": "function", "name": tool.name, "description": tool.description,
            "parameters": tool.input_schema, "strict": false,
        })
    };
    let mut body = json!({
        "model": request.model,
        "stream": true,
        "store": false,
        "instructions": request.system,
        "tools": request.tools.iter().map(tool).collect::<Vec<_>>(),
        "input": input,
    });
    if let (Some(most), Some(fields)) = (request.output_max, body.as_object_mut()) {
        fields.insert("max_output_tokens".to_owned(), Value::from(most));
    }
    body
}

fn message(role: &str, kind: &str, text: &str) -> Value {
    json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
}

/// Takes an event of the answer, or the whole answer.
pub(super) fn event(draft: &mut Draft, value: &Value) {
    match text(value, "type") {
        "response.output_item.done" => {
            let number = value.get("output_index").and_then(Value::as_u64);
            item(draft, number, value.get("item").unwrap_or(&Value::Null));
        }
        // Has all items once more; not every service tells of each as well.
        "response.completed" | "response.incomplete" if draft.is_empty() => {
            output(draft, value.get("response").unwrap_or(&Value::Null));
        }
        "" => output(draft, value),
        _ => {}
    }
}

fn output(draft: &mut Draft, response: &Value) {
    for (number, found) in (0..).zip(items(response, "output")) {
        item(draft, Some(number), found);
    }
}

fn item(draft: &mut Draft, number: Option<u64>, item: &Value) {
    match text(item, "type") {
        "message" => {
            for part in items(item, "content").filter(|part| text(part, "type") == "output_text") {
                draft.text.push_str(text(part, "text"));
            }
        }
        "function_call" => {
            draft.call(number, text(item, "call_id"), text(item, "name"), text(item, "arguments"));
        }
        _ => {}
    }
}
