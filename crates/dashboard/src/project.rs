//! What the dashboard asks of a project. Reading is done here, from its journal; whatever acts is a command of
//! Windlass in a process of its own, so that the server decides nothing and can be stopped at any moment.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use windlass_kernel::{Code, Digest, TraceId};
use windlass_store::Store;
use zeroize::Zeroizing;

use crate::problem::Problem;

/// The longest argument of a command: the system takes none of 128 KiB.
const ARGUMENT_BYTES_MAX: usize = 120 << 10;

/// A project that is shown.
pub trait Project: Send + Sync {
    /// The id in addresses.
    fn id(&self) -> &str;

    /// The name for people.
    fn name(&self) -> &str;

    /// The journal.
    ///
    /// # Errors
    /// [`Problem`] if it cannot be opened.
    fn store(&self) -> Result<Arc<dyn Store>, Problem>;

    /// Opens the journal anew when it is asked for again: what was read of it could not be, and it may be mended.
    fn reopen(&self);

    /// What `policy check` says, which takes long and stays the same as long as the configuration does.
    ///
    /// # Errors
    /// The error of the command.
    fn policy(&self) -> Result<Value, Problem>;

    /// Whether the project can be used: its folder is there, its settings and its journal can be read.
    ///
    /// # Errors
    /// [`Problem`] if it cannot.
    fn ready(&self) -> Result<(), Problem>;

    /// A content of the project's store, verified.
    ///
    /// # Errors
    /// [`Problem`] if there is none, it is damaged, or it has more bytes than that.
    fn content(&self, digest: Digest, bytes_max: u64) -> Result<Vec<u8>, Problem>;

    /// What `windlass stop` holds a run or session with.
    ///
    /// # Errors
    /// [`Problem`] if it cannot be known.
    fn stopped(&self, run: &str) -> Result<Option<StopItem>, Problem>;

    /// Runs a command of Windlass in the project and returns what it prints.
    ///
    /// # Errors
    /// The error of the command.
    fn command(&self, command: Command) -> Result<Value, Problem>;

    /// Starts a command of Windlass in the project that goes on when the server ends. Returns once it is sure that it is at
    /// work, or has ended.
    ///
    /// # Errors
    /// The error of the command, if it ended with one at once.
    fn start(&self, command: Command) -> Result<(), Problem>;

    /// A new id for a trace.
    fn new_trace_id(&self) -> TraceId;

    /// Starts a command that records the first entry of this trace, and goes on when the server ends. Returns whether the
    /// entry is recorded: one of a large repository may take longer than it is waited for.
    ///
    /// # Errors
    /// The error of the command, if it ended with one at once.
    fn start_trace(&self, trace: TraceId, command: Command) -> Result<bool, Problem>;
}

/// A stop that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StopItem {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Whether everything in the project is stopped.
    pub all: bool,
}

/// A command of Windlass: its arguments, without the program and the options of all commands.
#[derive(Debug, Default)]
pub struct Command {
    /// The arguments.
    pub arguments: Vec<String>,
    /// What the command reads from standard input.
    pub input: Option<Zeroizing<String>>,
}

impl Command {
    /// A command with these arguments.
    #[must_use]
    pub fn new<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self { arguments: arguments.into_iter().map(str::to_owned).collect(), input: None }
    }

    /// Adds an option with its value, in one argument, so that a value is never taken for an option.
    #[must_use]
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.arguments.push(format!("--{name}={value}"));
        self
    }

    /// Adds an option without a value, if it is wanted.
    #[must_use]
    pub fn flag(mut self, name: &str, wanted: bool) -> Self {
        if wanted {
            self.arguments.push(format!("--{name}"));
        }
        self
    }

    /// Fails if an argument cannot be one.
    ///
    /// # Errors
    /// [`Problem`] for a text with a NUL, and one that is too long for a command.
    pub fn check(&self) -> Result<(), Problem> {
        if self.arguments.iter().any(|argument| argument.len() > ARGUMENT_BYTES_MAX) {
            let message = format!("a text has more than {ARGUMENT_BYTES_MAX} bytes");
            return Err(Problem::new(Code::DocSizeExceeded, message)
                .hint("`windlass` at a terminal takes longer ones from files"));
        }
        if self.arguments.iter().any(|argument| argument.contains('\0')) {
            return Err(Problem::new(Code::RequestInvalid, "a text has the character U+0000"));
        }
        Ok(())
    }

    /// Adds the passphrase of whoever decides, which the command reads from standard input.
    #[must_use]
    pub fn passphrase(mut self, passphrase: Option<Zeroizing<String>>) -> Self {
        if let Some(passphrase) = passphrase.filter(|text| !text.is_empty()) {
            self.arguments.push("--passphrase-file=-".to_owned());
            self.input = Some(passphrase);
        }
        self
    }
}
