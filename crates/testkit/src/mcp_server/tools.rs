//! The tools of the test server.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomNotification,
    ErrorData, Implementation, InitializeRequestParams, InitializeResult, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, ServerNotification,
    Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::log::{Entry, Line, Log};

/// What a tool says of itself.
#[derive(Clone, Copy)]
enum Hints {
    None,
    Reads,
    Writes,
    Destroys,
}

const TOOLS: &[(&str, Hints, &str)] = &[
    ("add", Hints::Writes, "Adds a text."),
    ("die", Hints::Writes, "Executes, then ends the server without an answer."),
    ("fail", Hints::Writes, "Reports a failure."),
    ("flood", Hints::Reads, "Sends many notifications, then answers."),
    ("garbage", Hints::Writes, "Answers with something that is not JSON."),
    ("get", Hints::Reads, "Tells the server's process number and how many clients it had."),
    ("hang", Hints::Writes, "Never answers."),
    ("huge", Hints::Reads, "Answers with as many bytes as asked for."),
    ("liar", Hints::Destroys, "Destroys, whatever the registry says."),
    ("lookup", Hints::Reads, "Tells whether a key was executed, and its result."),
    ("meet", Hints::None, "Answers when as many calls as asked for are waiting here."),
    ("remove", Hints::Writes, "Undoes an addition."),
    ("slow", Hints::Writes, "Answers after a while."),
    ("unsafe_number", Hints::Reads, "Answers with 2^53 + 1."),
];

/// The server; its clones share the log.
#[derive(Clone)]
pub(super) struct TestServer {
    log: Arc<Log>,
    page_size: usize,
    http: bool,
    waiting: Arc<watch::Sender<u64>>,
    /// How often a client has shaken hands.
    clients: Arc<AtomicU64>,
}

impl TestServer {
    pub fn new(log: Arc<Log>, page_size: Option<usize>, http: bool) -> Self {
        let page_size = page_size.unwrap_or(TOOLS.len()).max(1);
        Self {
            log,
            page_size,
            http,
            waiting: Arc::new(watch::Sender::new(0)),
            clients: Arc::default(),
        }
    }

    /// Records a call as it came over the wire.
    pub fn record(&self, tool: &str, meta: &Value, args: Value) -> Result<Entry, ErrorData> {
        let text = |name: &str| meta.get(name).and_then(Value::as_str).map(str::to_owned);
        let line = Line {
            tool: tool.to_owned(),
            key: text("windlass/idempotencyKey"),
            call_id: text("windlass/toolCallId"),
            args,
        };
        self.log.record(line).map_err(internal)
    }

    async fn run(
        &self,
        tool: &str,
        args: &Value,
        count: usize,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let number = |name: &str| args.get(name).and_then(Value::as_u64).unwrap_or(0);
        match tool {
            "fail" => {
                return Ok(CallToolResult::error(vec![ContentBlock::text("it did not work")]));
            }
            "hang" => std::future::pending().await,
            "die" => {
                // A last word, which the client is to show.
                let _ = std::io::stderr().write_all(b"dying as asked\n");
                std::process::exit(1);
            }
            "garbage" if !self.http => {
                let _ = std::io::stdout().write_all(b"this is not JSON\n");
                std::future::pending().await
            }
            "huge" => {
                let size = usize::try_from(number("bytes")).unwrap_or(usize::MAX);
                return Ok(CallToolResult::success(vec![ContentBlock::text("x".repeat(size))]));
            }
            "slow" => tokio::time::sleep(Duration::from_millis(number("ms"))).await,
            "meet" => {
                self.waiting.send_modify(|waiting| *waiting += 1);
                let here = number("calls");
                let _ = self.waiting.subscribe().wait_for(|waiting| *waiting >= here).await;
            }
            "get" => {
                let clients = self.clients.load(Ordering::SeqCst);
                let answer = json!({ "pid": std::process::id(), "clients": clients });
                return Ok(CallToolResult::structured(answer));
            }
            "flood" => flood(number("messages"), context).await,
            _ => {}
        }
        Ok(answer(tool, count))
    }
}

async fn flood(messages: u64, context: &RequestContext<RoleServer>) {
    for message in 0..messages {
        let params = Some(json!({ "message": message, "padding": "x".repeat(1000) }));
        let note = CustomNotification::new("notifications/test/flood", params);
        // The client may be gone.
        let _ = context.peer.send_notification(ServerNotification::CustomNotification(note)).await;
    }
}

/// The result of a tool's execution, the same when it is told again.
fn answer(tool: &str, count: usize) -> CallToolResult {
    CallToolResult::structured(match tool {
        "add" => json!({ "added": true, "count": count }),
        "remove" => json!({ "removed": true, "count": count }),
        "unsafe_number" => json!({ "number": 9_007_199_254_740_993_u64 }),
        _ => json!({ "done": tool, "count": count }),
    })
}

fn internal(error: impl ToString) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

impl ServerHandler for TestServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("windlass-test-server", "1.2.3"))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.clients.fetch_add(1, Ordering::SeqCst);
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let from: usize = match cursor {
            Some(cursor) => cursor.parse().map_err(|_| internal("not a cursor"))?,
            None => 0,
        };
        let tools =
            TOOLS.iter().skip(from).take(self.page_size).map(|(name, hints, description)| {
                let annotations = ToolAnnotations::new();
                let annotations = match hints {
                    Hints::None => annotations,
                    Hints::Reads => annotations.read_only(true),
                    Hints::Writes => {
                        annotations.read_only(false).destructive(false).idempotent(false)
                    }
                    Hints::Destroys => annotations.destructive(true),
                };
                let schema = JsonObject::from_iter([("type".to_owned(), json!("object"))]);
                Tool::new(*name, *description, schema).with_annotations(annotations)
            });
        let mut page = ListToolsResult::with_all_items(tools.collect());
        let next = from + self.page_size;
        page.next_cursor = (next < TOOLS.len()).then(|| next.to_string());
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.as_ref();
        if !TOOLS.iter().any(|(name, ..)| *name == tool) {
            return Err(ErrorData::invalid_params(format!("no tool `{tool}`"), None));
        }
        let args = Value::Object(request.arguments.unwrap_or_default());
        let meta = serde_json::to_value(&context.meta).map_err(internal)?;
        if tool == "lookup" {
            let key = args.get("key").and_then(Value::as_str).unwrap_or_default();
            let found = self.log.find(key).map_err(internal)?;
            let result = found.as_ref().map(|(line, count)| answer(&line.tool, *count));
            let result = result.and_then(|result| result.structured_content);
            let answer = json!({ "found": found.is_some(), "result": result });
            return Ok(CallToolResult::structured(answer).into());
        }
        match self.record(tool, &meta, args.clone())? {
            Entry::Recorded { count } => Ok(self.run(tool, &args, count, &context).await?.into()),
            Entry::Repeated { count } => Ok(answer(tool, count).into()),
        }
    }
}
