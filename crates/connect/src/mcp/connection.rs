//! One live connection to an MCP server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    CustomResult, GetExtensions, Implementation, JsonObject, ListToolsRequest,
    PaginatedRequestParams, PingRequest, ProtocolVersion, RequestMetaObject, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, PeerRequestOptions, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::DynamicTransportError;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use windlass_kernel::{Code, RiskLevel};

use super::http;
use super::state::{ConnectionState, ResultLimit};
use super::stdio::{self, Server};
use super::tools::{self, Page, ServerDescription, ToolDescription};
use super::wire::Answer;
use crate::call_failure::CallFailure;
use crate::{Certainty, Sandbox, Target};

const TOOL_PAGES_MAX: usize = 100;
const TOOLS_MAX: usize = 10_000;
/// How long a server may take to answer a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// The limit for messages whose arrival does not matter.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

/// One tool call.
pub(crate) struct Call {
    pub tool: String,
    pub args: Value,
    pub class: RiskLevel,
    pub tool_call_id: String,
    pub idempotency_key: Option<String>,
    pub output_bytes_max: usize,
    pub deadline: Deadline,
}

/// A point in time and the span it came from.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    pub at: Instant,
    pub timeout: Duration,
}

impl Deadline {
    pub fn after(timeout: Duration) -> Self {
        let now = Instant::now();
        // Longer than a year is treated as a year.
        let at = now.checked_add(timeout.min(Duration::from_secs(31_536_000))).unwrap_or(now);
        Self { at, timeout }
    }
}

/// A connection whose handshake is done.
pub(crate) struct Connection {
    service: RunningService<RoleClient, ClientConfig>,
    state: Arc<ConnectionState>,
    tools: Mutex<Option<Arc<[ToolDescription]>>>,
    /// Set when a request has timed out: the server may hang.
    suspect: AtomicBool,
    over_http: bool,
    /// Stopped when the connection is dropped.
    server: Option<Server>,
}

impl Connection {
    /// Starts or reaches the server and does the handshake.
    pub async fn open(target: &Target, sandbox: Option<Arc<Sandbox>>) -> Result<Self, CallFailure> {
        let connection = Self::try_open(target, sandbox).await;
        connection.map_err(CallFailure::before_dispatch)
    }

    async fn try_open(target: &Target, sandbox: Option<Arc<Sandbox>>) -> Result<Self, CallFailure> {
        let (service, state, server) = match target {
            Target::Command { .. }
            | Target::Files { .. }
            | Target::Person
            | Target::Client
            | Target::Agent => {
                let message = "this target is not an MCP server";
                return Err(CallFailure::internal(Certainty::DidNotRun, message));
            }
            Target::McpStdio { command, env, cwd, confinement, .. } => {
                let (command, env, cwd) = (command.clone(), env.clone(), cwd.clone());
                let confinement = confinement.clone();
                let started = tokio::task::spawn_blocking(move || {
                    let cell = confinement.as_ref().map(|confinement| match sandbox {
                        Some(sandbox) => sandbox.open(confinement),
                        None => Err(CallFailure::sandbox("there is no sandbox for the server")),
                    });
                    stdio::start(&command, &env, &cwd, cell.transpose()?)
                });
                let lost = |_| CallFailure::internal(Certainty::DidNotRun, "no server was started");
                let (server, transport, state) = started.await.map_err(lost)??;
                match client().serve(transport).await {
                    Ok(service) => (service, state, Some(server)),
                    // How it died says more than that it does not answer.
                    Err(error) => match timeout(NOTICE_TIMEOUT, state.wait_end()).await {
                        Ok(failure) => return Err(failure),
                        Err(_) => return Err(handshake(error)),
                    },
                }
            }
            Target::McpHttp { url, bearer, .. } => {
                let (transport, state) = http::prepare(url, bearer.as_deref())?;
                let service = client().serve(transport).await.map_err(handshake)?;
                (service, state, None)
            }
        };
        let connection = Self {
            service,
            state,
            tools: Mutex::new(None),
            suspect: AtomicBool::new(false),
            over_http: server.is_none(),
            server,
        };
        match connection.state.protocol() {
            Some(version) if known(version) => Ok(connection),
            version => {
                let version = version.unwrap_or("none");
                let message = format!("the server wants protocol version `{version}`");
                Err(CallFailure::protocol(Certainty::DidNotRun, message))
            }
        }
    }

