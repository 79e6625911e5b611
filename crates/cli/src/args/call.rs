//! Arguments of `call`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::HeldBack;

/// Subcommands of `call`.
#[derive(Debug, Subcommand)]
pub enum Call {
    /// Make one call under policy, recorded in the journal.
    Run(CallRun),
    /// Show one call: its state, request, decision and result.
    Show {
        /// The call's trace.
        #[arg(value_name = "ID")]
        id: String,
        /// Print only what the command printed there, whole.
        #[arg(long = "as", value_name = "FORM")]
        form: Option<CommandOutput>,
    },
    /// List calls, newest first.
    List(CallList),
    /// Approve a waiting call: it runs.
    Approve(Approve),
    /// Deny a waiting call.
    Deny(Decide),
    /// Say what became of a call that was interrupted.
    Settle(Settle),
    /// Show, take over or drop what commands left that no command may leave.
    HeldBack(HeldBack),
}

/// Options of `call run`.
#[derive(Debug, Args)]
pub struct CallRun {
    /// The tool's name in the registry.
    #[arg(value_name = "SERVER/TOOL")]
    pub tool: String,
    /// The arguments: JSON, `@FILE`, or `-` for standard input.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub args: String,
    /// The idempotency key; calls with the same key take effect once. Required for writes.
    #[arg(long, value_name = "KEY", conflicts_with = "new_key")]
    pub key: Option<String>,
    /// Generate a new key: the call takes effect whatever was done before.
    #[arg(long)]
    pub new_key: bool,
    /// The purpose of the call, 10 to 1000 characters.
    #[arg(long, value_name = "TEXT")]
    pub intent: Option<String>,
    /// The class you expect; the call is denied if the registry has another.
    #[arg(long, value_name = "CLASS")]
    pub class: Option<Class>,
    /// The plan that the call belongs to.
    #[arg(long, value_name = "ID")]
    pub plan: Option<String>,
    /// The calling agent, for policy rules.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The phase of the call, for policy rules.
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
}

/// One of the outputs of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CommandOutput {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// A tool's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Class {
    /// Changes nothing.
    Read,
    /// Changes something.
    Write,
    /// Changes something that is hard to undo.
    HighRisk,
}

/// Options of `call list`.
#[derive(Debug, Args)]
pub struct CallList {
    /// Only open ones.
    #[arg(long)]
    pub open: bool,
    /// Only those that wait for a person.
    #[arg(long)]
    pub held: bool,
    /// Only those in this state.
    #[arg(long, value_name = "STATE")]
    pub state: Option<String>,
    /// Only those older than this trace; for paging.
    #[arg(long, value_name = "ID")]
    pub before: Option<String>,
    /// The maximum number to list.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// Print only the ids, one per line.
    #[arg(long)]
    pub ids: bool,
}

/// Who decides, and why.
#[derive(Clone, Debug, Args)]
pub struct Decider {
    /// Your name; the decision is signed with your key [default: your own, see `windlass people list`].
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// The reason, recorded with the decision.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Read the passphrase of your key from a file, `-` for standard input, instead of asking for it.
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

/// Options of `call deny`.
#[derive(Debug, Args)]
pub struct Decide {
    /// The call's trace.
    #[arg(value_name = "ID")]
    pub id: String,
    #[command(flatten)]
    pub decider: Decider,
}

/// Options of `call approve`.
#[derive(Debug, Args)]
pub struct Approve {
    #[command(flatten)]
    pub decide: Decide,
    /// Arguments to put in place of the requested ones: JSON, `@FILE`, or `-` for standard input. They are
    /// judged too.
    #[arg(long, value_name = "JSON")]
    pub args: Option<String>,
    /// The digest that `call show` printed; needed if a file that the call names has changed.
    #[arg(long, value_name = "DIGEST")]
    pub shown: Option<String>,
}

/// Options of `call settle`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("answer").required(true))]
pub struct Settle {
    #[command(flatten)]
    pub decide: Decide,
    /// It ran: your word is recorded as its effect.
    #[arg(long, group = "answer")]
    pub ran: bool,
    /// It did not run: it is made now.
    #[arg(long, group = "answer")]
    pub not_run: bool,
    /// It failed, or nobody knows: it is closed as failed.
    #[arg(long, group = "answer")]
    pub failed: bool,
    /// The digest that `call show` printed; needed if a file that the call names has changed.
    #[arg(long, value_name = "DIGEST")]
    pub shown: Option<String>,
}
