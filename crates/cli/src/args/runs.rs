//! The command line of everything about runs.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunTask {
    /// What is to be done: a sentence, JSON, or a `.json` or `.yaml` file.
    #[arg(value_name = "TASK")]
    pub task: String,
    /// The loop to take it through.
    #[arg(long = "loop", value_name = "LOOP", default_value = "spine")]
    pub name: String,
    /// The variant of the loop.
    #[arg(long, value_name = "VARIANT")]
    pub variant: Option<String>,
    /// A phase that would be left out; may be given several times.
    #[arg(long, value_name = "PHASE")]
    pub with: Vec<String>,
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
    /// Print counts of everything as Prometheus text.
    #[arg(long, conflicts_with_all = ["run", "open", "held", "limit", "json"])]
    pub metrics: bool,
}

/// Options of `watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// Only this run, from its beginning; otherwise all, from now on.
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Keep going while runs wait, or none is at work.
    #[arg(long, short)]
    pub follow: bool,
}

/// Subcommands of `telemetry`.
#[derive(Debug, Subcommand)]
pub enum Telemetry {
    /// Send runs again, from the journal; the ids of their spans stay the same.
    Push {
        /// Only this run; otherwise all.
        #[arg(value_name = "RUN")]
        run: Option<String>,
    },
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
    /// What the approval is bound to; may be given more than once.
    #[arg(long = "condition", value_name = "TEXT")]
    pub conditions: Vec<String>,
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
        /// The variant of the loop.
        #[arg(long, value_name = "VARIANT")]
        variant: Option<String>,
        /// A phase that would be left out; may be given several times.
        #[arg(long, value_name = "PHASE")]
        with: Vec<String>,
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
    /// Write all of the run into one signed file instead, which anybody can check anywhere.
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// Replace a bundle that is there.
    #[arg(long, requires = "bundle")]
    pub force: bool,
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
