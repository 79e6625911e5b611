//! The options of `doctor`.

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::HookClient;
use crate::guard_check;

/// What `doctor` says after its options.
pub const HELP: &str = "With --agents, each client uses a tool in a scratch repository while its guard fails in one way after \
    another.\nNothing is sent to a real model. In the column RESULT, `stops` means that the tool did not run; `noticed` \
    that it\nran, and that Windlass finds and tells it afterwards; `RUNS` that it ran and nothing tells. A client is \
    `closed` if\nevery failure stops the tool, `watched` if every failure stops it or is noticed, else `open`.\n\nExit \
    codes with --agents: 1 if a client is open, cannot be tried, or is named and not installed.\n\nExamples:\n  windlass \
    doctor\n  windlass doctor --agents\n  windlass doctor --agents claude codex\n  \
    windlass doctor --agents codex --case hangs --case removed";

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Also connect to every registered MCP server and compare its tools.
    #[arg(long)]
    pub servers: bool,
    /// Try how the hooks of installed coding agents fail, with a scripted model; of all, or of these.
    #[arg(long, value_name = "CLIENT", num_args = 0.., conflicts_with = "servers")]
    pub agents: Option<Vec<HookClient>>,
    /// Try only this failure, besides that nothing fails; may be repeated.
    #[arg(
        long = "case",
        value_name = "CASE",
        requires = "agents",
        value_parser = PossibleValuesParser::new(guard_check::case_names()),
        hide_possible_values = true
    )]
    pub cases: Vec<String>,
}
