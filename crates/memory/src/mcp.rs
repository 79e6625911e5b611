//! Any memory server that speaks MCP.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use windlass_connect::{Connect as _, Connectors, Job, Limits, Reply, Target};
use windlass_kernel::{Code, RiskLevel, ToolCallId};

use crate::{Hit, Memory, MemoryError, NewMemory, answer};

/// The most that is read of one answer.
const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The most that a server is asked for.
const HITS_MAX: usize = 1000;
/// What a server gets as the query for the most recent: it knows only queries.
const ANYTHING: &str = "*";
/// Names of arguments that servers use, the most usual first.
const QUERIES: [&str; 5] = ["query", "q", "text", "search", "prompt"];
const LIMITS: [&str; 8] =
    ["n_results", "limit", "k", "top_k", "max_results", "num_results", "count", "size"];
const CONTENTS: [&str; 5] = ["content", "text", "memory", "document", "value"];

/// The names of a server's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolNames {
    /// Finds memories.
    pub retrieve: String,
    /// Stores one.
    pub store: String,
    /// The argument of the first with the query; none is found in the tool's schema.
    pub query: Option<String>,
    /// The argument of the first with the number of results; none is found in the tool's schema.
    pub limit: Option<String>,
    /// The argument of the second with the text; none is found in the tool's schema.
    pub content: Option<String>,
}

impl Default for ToolNames {
    fn default() -> Self {
        Self {
            retrieve: "retrieve_memory".to_owned(),
            store: "store_memory".to_owned(),
            query: None,
            limit: None,
            content: None,
        }
    }
}

/// A memory server. Its process or connection is kept between requests.
pub struct McpMemory {
    connectors: Connectors,
    target: Target,
    names: ToolNames,
    deadline: Duration,
    /// The schemas of the two tools' arguments, once they were asked for.
    schemas: Mutex<Option<(Value, Value)>>,
}

impl std::fmt::Debug for McpMemory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("McpMemory")
            .field("target", &self.target)
            .field("names", &self.names)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl McpMemory {
    /// A server that is not started or reached yet.
    #[must_use]
    pub const fn new(
        connectors: Connectors,
        target: Target,
        names: ToolNames,
        deadline: Duration,
    ) -> Self {
        Self { connectors, target, names, deadline, schemas: Mutex::new(None) }
    }

    fn server(&self) -> &str {
        match &self.target {
            Target::McpStdio { server, .. } | Target::McpHttp { server, .. } => server,
            Target::Command { .. }
            | Target::Files { .. }
            | Target::Person
            | Target::Client
            | Target::Agent => "",
        }
    }

    /// The schemas of both tools' arguments; null for a tool that the server does not have.
    fn schemas(&self, end: Instant) -> Result<(Value, Value), MemoryError> {
        let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schemas) = &*schemas {
            return Ok(schemas.clone());
        }
        let described = self
            .connectors
            .describe(&self.target, limits(end))
            .map_err(|error| self.failed(error.code, error.message))?;
        let schema = |name: &str| {
            let tool = described.tools.iter().find(|tool| tool.name == name);
            tool.map_or(Value::Null, |tool| tool.input_schema.clone())
        };
        let found = (schema(&self.names.retrieve), schema(&self.names.store));
        Ok(schemas.insert(found).clone())
    }

    fn call(
        &self,
        tool: &str,
        arguments: &Value,
        class: RiskLevel,
        end: Instant,
    ) -> Result<Value, MemoryError> {
        let id = new_id().to_string();
        let tool_call_id: ToolCallId =
            id.parse().map_err(|_| MemoryError::unavailable("there is no id for a call"))?;
        let reply = self.connectors.perform(&Job {
            target: &self.target,
            tool,
            args: arguments,
            class,
            tool_call_id,
            idempotency_key: None,
            limits: limits(end),
            confinement: None,
            foreseen: None,
        });
        match reply {
            Reply::Success { result } => match answer::refusal(&result) {
                Some(reason) => {
                    Err(MemoryError::unavailable(reason.lines().next().unwrap_or_default()))
                }
                None => Ok(result),
            },
            Reply::Failure { code, message, .. } => Err(self.failed(code, message)),
        }
    }

    fn failed(&self, code: Code, message: String) -> MemoryError {
        if code == Code::ToolTimeout {
            return MemoryError::DeadlinePassed { limit: self.deadline };
        }
        MemoryError::unavailable(message)
    }

    fn end(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.deadline).unwrap_or(now)
    }
}

