//! Runs agents: with the clients of coding agents, or in a tool loop of our own.
//!
//! A client works in a cell of its own, in an empty folder: it sees neither the repository nor the user's settings, and reaches
//! nothing but its model, through a forwarder that refuses requests which offer other tools than ours. All it can
//! do is to call our tools, over one MCP server that Windlass is; every call goes through the gateway. A model that is asked
//! without a client has the same tools and the same checks.
//!
//! This crate decides nothing about calls, and knows neither store nor policy.

mod answer;
mod brief;
mod calls;
mod client;
mod clients;
mod command;
mod forwarder;
mod host;
mod invocation;
mod model;
mod person;
mod replay;
mod runner;
mod streams;
mod usage;

pub use answer::text_of;
pub use client::{Api, Client, Guard, SERVER};
pub use clients::{Claude, Codex, Gemini, OpenCode, all};
pub use command::{CommandRunner, CommandSettings};
pub use forwarder::{Endpoint, EndpointSource};
pub use model::{ModelApi, ModelRunner, ModelSettings, Prices};
pub use person::PersonRunner;
pub use runner::{ClientRunner, ClientSettings, version_of};
pub use usage::micros;
