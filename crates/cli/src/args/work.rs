//! Arguments of `work` and `memory`.

use clap::{Args, Subcommand};
use windlass_work::{Kind, LinkKind, Status};

use super::ClearBlock;

/// The end of the help of `work`.
pub const WORK_HELP: &str = "The tracker is `bd` where it is installed and the project uses it, else a file in the \
    state folder; `[work]` in .windlass/config.toml says which.\n\nExamples:\n  windlass work create \"Fix the \
    rounding\" --type bug --priority 1\n  windlass work list --blocked\n  windlass work close ws-4k2p --reason done";

/// The end of the help of `memory`.
pub const MEMORY_HELP: &str = "The memory is a file in the state folder, which searches a folder of Markdown files, \
    too, or an MCP server; `[memory]` in .windlass/config.toml says which.\n\nExamples:\n  windlass memory add \
    \"releases are made on Mondays\" --tag release\n  windlass memory search \"when is the release\"";

/// Subcommands of `work`.
#[derive(Debug, Subcommand)]
pub enum WorkCommand {
    /// List items: the open ones, the most urgent first, unless you ask for others.
    List(ListWork),
    /// Show one item.
    Show {
        /// The item.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Create an item.
    Create(CreateWork),
    /// Change an item.
    Update(UpdateWork),
    /// Close an item.
    Close {
        /// The item.
        #[arg(value_name = "ID")]
        id: String,
        /// Why it is closed.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Link two items: FROM blocks, is related to, or is the parent of TO.
    Link {
        /// The first item.
        #[arg(value_name = "FROM")]
        from: String,
        /// The second item.
        #[arg(value_name = "TO")]
        to: String,
        /// What the first is to the second: `blocks`, `related` or `parent`.
        #[arg(long = "as", value_name = "KIND")]
        kind: LinkKind,
    },
    /// Exchange items with where others have them.
    Sync,
    /// Sessions of the core loop.
    #[command(subcommand)]
    Session(WorkSession),
}

/// Subcommands of `work session`.
#[derive(Debug, Subcommand)]
pub enum WorkSession {
    /// Let a session go on that an audit has stopped; the same as `windlass session clear-block`.
    ClearBlock(ClearBlock),
}

/// Options of `work list`.
#[derive(Debug, Args)]
pub struct ListWork {
    /// The items that are not closed.
    #[arg(long, group = "which")]
    pub open: bool,
    /// The open items that are assigned to you: $BD_ACTOR, or else your user name.
    #[arg(long, group = "which")]
    pub mine: bool,
    /// The open items that are assigned to this name.
    #[arg(long, group = "which", value_name = "NAME")]
    pub assignee: Option<String>,
    /// The open items that are blocked, with their blockers.
    #[arg(long, group = "which")]
    pub blocked: bool,
    /// The items that were changed last, closed ones too.
    #[arg(long, group = "which")]
    pub recent: bool,
    /// How many items at most.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
}

/// Options of `work create`.
#[derive(Debug, Args)]
pub struct CreateWork {
    /// The title, one line.
    #[arg(value_name = "TITLE")]
    pub title: String,
    /// What it is: `task`, `feature`, `bug`, `epic` or `chore`.
    #[arg(long = "type", value_name = "TYPE", default_value_t = Kind::Task)]
    pub kind: Kind,
    /// The description; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub description: String,
    /// How urgent it is: 0 is the most urgent, 4 the least.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub priority: u8,
    /// Who works on it.
    #[arg(long, value_name = "NAME")]
    pub assignee: Option<String>,
    /// A label; may be repeated.
    #[arg(long, value_name = "LABEL")]
    pub label: Vec<String>,
}

/// Options of `work update`.
#[derive(Debug, Args)]
pub struct UpdateWork {
    /// The item.
    #[arg(value_name = "ID")]
    pub id: String,
    /// The new title.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// The new status: `open`, `in_progress` or `blocked`. It opens a closed item again.
    #[arg(long, value_name = "STATUS")]
    pub status: Option<Status>,
    /// The new type.
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<Kind>,
    /// The new description; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// The new priority.
    #[arg(long, value_name = "N")]
    pub priority: Option<u8>,
    /// Who works on it; an empty name is nobody.
    #[arg(long, value_name = "NAME")]
    pub assignee: Option<String>,
    /// A label to add; may be repeated.
    #[arg(long, value_name = "LABEL")]
    pub label: Vec<String>,
    /// A label to remove; may be repeated.
    #[arg(long, value_name = "LABEL")]
    pub remove_label: Vec<String>,
}

/// Subcommands of `memory`.
#[derive(Debug, Subcommand)]
pub enum MemoryCommand {
    /// Find what fits a query best; an empty one finds the most recent.
    Search {
        /// The query.
        #[arg(value_name = "QUERY")]
        query: String,
        /// How many results at most.
        #[arg(long, value_name = "N", default_value_t = 10)]
        limit: usize,
    },
    /// Store a text.
    Add {
        /// The text; `-` reads it from standard input.
        #[arg(value_name = "TEXT")]
        text: String,
        /// A tag; may be repeated.
        #[arg(long, value_name = "TAG")]
        tag: Vec<String>,
    },
}
