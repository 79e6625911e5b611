//! A memory server that speaks MCP over its standard streams, for the tests of this crate.
//!
//! ```text
//! memory_server [structured|json|text|slow|refuse|other]
//! ```

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt};
use serde_json::{Value, json};

#[derive(Clone)]
struct Server {
    form: String,
    memories: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    /// The names of its tools and of their arguments.
    fn names(&self) -> [(&'static str, [&'static str; 2]); 2] {
        if self.form == "other" {
            [("search", ["q", "limit"]), ("remember", ["text", "tags"])]
        } else {
            [("retrieve_memory", ["query", "n_results"]), ("store_memory", ["content", "tags"])]
        }
    }

    fn retrieve(&self, query: &str, limit: usize) -> CallToolResult {
        let memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |text: &str| query == "*" || query.split(' ').any(|word| text.contains(word));
        let found: Vec<Value> = memories
            .iter()
            .filter(|(text, _)| fits(text))
            .take(limit)
            .map(|(text, tags)| json!({ "content": text, "tags": tags, "similarity_score": 0.5 }))
            .collect();
        match self.form.as_str() {
            "structured" => CallToolResult::structured(json!({ "memories": found })),
            "text" => {
                let texts = found.iter().filter_map(|hit| hit.get("content")?.as_str());
                let text = texts.collect::<Vec<_>>().join("\n\n");
                let none = "No matching memories found".to_owned();
                CallToolResult::success(vec![ContentBlock::text(if text.is_empty() {
                    none
                } else {
                    text
                })])
            }
            _ => CallToolResult::success(vec![ContentBlock::text(Value::Array(found).to_string())]),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("memory", "1"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.names().map(|(name, arguments)| {
            let properties: JsonObject = arguments
                .iter()
                .map(|argument| {
                    let kind = if *argument == "tags" { "array" } else { "string" };
                    ((*argument).to_owned(), json!({ "type": kind }))
                })
                .collect();
            let schema = JsonObject::from_iter([
                ("type".to_owned(), json!("object")),
                ("properties".to_owned(), Value::Object(properties)),
            ]);
            Tool::new(name, "A tool of the memory.", schema)
        });
        Ok(ListToolsResult::with_all_items(tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        if self.form == "slow" {
            tokio::time::sleep(Duration::from_secs(300)).await;
        }
        let [(retrieve, [query, limit]), (store, [content, tags])] = self.names();
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        if request.name == retrieve {
            let limit = arguments.get(limit).and_then(Value::as_u64).unwrap_or(1);
            let limit = usize::try_from(limit).unwrap_or(1);
            return Ok(self.retrieve(text(query), limit).into());
        }
        if request.name == store && self.form == "refuse" {
            let refused = json!({ "success": false, "error": "the memory is full" });
            return Ok(CallToolResult::structured(refused).into());
        }
        if request.name == store {
            let tags = arguments.get(tags).cloned().unwrap_or(json!([]));
            let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
            memories.push((text(content).to_owned(), tags));
            let stored = json!({ "success": true, "content_hash": format!("h{}", memories.len()) });
            return Ok(CallToolResult::structured(stored).into());
        }
        Err(ErrorData::invalid_params("no such tool", None))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let form = std::env::args().nth(1).unwrap_or_default();
    let server = Server { form, memories: Arc::default() };
    tokio::runtime::Runtime::new()?.block_on(async {
        let service = server.serve(rmcp::transport::stdio()).await?;
        service.waiting().await?;
        Ok(())
    })
}
