//! Arguments of `workflow`.

use std::path::PathBuf;

use clap::Subcommand;

/// Subcommands of `workflow`.
#[derive(Debug, Subcommand)]
pub enum WorkflowCommand {
    /// List the workflows.
    List,
    /// Show a workflow: its quality gates, its steps with all links resolved, its text.
    Show {
        /// The workflow.
        #[arg(value_name = "ID")]
        id: String,
        /// Print only the steps, as a list of things to do.
        #[arg(long)]
        plan: bool,
    },
    /// Check workflow files and their index.
    Check {
        /// The folder of the files [default: the project's workflows].
        #[arg(value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
}
