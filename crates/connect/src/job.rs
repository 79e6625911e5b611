//! A job for a connector, and its reply.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};
use windlass_files::LeftOut;
use windlass_kernel::artifact::FileChange;
use windlass_kernel::{Code, RiskLevel, ToolCallId};

use windlass_cell::Limits;

use crate::Confinement;

/// One command to run or tool to call.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Where it is performed.
    pub target: &'a Target,
    /// The tool's name at the server; a command has none and ignores it.
    pub tool: &'a str,
    /// The tool's arguments, an object; a command takes its own from the target.
    pub args: &'a Value,
    /// The registry's class of the tool.
    pub class: RiskLevel,
    /// The call this belongs to; sent to an MCP server.
    pub tool_call_id: ToolCallId,
    /// The key under which the call takes effect at most once; sent to an MCP server.
    pub idempotency_key: Option<&'a str>,
    /// The limits of time and output.
    pub limits: Limits,
    /// What a command may change and reach; without one it is not confined.
    pub confinement: Option<&'a Confinement>,
    /// What it will make of a file, as it was foreseen; the file tools do nothing else.
    pub foreseen: Option<&'a FileChange>,
}

/// The files whose content searches do not show. Two are equal if they are the same function.
#[derive(Clone)]
pub struct FilesLeftOut(pub(crate) LeftOut);

impl FilesLeftOut {
    /// Leaves out the files for whose paths the function says so.
    #[must_use]
    pub fn new(left_out: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(left_out))
    }

    /// Leaves nothing out.
    #[must_use]
    pub fn nothing() -> Self {
        Self::new(|_| false)
    }
}

impl PartialEq for FilesLeftOut {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for FilesLeftOut {}

/// Where a job is performed. `Debug` shows neither values of the environment nor the bearer.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// A program, run once. No shell is added. A program path with a slash that is not absolute is
    /// taken from `cwd`.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Its standard input; empty when absent.
        stdin: Option<String>,
        /// Added to the variables that are passed on.
        env: BTreeMap<String, String>,
        /// Its working directory.
        cwd: PathBuf,
    },
    /// An MCP server that is started and reached over its standard streams.
    McpStdio {
        /// The server's name in the registry: one live connection is kept for each.
        server: String,
        /// The program and its arguments.
        command: Vec<String>,
        /// Added to the variables that are passed on.
        env: BTreeMap<String, String>,
        /// Its working directory.
        cwd: PathBuf,
        /// What it may change and reach; without one it is not confined.
        confinement: Option<Confinement>,
    },
    /// An MCP server that is reached over streamable HTTP.
    McpHttp {
        /// The server's name in the registry: one live connection is kept for each.
        server: String,
        /// Its endpoint, `http` or `https`.
        url: String,
        /// Sent as `Authorization: Bearer …`.
        bearer: Option<String>,
    },
    /// The file tools of Windlass itself.
    Files {
        /// The workspace.
        root: PathBuf,
        /// The files that searches leave out.
        left_out: FilesLeftOut,
    },
    /// A person, whose answer is their decision on the call. No connector performs it.
    Person,
    /// The client of a coding agent. No connector performs it.
    Client,
    /// Another agent, which the run starts once the call is permitted. No connector performs it.
    Agent,
}

/// Prints the names of environment variables, never their values.
struct VariableNames<'a>(&'a BTreeMap<String, String>);

impl fmt::Debug for VariableNames<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { argv, stdin, env, cwd } => formatter
                .debug_struct("Command")
                .field("program", &argv.first())
                .field("arguments", &argv.len().saturating_sub(1))
                .field("stdin_bytes", &stdin.as_ref().map(String::len))
                .field("env", &VariableNames(env))
                .field("cwd", cwd)
                .finish(),
            Self::McpStdio { server, command, env, cwd, confinement } => formatter
                .debug_struct("McpStdio")
                .field("server", server)
                .field("command", command)
                .field("env", &VariableNames(env))
                .field("cwd", cwd)
                .field("confinement", confinement)
                .finish(),
            Self::McpHttp { server, url, bearer } => formatter
                .debug_struct("McpHttp")
                .field("server", server)
                .field("url", url)
                .field("bearer", &bearer.as_ref().map(|_| "…"))
                .finish(),
            Self::Person => formatter.write_str("Person"),
            Self::Client => formatter.write_str("Client"),
            Self::Agent => formatter.write_str("Agent"),
            Self::Files { root, .. } => {
                formatter.debug_struct("Files").field("root", root).finish()
            }
        }
    }
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It ran and reports success.
    Success {
        /// A command's exit and output, or an MCP tool's result.
        result: Value,
    },
    /// It did not run, or failed, or its outcome is not known.
    Failure {
        /// The stable code.
        code: Code,
        /// For people. Whoever records it takes the secrets out, then makes it one line with [`one_line`](crate::one_line).
        message: String,
        /// The output it gave nevertheless.
        result: Option<Value>,
        /// Whether it can have had an effect.
        certainty: Certainty,
    },
}

impl Reply {
    /// Adds a field to the result; a failure without one gets one.
    pub(crate) fn with(mut self, name: &str, field: Option<Value>) -> Self {
        let Some(field) = field else { return self };
        let result = match &mut self {
            Self::Success { result } => result,
            Self::Failure { result, .. } => result.get_or_insert_with(|| Value::Object(Map::new())),
        };
        if let Value::Object(map) = result {
            map.insert(name.to_owned(), field);
        }
        self
    }
}

/// Whether a failed job can have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It had no effect: it was not started, or the request was not sent.
    DidNotRun,
    /// It ran to its end and reported the failure itself.
    Ran,
    /// It may have run, wholly or in part.
    Unknown,
}

/// Performs jobs; the real one is [`Connectors`](crate::Connectors).
pub trait Connect: Send + Sync {
    /// Performs one job and waits until it ends, at most a few seconds beyond its time limit.
    fn perform(&self, job: &Job<'_>) -> Reply;

    /// What a job would make of a file, if its target can tell: it is recorded before the job is performed.
    fn foresee(&self, target: &Target, tool: &str, args: &Value) -> Option<FileChange>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_secrets() {
        let env = BTreeMap::from([("TOKEN".to_owned(), "s3cret".to_owned())]);
        let targets = [
            Target::Command {
                argv: vec!["true".to_owned()],
                stdin: Some("s3cret".to_owned()),
                env: env.clone(),
                cwd: "/".into(),
            },
            Target::McpStdio {
                server: "notes".to_owned(),
                command: vec!["notes".to_owned()],
                env,
                cwd: "/".into(),
                confinement: None,
            },
            Target::McpHttp {
                server: "notes".to_owned(),
                url: "http://127.0.0.1:1/mcp".to_owned(),
                bearer: Some("s3cret".to_owned()),
            },
        ];
        let text = format!("{targets:?}");
        assert!(!text.contains("s3cret"), "{text}");
        assert!(text.contains("TOKEN") && text.contains("notes"), "{text}");
    }
}
