//! Arguments of `init`, `trust`, `state` and `store`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Options of `init`.
#[derive(Debug, Args)]
pub struct Init {
    /// Create it in your user data folder, for use outside any project.
    #[arg(long)]
    pub user: bool,
    /// Give a copied or restored project a new id and an empty journal.
    #[arg(long)]
    pub new: bool,
}

/// The example of `windlass store`.
pub const STORE_HELP: &str = "Example:\n  windlass store backup journal-monday.db\n  windlass store backup /media/backups\n\nTo copy `windlass.db` alone is no \
    backup: recent entries are in the files beside it. docs/guides/recovery.md tells how to restore one.";

/// Options of `trust`.
#[derive(Debug, Args)]
pub struct Trust {
    /// Only show it.
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    pub show: bool,
    /// Trust the configuration with this digest, without asking.
    #[arg(long, value_name = "DIGEST", conflicts_with = "revoke")]
    pub yes: Option<String>,
    /// Trust it no longer.
    #[arg(long)]
    pub revoke: bool,
}

/// Subcommands of `state`.
#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// List the states of all your projects.
    List,
    /// Bind this project's state to the place where the project is now.
    Move,
    /// Remove the state of a project: its journal, keys, snapshots and work trees.
    Remove(StateRemove),
}

/// Options of `state remove`.
#[derive(Debug, Args)]
pub struct StateRemove {
    /// The project's id, or the first 8 characters of it or more.
    #[arg(value_name = "ID")]
    pub id: String,
    /// Remove it even if the project still exists.
    #[arg(long)]
    pub force: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
}

/// Subcommands of `store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Copy the journal into one new file, and verify the copy; others may write meanwhile.
    Backup {
        /// The new file, or a folder that gets a new file named after the project and the time.
        #[arg(value_name = "TARGET")]
        target: PathBuf,
    },
}
