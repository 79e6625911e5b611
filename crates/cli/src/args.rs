//! The command line, and the help that teaches it.

mod checkpoint;
mod runs;
mod seal;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use checkpoint::{CheckpointCommand, CheckpointPurge, CheckpointRollback, Import};
pub use runs::{
    Answer, BacklogCommand, Close, Confined, Demo, Draw, Export, Loop, Queue, Resume, RunTask,
    Status, StopRuns, Telemetry, Watch,
};
pub use seal::{Anchor, Keys, Verify};

/// The heading of the options that every command has.
const EVERYWHERE: &str = "Options everywhere";

/// Lets agents' tool calls act only under policy, records every step before it acts, and after any
/// crash goes on from the record alone.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "First steps:\n  windlass init\n  windlass call run shell/read --args \
    '{\"line\":\"git status\"}'\n  windlass verify\n\nExit codes:\n  0 done, 1 failed, 2 wrong \
    usage or input, 3 refused by policy, 4 waits for a person,\n  5 journal corrupt, 70 a fault of \
    Windlass. Every error code has a page in docs/errors.")]
pub struct Cli {
    /// The project's folder; otherwise the nearest folder upwards that has a `.windlass`.
    #[arg(long, short = 'C', global = true, value_name = "DIR", env = "WINDLASS_PROJECT")]
    #[arg(hide_env_values = true, help_heading = EVERYWHERE)]
    pub project: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
    /// When to use colour.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(help_heading = EVERYWHERE)]
    pub color: Color,
    /// Log to standard error: ids, names, codes and times of every step.
    #[arg(long, global = true, value_name = "LEVEL", default_value = "off", env = "WINDLASS_LOG")]
    #[arg(hide_env_values = true, help_heading = EVERYWHERE)]
    pub log: LogLevel,
    /// How log lines are written.
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    #[arg(help_heading = EVERYWHERE)]
    pub log_format: LogFormat,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What went wrong inside.
    Error,
    /// And what was refused.
    Warn,
    /// And every step of runs, and every call.
    Info,
    /// And every append.
    Debug,
    /// And whatever else there is.
    Trace,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What Windlass can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a project here: settings, policy, tool registry and an empty journal.
    Init(Init),
    /// Take a task through a loop, until it ends or waits for you.
    #[command(
        after_help = "Examples:\n  windlass run \"fix the rounding in src/price.rs\"\n  windlass \
        run task.yaml --worktree\n  windlass run '{\"task\":\"…\",\"constraints\":{\"allowed_paths\":\
        [\"src\"]}}' --answers answers.json\n\nExit codes: 0 passed, 3 blocked, 4 waits for a person."
    )]
    Run(RunTask),
    /// Take a run up again: after an answer, or after its process died.
    Resume(Resume),
    /// Say where runs stand.
    Status(Status),
    /// Follow runs live, until they end or wait for you.
    #[command(
        after_help = "Examples:\n  windlass watch\n  windlass watch run_20260202_120000_1a2b3c4d\n  \
        windlass watch --follow --json\n\nExit codes with a RUN: 0 passed, 1 interrupted, 3 blocked, 4 \
        waits for a person."
    )]
    Watch(Watch),
    /// Send runs to an OpenTelemetry collector.
    #[command(subcommand)]
    Telemetry(Telemetry),
    /// Look at what waits for you, and decide it.
    #[command(subcommand)]
    Queue(Queue),
    /// Stop runs before their next effect.
    Stop(StopRuns),
    /// Look at a run's earlier states, compare them, and go back to one.
    #[command(
        subcommand,
        after_help = "Examples:\n  windlass checkpoint list RUN\n  windlass checkpoint diff \
        RUN/POST_design_v1 RUN/POST_build_v1\n  windlass checkpoint rollback RUN/POST_design --dry-run\n  \
        windlass checkpoint rollback RUN/POST_design --reason \"the build went astray\" --resume"
    )]
    Checkpoint(CheckpointCommand),
    /// Go on where another program has stopped.
    #[command(subcommand)]
    Import(Import),
    /// Take tasks from a Markdown check-list.
    #[command(subcommand)]
    Backlog(BacklogCommand),
    /// Look at loops and check them.
    #[command(subcommand)]
    Loop(Loop),
    /// Remove the work tree of a run that has ended; its branch stays.
    Close(Close),
    /// Write the files that show a run again, from the journal alone; or a signed bundle of it.
    Export(Export),
    /// Show it all on a scratch repository: a failing test, a crash, a decision, a commit.
    Demo(Demo),
    /// Make a tool call, look at calls, decide those that wait for you.
    #[command(subcommand)]
    Call(Call),
    /// Look at traces and their entries.
    #[command(subcommand)]
    Trace(Trace),
    /// Take up what a crashed process left behind.
    #[command(
        after_help = "A call that was handed over and never answered is asked about, handed \
        over again with the same id and key, undone, or left to you, as the tool registry says \
        (`on_uncertain`). A call whose effect is recorded is never handed over again."
    )]
    Recover(Recover),
    /// Check that the journal is whole: every digest, every link, every recorded head.
    #[command(
        after_help = "Examples:\n  windlass verify\n  windlass verify run.bundle --key windlass.pub\n  \
        windlass verify --anchor monday.anchor\n\nExit codes: 0 all of it holds, 5 something does not; \
        for bundles and anchors\nalso 3: not checked, since nobody you trust has signed it."
    )]
    Verify(Verify),
    /// Sign the ends of all traces, to find out later whether history was rewritten.
    Anchor(Anchor),
    /// Look at the keys that sign bundles and anchors, and change the one that does.
    #[command(subcommand)]
    Keys(Keys),
    /// Check, explain and test the policy.
    #[command(subcommand)]
    Policy(Policy),
    /// Print the canonical bytes (RFC 8785) of the JSON on standard input.
    Canon(Canon),
    /// Check this machine and project, and say what to do about what is wrong.
    Doctor(Doctor),
    /// Confine this process and become a command.
    #[command(hide = true)]
    Confined(Confined),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Options of `init`.
