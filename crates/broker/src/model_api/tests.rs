use proptest::prelude::*;
use serde_json::Value;

use super::stream::BYTES_MAX;
use super::*;
use crate::event::{End, Unreachable};
use crate::inspect::InspectedRequest;

const REQUESTS: &str = include_str!("../../../../vectors/model/requests.json");
const RESPONSES: &str = include_str!("../../../../vectors/model/responses.json");
/// The time of all vectors.
const NOW: u64 = 1_770_000_000;

fn vectors(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

fn headers_of(vector: &Value) -> Vec<(&str, &[u8])> {
    let headers = vector.get("headers").and_then(Value::as_object).into_iter().flatten();
    headers.map(|(name, value)| (name.as_str(), value.as_str().unwrap().as_bytes())).collect()
}

fn read(
    path: &str,
    headers: &[(&str, &[u8])],
    body: &[u8],
) -> Result<ModelRequest, ModelRequestError> {
    ModelRequest::read(&InspectedRequest { id: 0, method: "POST", path, headers, body })
}

fn error_name(error: &ModelRequestError) -> &'static str {
    match error {
        ModelRequestError::Path => "path",
        ModelRequestError::Media => "media",
        ModelRequestError::Invalid(_) => "invalid",
        ModelRequestError::Ambiguous(_) => "ambiguous",
        ModelRequestError::Tool => "tool",
        ModelRequestError::TooMany => "too-many",
    }
}