    /// Performs a call and returns its result, with what the broker of the server recorded.
    ///
    /// # Errors
    /// [`CallFailure`] if nothing was sent, so that the call may be made over another connection.
    pub async fn call_confined(
        &self,
        call: &Call,
    ) -> Result<(Result<Value, CallFailure>, Option<Value>), CallFailure> {
        let Some(server) = &self.server else { return Ok((Ok(self.call(call).await?), None)) };
        // What it did since its last answer, too.
        server.require_unchanged().map_err(CallFailure::before_dispatch)?;
        let result = match self.call(call).await {
            Err(failure) if failure.stale_connection => return Err(failure),
            result => server.require_unchanged().and(result),
        };
        Ok((result, server.take_events()))
    }

    /// Closes it and waits until the server has exited.
    pub async fn close(self) {
        let Self { mut service, server, .. } = self;
        let _ = service.close_with_timeout(NOTICE_TIMEOUT).await;
        let _ = tokio::task::spawn_blocking(move || server.map(Server::stop)).await;
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.state.ended().is_some() || self.service.peer().is_transport_closed()
    }

    /// Pings the server where its state is not known: over HTTP it may have been restarted or have
    /// closed an idle connection, and the outcome of a call lost that way would be unknown. A server
    /// that has let a request time out may hang.
    pub async fn check(&self, deadline: Deadline) -> Result<(), CallFailure> {
        if !self.over_http && !self.suspect.load(Ordering::Acquire) {
            return Ok(());
        }
        let limit = Deadline::after(PING_TIMEOUT);
        let limit = if limit.at < deadline.at { limit } else { deadline };
        let ping = ClientRequest::PingRequest(PingRequest::default());
        self.request(ping, RequestMetaObject::new(), limit)
            .await
            .map_err(CallFailure::before_dispatch)?;
        self.suspect.store(false, Ordering::Release);
        Ok(())
    }

    /// Calls a tool, once.
    pub async fn call(&self, call: &Call) -> Result<Value, CallFailure> {
        let tools = self.tools(call.deadline).await?;
        tools::check(&tools, &call.tool, call.class)?;
        let mut params = CallToolRequestParams::new(call.tool.clone());
        params.arguments = Some(arguments(&call.args)?);
        let mut meta = RequestMetaObject::new();
        meta.insert("windlass/toolCallId".to_owned(), json!(call.tool_call_id));
        if let Some(key) = &call.idempotency_key {
            meta.insert("windlass/idempotencyKey".to_owned(), json!(key));
        }
        let mut request = CallToolRequest::new(params);
        request.extensions_mut().insert(ResultLimit(call.output_bytes_max));
        self.request(ClientRequest::CallToolRequest(request), meta, call.deadline).await
    }

    /// Asks the server for its name, version and tools.
    pub async fn describe(&self, deadline: Deadline) -> Result<ServerDescription, CallFailure> {
        let info = self.service.peer().peer_info();
        let server = info.as_ref().and_then(|info| info.server_info.as_ref());
        Ok(ServerDescription {
            name: server.map(|server| server.name.clone()).unwrap_or_default(),
            version: server.map(|server| server.version.clone()).unwrap_or_default(),
            protocol: self.state.protocol().unwrap_or_default().to_owned(),
            tools: self.list(deadline).await.map_err(CallFailure::before_dispatch)?,
        })
    }

    /// The tools, requested once unless the server announces a change.
    async fn tools(&self, deadline: Deadline) -> Result<Arc<[ToolDescription]>, CallFailure> {
        let Ok(mut tools) = timeout_at(deadline.at, self.tools.lock()).await else {
            let what = "the server did not list its tools";
            return Err(CallFailure::timeout(Certainty::DidNotRun, deadline.timeout, what));
        };
        if self.state.take_tools_stale() {
            *tools = None;
        }
        if let Some(tools) = &*tools {
            return Ok(Arc::clone(tools));
        }
        let list: Arc<[_]> =
            self.list(deadline).await.map_err(CallFailure::before_dispatch)?.into();
        *tools = Some(Arc::clone(&list));
        Ok(list)
    }

