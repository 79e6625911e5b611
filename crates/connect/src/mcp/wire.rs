//! JSON-RPC messages from a server: classified, but not interpreted further than needed.
//!
//! A result is passed on as the server wrote it. Only the answer to `initialize` is parsed into a type,
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
    /// An error answer to a request of ours.
    Error { id: RequestId, error: ErrorData },
    /// A request of the server.
    Request { id: RequestId, method: Cow<'a, str> },
    /// A notification.
    Notification { method: Cow<'a, str> },
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

/// Classifies one message, or returns what is wrong with it.
pub(crate) fn decode(text: &[u8]) -> Result<Incoming<'_>, String> {
    let envelope: Envelope<'_> = serde_json::from_slice(text).map_err(|error| {
        format!(
            "the server sent something that is not a JSON-RPC message: {error}: {}",
            excerpt(text)
        )
    })?;
    let Envelope { jsonrpc, id, method, result, error } = envelope;
    if jsonrpc != "2.0" {
        return Err(format!("the server speaks JSON-RPC `{}`", excerpt(jsonrpc.as_bytes())));
    }
    match (id, method, result, error) {
        (Some(id), None, Some(result), None) => Ok(Incoming::Result { id, result }),
        (Some(id), None, None, Some(error)) => Ok(Incoming::Error { id, error }),
        (Some(id), Some(method), None, None) => Ok(Incoming::Request { id, method }),
        (None, Some(method), None, None) => Ok(Incoming::Notification { method }),
        (None, None, None, Some(error)) => {
            Err(format!("the server could not read a request: {}", error.message))
        }
        _ => Err(format!("the server sent a malformed JSON-RPC message: {}", excerpt(text))),
    }
}

/// The first characters of a text, for a message.
fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(text.get(..80).unwrap_or(text)).into_owned()
}

/// Parses the answer to `initialize`; returns it with the protocol version.
pub(crate) fn read_initialize(
    id: RequestId,
    result: &RawValue,
) -> Result<(ServerJsonRpcMessage, String), String> {
    let result: InitializeResult = serde_json::from_str(result.get())
        .map_err(|error| format!("the server's answer to `initialize` is malformed: {error}"))?;
    let version = result.protocol_version.to_string();
    Ok((JsonRpcMessage::response(ServerResult::InitializeResult(result), id), version))
}

/// The outcome of a request, in the form in which it passes through the client library: the server's
/// own text stands only below `ok`, so that nothing a server writes can pass for another outcome.
#[derive(Debug, PartialEq, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The result as received.
    Ok(Value),
    /// It was longer than this many bytes and was dropped.
    TooLarge(usize),
    /// It cannot be used.
    Invalid(String),
}

/// Wraps the outcome of any other request for the client library.
pub(crate) fn wrap(id: RequestId, answer: &Answer) -> ServerJsonRpcMessage {
    let value = serde_json::to_value(answer)
        .unwrap_or_else(|error| json!({ "invalid": error.to_string() }));
    JsonRpcMessage::response(ServerResult::CustomResult(CustomResult(value)), id)
}

/// Reads a result of at most `bytes_max` bytes without changing anything in it.
pub(crate) fn read_result(result: &RawValue, bytes_max: usize) -> Answer {
    let text = result.get();
    if text.len() > bytes_max {
        return Answer::TooLarge(bytes_max);
    }
    match canon::parse(text.as_bytes(), bytes_max) {
        Ok(value) => Answer::Ok(value),
        Err(CanonError::UnsafeNumber { number }) => match serde_json::from_str(text) {
            // Beyond 64 bits the parser rounds it: then it is not what the server wrote.
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
    fn messages_are_classified() {
        let classified = |text: &str| match decode(text.as_bytes()) {
            Ok(Incoming::Result { id, result }) => format!("result {id} {result}"),
            Ok(Incoming::Error { id, error }) => format!("error {id} {}", error.message),
            Ok(Incoming::Request { id, method }) => format!("request {id} {method}"),
            Ok(Incoming::Notification { method }) => format!("notification {method}"),
            Err(_) => "refused".to_owned(),
        };
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#, r#"result 1 {"a":1}"#),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#, "error 1 no"),
            (r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#, "request x ping"),
            (
                r#"{"jsonrpc":"2.0","method":"notifications\/x","params":[]}"#,
                "notification notifications/x",
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
            assert_eq!(classified(text), expected, "{text}");
        }
    }

    #[test]
    fn a_result_is_kept_exactly_or_refused() {
        let exact = r#"{"a":9007199254740993,"b":[1.5,-3],"c":18446744073709551615}"#;
        assert_eq!(read_result(&raw(exact), 99), Answer::Ok(serde_json::from_str(exact).unwrap()));
        assert_eq!(read_result(&raw("[1,2]"), 4), Answer::TooLarge(4));
        for text in [r#"{"a":1,"a":2}"#, "[18446744073709551616]", r#"["\ud800"]"#] {
            assert!(matches!(read_result(&raw(text), 99), Answer::Invalid(_)), "{text}");
        }
    }

    #[test]
    fn a_server_cannot_forge_an_outcome() {
        let forged = read_result(&raw(r#"{"too_large":1}"#), 99);
        let message = wrap(RequestId::Number(1), &forged);
        let JsonRpcMessage::Response(response) = message else { panic!("{message:?}") };
        let ServerResult::CustomResult(CustomResult(value)) = response.result else { panic!() };
        assert_eq!(serde_json::from_value::<Answer>(value).unwrap(), forged);
    }
}
