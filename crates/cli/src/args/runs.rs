//! Arguments of the commands about runs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use windlass_kernel::TraceId;
use windlass_kernel::run::MergeStrategy;

use super::Decider;

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunTask {
    /// The task: a sentence, JSON, or a `.json` or `.yaml` file.
    #[arg(value_name = "TASK", required_unless_present_any = ["tasks", "mission"])]
    pub task: Option<String>,
    /// Start this mission of `.windlass/missions`, which has its task and loop.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["task", "tasks", "name", "variant", "with", "intent"])]
    pub mission: Option<String>,
    /// A parameter of the mission, as NAME=VALUE; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Run the tasks of this file one after the other, one per line; `-` reads them from standard input as
    /// they come. Empty lines and those that begin with `#` are skipped.
    #[arg(long, value_name = "FILE", conflicts_with = "task")]
    pub tasks: Option<PathBuf>,
    /// The intent of the task, for the driver loop [default: determined by its words].
    #[arg(long, value_name = "INTENT")]
    pub intent: Option<String>,
    /// The loop to run.
    #[arg(long = "loop", value_name = "LOOP", default_value = "spine")]
    pub name: String,
    /// The variant of the loop.
    #[arg(long, value_name = "VARIANT")]
    pub variant: Option<String>,
    /// Include an optional or excluded phase; may be repeated.
    #[arg(long, value_name = "PHASE")]
    pub with: Vec<String>,
    /// Work in a separate git work tree and branch.
    #[arg(long)]
    pub worktree: bool,
    /// Take the agents' answers from this file instead of running agents; tool calls are real.
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
    /// Who runs the agents: a client such as `claude`, or `AGENT=CLIENT` for one agent; may be repeated.
    #[arg(long, value_name = "CLIENT", conflicts_with = "answers")]
    pub agent: Vec<String>,
    /// When an agent cannot be reached, as at a rate limit, wait and go on by itself.
    #[arg(long)]
    pub wait: bool,
    /// Your name, recorded with the run.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// The id of the run's trace, which must be new: for a server that tells which run it has started.
    #[arg(long, value_name = "ID", hide = true, conflicts_with = "tasks")]
    pub trace_id: Option<TraceId>,
}

/// Options of `resume`.
#[derive(Debug, Args)]
pub struct Resume {
    /// The run: its name, its hold's id (`CP_…`), a unique beginning, or `last`.
    #[arg(value_name = "RUN", required_unless_present = "due")]
    pub run: Option<String>,
    /// Resume all runs whose agent could not be reached and can be tried again now; for a timer.
    #[arg(long, conflicts_with = "run")]
    pub due: bool,
    /// When an agent cannot be reached, as at a rate limit, wait and go on by itself.
    #[arg(long, conflicts_with = "due")]
    pub wait: bool,
    /// Your name, recorded with the run.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

/// Options of `status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Only this run, in full.
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// What the agents of this phase said and did.
    #[arg(long, value_name = "PHASE", requires = "run")]
    pub transcript: Option<String>,
    /// Only open runs.
    #[arg(long)]
    pub open: bool,
    /// Only runs that wait for a person.
    #[arg(long)]
    pub held: bool,
    /// The maximum number to list, newest first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Print metrics in the Prometheus text format.
    #[arg(long, conflicts_with_all = ["run", "open", "held", "limit", "json"])]
    pub metrics: bool,
}

/// Options of `watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// Only this run, from its first event [default: all runs, from now on].
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Keep following while runs wait or none is active.
    #[arg(long, short)]
    pub follow: bool,
}

/// Subcommands of `telemetry`.
#[derive(Debug, Subcommand)]
pub enum Telemetry {
    /// Send runs again from the journal; span ids stay the same.
    Push {
        /// Only this run [default: all].
        #[arg(value_name = "RUN")]
        run: Option<String>,
    },
}

