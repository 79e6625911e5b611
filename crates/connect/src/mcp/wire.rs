//! JSON-RPC messages as they come from a server: sorted, but not interpreted further than needed.
//!
//! A result is handed on as the server wrote it. Only an answer to `initialize` is read into a type,
//! since the handshake needs it.

use std::borrow::Cow;

use rmcp::model::{
    CustomResult, ErrorData, InitializeResult, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_kernel::canon::{self, CanonError};

/// A message from a server.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// An answer to a request of ours.
    Result { id: RequestId, result: &'a RawValue },
    /// A refusal of a request of ours.
    Error { id: RequestId, error: ErrorData },
    /// A request of the server's own.
    Asked { id: RequestId, method: Cow<'a, str> },
    /// A notification.
    Told { method: Cow<'a, str> },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<ErrorData>,
}

/// Sorts one message, or says what is wrong with it.
pub(crate) fn decode(text: &[u8]) -> Result<Incoming<'_>, String> {
    let envelope: Envelope<'_> = serde_json::from_slice(text).map_err(|error| {
        format!(
            "the server sent something that is not a JSON-RPC message: {error}: {}",
            start(text)
        )
    })?;
    let Envelope { jsonrpc, id, method, result, error } = envelope;
    if jsonrpc != "2.0" {
        return Err(format!("the server speaks JSON-RPC `{}`", start(jsonrpc.as_bytes())));
    }
    match (id, method, result, error) {
        (Some(id), None, Some(result), None) => Ok(Incoming::Result { id, result }),
        (Some(id), None, None, Some(error)) => Ok(Incoming::Error { id, error }),
        (Some(id), Some(method), None, None) => Ok(Incoming::Asked { id, method }),
        (None, Some(method), None, None) => Ok(Incoming::Told { method }),
        (None, None, None, Some(error)) => {
            Err(format!("the server could not read a request: {}", error.message))
        }
        _ => Err(format!("the server sent a malformed JSON-RPC message: {}", start(text))),
    }
}

/// The first characters of a text, for a message.
fn start(text: &[u8]) -> String {
    String::from_utf8_lossy(text.get(..80).unwrap_or(text)).into_owned()
}

/// The answer to `initialize`, which the handshake takes apart.
pub(crate) fn initialized(
    id: RequestId,
    result: &RawValue,
) -> Result<(ServerJsonRpcMessage, String), String> {
    let result: InitializeResult = serde_json::from_str(result.get())
        .map_err(|error| format!("the server's answer to `initialize` is malformed: {error}"))?;
    let version = result.protocol_version.to_string();
    Ok((JsonRpcMessage::response(ServerResult::InitializeResult(result), id), version))
}

/// What became of a request, as it is carried through the client: the server's own words stand only
/// below `ok`, so that nothing a server writes can pass for anything else.
#[derive(Debug, PartialEq, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The result as received.
    Ok(Value),
    /// It was longer than this many bytes and is gone.
    TooLarge(usize),
    /// It cannot be used.
    Invalid(String),
}

/// Packs any other answer.
pub(crate) fn answered(id: RequestId, answer: &Answer) -> ServerJsonRpcMessage {
    let value = serde_json::to_value(answer)
        .unwrap_or_else(|error| json!({ "invalid": error.to_string() }));
    JsonRpcMessage::response(ServerResult::CustomResult(CustomResult(value)), id)
}

/// Reads a result of at most `bytes_max` bytes without changing anything in it.
pub(crate) fn read(result: &RawValue, bytes_max: usize) -> Answer {
    let text = result.get();
    if text.len() > bytes_max {
        return Answer::TooLarge(bytes_max);
    }
    match canon::parse(text.as_bytes(), bytes_max) {
        Ok(value) => Answer::Ok(value),
        Err(CanonError::UnsafeNumber { number }) => match serde_json::from_str(text) {
            // Beyond 64 bits the reader would round it: then it is not what the server wrote.
            Ok(value) if exact(&value) => Answer::Ok(value),
            _ => Answer::Invalid(format!("the result has a number that cannot be kept: {number}")),
        },
        Err(error) => Answer::Invalid(format!("the result cannot be used: {error}")),
    }
}

/// Whether no integer in the value was turned into a double.
fn exact(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => {
            number.is_i64()
                || number.is_u64()
                || number.as_f64().is_some_and(|double| double.abs() < 9_007_199_254_740_992.0)
        }
        Value::Array(items) => items.iter().all(exact),
        Value::Object(map) => map.values().all(exact),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn messages_are_sorted() {
        let sorted = |text: &str| match decode(text.as_bytes()) {
            Ok(Incoming::Result { id, result }) => format!("result {id} {result}"),
            Ok(Incoming::Error { id, error }) => format!("error {id} {}", error.message),
            Ok(Incoming::Asked { id, method }) => format!("asked {id} {method}"),
            Ok(Incoming::Told { method }) => format!("told {method}"),
            Err(_) => "refused".to_owned(),
        };
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#, r#"result 1 {"a":1}"#),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#, "error 1 no"),
            (r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#, "asked x ping"),
            (
                r#"{"jsonrpc":"2.0","method":"notifications\/x","params":[]}"#,
                "told notifications/x",
            ),
            (r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, "refused"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "refused"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#, "refused"),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#, "refused"),
            (r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#, "refused"),
            (r#"{"jsonrpc":"2.0","id":[1],"result":{}}"#, "refused"),
            ("hello", "refused"),
            ("{}", "refused"),
        ] {
            assert_eq!(sorted(text), expected, "{text}");
        }
    }

    #[test]
    fn a_result_is_kept_exactly_or_refused() {
        let exact = r#"{"a":9007199254740993,"b":[1.5,-3],"c":18446744073709551615}"#;
        assert_eq!(read(&raw(exact), 99), Answer::Ok(serde_json::from_str(exact).unwrap()));
        assert_eq!(read(&raw("[1,2]"), 4), Answer::TooLarge(4));
        for text in [r#"{"a":1,"a":2}"#, "[18446744073709551616]", r#"["\ud800"]"#] {
            assert!(matches!(read(&raw(text), 99), Answer::Invalid(_)), "{text}");
        }
    }

    #[test]
    fn a_server_cannot_forge_an_outcome() {
        let forged = read(&raw(r#"{"too_large":1}"#), 99);
        let message = answered(RequestId::Number(1), &forged);
        let JsonRpcMessage::Response(response) = message else { panic!("{message:?}") };
        let ServerResult::CustomResult(CustomResult(value)) = response.result else { panic!() };
        assert_eq!(serde_json::from_value::<Answer>(value).unwrap(), forged);
    }
}
