//! The command line of checkpoints.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Subcommands of `checkpoint`.
#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// List the checkpoints of a run, oldest first.
    List {
        /// The run.
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Show one in full.
    Show {
        /// RUN/NAME as in RUN/POST_planning_v1 (without the version: the newest), or its id.
        #[arg(value_name = "CHECKPOINT")]
        checkpoint: String,
    },
    /// Show what differs between two.
    Diff(CheckpointDiff),
    /// Take a run back to one: its state and its files together.
    #[command(
        after_help = "What is there now is kept first, nothing is deleted that no checkpoint has, and a \
        rollback can be taken back like anything else. It is refused when people have changed files since \
        the run left them, unless --force is given."
    )]
    Rollback(CheckpointRollback),
    /// Give up what old checkpoints of ended runs keep; the journal stays whole and says that they were.
    Purge(CheckpointPurge),
    /// Check that everything that is kept is whole, and name what is not.
    Check,
}

/// Options of `checkpoint diff`.
#[derive(Debug, Args)]
pub struct CheckpointDiff {
    /// The first.
    #[arg(value_name = "A")]
    pub from: String,
    /// The other.
    #[arg(value_name = "B")]
    pub to: String,
    /// Only the names of files, not what is in them.
    #[arg(long)]
    pub names: bool,
}

/// Options of `checkpoint rollback`.
#[derive(Debug, Args)]
pub struct CheckpointRollback {
    /// RUN/NAME as in RUN/POST_planning_v1 (without the version: the newest), or its id.
    #[arg(value_name = "CHECKPOINT")]
    pub checkpoint: String,
    /// Only say what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// Go back though people have changed files since; they are kept.
    #[arg(long)]
    pub force: bool,
    /// Go on from there at once; otherwise the run waits for a person.
    #[arg(long)]
    pub resume: bool,
    /// Who takes it back.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Why.
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run")]
    pub reason: Option<String>,
}

/// Options of `checkpoint purge`.
#[derive(Debug, Args)]
pub struct CheckpointPurge {
    /// Only of this run.
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Only what is older than so many days.
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub days: u32,
    /// The newest so many of each run are kept whatever their age.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub keep: usize,
    /// Approved ones too.
    #[arg(long)]
    pub approved: bool,
    /// Only say what would go.
    #[arg(long)]
    pub dry_run: bool,
}

/// Subcommands of `import`.
#[derive(Debug, Subcommand)]
pub enum Import {
    /// Begin a run where a state of version 1 (`phase_artifacts`) ends.
    V1 {
        /// The state file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The loop that goes on from it.
        #[arg(long = "loop", value_name = "LOOP", default_value = "phases")]
        name: String,
        /// The variant of the loop.
        #[arg(long, value_name = "VARIANT")]
        variant: Option<String>,
        /// What is to be done, where the state does not say.
        #[arg(long, value_name = "TASK")]
        task: Option<String>,
        /// Who takes it over.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}