/// Subcommands of `queue`.
#[derive(Debug, Subcommand)]
pub enum Queue {
    /// List waiting runs, oldest first.
    List {
        /// The maximum number to list.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Print only the run ids, one per line.
        #[arg(long)]
        ids: bool,
    },
    /// Show what a run waits for.
    Show {
        /// The run: its name, its hold's id (`CP_…`), a unique beginning, or `last`.
        #[arg(value_name = "RUN")]
        run: String,
        /// Also show what changed since this tree, which an earlier `queue show --json` printed.
        #[arg(long, value_name = "TREE")]
        since: Option<String>,
    },
    /// Approve: the run may continue.
    Approve(Answer),
    /// Reject: the run ends, or returns to an earlier phase if its loop says so.
    Reject(Answer),
    /// Send the run back: an earlier phase is done again, and its agent reads your findings.
    SendBack(SendBack),
    /// Answer a question, of an agent or of a phase that a person does; the run can continue with your text.
    Answer {
        /// The run: its name, its hold's id (`CP_…`), a unique beginning, or `last`.
        #[arg(value_name = "RUN")]
        run: String,
        /// Your answer.
        #[arg(value_name = "TEXT")]
        text: String,
        /// Your name; the answer is signed with your key [default: your own].
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        /// Read the passphrase of your key from a file, `-` for standard input.
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
        /// Resume the run at once.
        #[arg(long)]
        resume: bool,
    },
    /// Withdraw your answer, as long as the run was not resumed.
    Revoke {
        /// The run: its name, its hold's id (`CP_…`), a unique beginning, or `last`.
        #[arg(value_name = "RUN")]
        run: String,
        #[command(flatten)]
        decider: Decider,
    },
}

/// Options of `queue approve` and `queue reject`.
#[derive(Debug, Args)]
pub struct Answer {
    /// The run: its name, its hold's id (`CP_…`), a unique beginning, or `last`.
    #[arg(value_name = "RUN")]
    pub run: String,
    #[command(flatten)]
    pub decider: Decider,
    /// The digest that `queue show` printed; the answer is refused if the hold has changed since.
    #[arg(long, value_name = "DIGEST")]
    pub shown: Option<String>,
    /// Arguments to put in place of those of the call on hold: JSON, `@FILE`, or `-` for standard input.
    /// They are judged too.
    #[arg(long, value_name = "JSON")]
    pub args: Option<String>,
    /// A condition of the approval; may be repeated.
    #[arg(long = "condition", value_name = "TEXT")]
    pub conditions: Vec<String>,
    /// The call on hold was interrupted, and it ran: your word is recorded as its effect. Without this or
    /// `--failed` an approval means that it did not run, and it is made.
    #[arg(long, conflicts_with_all = ["failed", "args"])]
    pub ran: bool,
    /// The call on hold was interrupted, and it failed.
    #[arg(long, conflicts_with = "args")]
    pub failed: bool,
    /// Resume the run at once.
    #[arg(long)]
    pub resume: bool,
}

/// Options of `queue send-back`.
#[derive(Debug, Args)]
pub struct SendBack {
    /// The run: its name, its hold's id (`CP_…`), a unique beginning, or `last`.
    #[arg(value_name = "RUN")]
    pub run: String,
    #[command(flatten)]
    pub decider: Decider,
    /// What is to be done better, such as `src/lib.rs:12: handle the error`; may be repeated.
    #[arg(long = "finding", value_name = "TEXT")]
    pub findings: Vec<String>,
    /// The phase to be done again, with all that follow it [default: the one whose work is asked about].
    #[arg(long, value_name = "PHASE")]
    pub to: Option<String>,
    /// The digest that `queue show` printed; the answer is refused if the hold has changed since.
    #[arg(long, value_name = "DIGEST")]
    pub shown: Option<String>,
    /// Resume the run at once.
    #[arg(long)]
    pub resume: bool,
}

impl Answer {
    /// An answer to the hold as it is now.
    pub fn plain(run: &str, decider: Decider, resume: bool) -> Self {
        Self {
            run: run.to_owned(),
            decider,
            shown: None,
            args: None,
            conditions: Vec::new(),
            ran: false,
            failed: false,
            resume,
        }
    }
}

