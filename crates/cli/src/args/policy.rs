//! Arguments of `policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Class;

/// Subcommands of `policy`.
#[derive(Debug, Subcommand)]
pub enum Policy {
    /// Load the policy and run its examples and cases.
    Check,
    /// Show the verdict on a call and the rules behind it.
    Explain(Explain),
    /// Run test cases against the policy.
    Test {
        /// A TOML file of `[[case]]` [default: the policy's own cases].
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// List the governance rules of all levels.
    Gates {
        /// Include the rules of this loop.
        #[arg(long = "loop", value_name = "LOOP")]
        name: Option<String>,
    },
    /// Print the policy hash: the digest of all configuration files.
    Hash {
        /// Only of those that decide about a run of this loop: the hash that the run records.
        #[arg(long = "loop", value_name = "LOOP")]
        name: Option<String>,
    },
}

/// Options of `policy explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// The tool's name in the registry.
    #[arg(value_name = "SERVER/TOOL")]
    pub tool: String,
    /// The arguments: JSON, `@FILE`, or `-` for standard input.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub args: String,
    /// Evaluate the call as if it had no idempotency key.
    #[arg(long)]
    pub no_key: bool,
    /// The class that the caller declares.
    #[arg(long, value_name = "CLASS")]
    pub class: Option<Class>,
    /// The calling agent.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The phase of the call.
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
}
