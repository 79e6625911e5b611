//! Arguments of `agents`.

use clap::{Args, Subcommand};

/// What `agents` says after its options.
pub const HELP: &str = "A client works in a cell with an empty folder; its own tools are off, and it is offered those of \
    Windlass alone.\nIn the column CAGE, `measured` is a version that this was measured for; `checked` one that passed \
    `windlass\nagents check` here. Other versions are checked once before they are used.\n\nExamples:\n  windlass \
    agents\n  windlass agents check claude";

/// Options of `agents`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Agents {
    /// The subcommand; without one the clients are listed.
    #[command(subcommand)]
    pub command: Option<AgentsCommand>,
}

/// Subcommands of `agents`.
#[derive(Debug, Subcommand)]
pub enum AgentsCommand {
    /// Let installed clients take a scratch repository to a commit, with a scripted model that also calls their own
    /// tools. Nothing is sent to a real model.
    Check {
        /// Only these clients.
        #[arg(value_name = "CLIENT")]
        names: Vec<String>,
    },
}
