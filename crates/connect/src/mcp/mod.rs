//! The client side of MCP: one connection, its transports, and what a server says of itself.

mod connection;
mod http;
mod link;
mod sse;
mod stdio;
mod tools;
mod wire;

pub(crate) use connection::{Call, Connection, Deadline};
pub(crate) use http::{explain, is_loopback};
pub use tools::{ServerDescription, ToolDescription};
