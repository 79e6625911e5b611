//! Performs one thing outside: a command, or a tool of an MCP server over stdio or streamable HTTP.
//!
//! It may not judge a call, record it, or decide to repeat it: it knows neither policy nor store. A
//! failure of a job is a [`Reply`] to be recorded, which says how certain it is that nothing happened.
//! The API is blocking; an asynchronous runtime starts with the first MCP call and stays inside.
//! Nothing is reached over the network unless a call, or the caller of [`post_json`], names it.

mod agent_process;
mod attached;
mod cache_changes;
mod cache_settings;
mod call_failure;
mod client_files;
mod command;
mod command_output;
mod commits;
mod file_tools;
mod git_settings;
mod job;
mod mcp;
mod network;
mod open_cell;
mod pinned;
mod pool;
mod post;
mod post_stream;
mod sandbox;
mod workspace_watch;

pub use agent_process::{AgentProcess, AgentProgram};
pub use attached::AttachedCommand;
pub use command_output::Outputs;
pub use job::{Certainty, Connect, FilesLeftOut, Job, Reply, Target};
pub use mcp::{ServerDescription, ToolDescription};
pub use pool::{Connectors, DescribeError};
pub use post::{Post, PostAnswer, PostError, exchange, post_json};
pub use post_stream::{PostedStream, ResponsePiece, post_stream};
pub use sandbox::{Confinement, Sandbox, SandboxSettings, remember_hidden_in};
pub use windlass_cell::{Access, Limits, ReceivedSignal, one_line, received_signal, shortened};
pub use windlass_gate::{Held, HeldBack, Rule as FileRule, Rules as FileRules};