#[derive(Debug, Args)]
pub struct Init {
    /// Make it in your own data folder, for use outside of any project.
    #[arg(long)]
    pub user: bool,
}

/// Subcommands of `call`.
#[derive(Debug, Subcommand)]
pub enum Call {
    /// Make one call, under policy, recorded before and after.
    Run(CallRun),
    /// Show one call: where it stands, what was asked, decided and answered.
    Show {
        /// The call's trace.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// List calls, newest first.
    List(CallList),
    /// Let a waiting call be made; or, if it may have run, hand it over again.
    Approve(Decide),
    /// Refuse a waiting call; or, if it may have run, give it up.
    Deny(Decide),
}

/// Options of `call run`.
#[derive(Debug, Args)]
pub struct CallRun {
    /// The tool, as the registry names it.
    #[arg(value_name = "SERVER/TOOL")]
    pub tool: String,
    /// Its arguments: JSON, `@FILE`, or `-` for standard input.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub args: String,
    /// The key under which it may take effect once; a write needs one.
    #[arg(long, value_name = "KEY", conflicts_with = "new_key")]
    pub key: Option<String>,
    /// Use a fresh key: this call is meant to take effect whatever was done before.
    #[arg(long)]
    pub new_key: bool,
    /// What it is for, in 10 to 1000 characters.
    #[arg(long, value_name = "TEXT")]
    pub intent: Option<String>,
    /// The class you take the tool to have; the call is refused if the registry says otherwise.
    #[arg(long, value_name = "CLASS")]
    pub class: Option<Class>,
    /// The plan it belongs to.
    #[arg(long, value_name = "ID")]
    pub plan: Option<String>,
    /// The agent that asks, as the policy names it.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The phase it belongs to, as the policy names it.
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
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
    /// Only those that have not ended.
    #[arg(long)]
    pub open: bool,
    /// Only those that wait for a person.
    #[arg(long)]
    pub held: bool,
    /// Only those in this state.
    #[arg(long, value_name = "STATE")]
    pub state: Option<String>,
    /// Only those older than this trace: where the page before ended.
    #[arg(long, value_name = "ID")]
    pub before: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// Print only the ids, one a line.
    #[arg(long)]
    pub ids: bool,
}

/// Options of `call approve` and `call deny`.
#[derive(Debug, Args)]
pub struct Decide {
    /// The call's trace.
    #[arg(value_name = "ID")]
    pub id: String,
    /// Who decides.
    #[arg(long, value_name = "NAME")]
    pub by: String,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

/// Subcommands of `trace`.
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// List traces, newest first.
    List(CallList),
    /// Show where one trace stands.
    Show {
        /// The trace.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Print a trace's entries, one JSON object a line with --json.
    Log {
        /// The trace.
        #[arg(value_name = "ID")]
        id: String,
        /// Print the artifacts too.
        #[arg(long)]
        artifacts: bool,
        /// Only entries after this number.
        #[arg(long, value_name = "N", default_value_t = 0)]
        after: u64,
    },
}

/// Options of `recover`.
#[derive(Debug, Args)]
pub struct Recover {
    /// Only this trace, or the run with this name.
    #[arg(value_name = "TRACE")]
    pub trace: Option<String>,
}

/// Subcommands of `policy`.
#[derive(Debug, Subcommand)]
pub enum Policy {
    /// Load the policy and run its examples and cases.
    Check,
    /// Say what the policy makes of a call, and by which rules.
    Explain(Explain),
    /// Run the cases of a file against the policy.
    Test {
        /// A TOML file of `[[case]]`; the policy's own cases when absent.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// List the rules that work is measured by, composed of all levels.
    Gates {
        /// With the rules of this loop.
        #[arg(long = "loop", value_name = "LOOP")]
        name: Option<String>,
    },
    /// Print the policy hash: the digest of every file that decides.
    Hash,
}

/// Options of `policy explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// The tool, as the registry names it.
    #[arg(value_name = "SERVER/TOOL")]
    pub tool: String,
    /// Its arguments: JSON, `@FILE`, or `-` for standard input.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub args: String,
    /// Judge it as if it came without an idempotency key.
    #[arg(long)]
    pub no_key: bool,
    /// The class the caller declares.
    #[arg(long, value_name = "CLASS")]
    pub class: Option<Class>,
    /// The agent that asks.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The phase it belongs to.
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
}

/// Options of `canon`.
#[derive(Debug, Args)]
pub struct Canon {
    /// Print the SHA-256 of the canonical bytes instead.
    #[arg(long)]
    pub digest: bool,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Also start or reach every MCP server of the registry and compare its tools.
    #[arg(long)]
    pub servers: bool,
}
