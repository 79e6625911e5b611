//! Arguments of `install` and `uninstall`.

use clap::Args;

use crate::args::HookClient;

/// How `install` is called.
pub const INSTALL_USAGE: &str =
    "windlass install <CLIENT> [--user | --project] [--loop core] [--yes | --dry-run]";

/// How `uninstall` is called.
pub const UNINSTALL_USAGE: &str =
    "windlass uninstall <CLIENT> [--user | --project] [--yes | --dry-run]";

/// What `install` says after its options.
pub const INSTALL_HELP: &str = "With --project, the default in a project, the hooks are in the project's folder. With --user, they \
    are in your own folder of the client, and hold wherever you use it; projects have their own policy and journal all the \
    same. What else is in the client's settings stays as it is, and `windlass status` tells if somebody changes the \
    hooks.\n\nExamples:\n  windlass install claude\n  windlass install codex --user\n  windlass install gemini --dry-run\n  \
    windlass install opencode --project --yes";

/// What `uninstall` says after its options.
pub const UNINSTALL_HELP: &str = "Settings that nobody has changed since get back their bytes of before; of others only the hooks of \
    Windlass are taken out.\n\nExamples:\n  windlass uninstall claude\n  windlass uninstall codex --user --yes";

/// Options of `install` and `uninstall`.
#[derive(Debug, Args)]
pub struct Install {
    /// The coding agent.
    #[arg(value_name = "CLIENT")]
    pub client: HookClient,
    /// In your own folder of the client, for everything that you do with it.
    #[arg(long)]
    pub user: bool,
    /// The loop that sessions go through; without it, `install` switches a loop off again.
    #[arg(long = "loop", value_name = "LOOP", value_enum)]
    pub session_loop: Option<SessionLoop>,
    /// Do not ask.
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// A loop for sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SessionLoop {
    /// Each prompt gets a plan and a review before anything is written; work is audited, verified and closed.
    Core,
}
