//! The memory: what people and agents stored, found again by a query. One interface, [`Memory`], with the
//! built-in memory ([`BuiltIn`]), which searches a knowledge folder of Markdown files as well, and any
//! memory server that speaks MCP ([`McpMemory`]).
//!
//! It may not decide what is remembered or who sees it, and it knows neither journal nor policy.

mod answer;
mod built_in;
mod error;
mod index;
mod markdown;
mod mcp;
mod memory;
mod query;
mod rows;
mod walk;

pub use built_in::{BuiltIn, Settings};
pub use error::MemoryError;
pub use mcp::{McpMemory, ToolNames};
pub use memory::{Hit, Memory, NewMemory, TAG_BYTES_MAX, TAGS_MAX, TEXT_BYTES_MAX};
