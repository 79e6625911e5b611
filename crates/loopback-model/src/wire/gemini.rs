//! Gemini `generateContent`.

use serde_json::{Value, json};

use super::{Answer, Event, Part, message};
use crate::tools::ReadyCall;
use crate::transcript::{Item, ToolResult, Turn, list, string, text_of};

pub fn items(body: &Value, items: &mut Vec<Item>) {
    if let Some(instruction) = body.get("systemInstruction") {
        let parts: Vec<String> = list(instruction, "parts").iter().map(text_of).collect();
        items.push(Item::System(parts.join("\n")));
    }
    for said in list(body, "contents") {
        for part in list(said, "parts") {
            let (result, call) = (part.get("functionResponse"), part.get("functionCall"));
            items.extend(match (result, call) {
                (Some(result), _) => Some(Item::Result(ToolResult {
                    id: string(result, "id").to_owned(),
                    text: result.get("response").map(text_of).unwrap_or_default(),
                })),
                (None, Some(call)) => Some(Turn::call(string(call, "id"))),
                (None, None) => message(string(said, "role"), text_of(part)),
            });
        }
    }
}

fn text_part(answer: &Answer) -> Option<Value> {
    (!answer.text.is_empty()).then(|| json!({ "text": answer.text }))
}

fn call_parts(answer: &Answer) -> Vec<Value> {
    let call = |call: &ReadyCall| {
        let function = json!({ "id": call.id, "name": call.name, "args": call.input });
        // Without a signature the client refuses to send the call back.
        json!({ "functionCall": function, "thoughtSignature": "AAAA" })
    };
    answer.calls.iter().map(call).collect()
}

fn chunk(answer: &Answer, parts: &[Value], finish: Option<&str>) -> Value {
    let usage = answer.usage;
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    if let (Some(fields), Some(finish)) = (candidate.as_object_mut(), finish) {
        fields.insert("finishReason".to_owned(), Value::from(finish));
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.input,
            "candidatesTokenCount": usage.output,
            "totalTokenCount": usage.input.saturating_add(usage.output),
            "cachedContentTokenCount": usage.cached,
        },
        "modelVersion": answer.model,
        "responseId": answer.id,
    })
}

pub fn document(answer: &Answer) -> Value {
    let parts: Vec<Value> = text_part(answer).into_iter().chain(call_parts(answer)).collect();
    chunk(answer, &parts, Some("STOP"))
}

pub fn events(answer: &Answer) -> Vec<Event> {
    let mut events = Vec::new();
    for parts in [text_part(answer).into_iter().collect(), call_parts(answer)] {
        if !parts.is_empty() {
            events.push(Event::plain(Part::Content, &chunk(answer, &parts, None)));
        }
    }
    let end = chunk(answer, &[json!({ "text": "" })], Some("STOP"));
    events.push(Event::plain(Part::End, &end));
    events
}
