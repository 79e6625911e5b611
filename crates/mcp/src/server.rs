//! The methods of the protocol.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rmcp::model::{ErrorData, ProtocolVersion, RequestId, RequestMetaObject};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use windlass_kernel::canon;

use crate::calls::{Call, Calls};
use crate::host::{ClientInfo, ToolHost, ToolInfo, ToolUse};
use crate::limits::Limits;
use crate::progress::CallProgress;
use crate::session::{NotOpened, Outbox, RequestKey, Session, lock, subscription_meta};
use crate::wire::{self, Incoming};

/// How a server introduces itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What a model should know about its tools.
    pub instructions: Option<String>,
}

/// An MCP server: the tools of one host, for any number of clients.
#[derive(Clone)]
pub struct Server {
    pub(crate) core: Arc<Core>,
}

impl Server {
    /// A server with the usual limits.
    #[must_use]
    pub fn new(host: Arc<dyn ToolHost>, identity: Identity) -> Self {
        Self::with_limits(host, identity, Limits::default())
    }

    /// A server with limits of its own.
    #[must_use]
    pub fn with_limits(host: Arc<dyn ToolHost>, identity: Identity, limits: Limits) -> Self {
        let calls = Arc::new(Calls::new(Arc::clone(&host), limits.clone()));
        let (sessions, scopes) = (Mutex::default(), AtomicU64::new(0));
        Self { core: Arc::new(Core { host, identity, limits, calls, sessions, scopes }) }
    }

    /// Tells all clients that the list of tools has changed.
    pub fn tools_changed(&self) {
        let sessions: Vec<_> = lock(&self.core.sessions).iter().filter_map(Weak::upgrade).collect();
        for session in sessions {
            session.tools_changed();
        }
    }
}

/// What all connections of a server share.
pub(crate) struct Core {
    host: Arc<dyn ToolHost>,
    identity: Identity,
    pub(crate) limits: Limits,
    pub(crate) calls: Arc<Calls>,
    sessions: Mutex<Vec<Weak<Session>>>,
    scopes: AtomicU64,
}

/// Where a message came from.
pub(crate) struct Origin<'a> {
    pub(crate) session: &'a Arc<Session>,
    /// Within it, ids of requests are unique.
    pub(crate) scope: u64,
    pub(crate) out: &'a Arc<dyn Outbox>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams {
    protocol_version: String,
    #[serde(default)]
    client_info: Implementation,
}