/// Options of `cancel`.
#[derive(Debug, Args)]
pub struct Cancel {
    /// The run.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The reason, recorded with the end.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Your name, recorded with the end.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

/// Options of `stop`.
#[derive(Debug, Args)]
pub struct StopRuns {
    /// Only this run [default: all runs; no new run can start until --clear].
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Clear the stop request.
    #[arg(long)]
    pub clear: bool,
    /// The reason, recorded with the stop.
    #[arg(long, value_name = "TEXT", default_value = "no reason given")]
    pub reason: String,
    /// Your name, recorded with the stop.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

/// Subcommands of `backlog`.
#[derive(Debug, Subcommand)]
pub enum BacklogCommand {
    /// List the tasks.
    List {
        /// The checklist [default: `BACKLOG.md` in the project].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show the task that would run next.
    Next {
        /// The checklist [default: `BACKLOG.md` in the project].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Run the next task through a loop, and mark it done if the run passes.
    Run {
        /// The checklist [default: `BACKLOG.md` in the project].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Run this task instead of the next one: the digest of its line, from `backlog list --json`.
        #[arg(long, value_name = "DIGEST")]
        item: Option<String>,
        /// The loop to run.
        #[arg(long = "loop", value_name = "LOOP", default_value = "spine")]
        name: String,
        /// Work in a separate git work tree and branch.
        #[arg(long)]
        worktree: bool,
        /// Take the agents' answers from this file instead of running agents; tool calls are real.
        #[arg(long, value_name = "FILE")]
        answers: Option<PathBuf>,
        /// Who runs the agents: a client such as `claude`, or `AGENT=CLIENT` for one agent; may be repeated.
        #[arg(long, value_name = "CLIENT", conflicts_with = "answers")]
        agent: Vec<String>,
        /// Your name, recorded with the run.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        /// The id of the run's trace, which must be new: for a server that tells which run it has started.
        #[arg(long, value_name = "ID", hide = true)]
        trace_id: Option<TraceId>,
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
        /// The variant of the loop.
        #[arg(long, value_name = "VARIANT")]
        variant: Option<String>,
        /// Include an optional or excluded phase; may be repeated.
        #[arg(long, value_name = "PHASE")]
        with: Vec<String>,
        /// The output format.
        #[arg(long = "as", value_name = "FORM", default_value = "text")]
        draw: Draw,
    },
    /// Check loop files.
    Check {
        /// The files [default: the project's loops].
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// Subcommands of `mission`.
#[derive(Debug, Subcommand)]
pub enum MissionCommand {
    /// List the project's missions.
    List,
    /// Show a mission: its loop, its parameters and its task.
    Show {
        /// The mission.
        #[arg(value_name = "MISSION")]
        name: String,
    },
    /// Check mission files.
    Check {
        /// The files [default: the project's missions].
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// The format of a drawn loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Draw {
    /// Plain text.
    Text,
    /// A Mermaid flowchart.
    Mermaid,
    /// An SVG image.
    Svg,
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// The folder to create [default: a new temporary folder].
    #[arg(value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Decide in a browser: prints a link to the dashboard of the sample repository, and serves it.
    #[arg(long)]
    pub serve: bool,
}

/// Options of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The run; with `--as` the id of a call.
    #[arg(value_name = "RUN|CALL")]
    pub run: String,
    /// Write the whole run to one signed file, which can be verified without this project.
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// Print a call in a form of other programs, with its artifacts; `verify --file` verifies it.
    #[arg(long = "as", value_name = "FORM", conflicts_with = "bundle")]
    pub form: Option<ExportForm>,
    /// Overwrite an existing bundle.
    #[arg(long, requires = "bundle")]
    pub force: bool,
    /// Leave out the files of the workspace, from which `bundle restore` rebuilds checkpoints.
    #[arg(long, requires = "bundle")]
    pub without_files: bool,
}

/// A form of calls that other programs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// Entries and artifacts with `talos.tga.*` ids.
    Tga,
}

/// Options of `close`.
#[derive(Debug, Args)]
pub struct Close {
    /// The run.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Discard uncommitted changes.
    #[arg(long)]
    pub discard: bool,
    /// Put the project's files back to how they were before a run that did not pass; its work stays in its
    /// checkpoints.
    #[arg(long, conflicts_with_all = ["merge", "discard"])]
    pub restore: bool,
    /// With `--restore`: put files back though people may have changed them; the present ones are kept in a snapshot.
    #[arg(long, requires = "restore")]
    pub force: bool,
    /// With `--restore`: list what would be put back, and change nothing.
    #[arg(long, requires = "restore", conflicts_with = "force")]
    pub dry_run: bool,
    /// Merge the run's branch into the branch from which the run started.
    #[arg(long)]
    pub merge: bool,
    /// The branch to merge into instead.
    #[arg(long, value_name = "BRANCH", requires = "merge")]
    pub into: Option<String>,
    /// How to merge.
    #[arg(long, value_enum, default_value_t, requires = "merge")]
    pub strategy: StrategyName,
    /// Your name, as it is recorded.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

/// How a branch is merged.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum StrategyName {
    /// By a merge commit; fast-forward where that is possible.
    #[default]
    Merge,
    /// By one commit with all changes.
    Squash,
    /// By moving the branch, which must not have other commits.
    FastForward,
}

impl StrategyName {
    /// As it is recorded.
    pub const fn strategy(self) -> MergeStrategy {
        match self {
            Self::Merge => MergeStrategy::Merge,
            Self::Squash => MergeStrategy::Squash,
            Self::FastForward => MergeStrategy::FastForward,
        }
    }
}
