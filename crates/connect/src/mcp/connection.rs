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
use super::link::{Link, ResultLimit};
use super::stdio::{self, Server};
use super::tools::{self, Page, ServerDescription, ToolDescription};
use super::wire::Answer;
use crate::trouble::Trouble;
use crate::{Certainty, Target};

const TOOL_PAGES_MAX: usize = 100;
const TOOLS_MAX: usize = 10_000;
/// How long a server may take to show that it lives.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Of what the server is told in passing.
const COURTESY: Duration = Duration::from_secs(1);

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
        // A year is for ever.
        let at = now.checked_add(timeout.min(Duration::from_secs(31_536_000))).unwrap_or(now);
        Self { at, timeout }
    }
}

/// A connection whose handshake is done.
pub(crate) struct Connection {
    service: RunningService<RoleClient, ClientConfig>,
    link: Arc<Link>,
    tools: Mutex<Option<Arc<[ToolDescription]>>>,
    /// A request has timed out: the server may hang.
    suspect: AtomicBool,
    over_http: bool,
    /// Held to be dropped.
    server: Option<Server>,
}

impl Connection {
    /// Starts or reaches the server and shakes hands.
    pub async fn open(target: &Target) -> Result<Self, Trouble> {
        let connection = Self::try_open(target).await;
        connection.map_err(Trouble::before_dispatch)
    }

    async fn try_open(target: &Target) -> Result<Self, Trouble> {
        let (service, link, server) = match target {
            Target::Command { .. } => {
                let message = "a command is not an MCP server";
                return Err(Trouble::internal(Certainty::DidNotRun, message));
            }
            Target::McpStdio { command, env, cwd, .. } => {
                let (server, transport, link) = stdio::start(command, env, cwd)?;
                match client().serve(transport).await {
                    Ok(service) => (service, link, Some(server)),
                    // How it died says more than that it does not answer.
                    Err(error) => match timeout(COURTESY, link.wait_end()).await {
                        Ok(trouble) => return Err(trouble),
                        Err(_) => return Err(handshake(error)),
                    },
                }
            }
            Target::McpHttp { url, bearer, .. } => {
                let (transport, link) = http::prepare(url, bearer.as_deref())?;
                let service = client().serve(transport).await.map_err(handshake)?;
                (service, link, None)
            }
        };
        let connection = Self {
            service,
            link,
            tools: Mutex::new(None),
            suspect: AtomicBool::new(false),
            over_http: server.is_none(),
            server,
        };
        match connection.link.protocol() {
            Some(version) if known(version) => Ok(connection),
            version => {
                let version = version.unwrap_or("none");
                let message = format!("the server wants protocol version `{version}`");
                Err(Trouble::protocol(Certainty::DidNotRun, message))
            }
        }
    }

    /// Ends it and waits until the server is gone.
    pub async fn close(self) {
        let Self { mut service, server, .. } = self;
        let _ = service.close_with_timeout(COURTESY).await;
        let _ = tokio::task::spawn_blocking(move || server.map(Server::stop)).await;
    }

    /// Whether it is certainly of no more use.
    pub fn is_over(&self) -> bool {
        self.link.ended().is_some() || self.service.peer().is_transport_closed()
    }

    /// Makes sure that the server is there and knows us, where that cannot be seen: over HTTP it may
    /// have been restarted or have closed an idle connection, and a call lost that way would be an
    /// uncertain one. A server that has let a request time out may hang.
    pub async fn check(&self, deadline: Deadline) -> Result<(), Trouble> {
        if !self.over_http && !self.suspect.load(Ordering::Acquire) {
            return Ok(());
        }
        let limit = Deadline::after(PING_TIMEOUT);
        let limit = if limit.at < deadline.at { limit } else { deadline };
        let ping = ClientRequest::PingRequest(PingRequest::default());
        self.request(ping, RequestMetaObject::new(), limit)
            .await
            .map_err(Trouble::before_dispatch)?;
        self.suspect.store(false, Ordering::Release);
        Ok(())
    }

