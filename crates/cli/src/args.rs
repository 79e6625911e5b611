//! The command line and its help texts.

mod agents;
mod call;
mod checkpoint;
mod doctor;
mod grant;
mod held_back;
mod hook;
mod install;
mod lazy;
mod mcp;
mod notify;
mod people;
mod policy;
mod runs;
mod seal;
mod serve;
mod session;
mod state;
mod work;
mod workflow;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use agents::{Agents, AgentsCommand};
pub use call::{Call, CallList, CallRun, Class, CommandOutput, Decide, Decider};
pub use checkpoint::{CheckpointCommand, CheckpointPurge, CheckpointRollback, Import, ImportV1};
pub use doctor::Doctor;
pub use grant::{AddGrant, Grant};
pub use held_back::HeldBack;
pub use hook::{Cell, Hook, HookClient};
pub use install::Install;
use lazy::Lazy;
pub use mcp::{Mcp, McpServe, McpTrust, McpWrap, Serving};
pub use notify::Notify;
pub use people::{AddPerson, People};
pub use policy::{Explain, Policy};
pub use runs::{
    Answer, BacklogCommand, Cancel, Close, Demo, Draw, Export, ExportForm, Loop, MissionCommand,
    Queue, Resume, RunTask, SendBack, Status, StopRuns, Telemetry, Watch,
};
pub use seal::{Anchor, BundleCommand, BundleRestore, Canon, Keys, Verify};
pub use serve::{Serve, ServeCommand, ServePeople};
pub use session::{AllowAll, ClearBlock, Rewind, SessionCommand, SessionInsights, StepArg};
pub use state::{Init, StateCommand, StateRemove, StoreCommand, Trust};
pub use work::{CreateWork, ListWork, MemoryCommand, UpdateWork, WorkCommand, WorkSession};
pub use workflow::WorkflowCommand;

/// The heading of the options that every command has.
const GLOBAL_OPTIONS: &str = "Global options";

/// Takes a task through a loop of phases done by AI agents. Tool calls run only if policy allows them,
/// every step is recorded before it takes effect, and after a crash the run continues from the journal.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "First steps:\n  windlass init\n  windlass call run shell/read --args \
    '{\"line\":\"git status\"}'\n  windlass verify\n\nExit codes:\n  0 success, 1 failed, 2 wrong \
    usage or input, 3 refused by policy, 4 waits for a person,\n  5 journal corrupt, 6 a task of the \
    driver loop asks a question, 70 bug in Windlass.\n  Every error code has a page in docs/errors.")]
