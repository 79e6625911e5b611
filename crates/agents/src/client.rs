//! What the clients of coding agents have in common, and what each of them must tell.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::brief::Brief;

/// The name of our MCP server in every client.
pub const SERVER: &str = "w";

/// The folder of one invocation: the only one that a client can change. It outlives the client, so that an
/// interrupted session can be continued.
#[derive(Clone, Debug)]
pub struct PrivateFolder {
    root: PathBuf,
}

impl PrivateFolder {
    /// Creates the folder and its parts.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(root: PathBuf) -> io::Result<Self> {
        let folder = Self { root };
        for part in [folder.home(), folder.empty()] {
            std::fs::create_dir_all(part)?;
        }
        Ok(folder)
    }

    /// The whole folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The home folder of the client.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The empty folder in which the client starts: nothing of a repository is there for it to load.
    #[must_use]
    pub fn empty(&self) -> PathBuf {
        self.root.join("empty")
    }

    /// The socket of our MCP server for one start of the client. The one before may still be about to close.
    #[must_use]
    pub fn socket(&self, start: u32) -> PathBuf {
        self.root.join(format!("tools-{start}.sock"))
    }

    /// Writes a file of the client's configuration.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.root.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, text)?;
        Ok(path)
    }
}

/// What a client is started for.
#[derive(Clone, Debug)]
pub struct Assignment<'a> {
    /// The texts for the agent.
    pub brief: &'a Brief,
    /// The model that is requested, in the client's own words.
    pub model: Option<&'a str>,
    /// The session to continue, and with what; a new session if there is none.
    pub continued: Option<(&'a str, &'a str)>,
    /// The id of a new session, for clients that take one.
    pub session: &'a str,
    /// The command by which the client starts our MCP server.
    pub server: &'a [String],
    /// Where the client reaches its model.
    pub endpoint: &'a str,
    /// The client's own command, for those that must be asked something first.
    pub command: &'a [String],
}

/// How a client is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The arguments.
    pub arguments: Vec<String>,
    /// Its variables.
    pub env: BTreeMap<String, String>,
    /// Its standard input.
    pub stdin: Option<String>,
}

/// How much a client can do besides calling our tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// Nothing: one that offers its model, or uses, another tool is stopped.
    #[default]
    Caged,
    /// It may have other tools; that it offers or uses them is recorded. It is in the same cell.
    Watched,
}

/// What a client said in its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The id of its session.
    Session(String),
    /// The version, the model, and the tools that it offers to its model.
    Tools(Vec<String>),
    /// It says that our server is not connected.
    ServerMissing(String),
    /// A tool that its model used has ended.
    ToolEnded {
        /// The model's id of the use, if the client tells it.
        id: Option<String>,
        /// The name of the tool, if the client tells it.
        name: Option<String>,
        /// Whether it failed, as a tool does that the client does not have.
        failed: bool,
    },
    /// What the agent wrote.
    Text(String),
    /// Its costs, in millionths of a dollar.
    Cost(u64),
    /// It ended; `Some` says why it failed.
    Ended(Option<String>),
}

/// One kind of client.
pub trait Client: Send + Sync {
    /// Its name in settings.
    fn name(&self) -> &'static str;

    /// Its program on the `PATH`.
    fn program(&self) -> &'static str;

    /// The versions whose cage was measured.
    fn measured(&self) -> &'static [&'static str];

    /// Where it reaches its model.
    fn api(&self) -> &'static Api;

    /// The names under which its model and its output show a tool of ours.
    fn shown_names(&self, tool: &str) -> Vec<String>;

    /// Tools that it offers to its model besides ours, and that can do nothing.
    fn harmless_tools(&self) -> &'static [&'static str];

    /// Whether a model must be named, because it chooses none by itself.
    fn needs_model(&self) -> bool;

    /// Calls of its own tools that would make this file, for a check that they are off.
    fn own_tools(&self, file: &str) -> Vec<(&'static str, Value)>;

    /// Writes its configuration and says how to start it.
    ///
    /// # Errors
    /// If a file cannot be written or read.
    fn launch(&self, folder: &PrivateFolder, assignment: &Assignment<'_>) -> io::Result<Launch>;

    /// The session that an interrupted invocation left in its folder, if it can be continued and tells the truth.
    fn session_in(&self, folder: &PrivateFolder) -> Option<String>;

    /// Reads one line of its output.
    fn read(&self, line: &Value) -> Vec<ClientEvent>;
}

/// Where a client reaches its model, by the variables that people set for it.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// The variable with the address of the endpoint, and the address without it.
    pub endpoint: (&'static str, &'static str),
    /// Variables with credentials: the header that each is sent in, and what stands before its value.
    pub credentials: &'static [(&'static str, &'static str, &'static str)],
    /// The headers that the client sends its own credential in.
    pub headers: &'static [&'static str],
}