    /// Calls a tool, once.
    pub async fn call(&self, call: &Call) -> Result<Value, Trouble> {
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

    /// Asks the server who it is and what it can do.
    pub async fn describe(&self, deadline: Deadline) -> Result<ServerDescription, Trouble> {
        let info = self.service.peer().peer_info();
        let server = info.as_ref().and_then(|info| info.server_info.as_ref());
        Ok(ServerDescription {
            name: server.map(|server| server.name.clone()).unwrap_or_default(),
            version: server.map(|server| server.version.clone()).unwrap_or_default(),
            protocol: self.link.protocol().unwrap_or_default().to_owned(),
            tools: self.list(deadline).await.map_err(Trouble::before_dispatch)?,
        })
    }

    /// The tools, asked for once unless the server announces a change.
    async fn tools(&self, deadline: Deadline) -> Result<Arc<[ToolDescription]>, Trouble> {
        let Ok(mut tools) = timeout_at(deadline.at, self.tools.lock()).await else {
            let what = "the server did not list its tools";
            return Err(Trouble::timeout(Certainty::DidNotRun, deadline.timeout, what));
        };
        if self.link.take_tools_stale() {
            *tools = None;
        }
        if let Some(tools) = &*tools {
            return Ok(Arc::clone(tools));
        }
        let list: Arc<[_]> = self.list(deadline).await.map_err(Trouble::before_dispatch)?.into();
        *tools = Some(Arc::clone(&list));
        Ok(list)
    }

    async fn list(&self, deadline: Deadline) -> Result<Vec<ToolDescription>, Trouble> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..TOOL_PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            let answer = self.request(request, RequestMetaObject::new(), deadline).await;
            let page: Page =
                serde_json::from_value(answer.map_err(not_the_tool)?).map_err(|error| {
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
    ) -> Result<Value, Trouble> {
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let sent = self.service.peer().send_request_with_option(request, options);
        let mut handle = sent.await.map_err(|_| self.gone().stale())?;
        match timeout_at(deadline.at, &mut handle.rx).await {
            Ok(Ok(Ok(result))) => answer(result),
            Ok(Ok(Err(error))) => Err(self.service_error(error)),
            Ok(Err(_)) => Err(self.gone()),
            Err(_) => {
                self.suspect.store(true, Ordering::Release);
                // Forgotten at once, even when the server does not hear of it.
                self.link.abandon(&handle.id);
                let cancel = handle.cancel(Some("the time is up".to_owned()));
                let _ = timeout(COURTESY, cancel).await;
                let what = "the server did not answer";
                Err(Trouble::timeout(Certainty::Unknown, deadline.timeout, what))
            }
        }
    }

    fn gone(&self) -> Trouble {
        self.link.ended().unwrap_or_else(|| {
            Trouble::unavailable(Certainty::Unknown, "the connection to the server is closed")
        })
    }

    fn service_error(&self, error: ServiceError) -> Trouble {
        match error {
            ServiceError::McpError(error) => {
                let code = error.code.0;
                Trouble::failed(format!("the server answered with error {code}: {}", error.message))
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

/// Who we say we are; nothing is offered to a server.
fn client() -> ClientConfig {
    let name = Implementation::new("windlass", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), name)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

fn known(version: &str) -> bool {
    ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.to_string() == version)
}

fn protocol(message: impl AsRef<str>) -> Trouble {
    Trouble::protocol(Certainty::Unknown, message)
}

/// An error answer to a request that is not the tool's own is a matter of the protocol.
fn not_the_tool(trouble: Trouble) -> Trouble {
    if trouble.code == Code::ToolFailed { protocol(trouble.message) } else { trouble }
}

fn arguments(args: &Value) -> Result<JsonObject, Trouble> {
    match args {
        Value::Object(map) => Ok(map.clone()),
        Value::Null => Ok(JsonObject::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let message = "the arguments of an MCP tool are a JSON object";
            Err(Trouble::protocol(Certainty::DidNotRun, message))
        }
    }
}

/// Unpacks what the transport packed.
fn answer(result: ServerResult) -> Result<Value, Trouble> {
    let ServerResult::CustomResult(CustomResult(value)) = result else {
        return Err(Trouble::internal(Certainty::Unknown, "an answer of an unexpected kind"));
    };
    match serde_json::from_value(value) {
        Ok(Answer::Ok(value)) => Ok(value),
        Ok(Answer::TooLarge(bytes_max)) => {
            let message = format!("the tool's result is longer than {bytes_max} bytes");
            Err(Trouble::too_large(Certainty::Unknown, message))
        }
        Ok(Answer::Invalid(message)) => Err(protocol(message)),
        Err(error) => Err(Trouble::internal(Certainty::Unknown, error.to_string())),
    }
}

fn transport(error: DynamicTransportError) -> Trouble {
    match error.error.downcast::<Trouble>() {
        Ok(trouble) => *trouble,
        Err(error) => Trouble::internal(Certainty::Unknown, error.to_string()),
    }
}

fn handshake(error: ClientInitializeError) -> Trouble {
    match error {
        ClientInitializeError::TransportError { error, .. } => transport(error),
        ClientInitializeError::JsonRpcError(error) => {
            protocol(format!("the server refused the handshake: {}", error.message))
        }
        ClientInitializeError::ConnectionClosed(_) => {
            Trouble::unavailable(Certainty::DidNotRun, "the server closed the connection")
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
