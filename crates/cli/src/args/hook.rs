//! Arguments of `hook`.

use clap::{Args, ValueEnum};
use windlass_hooks::Client;

/// Options of `hook`.
#[derive(Debug, Args)]
pub struct Hook {
    /// The client that sends the event; without it the event must show whose it is.
    #[arg(long, value_name = "CLIENT")]
    pub client: Option<HookClient>,
}

/// A client with hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HookClient {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode, through its plugin.
    Opencode,
}

impl HookClient {
    /// The client of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }

    /// The client.
    pub const fn client(self) -> Client {
        match self {
            Self::Claude => Client::Claude,
            Self::Codex => Client::Codex,
            Self::Gemini => Client::Gemini,
            Self::Opencode => Client::OpenCode,
        }
    }
}

/// Options of `cell`.
#[derive(Debug, Args)]
pub struct Cell {
    /// The session or run that it belongs to; the commands of one share `/tmp`.
    #[arg(long, value_name = "RUN")]
    pub session: Option<String>,
    /// Run it as `shell/read` does: it may only read.
    #[arg(long, hide = true)]
    pub reading: bool,
    /// The folder that the line works in and may change [default: the project's].
    #[arg(long, value_name = "DIR", hide = true)]
    pub workspace: Option<std::path::PathBuf>,
    /// The line of bash.
    #[arg(value_name = "LINE", last = true)]
    pub line: String,
}
