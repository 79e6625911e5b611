//! Options of `call held-back`.

use clap::Args;

/// Options of `call held-back`.
#[derive(Debug, Args)]
pub struct HeldBack {
    /// What to show, as the list names it; all of it without.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Write this file of it into the workspace: a call of `fs/write`, which policy judges and a person decides.
    #[arg(long, value_name = "PATH", requires = "name")]
    pub take: Option<String>,
    /// Remove it.
    #[arg(long, requires = "name", conflicts_with = "take")]
    pub drop: bool,
}
