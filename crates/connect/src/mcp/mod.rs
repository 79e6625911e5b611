//! The client side of MCP: connections, their transports, and descriptions of servers.

mod connection;
mod http;
mod sse;
mod state;
mod stdio;
mod tools;
mod wire;

pub(crate) use connection::{Call, Connection, Deadline};
pub(crate) use http::{explain, is_loopback};
pub use tools::{ServerDescription, ToolDescription};
