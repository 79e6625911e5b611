//! Offers tools to MCP clients: over a pair of byte streams, or over HTTP.
//!
//! A [`ToolHost`] has the tools and performs the calls; a [`Server`] speaks the protocol. Results of
//! calls are passed on as they are. A call that has begun is always finished: neither a cancellation
//! nor the end of its client interrupts it, since its effect counts.
//!
//! This crate knows neither gateway nor journal, and decides nothing. Calls run on plain threads; only
//! the HTTP server is asynchronous, and its runtime ends with its handle.

mod calls;
mod host;
mod http;
mod limits;
mod progress;
mod server;
mod session;
mod socket;
mod stream;
mod wire;

pub use host::{ClientInfo, Progress, ToolAnswer, ToolHost, ToolInfo, ToolUse};
pub use http::{HttpOptions, HttpServer, Reach, StartError, Token};
pub use limits::Limits;
pub use server::{Identity, Server};
pub use socket::{connect, listen, relay};
