//! The connectors against real processes and real servers.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod cells;
mod command;
mod common;
mod confine;
mod mcp;
mod mcp_http;
mod mcp_stdio;