#[test]
fn offered_tools_are_found_wherever_they_stand() {
    for vector in vectors(REQUESTS) {
        let body = vector["body"].as_str().map(str::to_owned);
        let body = body.unwrap_or_else(|| vector["body"].to_string());
        let path = vector["path"].as_str().unwrap();
        let found = read(path, &headers_of(&vector), body.as_bytes());
        let found = match &found {
            Ok(request) => {
                let tools: Vec<String> = request.tools.iter().map(ToString::to_string).collect();
                serde_json::json!({"model": request.model, "tools": tools, "side": request.is_side})
            }
            Err(error) => serde_json::json!({ "error": error_name(error) }),
        };
        let mut expected = vector.clone();
        for key in ["why", "path", "headers", "body"] {
            expected.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(found, expected, "{vector}");
    }
}

#[test]
fn only_posts_ask_a_model() {
    let request =
        InspectedRequest { id: 0, method: "GET", path: "/v1/messages", headers: &[], body: b"{}" };
    assert_eq!(ModelRequest::read(&request), Err(ModelRequestError::Path));
}

#[test]
fn large_requests_are_bounded() {
    let many = vec![r#"{"name":"x"}"#; 2001].join(",");
    let body = format!(r#"{{"tools":[{many}]}}"#);
    assert_eq!(read("/v1/messages", &[], body.as_bytes()), Err(ModelRequestError::TooMany));
    let keys: Vec<String> = (0..501).map(|key| format!(r#""k{key}":0"#)).collect();
    let body = format!("{{{}}}", keys.join(","));
    let error = read("/v1/messages", &[], body.as_bytes()).unwrap_err();
    assert_eq!(error_name(&error), "invalid");
    let body = format!(r#"{{"tools":[{{"name":"{}"}}]}}"#, "n".repeat(513));
    assert_eq!(read("/v1/messages", &[], body.as_bytes()), Err(ModelRequestError::Tool));
    // Depth and length elsewhere cost nothing.
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!(r#"{{"messages":[{deep},{{"role":"user","content":{deep}}}]}}"#);
    assert_eq!(read("/v1/messages", &[], body.as_bytes()).unwrap().tools, []);
    assert_eq!(error_name(&read("/v1/messages", &[], b"{\"a\":\"\xff\"}").unwrap_err()), "invalid");
}

fn end_of(name: &str) -> End {
    match name {
        "done" => End::Done,
        "failed" => End::Failed(Unreachable::Response),
        "idle" => End::Idle,
        "broken" => End::Broken,
        other => panic!("{other}"),
    }
}

fn shown(response: &ModelResponse) -> Value {
    let usage = response.usage;
    let tools: Vec<Value> =
        response.tool_uses.iter().map(|tool| serde_json::json!([tool.id, tool.name])).collect();
    let mut shown = serde_json::json!({
        "usage": [usage.input, usage.output, usage.cached_read, usage.cached_write],
        "stop": response.stop_reason,
        "tools": tools,
        "trouble": response.trouble.map(ModelTrouble::name),
    });
    if let Some(ModelTrouble::RateLimited { until: Some(until) }) = response.trouble {
        shown["until"] = until.into();
    }
    if response.is_partial {
        shown["partial"] = true.into();
    }
    shown
}

#[test]
fn responses_are_read_however_they_are_cut_into_pieces() {
    for vector in vectors(RESPONSES) {
        let body = vector["body"].as_str().unwrap().as_bytes();
        let protocol = ModelProtocol::of_path(vector["path"].as_str().unwrap()).unwrap();
        let status = u16::try_from(vector["status"].as_u64().unwrap()).unwrap();
        let mut expected = vector.clone();
        for key in ["why", "path", "status", "headers", "body", "end"] {
            expected.as_object_mut().unwrap().remove(key);
        }
        for size in [1, 2, 7, body.len().max(1)] {
            let mut reader = ResponseReader::new(protocol, status, &headers_of(&vector), NOW);
            body.chunks(size).for_each(|piece| reader.push(piece));
            let response = reader.finish(end_of(vector["end"].as_str().unwrap()));
            assert_eq!(shown(&response), expected, "{vector} in pieces of {size}");
        }
    }
}

#[test]
fn each_trouble_has_a_vector() {
    let all = [
        "rate-limited",
        "overloaded",
        "no-credit",
        "authentication",
        "context-full",
        "refusal",
        "unknown-model",
        "invalid",
        "server-error",
        "cut",
        "silence",
    ];
    let vectors = vectors(RESPONSES);
    for name in all {
        assert!(vectors.iter().any(|vector| vector["trouble"] == name), "{name}");
    }
}

#[test]
fn usage_is_known_before_the_end() {
    let mut reader = ResponseReader::new(ModelProtocol::AnthropicMessages, 200, &[], NOW);
    reader.push(
        b"data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9}}}\n\n",
    );
    assert_eq!(reader.usage(), Usage { input: 9, ..Usage::default() });
}

#[test]
fn what_is_too_large_is_skipped_and_said() {
    let mut reader = ResponseReader::new(ModelProtocol::OpenAiResponses, 200, &[], NOW);
    let piece = vec![b'a'; 1024 * 1024];
    reader.push(b"data: \"");
    for _ in 0..=BYTES_MAX / piece.len() {
        reader.push(&piece);
    }
    // Many lines of data of one event are bounded as well.
    reader.push(b"\"\n\n");
    for _ in 0..=BYTES_MAX / piece.len() {
        reader.push(b"data: ");
        reader.push(&piece);
        reader.push(b"\n");
    }
    reader.push(b"\ndata: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"n\"}}\n\n");
    let response = reader.finish(End::Done);
    assert_eq!((response.tool_uses.len(), response.is_partial, response.trouble), (1, true, None));

    let mut reader = ResponseReader::new(ModelProtocol::OpenAiChat, 200, &[], NOW);
    reader.push(b"{\"a\":\"");
    for _ in 0..=BYTES_MAX / piece.len() {
        reader.push(&piece);
    }
    let response = reader.finish(End::Failed(Unreachable::Response));
    assert_eq!((response.is_partial, response.trouble), (true, Some(ModelTrouble::Cut)));
}

#[test]
fn an_exchange_without_a_response_has_its_trouble() {
    use ModelTrouble as T;
    for (end, expected) in [
        (End::Done, None),
        (End::Idle, Some(T::Silence)),
        (End::Failed(Unreachable::ResponseTimeout), Some(T::Silence)),
        (End::Failed(Unreachable::Connect), Some(T::Unreachable)),
        (End::Failed(Unreachable::Response), Some(T::ServerError)),
        (End::Broken, Some(T::Cut)),
        (End::Stopped, Some(T::Cut)),
    ] {
        assert_eq!(ModelTrouble::of_end(end), expected, "{end:?}");
    }
}

proptest! {
    #[test]
    fn no_body_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), path in 0_usize..4) {
        let path = ["/messages", "/responses", "/chat/completions", "/models/m:generateContent"][path];
        let _ = read(path, &[], &bytes);
        for status in [200, 400, 429] {
            let protocol = ModelProtocol::of_path(path).unwrap();
            let mut reader = ResponseReader::new(protocol, status, &[("retry-after", &bytes)], NOW);
            reader.push(&bytes);
            let _ = reader.finish(End::Done);
        }
    }

    #[test]
    fn a_tool_is_found_behind_whatever_text(before in "\\PC{0,40}", name in "[a-zA-Z_-]{1,20}") {
        let content = serde_json::json!([{"role": "user", "content": before}]);
        let body = serde_json::json!({"messages": content, "x": before, "tools": [{"name": name}]});
        let request = read("/messages", &[], body.to_string().as_bytes()).unwrap();
        prop_assert_eq!(request.tools, [OfferedTool::Function(name)]);
    }
}
