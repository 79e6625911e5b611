//! The state of a connection, which both transports share: the pending requests, why it ended, and the
//! handling of incoming messages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ClientResult, ErrorCode, ErrorData,
    GetExtensions, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use tokio::sync::{Notify, mpsc, watch};

use super::wire::{self, Answer, Incoming};
use crate::Certainty;
use crate::call_failure::CallFailure;

/// The limit for everything but a tool's result: the handshake, a page of the tool list.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Added to the limit of a result for the envelope of its message.
pub(crate) const ENVELOPE_BYTES_MAX: usize = 64 * 1024;
/// Answers waiting for the client; the reader waits when it is full.
const INBOX_MESSAGES_MAX: usize = 64;

/// The limit of a request's result; attached to the request inside this process, never sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultLimit(pub usize);

/// A request that has no answer yet.
struct Pending {
    bytes_max: usize,
    abandoned: Arc<Notify>,
}

/// The state of one connection, shared by its transport and its callers.
pub(crate) struct ConnectionState {
    pending: Mutex<HashMap<RequestId, Pending>>,
    end: watch::Sender<Option<CallFailure>>,
    tools_stale: AtomicBool,
    protocol: OnceLock<String>,
    inbox: mpsc::Sender<ServerJsonRpcMessage>,
}

impl ConnectionState {
    pub fn new() -> (Arc<Self>, mpsc::Receiver<ServerJsonRpcMessage>) {
        let (inbox, receiver) = mpsc::channel(INBOX_MESSAGES_MAX);
        let state = Self {
            pending: Mutex::default(),
            end: watch::Sender::new(None),
            tools_stale: AtomicBool::new(false),
            protocol: OnceLock::new(),
            inbox,
        };
        (Arc::new(state), receiver)
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<RequestId, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request before it is sent; the returned notice fires when it is abandoned.
    pub fn register(&self, id: RequestId, bytes_max: usize) -> Arc<Notify> {
        let abandoned = Arc::new(Notify::new());
        let pending = Pending { bytes_max, abandoned: Arc::clone(&abandoned) };
        self.pending().insert(id, pending);
        abandoned
    }

    /// Drops a request whose caller has stopped waiting. Its answer may still come; then the common
    /// limit applies to it.
    pub fn abandon(&self, id: &RequestId) {
        if let Some(pending) = self.pending().remove(id) {
            pending.abandoned.notify_one();
        }
    }

    /// The longest message that the pending requests allow.
    pub fn message_bytes_max(&self) -> usize {
        let largest = self.pending().values().map(|pending| pending.bytes_max).max();
        largest.unwrap_or(0).saturating_add(ENVELOPE_BYTES_MAX).max(MESSAGE_BYTES_MAX)
    }

    /// Ends the connection for all callers; the first reason is kept.
    pub fn end(&self, failure: CallFailure) {
        self.end.send_if_modified(|end| {
            let first = end.is_none();
            if first {
                *end = Some(failure);
            }
            first
        });
    }

    /// Why the connection is over, if it is.
    pub fn ended(&self) -> Option<CallFailure> {
        self.end.borrow().clone()
    }

    /// Waits until the connection has ended.
    pub async fn wait_end(&self) -> CallFailure {
        let mut end = self.end.subscribe();
        match end.wait_for(Option::is_some).await {
            Ok(failure) => failure.clone(),
            Err(_) => None,
        }
        .unwrap_or_else(|| CallFailure::internal(Certainty::Unknown, "the connection is gone"))
    }

    /// Returns whether the server has announced a change of its tools since the last call.
    pub fn take_tools_stale(&self) -> bool {
        self.tools_stale.swap(false, Ordering::AcqRel)
    }

    /// The negotiated version of the protocol, once there is one.
    pub fn protocol(&self) -> Option<&str> {
        self.protocol.get().map(String::as_str)
    }

    /// Handles one message from the server: answers go to the client, requests are refused, and
    /// notifications are dropped here, so that a flood of them costs nothing. Returns the id of the
    /// request that it answers, and the message to send back to the server.
    pub async fn handle(
        &self,
        text: &[u8],
    ) -> Result<(Option<RequestId>, Option<ClientJsonRpcMessage>), String> {
        let (id, message) = match wire::decode(text)? {
            Incoming::Notification { method } => {
                if method == "notifications/tools/list_changed" {
                    self.tools_stale.store(true, Ordering::Release);
                }
                return Ok((None, None));
            }
            Incoming::Request { id, method } => {
                return Ok((None, Some(answer_request(id, &method))));
            }
            Incoming::Error { id, error } => {
                self.pending().remove(&id);
                (id.clone(), JsonRpcMessage::error(error, Some(id)))
            }
            Incoming::Result { id, result } if self.protocol.get().is_none() => {
                self.pending().remove(&id);
                let (message, version) = wire::read_initialize(id.clone(), result)?;
                let _ = self.protocol.set(version);
                (id, message)
            }
            Incoming::Result { id, result } => {
                let bytes_max = match self.pending().remove(&id) {
                    Some(pending) => pending.bytes_max,
                    // Too late, or never requested.
                    None => return Ok((Some(id), None)),
                };
                let answer: Answer = wire::read_result(result, bytes_max);
                (id.clone(), wire::wrap(id, &answer))
            }
        };
        // Closed only when the client is gone, and then no caller waits.
        let _ = self.inbox.send(message).await;
        Ok((Some(id), None))
    }
}

/// Answers a ping; refuses everything else: sampling, roots, elicitation.
fn answer_request(id: RequestId, method: &str) -> ClientJsonRpcMessage {
    if method == "ping" {
        return JsonRpcMessage::response(ClientResult::empty(()), id);
    }
    let message = "this client answers no requests";
    JsonRpcMessage::error(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None), Some(id))
}

/// The kind of an outgoing message, as far as transports distinguish it.
pub(crate) enum Outgoing {
    /// A request, with the limit of its result.
    Request(RequestId, usize),
    /// The withdrawal of a request.
    Cancel(RequestId),
    Other,
}

impl Outgoing {
    pub fn of(message: &ClientJsonRpcMessage) -> Self {
        match message {
            JsonRpcMessage::Request(request) => {
                let limit = request.request.extensions().get::<ResultLimit>();
                let bytes_max = limit.map_or(MESSAGE_BYTES_MAX, |limit| limit.0);
                Self::Request(request.id.clone(), bytes_max)
            }
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ClientNotification::CancelledNotification(cancelled) => {
                    cancelled.params.request_id.clone().map_or(Self::Other, Self::Cancel)
                }
                ClientNotification::ProgressNotification(_)
                | ClientNotification::InitializedNotification(_)
                | ClientNotification::RootsListChangedNotification(_)
                | ClientNotification::CustomNotification(_)
                | _ => Self::Other,
            },
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Self::Other,
        }
    }

    /// Whether this is the first message of the connection.
    pub fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
        matches!(message, JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::InitializeRequest(_)))
    }
}
