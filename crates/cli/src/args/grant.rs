//! Arguments of `grant`.

use clap::{Args, Subcommand};

use super::Decider;

/// Subcommands of `grant`.
#[derive(Debug, Subcommand)]
pub enum Grant {
    /// Let calls of a pattern run without a question, a number of times and until a time.
    Add(AddGrant),
    /// List the grants that can be used.
    List {
        /// Also list those that were revoked, are used up or have expired.
        #[arg(long)]
        all: bool,
        /// Print only the ids, one per line.
        #[arg(long)]
        ids: bool,
    },
    /// Show one grant: what it covers, who gave it, and each use.
    Show {
        /// The grant.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Revoke a grant: it cannot be used any more.
    Revoke {
        /// The grant.
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        decider: Decider,
    },
}

/// Options of `grant add`.
#[derive(Debug, Args)]
pub struct AddGrant {
    /// The tool, as a glob: `shell/run`.
    #[arg(value_name = "TOOL")]
    pub tool: String,
    /// A glob that every command must match which the policy asks about: `git push *`.
    #[arg(long, value_name = "GLOB")]
    pub command: Option<String>,
    /// A glob that every path must match which the policy asks about: `.github/**`.
    #[arg(long, value_name = "GLOB")]
    pub path: Option<String>,
    /// Only for the calls of this run [default: for the project].
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// How often it can be used, up to 1000 times.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub times: u32,
    /// How long it is valid, up to 30 days: `90s`, `30m`, `2h`, `7d` [default: 24h].
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "until")]
    pub duration: Option<String>,
    /// Until when it is valid: `2026-01-31T23:59:59Z`.
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    #[command(flatten)]
    pub decider: Decider,
}
