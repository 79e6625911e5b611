//! OpenAI's chat completions, as many services and local servers have them.

use serde_json::{Value, json};

use super::turn::{CallReply, Draft, Entry, Request, Turn, items, text};

/// The body of a request.
pub(super) fn request(request: &Request<'_>) -> Value {
    let mut messages = vec![json!({ "role": "system", "content": request.system })];
    for entry in request.transcript {
        match entry {
            Entry::User(text) => messages.push(json!({ "role": "user", "content": text })),
            Entry::Assistant(turn) => messages.push(assistant(turn)),
            Entry::Results(results) => messages.extend(results.iter().map(result)),
        }
    }
    let tool = |tool: &windlass_mcp::ToolInfo| {
        let function = json!({ "name": tool.name, "description": tool.description, "parameters": tool.input_schema });
        json!({ "type": "function", "function": function })
    };
    let mut body = json!({
        "model": request.model,
        "stream": true,
        "stream_options": { "include_usage": true },
        "tools": request.tools.iter().map(tool).collect::<Vec<_>>(),
        "messages": messages,
    });
    if let (Some(most), Some(fields)) = (request.output_max, body.as_object_mut()) {
        fields.insert("max_completion_tokens".to_owned(), Value::from(most));
    }
    body
}

fn assistant(turn: &Turn) -> Value {
    let mut message = json!({ "role": "assistant", "content": turn.text });
    let call = |call: &super::turn::ModelCall| {
        let function = json!({ "name": call.name, "arguments": call.repeated().to_string() });
        json!({ "id": call.id, "type": "function", "function": function })
    };
    let calls: Vec<Value> = turn.calls.iter().map(call).collect();
    if let Some(fields) = message.as_object_mut().filter(|_| !calls.is_empty()) {
        fields.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    message
}

fn result(reply: &CallReply) -> Value {
    json!({ "role": "tool", "tool_call_id": reply.id, "content": reply.marked() })
}

/// Takes an event of the answer, or the whole answer.
pub(super) fn event(draft: &mut Draft, value: &Value) {
    let Some(choice) = items(value, "choices").next() else { return };
    for key in ["delta", "message"] {
        let Some(message) = choice.get(key) else { continue };
        draft.text.push_str(text(message, "content"));
        for call in items(message, "tool_calls") {
            let function = call.get("function").unwrap_or(&Value::Null);
            let number = call.get("index").and_then(Value::as_u64);
            // Some local servers send the arguments as an object.
            let arguments = match function.get("arguments") {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Null) | None => String::new(),
                Some(
                    other
                    @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)),
                ) => other.to_string(),
            };
            draft.call(number, text(call, "id"), text(function, "name"), &arguments);
        }
    }
}
