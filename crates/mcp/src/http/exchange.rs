//! One request and its answer, in plain code.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::body::Sender;
use super::guard::only;
use super::sessions::Sessions;
use crate::server::{Core, Origin, is_stateless};
use crate::session::Session;
use crate::wire::{self, Incoming};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// What a request is answered with.
pub(crate) enum Reply {
    /// Nothing but a status.
    Status(StatusCode),
    /// One JSON-RPC message.
    Message { status: StatusCode, message: Vec<u8>, session: Option<String> },
    /// A stream of messages.
    Events { first: Option<Vec<u8>>, messages: mpsc::Receiver<Vec<u8>>, session: Arc<Session> },
}

impl Reply {
    fn error(status: StatusCode, id: Option<RequestId>, error: ErrorData) -> Self {
        Self::Message { status, message: wire::error(id, error), session: None }
    }
}

/// Whether the headers of a POST fit what it sends and expects.
pub(crate) fn check_types(headers: &HeaderMap) -> Result<(), StatusCode> {
    let list = |name: HeaderName| -> Vec<String> {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let types = values.flat_map(|value| value.split(','));
        let names = types.map(|kind| kind.split(';').next().unwrap_or_default());
        names.map(|name| name.trim().to_ascii_lowercase()).collect()
    };
    if list(CONTENT_TYPE) != ["application/json"] {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let accepted = list(ACCEPT);
    let accepts = |kind: &str| accepted.iter().any(|known| known == kind || known == "*/*");
    if accepts("application/json") && accepts("text/event-stream") {
        Ok(())
    } else {
        Err(StatusCode::NOT_ACCEPTABLE)
    }
}

/// Handles the message of a POST.
pub(crate) fn post(core: &Core, sessions: &Sessions, request: &Parts, body: &[u8]) -> Reply {
    let incoming = match wire::decode(body) {
        Ok(incoming) => incoming,
        Err(malformed) => {
            return Reply::error(StatusCode::BAD_REQUEST, malformed.id, malformed.error);
        }
    };
    let version = match header(&request.headers, VERSION) {
        Ok(version) => version,
        Err(status) => return Reply::Status(status),
    };
    let id = match &incoming {
        Incoming::Request { id, .. } => Some(id.clone()),
        Incoming::Notification { .. } | Incoming::Answer => None,
    };
    let initializes =
        matches!(&incoming, Incoming::Request { method, .. } if method == "initialize");
    if let Incoming::Request { id, method, params } = &incoming
        && !initializes
        && let Err(error) = check_headers(request, version, method, *params)
    {
        return Reply::error(StatusCode::BAD_REQUEST, Some(id.clone()), error);
    }
    let handled = |session: &Arc<Session>, scope, new| {
        let (out, mut messages) = Sender::channel();
        let origin = Origin { session, scope, out: &out };
        core.dispatch(&origin, incoming, body.len());
        drop(out);
        if id.is_none() {
            return Reply::Status(StatusCode::ACCEPTED);
        }
        match messages.try_recv() {
            Ok(message) if is_answer(&message) => {
                let status = version.map_or(StatusCode::OK, |version| status(version, &message));
                Reply::Message { status, message, session: new }
            }
            first => {
                let session = Arc::clone(session);
                Reply::Events { first: first.ok(), messages, session }
            }
        }
    };
    if version.is_some_and(is_stateless) && !initializes {
        return handled(sessions.stateless(), core.next_scope(), None);
    }
    match header(&request.headers, SESSION) {
        Err(status) => Reply::Status(status),
        Ok(Some(name)) => match sessions.find(core, name) {
            // Ids are unique within a session: its requests have one scope.
            Some(session) => handled(&session, 0, None),
            None => Reply::Status(StatusCode::NOT_FOUND),
        },
        Ok(None) if !initializes => Reply::Status(StatusCode::BAD_REQUEST),
        Ok(None) => match sessions.create(core) {
            None => {
                let message =
                    "as many sessions are open as this server allows; end one, or try again later";
                let error = ErrorData::internal_error(message, None);
                Reply::error(StatusCode::SERVICE_UNAVAILABLE, id.clone(), error)
            }
            Some(session) => {
                let reply = handled(&session, 0, Some(session.id.clone()));
                if session.client().is_none() {
                    sessions.remove(&session.id);
                }
                reply
            }
        },
    }
}

/// Opens the stream of a session's notifications. An older one ends.
pub(crate) fn get(core: &Core, sessions: &Sessions, request: &Parts) -> Reply {
    match named_session(core, sessions, request) {
        Err(status) => Reply::Status(status),
        Ok(session) => {
            let (out, messages) = Sender::channel();
            session.set_out(Some(out));
            Reply::Events { first: None, messages, session }
        }
    }
}

/// Ends a session.
pub(crate) fn delete(core: &Core, sessions: &Sessions, request: &Parts) -> Reply {
    Reply::Status(match named_session(core, sessions, request) {
        Err(status) => status,
        Ok(session) => {
            sessions.remove(&session.id);
            StatusCode::NO_CONTENT
        }
    })
}

fn named_session(
    core: &Core,
    sessions: &Sessions,
    request: &Parts,
) -> Result<Arc<Session>, StatusCode> {
    if header(&request.headers, VERSION)?.is_some_and(is_stateless) {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let name = header(&request.headers, SESSION)?.ok_or(StatusCode::BAD_REQUEST)?;
    sessions.find(core, name).ok_or(StatusCode::NOT_FOUND)
}

/// The text of a header that is there at most once.
fn header(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, StatusCode> {
    if !headers.contains_key(&name) {
        return Ok(None);
    }
    let text = only(headers, name).and_then(|value| std::str::from_utf8(value).ok());
    text.map(Some).ok_or(StatusCode::BAD_REQUEST)
}

/// Others on the way may have judged by the headers: they must say what the message says.
fn check_headers(
    request: &Parts,
    version: Option<&str>,
    method: &str,
    params: Option<&RawValue>,
) -> Result<(), ErrorData> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        name: Option<String>,
    }
    let mismatch = |message: String| ErrorData::header_mismatch(message, None);
    let inline = wire::meta(params)?.protocol_version();
    if let Some(inline) = &inline
        && version != Some(inline.as_str())
    {
        return Err(mismatch(format!("the header `{VERSION}` is not `{inline}`")));
    }
    let Some(version) = version else { return Ok(()) };
    let known = ProtocolVersion::KNOWN_VERSIONS;
    if inline.is_none() && !known.iter().any(|known| known.as_str() == version) {
        return Err(ErrorData::invalid_request("the protocol version is unknown", None));
    }
    if !is_stateless(version) {
        return Ok(());
    }
    let expected = |name: HeaderName, value: &str| {
        let found = only(&request.headers, name.clone());
        let matches = found == Some(value.as_bytes());
        matches
            .then_some(())
            .ok_or_else(|| mismatch(format!("the header `{name}` is not `{value}`")))
    };
    expected(METHOD, method)?;
    if method == "tools/call"
        && let Named { name: Some(name) } = wire::params(params)?
    {
        expected(NAME, &name)?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    method: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    error: Option<ErrorData>,
}

/// Whether one of our messages is the answer to a request.
fn is_answer(message: &[u8]) -> bool {
    serde_json::from_slice::<Kind>(message).is_ok_and(|kind| kind.method.is_none())
}

/// The status of an answer at once. Older versions of the protocol have no statuses for errors.
fn status(version: &str, message: &[u8]) -> StatusCode {
    let error = serde_json::from_slice::<Kind>(message).ok().and_then(|kind| kind.error);
    match error.filter(|_| is_stateless(version)).map(|error| error.code) {
        Some(ErrorCode::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION | ErrorCode::INVALID_REQUEST) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}
