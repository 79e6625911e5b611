//! An MCP server over streamable HTTP: each message of ours is one POST, whose response has the answer.
//!
//! No stream is opened for messages that the server sends unasked, a stream that ends before its answer
//! is not resumed, redirects are not followed, and no request is ever sent twice.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url, redirect, retry};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;

use super::sse::Events;
use super::state::{ConnectionState, ENVELOPE_BYTES_MAX, Outgoing};
use crate::Certainty;
use crate::call_failure::CallFailure;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The limit for messages whose arrival does not matter: a refusal, the end of a session.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long an idle connection is kept; many servers close theirs after five seconds.
const IDLE: Duration = Duration::from_secs(4);

/// The transport over HTTP.
pub(crate) struct HttpTransport {
    inbox: mpsc::Receiver<ServerJsonRpcMessage>,
    endpoint: Arc<Endpoint>,
}

/// One server's address and the session there.
struct Endpoint {
    client: Client,
    url: Url,
    session: OnceLock<HeaderValue>,
    state: Arc<ConnectionState>,
}

/// Prepares a connection; nothing is sent yet.
pub(crate) fn prepare(
    url: &str,
    bearer: Option<&str>,
) -> Result<(HttpTransport, Arc<ConnectionState>), CallFailure> {
    let refuse = |why: String| CallFailure::unavailable(Certainty::DidNotRun, why);
    let url = Url::parse(url).map_err(|error| refuse(format!("the URL is invalid: {error}")))?;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(bearer) = bearer {
        let mut value = HeaderValue::from_str(&format!("Bearer {bearer}"))
            .map_err(|_| refuse("the bearer token cannot be sent in a header".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    // Fails when another part of the program has installed it already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .default_headers(headers)
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .pool_idle_timeout(IDLE)
        .referer(false);
    match url.scheme() {
        "https" => {}
        // The system's certificates are of no use here, and may be missing.
        "http" => builder = builder.tls_certs_only([]),
        other => return Err(refuse(format!("an MCP server is not reached over `{other}`"))),
    }
    if is_loopback(&url) {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|error| refuse(explain(error)))?;
    let (state, inbox) = ConnectionState::new();
    let session = OnceLock::new();
    let endpoint = Arc::new(Endpoint { client, url, session, state: Arc::clone(&state) });
    Ok((HttpTransport { inbox, endpoint }, state))
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The text of an error with its causes, without the address, which may hold a secret.
pub(crate) fn explain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl Endpoint {
    /// Whether the server keeps a session, which it may forget.
    fn has_session(&self) -> bool {
        self.session.get().is_some()
    }

    fn session_headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(session) = self.session.get() {
            headers.insert(SESSION, session.clone());
        }
        if let Some(Ok(version)) = self.state.protocol().map(HeaderValue::from_str) {
            headers.insert(VERSION, version);
        }
        headers
    }

    /// Sends a message; for a request, waits until its answer has been handled.
    async fn send(
        &self,
        message: &ClientJsonRpcMessage,
        request: Option<(RequestId, usize)>,
    ) -> Result<(), CallFailure> {
        let body = serde_json::to_vec(message).map_err(|error| {
            CallFailure::internal(Certainty::DidNotRun, format!("no JSON: {error}"))
        })?;
        let sent = self.client.post(self.url.clone()).headers(self.session_headers()).body(body);
        let response = sent.send().await.map_err(|error| {
            let not_sent = error.is_connect() || error.is_builder();
            let message = format!("cannot reach the server: {}", explain(error));
            let failure = CallFailure::unavailable(Certainty::Unknown, message);
            if not_sent { failure.stale() } else { failure }
        })?;
        let status = response.status();
        let Some((id, bytes_max)) = request else {
            return if status.is_success() { Ok(()) } else { Err(self.refused(status)) };
        };
        if Outgoing::is_initialize(message)
            && let Some(session) = response.headers().get(SESSION)
        {
            let _ = self.session.set(session.clone());
        }
        self.receive(response, &id, bytes_max.saturating_add(ENVELOPE_BYTES_MAX)).await
    }

    /// Handles the response to a request.
    async fn receive(
        &self,
        response: Response,
        id: &RequestId,
        bytes_max: usize,
    ) -> Result<(), CallFailure> {
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match (status.is_success(), kind) {
            (true, "text/event-stream") => self.receive_events(response, id, bytes_max).await,
            (true, "application/json") => self.receive_json(response, id, bytes_max).await,
            (true, other) => {
                let message = format!("the server answered {status} with `{other}`, not JSON");
                Err(CallFailure::protocol(Certainty::Unknown, message))
            }
            // The body may say more than the status does.
            (false, "application/json") => {
                let answered = self.receive_json(response, id, bytes_max).await;
                answered.map_err(|_| self.refused(status))
            }
            (false, _) => Err(self.refused(status)),
        }
    }

    async fn receive_json(
        &self,
        mut response: Response,
        id: &RequestId,
        bytes_max: usize,
    ) -> Result<(), CallFailure> {
        let length = response.content_length().unwrap_or(0);
        let mut body = Vec::new();
        // It is the answer to this request.
        let too_large = || CallFailure { certainty: Certainty::Ran, ..too_large(bytes_max) };
        if length > u64::try_from(bytes_max).unwrap_or(u64::MAX) {
            return Err(too_large());
        }
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len() + chunk.len() > bytes_max {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        if self.handle(&body).await?.as_ref() == Some(id) {
            return Ok(());
        }
        Err(CallFailure::protocol(Certainty::Unknown, "the server answered something else"))
    }

    async fn receive_events(
        &self,
        mut response: Response,
        id: &RequestId,
        bytes_max: usize,
    ) -> Result<(), CallFailure> {
        let mut events = Events::new(bytes_max);
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            let messages = events.push(&chunk).map_err(|_| too_large(bytes_max))?;
            for message in messages {
                if self.handle(&message).await?.as_ref() == Some(id) {
                    return Ok(());
                }
            }
        }
        let message = "the server closed the stream before it answered";
        Err(CallFailure::unavailable(Certainty::Unknown, message))
    }

    /// Handles one message; a request of the server is answered at once.
    async fn handle(&self, text: &[u8]) -> Result<Option<RequestId>, CallFailure> {
        let (answered, reply) = self
            .state
            .handle(text)
            .await
            .map_err(|message| CallFailure::protocol(Certainty::Unknown, message))?;
        if let Some(message) = reply {
            // Whether the reply arrives does not matter to the call.
            let send = Box::pin(self.send(&message, None));
            let _ = tokio::time::timeout(NOTICE_TIMEOUT, send).await;
        }
        Ok(answered)
    }

    /// The failure that a status without an answer means.
    fn refused(&self, status: StatusCode) -> CallFailure {
        if status == StatusCode::NOT_FOUND && self.has_session() {
            let failure = CallFailure::unavailable(
                Certainty::DidNotRun,
                "the server no longer knows the session (HTTP 404)",
            )
            .stale();
            self.state.end(failure.clone());
            return failure;
        }
        if status.is_redirection() {
            let certainty = match status {
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {
                    Certainty::DidNotRun
                }
                _ => Certainty::Unknown,
            };
            let message = format!("the server redirects (HTTP {status}), which is not followed");
            return CallFailure::protocol(certainty, message);
        }
        let certainty = match status.as_u16() {
            401 | 403 | 404 | 405 | 406 | 413 | 415 | 429 => Certainty::DidNotRun,
            _ => Certainty::Unknown,
        };
        let message = format!("the server answered HTTP {status}");
        match status.as_u16() {
            400 | 405 | 406 | 415 | 422 => CallFailure::protocol(certainty, message),
            _ => CallFailure::unavailable(certainty, message),
        }
    }

    /// Tells the server that the session is over.
    async fn close(&self) {
        if self.has_session() {
            let delete = self.client.delete(self.url.clone()).headers(self.session_headers());
            let _ = tokio::time::timeout(NOTICE_TIMEOUT, delete.send()).await;
        }
    }
}

fn too_large(bytes_max: usize) -> CallFailure {
    let message = format!("the server sent a message of more than {bytes_max} bytes");
    CallFailure::too_large(Certainty::Unknown, message)
}

fn broken(error: reqwest::Error) -> CallFailure {
    let message = format!("the connection broke before the answer: {}", explain(error));
    CallFailure::unavailable(Certainty::Unknown, message)
}

impl Transport<RoleClient> for HttpTransport {
    type Error = CallFailure;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), CallFailure>> + Send + 'static {
        let endpoint = Arc::clone(&self.endpoint);
        let (request, abandoned) = match Outgoing::of(&message) {
            Outgoing::Request(id, bytes_max) => {
                let abandoned = endpoint.state.register(id.clone(), bytes_max);
                (Some((id, bytes_max)), Some(abandoned))
            }
            Outgoing::Cancel(id) => {
                endpoint.state.abandon(&id);
                (None, None)
            }
            Outgoing::Other => (None, None),
        };
        async move {
            let Some(abandoned) = abandoned else { return endpoint.send(&message, request).await };
            tokio::select! {
                biased;
                sent = endpoint.send(&message, request) => sent,
                // The caller has stopped waiting: drop the response.
                () = abandoned.notified() => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.inbox.recv().await
    }

    async fn close(&mut self) -> Result<(), CallFailure> {
        self.endpoint.close().await;
        Ok(())
    }
}
