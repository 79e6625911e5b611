//! Arguments of `checkpoint` and `import`.

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
    /// Show one checkpoint in full.
    Show {
        /// RUN/NAME, for example RUN/POST_planning_v1 (without version: the newest), or an id.
        #[arg(value_name = "CHECKPOINT")]
        checkpoint: String,
    },
    /// Compare two checkpoints.
    Diff(CheckpointDiff),
    /// Roll a run back to a checkpoint: its state and its files together.
    #[command(
        after_help = "The present files are saved in a snapshot first, files that no checkpoint contains \
        are not deleted, and a rollback can itself be rolled back. It is refused if people have changed \
        files that the run left, unless --force is given."
    )]
    Rollback(CheckpointRollback),
    /// Delete the stored files of old checkpoints of ended runs; the journal stays intact and still lists
    /// them.
    Purge(CheckpointPurge),
    /// Verify all stored snapshots and files, and list what is corrupt.
    Check,
}

/// Options of `checkpoint diff`.
#[derive(Debug, Args)]
pub struct CheckpointDiff {
    /// The first checkpoint.
    #[arg(value_name = "A")]
    pub from: String,
    /// The second checkpoint.
    #[arg(value_name = "B")]
    pub to: String,
    /// Only the names of changed files, without their contents.
    #[arg(long)]
    pub names: bool,
}

/// Options of `checkpoint rollback`.
#[derive(Debug, Args)]
pub struct CheckpointRollback {
    /// RUN/NAME, for example RUN/POST_planning_v1 (without version: the newest), or an id.
    #[arg(value_name = "CHECKPOINT")]
    pub checkpoint: String,
    /// Only show what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// Roll back even if people have changed files since; their version is saved first.
    #[arg(long)]
    pub force: bool,
    /// Resume at once; otherwise the run waits for a person.
    #[arg(long)]
    pub resume: bool,
    /// Your name, recorded with the rollback.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// The reason, recorded with the rollback.
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run")]
    pub reason: Option<String>,
}

/// Options of `checkpoint purge`.
#[derive(Debug, Args)]
pub struct CheckpointPurge {
    /// Only this run.
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Only checkpoints older than this many days.
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub days: u32,
    /// Keep the newest N of each run, whatever their age.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub keep: usize,
    /// Include approved checkpoints.
    #[arg(long)]
    pub approved: bool,
    /// Only show what would be deleted.
    #[arg(long)]
    pub dry_run: bool,
}

/// Subcommands of `import`.
#[derive(Debug, Subcommand)]
pub enum Import {
    /// Start a run from a version 1 state file (`phase_artifacts`).
    V1 {
        /// The state file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The loop to continue with.
        #[arg(long = "loop", value_name = "LOOP", default_value = "phases")]
        name: String,
        /// The variant of the loop.
        #[arg(long, value_name = "VARIANT")]
        variant: Option<String>,
        /// The task, if the state file does not name one.
        #[arg(long, value_name = "TASK")]
        task: Option<String>,
        /// Your name, recorded with the run.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}
