//! The command line, and the help that teaches it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
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
    /// Look at what waits for you, and decide it.
    #[command(subcommand)]
    Queue(Queue),
    /// Stop runs before their next effect.
    Stop(StopRuns),
    /// Take tasks from a Markdown check-list.
    #[command(subcommand)]
    Backlog(BacklogCommand),
    /// Look at loops and check them.
    #[command(subcommand)]
    Loop(Loop),
    /// Remove the work tree of a run that has ended; its branch stays.
    Close(Close),
    /// Write the files that show a run again, from the journal alone.
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
    Verify(Verify),
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

/// Options of `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// Only this trace.
    #[arg(value_name = "TRACE", conflicts_with_all = ["all", "file"])]
    pub trace: Option<String>,
    /// Everything: what happens without any of these.
    #[arg(long, conflicts_with = "file")]
    pub all: bool,
    /// A chain in a file, `-` for standard input: a JSON array, `{"entries": […]}`, or one entry a
    /// line. It needs no project, and always prints JSON.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
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

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunTask {
    /// What is to be done: a sentence, JSON, or a `.json` or `.yaml` file.
    #[arg(value_name = "TASK")]
    pub task: String,
    /// The loop to take it through.
    #[arg(long = "loop", value_name = "LOOP", default_value = "spine")]
    pub name: String,
    /// Work in a git work tree and on a branch of its own.
    #[arg(long)]
    pub worktree: bool,
    /// Answers to perform agents by, from a file; their tool calls are made for real.
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
    /// Who starts it.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

/// Options of `resume`.
#[derive(Debug, Args)]
pub struct Resume {
    /// The run.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Who takes it up.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

/// Options of `status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Only this run, in full.
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Only those that have not ended.
    #[arg(long)]
    pub open: bool,
    /// Only those that wait for a person.
    #[arg(long)]
    pub held: bool,
    /// At most so many, newest first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
}

/// Subcommands of `queue`.
#[derive(Debug, Subcommand)]
pub enum Queue {
    /// List what waits, oldest first.
    List {
        /// At most so many.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Print only the runs' names, one a line.
        #[arg(long)]
        ids: bool,
    },
    /// Show what one run waits for.
    Show {
        /// The run.
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Let a run go on.
    Approve(Answer),
    /// Refuse it: the run ends, or goes back where its loop says so.
    Reject(Answer),
}

/// Options of `queue approve` and `queue reject`.
#[derive(Debug, Args)]
pub struct Answer {
    /// The run.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Who decides.
    #[arg(long, value_name = "NAME")]
    pub by: String,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The digest of what you were shown; the answer is refused if something else waits now.
    #[arg(long, value_name = "DIGEST")]
    pub shown: Option<String>,
    /// Take the run up at once.
    #[arg(long)]
    pub resume: bool,
}

/// Options of `stop`.
#[derive(Debug, Args)]
pub struct StopRuns {
    /// Only this run; otherwise all, and none can start.
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Let them go on.
    #[arg(long)]
    pub clear: bool,
    /// Why.
    #[arg(long, value_name = "TEXT", default_value = "no reason given")]
    pub reason: String,
    /// Who stops.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

/// Subcommands of `backlog`.
#[derive(Debug, Subcommand)]
pub enum BacklogCommand {
    /// List the tasks.
    List {
        /// The check-list; `BACKLOG.md` in the project when absent.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show the task that would be taken next.
    Next {
        /// The check-list; `BACKLOG.md` in the project when absent.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Take the next task through a loop, and mark it done when it has passed.
    Run {
        /// The check-list; `BACKLOG.md` in the project when absent.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// The loop to take it through.
        #[arg(long = "loop", value_name = "LOOP", default_value = "spine")]
        name: String,
        /// Work in a git work tree and on a branch of its own.
        #[arg(long)]
        worktree: bool,
        /// Answers to perform agents by, from a file.
        #[arg(long, value_name = "FILE")]
        answers: Option<PathBuf>,
        /// Who starts it.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}

/// Subcommands of `loop`.
#[derive(Debug, Subcommand)]
pub enum Loop {
    /// List the project's loops.
    List,
    /// Draw a loop.
    Show {
        /// The loop.
        #[arg(value_name = "LOOP")]
        name: String,
        /// How to draw it.
        #[arg(long = "as", value_name = "FORM", default_value = "text")]
        draw: Draw,
    },
    /// Check loop files; the project's own when none is named.
    Check {
        /// The files.
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// How to draw a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Draw {
    /// For a terminal.
    Text,
    /// As a Mermaid flowchart.
    Mermaid,
    /// As an SVG picture.
    Svg,
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Where to make it; a fresh folder among the temporary files when absent.
    #[arg(value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}

/// Options of `confined`.
#[derive(Debug, Args)]
pub struct Confined {
    /// A folder that the command may change.
    #[arg(long, value_name = "DIR")]
    pub write: Vec<PathBuf>,
    /// Let it use the network.
    #[arg(long)]
    pub network: bool,
    /// The command.
    #[arg(last = true, required = true, value_name = "ARGV")]
    pub argv: Vec<OsString>,
}

/// Options of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The run.
    #[arg(value_name = "RUN")]
    pub run: String,
}

/// Options of `close`.
#[derive(Debug, Args)]
pub struct Close {
    /// The run.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Lose what is there and not committed.
    #[arg(long)]
    pub discard: bool,
}