pub struct Cli {
    /// The project's folder [default: the nearest folder upward that contains `.windlass`].
    #[arg(long, short = 'C', global = true, value_name = "DIR", env = "WINDLASS_PROJECT")]
    #[arg(hide_env_values = true, help_heading = GLOBAL_OPTIONS)]
    #[arg(num_args = 0..=1, default_missing_value = ".")]
    pub project: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub json: bool,
    /// When to use colour.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(help_heading = GLOBAL_OPTIONS)]
    pub color: Color,
    /// Log each step to standard error: ids, names, codes and durations, never contents.
    #[arg(long, global = true, value_name = "LEVEL", default_value = "off", env = "WINDLASS_LOG")]
    #[arg(hide_env_values = true, help_heading = GLOBAL_OPTIONS)]
    pub log: LogLevel,
    /// How log lines are written.
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    #[arg(help_heading = GLOBAL_OPTIONS)]
    pub log_format: LogFormat,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Internal errors.
    Error,
    /// Also refusals and failed calls.
    Warn,
    /// Also every run event and every call.
    Info,
    /// Also every append to the journal.
    Debug,
    /// Everything.
    Trace,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Plain text.
    Text,
    /// One JSON object per line.
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

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a project here: settings, policy, tools and an empty journal; in a clone, only a journal.
    Init(Lazy<Init>),
    /// Show what the project's configuration would start and open, and trust it.
    #[command(
        after_help = "Nothing is started, sent or changed by a configuration that you have not trusted; a \
        change of any of its files asks again.\n\nExamples:\n  windlass trust\n  windlass trust --show\n  \
        windlass trust --yes DIGEST"
    )]
    Trust(Lazy<Trust>),
    /// List, bind and remove the state of projects: journals, keys, snapshots, work trees.
    #[command(
        subcommand,
        after_help = "States lie in $WINDLASS_STATE, else $XDG_STATE_HOME/windlass, else \
        ~/.local/state/windlass; `windlass doctor` shows that of a project."
    )]
    State(Lazy<StateCommand>),
    /// Back up the journal.
    #[command(subcommand, after_help = state::STORE_HELP)]
    Store(Lazy<StoreCommand>),
    /// Run a task through a loop until it ends or waits for a decision.
    #[command(
        after_help = "Examples:\n  windlass run \"fix the rounding in src/price.rs\"\n  windlass \
        run task.yaml --worktree\n  windlass run '{\"task\":\"…\",\"constraints\":{\"allowed_paths\":\
        [\"src\"]}}' --answers answers.json\n\nExit codes: 0 passed, 3 blocked, 4 waits for a person, 6 a task of the\ndriver loop asks a question (`windlass queue answer`), or ended with one."
    )]
    Run(Lazy<RunTask>),
    /// Resume a run after it was answered, or after its process died.
    Resume(Lazy<Resume>),
    /// Show the state of runs.
    Status(Lazy<Status>),
    /// Follow runs live until they end or wait for a decision.
    #[command(
        after_help = "Examples:\n  windlass watch\n  windlass watch run_20260202_120000_1a2b3c4d\n  \
        windlass watch --follow --json\n\nExit codes with RUN: 0 passed, 1 interrupted, 3 blocked, 4 \
        waits for a person."
    )]
    Watch(Lazy<Watch>),
    /// Show runs in a browser, and decide there; also an HTTP API.
    #[command(after_help = serve::SERVE_HELP)]
    Serve(Lazy<Serve>),
    /// Tell receivers what happened: webhooks and commands.
    #[command(subcommand, after_help = notify::NOTIFY_HELP)]
    Notify(Lazy<Notify>),
    /// Send runs to an OpenTelemetry collector.
    #[command(subcommand)]
    Telemetry(Lazy<Telemetry>),
    /// List the runs that wait for a decision, and answer them.
    #[command(subcommand)]
    Queue(Lazy<Queue>),
    /// Stop one run or all: a run at work ends, one that waits is paused until `--clear`.
    ///
    /// `windlass cancel` gives a run up.
    Stop(Lazy<StopRuns>),
    /// Give up a run that has not ended, wherever it stands; what it changed stays.
    Cancel(Lazy<Cancel>),
    /// List and compare a run's checkpoints, and roll back to one.
    #[command(
        subcommand,
        after_help = "Examples:\n  windlass checkpoint list RUN\n  windlass checkpoint diff \
        RUN/POST_design_v1 RUN/POST_build_v1\n  windlass checkpoint rollback RUN/POST_design --dry-run\n  \
        windlass checkpoint rollback RUN/POST_design --reason \"the build took the wrong approach\" --resume"
    )]
    Checkpoint(Lazy<CheckpointCommand>),
    /// Continue a run that another program began.
    #[command(subcommand)]
    Import(Lazy<Import>),
    /// Run tasks from a Markdown checklist.
    #[command(subcommand)]
    Backlog(Lazy<BacklogCommand>),
    /// List, draw and check loops.
    #[command(subcommand)]
    Loop(Lazy<Loop>),
    /// List, show and check missions: tasks with names, for `windlass run --mission`.
    #[command(subcommand)]
    Mission(Lazy<MissionCommand>),
    /// List, show and check the workflows of the core loop.
    #[command(subcommand)]
    Workflow(Lazy<WorkflowCommand>),
    /// Remove the work tree of an ended run; `--merge` merges its branch first. The branch stays.
    Close(Lazy<Close>),
    /// Rewrite a run's files from the journal, or export the whole run as a signed bundle.
    Export(Lazy<Export>),
    /// Demonstrate Windlass in a temporary repository: failing test, crash, decision, commit.
    Demo(Lazy<Demo>),
    /// Make a tool call, list calls, approve or deny waiting ones.
    #[command(subcommand)]
    Call(Lazy<Call>),
    /// List who can run agents, and check the clients of coding agents.
    #[command(after_help = agents::HELP)]
    Agents(Lazy<Agents>),
    /// Ask Windlass before each tool of a coding agent that you use yourself: adds hooks to its settings.
    #[command(after_help = install::INSTALL_HELP, override_usage = install::INSTALL_USAGE)]
    Install(Lazy<Install>),
    /// Take the hooks of Windlass out of a coding agent's settings.
    #[command(after_help = install::UNINSTALL_HELP, override_usage = install::UNINSTALL_USAGE)]
    Uninstall(Lazy<Install>),
    /// Answer one event of a coding agent's hooks, which is read from standard input.
    Hook(Lazy<Hook>),
    /// Show, check, rewind and end the sessions of coding agents in their own terminals.
    #[command(subcommand, after_help = session::HELP)]
    Session(Lazy<SessionCommand>),
    /// Run a line of bash in a cell: what agents' own shells are turned into.
    #[command(
        after_help = "It runs like a call of `shell/run`: only the project can be changed, and neither keys nor the \
        network nor other files are there. It is judged by nobody and not recorded; `windlass call run shell/run` \
        is.\n\nExample:\n  windlass cell -- 'make test | tail'"
    )]
    Cell(Lazy<Cell>),
    /// Offer tools to MCP clients, and stand in front of other MCP servers.
    #[command(subcommand)]
    Mcp(Lazy<Mcp>),
    /// List, create and change items of work.
    #[command(subcommand, after_help = work::WORK_HELP)]
    Work(Lazy<WorkCommand>),
    /// Search what is remembered, and add to it.
    #[command(subcommand, after_help = work::MEMORY_HELP)]
    Memory(Lazy<MemoryCommand>),
    /// Grant, list and revoke patterns of calls that run without a question.
    #[command(
        subcommand,
        after_help = "A grant answers what the policy asks about, never what it denies. Each use is recorded and \
        counted.\n\nExample:\n  windlass grant add shell/run --command 'git push origin main' --times 3 --for 2h \
        --reason 'the release'"
    )]
    Grant(Lazy<Grant>),
    /// List traces and print their entries.
    #[command(subcommand)]
    Trace(Lazy<Trace>),
    /// Recover the calls and runs that a crashed process left unfinished.
    #[command(
        after_help = "A call that was dispatched without a recorded result is probed, dispatched \
        again with the same id and key, compensated, or held for a decision, as the tool registry \
        says (`on_uncertain`). A call with a recorded effect is never dispatched again."
    )]
    Recover(Lazy<Recover>),
    /// Verify the journal: every digest, every link, every recorded head.
    #[command(
        after_help = "Examples:\n  windlass verify\n  windlass verify run.bundle --key windlass.pub\n  \
        windlass verify --anchor monday.anchor\n\nExit codes: 0 intact, 5 corrupt; for bundles and \
        anchors\nalso 3: not checked, because the signer's key is not trusted."
    )]
    Verify(Lazy<Verify>),
    /// Rebuild the workspace of a run from its bundle.
    #[command(
        subcommand,
        after_help = "The bundle is verified first; nothing is written from one that is damaged or whose signer is \
        not trusted.\n\nExample:\n  windlass bundle restore run.bundle --checkpoint POST_build --to as-built --key \
        windlass.pub"
    )]
    Bundle(Lazy<BundleCommand>),
    /// Sign the heads of all traces, to detect later whether history was rewritten.
    Anchor(Lazy<Anchor>),
    /// List, add and revoke the people who may decide, and their keys.
    #[command(
        subcommand,
        after_help = "Every decision is signed with the key of the person who made it. The keys lie outside \
        of all projects, where no agent can reach them.\n\nExamples:\n  windlass people add ann --passphrase\n  \
        windlass people add bob --ssh-key ~/.ssh/id_ed25519.pub\n  windlass people revoke bob"
    )]
    People(Lazy<People>),
    /// Show, list and rotate the keys that sign bundles and anchors.
    #[command(subcommand)]
    Keys(Lazy<Keys>),
    /// Check, explain and test the policy.
    #[command(subcommand)]
    Policy(Lazy<Policy>),
    /// Print the canonical bytes (RFC 8785) of the JSON on standard input.
    Canon(Lazy<Canon>),
    /// Check this machine and project for problems, and suggest fixes.
    #[command(after_help = doctor::HELP)]
    Doctor(Lazy<Doctor>),
    /// Explain an error code: print its page.
    Explain {
        /// The code, such as RUN_NOT_FOUND [default: list all].
        #[arg(value_name = "CODE")]
        code: Option<String>,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Subcommands of `trace`.
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// List traces, newest first.
    List(CallList),
    /// Show the state of one trace.
    Show {
        /// The trace, or a run: its name, a unique beginning of it, or `last`.
        #[arg(value_name = "ID")]
        id: String,
        /// Show the telemetry of a task of the driver loop, and whether its seals match.
        #[arg(long)]
        telemetry: bool,
    },
    /// Print a trace's entries; with --json, one JSON object per line.
    Log {
        /// The trace, or a run: its name, a unique beginning of it, or `last`.
        #[arg(value_name = "ID")]
        id: String,
        /// Print the artifacts too.
        #[arg(long)]
        artifacts: bool,
        /// Only entries after this sequence number.
        #[arg(long, value_name = "N", default_value_t = 0)]
        after: u64,
    },
}

/// Options of `recover`.
#[derive(Debug, Args)]
pub struct Recover {
    /// Only this trace or run.
    #[arg(value_name = "TRACE")]
    pub trace: Option<String>,
}