    async fn list(&self, deadline: Deadline) -> Result<Vec<ToolDescription>, CallFailure> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..TOOL_PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            let answer = self.request(request, RequestMetaObject::new(), deadline).await;
            let page: Page =
                serde_json::from_value(answer.map_err(as_protocol_error)?).map_err(|error| {
                    protocol(format!("the server's tool list is malformed: {error}"))
                })?;
            cursor.clone_from(&page.next_cursor);
            tools.extend(page.into_tools());
            if tools.len() > TOOLS_MAX {
                break;
            }
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(protocol(format!(
            "the server lists more than {TOOLS_MAX} tools or does not end its list"
        )))
    }

    /// Sends one request and waits for its answer.
    async fn request(
        &self,
        request: ClientRequest,
        meta: RequestMetaObject,
        deadline: Deadline,
    ) -> Result<Value, CallFailure> {
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let sent = self.service.peer().send_request_with_option(request, options);
        let mut handle = sent.await.map_err(|_| self.gone().stale())?;
        match timeout_at(deadline.at, &mut handle.rx).await {
            Ok(Ok(Ok(result))) => answer(result),
            Ok(Ok(Err(error))) => Err(self.service_error(error)),
            Ok(Err(_)) => Err(self.gone()),
            Err(_) => {
                self.suspect.store(true, Ordering::Release);
                // Dropped at once, even when the server does not get the cancellation.
                self.state.abandon(&handle.id);
                let cancel = handle.cancel(Some("the time is up".to_owned()));
                let _ = timeout(NOTICE_TIMEOUT, cancel).await;
                let what = "the server did not answer";
                Err(CallFailure::timeout(Certainty::Unknown, deadline.timeout, what))
            }
        }
    }

    fn gone(&self) -> CallFailure {
        self.state.ended().unwrap_or_else(|| {
            CallFailure::unavailable(Certainty::Unknown, "the connection to the server is closed")
        })
    }

    fn service_error(&self, error: ServiceError) -> CallFailure {
        match error {
            ServiceError::McpError(error) => {
                let code = error.code.0;
                CallFailure::failed(format!(
                    "the server answered with error {code}: {}",
                    error.message
                ))
            }
            ServiceError::TransportSend(error) => transport(error),
            ServiceError::TransportClosed => self.gone(),
            ServiceError::UnexpectedResponse
            | ServiceError::SubscriptionLagged { .. }
            | ServiceError::Cancelled { .. }
            | ServiceError::Timeout { .. }
            | ServiceError::InputRequiredRoundsExceeded { .. }
            | _ => protocol(error.to_string()),
        }
    }
}

/// Our name and version; no capability is offered to a server.
fn client() -> ClientConfig {
    let name = Implementation::new("windlass", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), name)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

fn known(version: &str) -> bool {
    ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.to_string() == version)
}

fn protocol(message: impl AsRef<str>) -> CallFailure {
    CallFailure::protocol(Certainty::Unknown, message)
}

/// An error answer to a request other than a tool call is a protocol error.
fn as_protocol_error(failure: CallFailure) -> CallFailure {
    if failure.code == Code::ToolFailed { protocol(failure.message) } else { failure }
}

fn arguments(args: &Value) -> Result<JsonObject, CallFailure> {
    match args {
        Value::Object(map) => Ok(map.clone()),
        Value::Null => Ok(JsonObject::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let message = "the arguments of an MCP tool are a JSON object";
            Err(CallFailure::protocol(Certainty::DidNotRun, message))
        }
    }
}

/// Unwraps an answer that the transport wrapped.
fn answer(result: ServerResult) -> Result<Value, CallFailure> {
    let ServerResult::CustomResult(CustomResult(value)) = result else {
        return Err(CallFailure::internal(Certainty::Unknown, "an answer of an unexpected kind"));
    };
    match serde_json::from_value(value) {
        Ok(Answer::Ok(value)) => Ok(value),
        Ok(Answer::TooLarge(bytes_max)) => {
            let message = format!("the tool's result is longer than {bytes_max} bytes");
            // It is the answer to this call.
            Err(CallFailure::too_large(Certainty::Ran, message))
        }
        Ok(Answer::Invalid(message)) => Err(protocol(message)),
        Err(error) => Err(CallFailure::internal(Certainty::Unknown, error.to_string())),
    }
}

fn transport(error: DynamicTransportError) -> CallFailure {
    match error.error.downcast::<CallFailure>() {
        Ok(failure) => *failure,
        Err(error) => CallFailure::internal(Certainty::Unknown, error.to_string()),
    }
}

fn handshake(error: ClientInitializeError) -> CallFailure {
    match error {
        ClientInitializeError::TransportError { error, .. } => transport(error),
        ClientInitializeError::JsonRpcError(error) => {
            protocol(format!("the server refused the handshake: {}", error.message))
        }
        ClientInitializeError::ConnectionClosed(_) => {
            CallFailure::unavailable(Certainty::DidNotRun, "the server closed the connection")
        }
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. }
        | ClientInitializeError::NoCompatibleProtocolVersion { .. }
        | ClientInitializeError::NoPreferredProtocolVersion
        | ClientInitializeError::Cancelled
        | ClientInitializeError::LegacyFallbackFailed { .. }
        | _ => protocol(format!("the handshake failed: {error}")),
    }
}
