//! Arguments of `session`.

use clap::{Args, Subcommand};

use super::Decider;

/// The help below the list of subcommands.
pub const HELP: &str = "SESSION is a run's name or the client's own id of the session; without it the newest open session \
    is meant.\n\nExamples:\n  windlass session list\n  windlass session show\n  windlass session check\n  windlass \
    session rewind --to 3 --reason 'the agent deleted the tests'\n  windlass session allow-all --minutes 10 --reason \
    'the release is on fire'";

/// Subcommands of `session`.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List the sessions of coding agents, newest first.
    List {
        /// Only open ones.
        #[arg(long)]
        open: bool,
        /// The maximum number to list.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// Show one session: prompts, calls, what was never reported, and what was not asked about.
    Show {
        /// The session.
        #[arg(value_name = "SESSION")]
        session: Option<String>,
    },
    /// Print what happened in a session, in its order.
    Transcript {
        /// The session.
        #[arg(value_name = "SESSION")]
        session: Option<String>,
        /// What was said, from the client's own record of a session of Claude Code, as Markdown.
        #[arg(long)]
        said: bool,
    },
    /// Record that a session has ended whose client did not say so.
    End {
        /// The session.
        #[arg(value_name = "SESSION")]
        session: String,
        /// The reason.
        #[arg(long, value_name = "TEXT", default_value = "ended by hand")]
        reason: String,
    },
    /// Compare the clients' own records with the journal; uses of tools that were not asked about are UNGUARDED.
    #[command(after_help = "Exit codes: 0 nothing was found, 1 something was.")]
    Check {
        /// Only this session [default: all that the clients have records of].
        #[arg(value_name = "SESSION")]
        session: Option<String>,
    },
    /// Bring the files back to how they were at a prompt, whatever changed them since.
    #[command(
        after_help = "The files of before are kept: `windlass session rewind --to 0` brings them back. Commits, ignored files \
        and the client's own memory of what it did are left as they are."
    )]
    Rewind(Rewind),
    /// Say how far a step of the plan is.
    Step {
        /// The step, as the plan names it.
        #[arg(value_name = "STEP")]
        step: String,
        /// How far.
        #[arg(value_name = "STATUS", value_enum)]
        status: StepArg,
        /// The session.
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
    },
    /// Let a session go on that an audit of the core loop has stopped.
    ClearBlock(ClearBlock),
    /// Close the work of a session: format, commit, pull, push, and prove it.
    Close {
        /// The session.
        #[arg(value_name = "SESSION")]
        session: Option<String>,
    },
    /// Let an agent analyse a session, and write what it finds over the automatic insights.
    Insights(SessionInsights),
    /// Show what the insights of many sessions have in common.
    Trends,
    /// Break glass: let a session use every tool for some minutes, whatever the policy says.
    #[command(
        after_help = "It is signed like a decision, recorded with every use, shown by `windlass status`, and can be ended \
        with `windlass grant revoke`. Lines of shell still run in their cell."
    )]
    AllowAll(AllowAll),
}

/// Options of `session rewind`.
#[derive(Debug, Args)]
pub struct Rewind {
    /// The session.
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// The number of the prompt; 0 is how the files were before the last rewind.
    #[arg(long, value_name = "PROMPT")]
    pub to: u32,
    /// Only show what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// Who does it [default: your account].
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// The reason, recorded with it.
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run")]
    pub reason: Option<String>,
}

/// Options of `session allow-all`.
#[derive(Debug, Args)]
pub struct AllowAll {
    /// The session.
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// For how many minutes, up to a day.
    #[arg(long, value_name = "N")]
    pub minutes: u32,
    #[command(flatten)]
    pub decider: Decider,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum StepArg {
    /// Nothing was done.
    Pending,
    /// It is being done.
    InProgress,
    /// It is done.
    Completed,
}

/// Options of `session clear-block`.
#[derive(Debug, Args)]
pub struct ClearBlock {
    /// The session.
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    #[command(flatten)]
    pub decider: Decider,
}

/// Options of `session insights`.
#[derive(Debug, Args)]
pub struct SessionInsights {
    /// The session.
    #[arg(value_name = "SESSION", conflicts_with = "batch")]
    pub session: Option<String>,
    /// All sessions that have ended and were not analysed.
    #[arg(long)]
    pub batch: bool,
    /// Who runs the agent `analyst`, such as `claude` or `gemini`.
    #[arg(long, value_name = "CLIENT", conflicts_with = "answers")]
    pub agent: Vec<String>,
    /// Take the agent's answers from this file instead.
    #[arg(long, value_name = "FILE")]
    pub answers: Option<std::path::PathBuf>,
    /// Your name, recorded with the run.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}
