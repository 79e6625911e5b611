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
    #[command(after_help = "The checkpoints of a gate are kept as `[retention.gates.GATE]` in \
        .windlass/config.toml says (`days`, `keep`, `approved`), whatever the options say.")]
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
    /// Only checkpoints older than this many days [default: `[retention] days`, or 30].
    #[arg(long, value_name = "DAYS")]
    pub days: Option<u32>,
    /// Keep the newest N of each run, whatever their age [default: `[retention] keep`, or 5].
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
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
    V1(ImportV1),
}

/// Options of `import v1`.
#[derive(Debug, Args)]
pub struct ImportV1 {
    /// The state file; it is not changed.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The loop to continue with.
    #[arg(long = "loop", value_name = "LOOP", default_value = "phases")]
    pub name: String,
    /// The variant of the loop.
    #[arg(long, value_name = "VARIANT")]
    pub variant: Option<String>,
    /// The task, if the state file does not name one.
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// Take the agents' answers from this file instead of running agents; tool calls are real.
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
    /// Who runs the agents: a client such as `claude`, or `AGENT=CLIENT` for one agent; may be repeated.
    #[arg(long, value_name = "CLIENT", conflicts_with = "answers")]
    pub agent: Vec<String>,
    /// Write the imported state as a version 2 checkpoint beside the state file, as `NAME.v2.json`.
    #[arg(long)]
    pub beside: bool,
    /// Write the imported state as a version 2 checkpoint into this new file.
    #[arg(long, value_name = "FILE", conflicts_with = "beside")]
    pub output: Option<PathBuf>,
    /// Your name, recorded with the run.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}