fn limits(end: Instant) -> Limits {
    let timeout = end.saturating_duration_since(Instant::now());
    Limits { timeout, output_bytes_max: OUTPUT_BYTES_MAX }
}

/// The name of an argument: the configured one, the first of the usual ones in the schema, or `default`
/// where the schema names no arguments.
fn argument<'a>(
    configured: Option<&'a String>,
    schema: &Value,
    usual: &[&'a str],
    default: Option<&'a str>,
) -> Option<&'a str> {
    if let Some(name) = configured {
        return Some(name);
    }
    match schema.get("properties").and_then(Value::as_object) {
        Some(properties) if !properties.is_empty() => {
            usual.iter().copied().find(|name| properties.contains_key(*name))
        }
        Some(_) | None => default,
    }
}

/// The tags as the schema wants them: a list, or one text.
fn add_tags(arguments: &mut Map<String, Value>, schema: &Value, tags: &[String]) {
    let Some(wanted) = schema.pointer("/properties/tags") else { return };
    let texts = wanted.get("type").and_then(Value::as_str) == Some("string");
    let value = if texts { json!(tags.join(",")) } else { json!(tags) };
    arguments.insert("tags".to_owned(), value);
}

impl Memory for McpMemory {
    fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<Hit>, MemoryError> {
        let end = self.end();
        let (schema, _) = self.schemas(end)?;
        let unknown = || MemoryError::unavailable("the server's tool takes no query that is known");
        let names = &self.names;
        let name = argument(names.query.as_ref(), &schema, &QUERIES, Some("query"));
        let query = if query.trim().is_empty() { ANYTHING } else { query };
        let mut arguments = Map::new();
        arguments.insert(name.ok_or_else(unknown)?.to_owned(), json!(query));
        if let Some(name) = argument(names.limit.as_ref(), &schema, &LIMITS, Some("n_results")) {
            arguments.insert(name.to_owned(), json!(limit.clamp(1, HITS_MAX)));
        }
        let arguments = Value::Object(arguments);
        // As a write: not every server says that its search only reads.
        let result = self.call(&names.retrieve, &arguments, RiskLevel::Write, end)?;
        let mut hits = answer::hits(&result, self.server());
        hits.truncate(limit);
        Ok(hits)
    }

    fn store(&self, new: &NewMemory) -> Result<String, MemoryError> {
        new.check()?;
        let end = self.end();
        let (_, schema) = self.schemas(end)?;
        let unknown = || MemoryError::unavailable("the server's tool takes no text that is known");
        let name = argument(self.names.content.as_ref(), &schema, &CONTENTS, Some("content"));
        let mut arguments = Map::new();
        arguments.insert(name.ok_or_else(unknown)?.to_owned(), json!(new.text));
        if !new.tags.is_empty() {
            add_tags(&mut arguments, &schema, &new.tags);
        }
        let arguments = Value::Object(arguments);
        let result = self.call(&self.names.store, &arguments, RiskLevel::Write, end)?;
        Ok(answer::stored_id(&result))
    }
}

/// A new id, also on a machine whose clock is before 1970, for which ids have no room.
fn new_id() -> uuid::Uuid {
    match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
        Ok(_) => uuid::Uuid::now_v7(),
        Err(_) => uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 0, 0)),
    }
}
