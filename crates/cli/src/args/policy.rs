//! Arguments of `policy`.

use clap::Args;

use super::Class;

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
