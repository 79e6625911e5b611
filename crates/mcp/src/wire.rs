//! JSON-RPC messages: those of a client are read strictly, those to it are written.

use std::borrow::Cow;

use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, RequestId, RequestMetaObject};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Where clients put the model's id of a call, below `_meta` of `tools/call`.
const CALL_ID_KEYS: [&str; 2] = [
    // Claude Code
    "claudecode/toolUseId",
    // Codex
    "callId",
];

/// A message from a client.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// It expects an answer.
    Request { id: RequestId, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// It expects none.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// It answers a request. This server makes none.
    Answer,
}

/// Why a message cannot be used, and the request that hears of it.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub(crate) id: Option<RequestId>,
    pub(crate) error: ErrorData,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OnlyId {
    id: RequestId,
}

/// Keeps `null` apart from a field that is absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Classifies one message.
pub(crate) fn decode(text: &[u8]) -> Result<Incoming<'_>, Malformed> {
    let malformed = |message: String| {
        let id = serde_json::from_slice::<OnlyId>(text).ok().map(|only| only.id);
        Malformed { id, error: ErrorData::invalid_request(message, None) }
    };
    // Fields in the order of an array would be accepted as well.
    if !is_object(text) {
        let error = match serde_json::from_slice::<serde::de::IgnoredAny>(text) {
            Ok(_) => ErrorData::invalid_request("a message is one JSON object", None),
            Err(error) => not_json(&error),
        };
        return Err(Malformed { id: None, error });
    }
    let envelope: Envelope<'_> = match serde_json::from_slice(text) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => return Err(malformed(error.to_string())),
        Err(error) => return Err(Malformed { id: None, error: not_json(&error) }),
    };
    let Envelope { jsonrpc, id, method, params, result, error } = envelope;
    if jsonrpc != "2.0" {
        return Err(malformed("the version of JSON-RPC is not `2.0`".to_owned()));
    }
    match (id, method, result, error) {
        (Some(id), Some(method), None, None) => match RequestId::deserialize(id) {
            Ok(id) => Ok(Incoming::Request { id, method, params }),
            Err(_) => Err(malformed("the id is neither an integer nor a string".to_owned())),
        },
        (None, Some(method), None, None) => Ok(Incoming::Notification { method, params }),
        (_, None, Some(_), None) | (_, None, None, Some(_)) => Ok(Incoming::Answer),
        _ => Err(malformed("neither a request, nor a notification, nor an answer".to_owned())),
    }
}

fn is_object(text: &[u8]) -> bool {
    text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

fn not_json(error: &serde_json::Error) -> ErrorData {
    ErrorData::parse_error(format!("the message is not JSON: {error}"), None)
}

/// Reads the parameters of a method.
pub(crate) fn params<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<T, ErrorData> {
    let text = raw.map_or("{}", RawValue::get);
    let invalid = |reason: String| ErrorData::invalid_params(reason, None);
    if !is_object(text.as_bytes()) {
        return Err(invalid("the parameters are not an object".to_owned()));
    }
    serde_json::from_str(text).map_err(|error| invalid(format!("the parameters: {error}")))
}

#[derive(Deserialize)]
struct WithMeta {
    #[serde(rename = "_meta", default)]
    meta: Option<RequestMetaObject>,
}

/// Reads `_meta` of a request.
pub(crate) fn meta(raw: Option<&RawValue>) -> Result<RequestMetaObject, ErrorData> {
    params::<WithMeta>(raw).map(|with| with.meta.unwrap_or_default())
}

/// The model's id of a call, if the client passes it on.
pub(crate) fn call_id(meta: &RequestMetaObject) -> Option<String> {
    let text = |key: &str| meta.get(key).and_then(Value::as_str);
    CALL_ID_KEYS.into_iter().find_map(text).filter(|id| !id.is_empty()).map(str::to_owned)
}

/// The error for a method that the server does not have.
pub(crate) fn no_method(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method `{method}`"), None)
}

/// An answer to a request.
pub(crate) fn result(id: &RequestId, result: &Value) -> Vec<u8> {
    written(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// An error answer.
pub(crate) fn error(id: Option<RequestId>, error: ErrorData) -> Vec<u8> {
    written(&JsonRpcError::new(id, error))
}

/// A notification.
pub(crate) fn notification(method: &str, params: &Value) -> Vec<u8> {
    written(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// Values have text as keys, so that they can always be written.
fn written(message: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(text: &str) -> String {
        match decode(text.as_bytes()) {
            Ok(Incoming::Request { id, method, .. }) => format!("request {id} {method}"),
            Ok(Incoming::Notification { method, .. }) => format!("notification {method}"),
            Ok(Incoming::Answer) => "answer".to_owned(),
            Err(Malformed { id, error }) => {
                format!("{} {}", error.code.0, id.map_or("-".to_owned(), |id| id.to_string()))
            }
        }
    }

    #[test]
    fn messages_are_classified() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping"),
            (r#" {"method":"ping","jsonrpc":"2.0","id":"x","more":1}"#, "request x ping"),
            (r#"{"jsonrpc":"2.0","method":"a\/b","params":{}}"#, "notification a/b"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "answer"),
            (r#"{"jsonrpc":"2.0","error":{}}"#, "answer"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "-32600 -"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "-32600 -"),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, "-32600 -"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "-32600 1"),
            (r#"{"jsonrpc":"2.0","id":1,"method":2}"#, "-32600 1"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "-32600 1"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, "-32600 1"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, "-32600 1"),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, "-32600 -"),
            (r#"["2.0",1,"ping"]"#, "-32600 -"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "-32600 -"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping""#, "-32700 -"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, "-32700 -"),
            ("hello", "-32700 -"),
            ("", "-32700 -"),
        ] {
            assert_eq!(classified(text), expected, "{text}");
        }
        assert!(decode(b"{\"jsonrpc\":\"\xff\"}").is_err());
    }

    #[test]
    fn parameters_are_an_object() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        assert!(meta(None).unwrap().is_empty());
        assert!(meta(Some(&raw("{}"))).unwrap().is_empty());
        assert_eq!(meta(Some(&raw(r#"{"_meta":{"a":1}}"#))).unwrap().len(), 1);
        for text in ["[{}]", "null", "1", r#"{"_meta":1}"#, r#"{"_meta":{},"_meta":{}}"#] {
            assert_eq!(
                meta(Some(&raw(text))).unwrap_err().code,
                ErrorCode::INVALID_PARAMS,
                "{text}"
            );
        }
    }

    #[test]
    fn the_id_of_a_call_is_found_in_each_clients_form() {
        let found = |meta: Value| call_id(&serde_json::from_value(meta).unwrap());
        let claude = json!({ "claudecode/toolUseId": "toolu_1", "progressToken": 2 });
        assert_eq!(found(claude).as_deref(), Some("toolu_1"));
        let codex = json!({ "callId": "call_1", "itemId": "i", "threadId": "t" });
        assert_eq!(found(codex).as_deref(), Some("call_1"));
        for meta in [json!({}), json!({ "callId": 1 }), json!({ "callId": "" })] {
            assert_eq!(found(meta), None);
        }
    }
}
