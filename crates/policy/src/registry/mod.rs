//! The tool registry: the tools, their classes, and how they are called.

mod command_line;
mod load;
mod template;
mod wrapped;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_kernel::{HostRule, RiskLevel};

pub use command_line::{CommandLine, CommandLineError, secret_name};
pub use template::{TemplateError, fill_template};

pub use load::is_secret_name;
pub use wrapped::WRAPPED_PREFIX;

pub(crate) use load::load;

use crate::Pointer;

/// The longest timeout of a tool.
pub const TIMEOUT_MS_MAX: u64 = 86_400_000;
/// The largest input or output of a tool.
pub const TOOL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// All registered servers by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Registry {
    pub(crate) servers: BTreeMap<String, Server>,
}

impl Registry {
    /// The tool `name` of `server`, with its server.
    #[must_use]
    pub fn find(&self, server: &str, name: &str) -> Option<(&Server, &Tool)> {
        let server = self.servers.get(server)?;
        Some((server, server.tools.get(name)?))
    }

    /// All servers, by name.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.values()
    }

    /// All tools with their servers, by name.
    pub fn tools(&self) -> impl Iterator<Item = (&Server, &Tool)> {
        self.servers
            .values()
            .flat_map(|server| server.tools.values().map(move |tool| (server, tool)))
    }
}

/// A server that runs tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// How to connect to it.
    pub connector: Connector,
    /// Names of the environment variables passed to it; their values are secrets.
    pub env: Vec<String>,
    /// Whether it recognises a repeated idempotency key.
    pub honours_keys: bool,
    /// Its tools by name.
    pub tools: BTreeMap<String, Tool>,
}

/// How to connect to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Connector {
    /// An MCP server started as a child process.
    McpStdio {
        /// Its command line.
        command: Vec<String>,
        /// Whether it runs in the sandbox.
        sandbox: bool,
        /// The hosts that it may reach although the sandbox closes the network.
        network: Vec<HostRule>,
    },
    /// An MCP server reached over HTTP.
    McpHttp {
        /// Its address.
        url: String,
        /// The environment variable with its bearer token.
        bearer_env: Option<String>,
    },
    /// Commands started directly.
    Command,
    /// The file tools of Windlass itself.
    Files,
    /// A person: a call is a question, and the reason of whoever approves it is its result.
    Person,
    /// The client of a coding agent, which alone can make the calls: they are judged and recorded in its sessions.
    Client,
    /// Another agent of the run, which an agent starts within its work.
    Agent,
}

impl Connector {
    /// Whether a call's idempotency key can be carried to the server.
    #[must_use]
    pub const fn carries_keys(&self) -> bool {
        matches!(self, Self::McpStdio { .. } | Self::McpHttp { .. })
    }
}

/// One registered tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name here.
    pub name: String,
    /// Its name at the server.
    pub remote_name: String,
    /// What it does, for agents.
    pub description: Option<String>,
    /// Its risk class.
    pub class: RiskLevel,
    /// Its timeout.
    pub timeout_ms: u64,
    /// The largest arguments.
    pub input_bytes_max: u64,
    /// The largest output.
    pub output_bytes_max: u64,
    /// Whether running it twice has the same effect as once.
    pub idempotent: bool,
    /// How often a call is dispatched again after crashes before it is put on hold.
    pub retries_max: u32,
    /// Arguments that are paths it reads.
    pub paths_read: Vec<Pointer>,
    /// Arguments that are paths it writes.
    pub paths_write: Vec<Pointer>,
    /// The argument that is a shell line.
    pub shell_line: Option<Pointer>,
    /// The command line, for the command connector.
    pub argv: Vec<ArgvPart>,
    /// The argument that is the command's input.
    pub stdin: Option<Pointer>,
    /// The hosts that a command may reach although the sandbox closes the network.
    pub network: Vec<HostRule>,
    /// Whether a command runs in the sandbox.
    pub sandbox: bool,
    /// The names of the secrets that its calls may name.
    pub secrets: Vec<String>,
    /// What the registry declares for a call whose outcome is unknown.
    pub declared_on_uncertain: Option<OnUncertain>,
}

/// One part of a command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgvPart {
    /// A literal word.
    Literal(String),
    /// One word or more from the arguments.
    Argument {
        /// Where the value is.
        pointer: Pointer,
        /// Whether a word may start with `-`.
        dash: bool,
        /// Whether the value may be missing.
        optional: bool,
    },
}

/// What happens to a call whose outcome is unknown, after a crash of Windlass or a failure of its server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OnUncertain {
    /// The call is dispatched again with the same id and key.
    Retry,
    /// A person is asked.
    Hold,
    /// A read tool of the same server is asked whether the call took effect.
    Probe {
        /// The read tool.
        tool: String,
        /// Its arguments, a template for [`fill_template`].
        args: Value,
        /// Where its result says whether the call took effect.
        found: Pointer,
        /// Where its result contains the call's result.
        result: Option<Pointer>,
    },
    /// A write tool of the same server undoes the call.
    Compensate {
        /// The write tool.
        tool: String,
        /// Its arguments, a template for [`fill_template`].
        args: Value,
    },
}

impl Tool {
    /// Whether a call of it is a line of shell that only reads and ends with a search: then an exit with 1 says that nothing was
    /// found.
    #[must_use]
    pub fn no_match_is_an_answer(&self, args: &Value) -> bool {
        let line = self.shell_line.as_ref().and_then(|pointer| pointer.first(args));
        line.and_then(Value::as_str).is_some_and(crate::judge::ends_with_search)
    }

    /// What happens to a call of this tool whose outcome is unknown.
    ///
    /// Unless declared, a write is retried only if that is safe: the server honours keys and the
    /// connector carries them, or the tool is idempotent. A call without a key has none that the server could honour.
    /// Otherwise a person is asked.
    #[must_use]
    pub fn on_uncertain(&self, server: &Server, key: Option<&str>) -> OnUncertain {
        if let Some(declared) = &self.declared_on_uncertain {
            return declared.clone();
        }
        let keyed = server.honours_keys && server.connector.carries_keys() && key.is_some();
        // A change of a file is foreseen and recorded, so it is made once however often it is dispatched.
        let is_file_change = server.connector == Connector::Files;
        // The permission is given at once; what the agent does are calls of their own.
        let is_permission = server.connector == Connector::Agent;
        if !self.class.writes() || keyed || self.idempotent || is_file_change || is_permission {
            OnUncertain::Retry
        } else {
            OnUncertain::Hold
        }
    }
}

/// A number of a file, if it is between 1 and the maximum.
fn limit(what: &str, value: Option<u64>, default: u64, max: u64) -> Result<u64, String> {
    match value {
        None => Ok(default),
        Some(value) if (1..=max).contains(&value) => Ok(value),
        Some(value) => Err(format!("`{what}` must be between 1 and {max}, not {value}")),
    }
}