#[derive(Default, Deserialize)]
struct Implementation {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    name: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ListParams {
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct ListenParams {
    notifications: Filter,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    #[serde(default)]
    tools_list_changed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelledParams {
    request_id: RequestId,
}

impl Core {
    /// A new session that hears of changes.
    pub(crate) fn open_session(&self, id: String) -> Arc<Session> {
        let session = Arc::new(Session::new(id));
        let mut sessions = lock(&self.sessions);
        sessions.retain(|known| known.strong_count() > 0);
        sessions.push(Arc::downgrade(&session));
        session
    }

    /// A scope for ids of requests.
    pub(crate) fn next_scope(&self) -> u64 {
        self.scopes.fetch_add(1, Ordering::Relaxed)
    }

    /// Handles one message. Answers go to the origin's outbox, those of calls later.
    pub(crate) fn handle(&self, origin: &Origin<'_>, text: &[u8]) {
        match wire::decode(text) {
            Ok(incoming) => self.dispatch(origin, incoming, text.len()),
            Err(malformed) => origin.out.send(wire::error(malformed.id, malformed.error)),
        }
    }

    /// Handles a message that was read, of `bytes` bytes.
    pub(crate) fn dispatch(&self, origin: &Origin<'_>, incoming: Incoming<'_>, bytes: usize) {
        match incoming {
            Incoming::Request { id, method, params } => {
                let key = RequestKey { scope: origin.scope, id };
                match self.request(origin, &key, &method, params, bytes) {
                    Ok(Some(result)) => origin.out.send(wire::result(&key.id, &result)),
                    Ok(None) => {}
                    Err(error) => origin.out.send(wire::error(Some(key.id), error)),
                }
            }
            Incoming::Notification { method, params } if method == "notifications/cancelled" => {
                // Clients send it after answers, too; and one of an unknown form changes nothing.
                if let Ok(CancelledParams { request_id: id }) = wire::params(params) {
                    origin.session.cancel(&RequestKey { scope: origin.scope, id });
                }
            }
            Incoming::Notification { .. } | Incoming::Answer => {}
        }
    }

    /// The result of a request, or `None` if its answer is on its way or comes later.
    fn request(
        &self,
        origin: &Origin<'_>,
        key: &RequestKey,
        method: &str,
        params: Option<&RawValue>,
        bytes: usize,
    ) -> Result<Option<Value>, ErrorData> {
        // Every call counts, even one that is refused: a client that counts gets the same numbers.
        let ordinal = (method == "tools/call").then(|| origin.session.next_ordinal());
        match method {
            "initialize" => return self.initialize(origin.session, params).map(Some),
            // It is answered before a client has introduced itself, too.
            "ping" => {
                let client = wire::meta(params).and_then(|meta| client(origin.session, &meta));
                let protocol = client.map(|client| client.protocol).unwrap_or_default();
                return Ok(Some(typed(json!({}), &protocol)));
            }
            _ => {}
        }
        let meta = wire::meta(params)?;
        let client = client(origin.session, &meta)?;
        let result = match method {
            "server/discover" => self.discover(),
            "tools/list" => {
                let result = complete(self.list(params)?, &client);
                origin.out.send(wire::result(&key.id, &result));
                self.host.listed(&client);
                return Ok(None);
            }
            "tools/call" => {
                let from = (origin, client.protocol.as_str());
                self.call(from, key, params, &meta, ordinal.unwrap_or_default(), bytes)?;
                return Ok(None);
            }
            "subscriptions/listen" if is_stateless(&client.protocol) => {
                self.listen(origin, key, params)?;
                return Ok(None);
            }
            // Clients ask for these without being offered any.
            "resources/list" => json!({ "resources": [] }),
            "resources/templates/list" => json!({ "resourceTemplates": [] }),
            "prompts/list" => json!({ "prompts": [] }),
            _ => return Err(wire::no_method(method)),
        };
        Ok(Some(complete(result, &client)))
    }

    fn initialize(&self, session: &Session, params: Option<&RawValue>) -> Result<Value, ErrorData> {
        let InitializeParams { protocol_version, client_info } = wire::params(params)?;
        let known = ProtocolVersion::KNOWN_VERSIONS.iter();
        let protocol = known
            .filter(|version| version.has_initialize())
            .map(ProtocolVersion::as_str)
            .find(|version| *version == protocol_version)
            .unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE.as_str());
        session.set_client(ClientInfo {
            name: client_info.name,
            version: client_info.version,
            protocol: protocol.to_owned(),
            session: session.id.clone(),
        });
        let mut result = self.introduction();
        result.insert("protocolVersion".to_owned(), protocol.into());
        result.insert("serverInfo".to_owned(), self.server_info());
        Ok(result.into())
    }

    fn discover(&self) -> Value {
        let mut result = self.introduction();
        result.insert("supportedVersions".to_owned(), json!(ProtocolVersion::KNOWN_VERSIONS));
        let meta = json!({ "io.modelcontextprotocol/serverInfo": self.server_info() });
        result.insert("_meta".to_owned(), meta);
        result.into()
    }

    fn introduction(&self) -> Map<String, Value> {
        let mut introduction = Map::new();
        introduction.insert("capabilities".to_owned(), json!({ "tools": { "listChanged": true } }));
        if let Some(instructions) = &self.identity.instructions {
            introduction.insert("instructions".to_owned(), instructions.clone().into());
        }
        introduction
    }

    fn server_info(&self) -> Value {
        json!({ "name": self.identity.name, "version": self.identity.version })
    }

    /// One page of the tools. A cursor is the position of the page's first tool.
    fn list(&self, params: Option<&RawValue>) -> Result<Value, ErrorData> {
        let ListParams { cursor } = wire::params(params)?;
        let tools = self.host.tools();
        let start = match cursor {
            None => 0,
            Some(cursor) => cursor
                .parse()
                .ok()
                .filter(|start| *start <= tools.len())
                .ok_or_else(|| ErrorData::invalid_params("the cursor is unknown", None))?,
        };
        let end = start.saturating_add(self.limits.tools_page.max(1));
        let page = tools.iter().take(end).skip(start).map(tool).collect::<Vec<_>>();
        let mut result = Map::from_iter([("tools".to_owned(), page.into())]);
        if end < tools.len() {
            result.insert("nextCursor".to_owned(), end.to_string().into());
        }
        Ok(result.into())
    }

    fn call(
        &self,
        (origin, protocol): (&Origin<'_>, &str),
        key: &RequestKey,
        params: Option<&RawValue>,
        meta: &RequestMetaObject,
        ordinal: u64,
        bytes: usize,
    ) -> Result<(), ErrorData> {
        let CallParams { name, arguments } = wire::params(params)?;
        let arguments = arguments.map_or("{}", RawValue::get);
        let args = canon::parse(arguments.as_bytes(), self.limits.message_bytes_max)
            .map_err(|error| ErrorData::invalid_params(format!("the arguments: {error}"), None))?;
        if !args.is_object() {
            return Err(ErrorData::invalid_params("the arguments are not an object", None));
        }
        origin.session.open(key).map_err(|reason| match reason {
            NotOpened::Closed => ErrorData::internal_error("the server is closing", None),
            NotOpened::Duplicate => {
                ErrorData::invalid_request("a request with this id is in progress", None)
            }
        })?;
        let session = origin.session.id.clone();
        let progress = CallProgress::new(meta.get_progress_token(), Arc::clone(origin.out));
        self.calls.submit(Call {
            tool_use: ToolUse { name, args, call_id: wire::call_id(meta), session, ordinal },
            key: key.clone(),
            session: Arc::clone(origin.session),
            out: Arc::clone(origin.out),
            progress: Arc::new(progress),
            protocol: protocol.to_owned(),
            bytes,
        });
        Ok(())
    }

    /// Opens a subscription. Its request stays open until it is cancelled.
    fn listen(
        &self,
        origin: &Origin<'_>,
        key: &RequestKey,
        params: Option<&RawValue>,
    ) -> Result<(), ErrorData> {
        let ListenParams { notifications } = wire::params(params)?;
        if !notifications.tools_list_changed {
            return Err(ErrorData::invalid_params("only `toolsListChanged` can be heard of", None));
        }
        let accepted = json!({ "toolsListChanged": true });
        let params = json!({ "_meta": subscription_meta(&key.id), "notifications": accepted });
        let acknowledgment =
            wire::notification("notifications/subscriptions/acknowledged", &params);
        let (out, max) = (Arc::clone(origin.out), self.limits.subscriptions_max);
        let subscribed = origin.session.subscribe(key.clone(), out, max, acknowledgment);
        let refused = || ErrorData::internal_error("there are too many subscriptions", None);
        subscribed.then_some(()).ok_or_else(refused)
    }
}

/// Who makes a request: as the request says itself, or as `initialize` has said.
fn client(session: &Session, meta: &RequestMetaObject) -> Result<ClientInfo, ErrorData> {
    let Some(version) = meta.protocol_version() else {
        let uninitialized = || ErrorData::invalid_request("`initialize` comes first", None);
        return session.client().ok_or_else(uninitialized);
    };
    if !ProtocolVersion::KNOWN_VERSIONS.contains(&version) {
        let known = ProtocolVersion::KNOWN_VERSIONS;
        return Err(ErrorData::unsupported_protocol_version(version, known));
    }
    let missing = meta.missing_required_keys(&version);
    if !missing.is_empty() {
        let message = format!("`_meta` lacks {}", missing.join(", "));
        return Err(ErrorData::invalid_params(message, None));
    }
    let known = meta.client_info();
    Ok(ClientInfo {
        name: known.as_ref().map(|client| client.name.clone()).unwrap_or_default(),
        version: known.map(|client| client.version).unwrap_or_default(),
        protocol: version.as_str().to_owned(),
        session: session.id.clone(),
    })
}

/// Whether this version of the protocol has requests that stand for themselves.
pub(crate) fn is_stateless(protocol: &str) -> bool {
    protocol >= ProtocolVersion::NO_INITIALIZE.as_str()
}

/// Adds what newer versions of the protocol expect of a result: nothing of ours may be cached.
fn complete(result: Value, client: &ClientInfo) -> Value {
    let mut result = typed(result, &client.protocol);
    if is_stateless(&client.protocol)
        && let Value::Object(fields) = &mut result
    {
        fields.insert("ttlMs".to_owned(), 0.into());
        fields.insert("cacheScope".to_owned(), "private".into());
    }
    result
}

/// Adds the kind of a result, without which newer versions of the protocol refuse it.
pub(crate) fn typed(mut result: Value, protocol: &str) -> Value {
    if is_stateless(protocol)
        && let Value::Object(fields) = &mut result
    {
        fields.entry("resultType").or_insert_with(|| "complete".into());
    }
    result
}

fn tool(info: &ToolInfo) -> Value {
    let mut tool = json!({
        "name": info.name,
        "description": info.description,
        "inputSchema": info.input_schema,
    });
    if let Value::Object(fields) = &mut tool {
        let title = info.title.as_ref().map(|title| title.clone().into());
        let optional = [
            ("title", title),
            ("outputSchema", info.output_schema.clone()),
            ("annotations", info.annotations.clone()),
        ];
        for (name, value) in optional {
            fields.extend(value.map(|value| (name.to_owned(), value)));
        }
    }
    tool
}
