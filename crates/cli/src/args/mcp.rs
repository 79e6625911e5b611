//! Arguments of `mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Examples of `mcp serve`.
const SERVE_HELP: &str = "Every call is judged by the policy and recorded before it is made. A call that the policy asks \
    about waits for\na person: `windlass call approve ID` in another terminal lets it go on.\n\nExamples:\n  windlass mcp \
    serve\n  windlass mcp serve --tools fs/read,shell/read\n  windlass mcp serve --http 127.0.0.1:8431 \
    --token-file ~/.windlass-token\n\nA client that starts it, as in .mcp.json:\n  {\"mcpServers\": {\"windlass\": \
    {\"command\": \"windlass\", \"args\": [\"mcp\", \"serve\"]}}}";

/// Examples of `mcp wrap`.
const WRAP_HELP: &str = "The tools keep their names for the client; for the policy they are `wrapped-NAME/TOOL`. Calls \
    that no rule\nallows are denied, so add rules for `wrapped-NAME/*` to `.windlass/policy`. The tools are recorded as \
    the\nserver describes them the first time; one that changes later is not offered until you accept it with\n`windlass \
    mcp trust NAME`.\n\nExamples:\n  windlass mcp wrap --name memory --read read_graph -- mcp-server-memory\n  windlass \
    mcp wrap --config .mcp.json --server memory";

/// Subcommands of `mcp`.
#[derive(Debug, Subcommand)]
pub enum Mcp {
    /// Offer the registered tools to an MCP client, over standard input and output or over HTTP.
    #[command(after_help = SERVE_HELP)]
    Serve(McpServe),
    /// Stand in front of another MCP server, so that every call of its tools is judged and recorded.
    #[command(after_help = WRAP_HELP)]
    Wrap(McpWrap),
    /// Show what has changed in a wrapped server since you accepted it, and accept it.
    Trust(McpTrust),
}

/// How clients are served.
#[derive(Debug, Args)]
pub struct Serving {
    /// Serve streamable HTTP at this address of this machine, instead of standard input and output.
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,
    /// The file with the token of HTTP clients; it is created with a new one if it is missing [default: a
    /// new token, printed to standard error].
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// How long a call that the policy asks about waits for a person before it is answered with its id.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub wait: u64,
}

/// Options of `mcp serve`.
#[derive(Debug, Args)]
pub struct McpServe {
    #[command(flatten)]
    pub serving: Serving,
    /// Only these tools, by their names in the registry, separated by commas [default: all].
    #[arg(long, value_name = "SERVER/TOOL", value_delimiter = ',')]
    pub tools: Vec<String>,
}

/// Options of `mcp wrap`.
#[derive(Debug, Args)]
pub struct McpWrap {
    /// Take the server from this file of a client, such as `.mcp.json`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "env", "name"])]
    pub config: Option<PathBuf>,
    /// The server in that file, if it has several.
    #[arg(long, value_name = "NAME", requires = "config")]
    pub server: Option<String>,
    /// The name of the server, for rules [default: taken from its command].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The tools that only read, if their server says so too; all others count as writing.
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub read: Vec<String>,
    /// A variable of the environment that the server gets; its value is a secret.
    #[arg(long, value_name = "VARIABLE")]
    pub env: Vec<String>,
    #[command(flatten)]
    pub serving: Serving,
    /// The command that starts the server.
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "config")]
    pub command: Vec<String>,
}

/// Options of `mcp trust`.
#[derive(Debug, Args)]
pub struct McpTrust {
    /// The name of the wrapped server.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Only show the difference.
    #[arg(long, conflicts_with = "yes")]
    pub show: bool,
    /// Accept what has this digest, without asking.
    #[arg(long, value_name = "DIGEST")]
    pub yes: Option<String>,
}
