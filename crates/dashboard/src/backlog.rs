//! The backlog of a project: read by its command, and tasks of it started.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_kernel::Code;

use crate::access::Role;
use crate::dashboard::Context;
use crate::problem::Problem;
use crate::project::{Command, Project};
use crate::start::{StartedRun, start_with, wait_for};

/// A task of the backlog.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BacklogItem {
    /// The title.
    pub title: String,
    /// The priority: `P0` to `P3`.
    pub priority: String,
    /// `next`, `open`, `blocked`, `under way`, `passed` or `done`.
    pub state: String,
    /// When it is done.
    pub dod: Option<String>,
    /// Who owns it.
    pub owner: Option<String>,
    /// What else belongs to it.
    pub context: Option<String>,
    /// The tasks that it waits for, by their titles; empty if it waits for something else, or nothing.
    #[serde(default)]
    pub waits_for: Vec<String>,
    /// The run that works on it.
    #[serde(default)]
    pub run: Option<String>,
    /// Its line in the file.
    pub line: u64,
    /// The digest of its line.
    pub digest: String,
}

/// Starts a task of the backlog.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartTask {
    /// The digest of its line, so that an edited line is not taken for what was shown.
    pub digest: String,
    /// The loop; the default one if it is absent.
    #[serde(rename = "loop", default)]
    pub loop_id: Option<String>,
    /// Who runs the agents, such as `claude`.
    #[serde(default)]
    pub agent: Option<String>,
    /// Whether the run gets a work tree of its own.
    #[serde(default)]
    pub worktree: bool,
}

/// The tasks of a project; `None` if it has no backlog.
///
/// # Errors
/// The error of the command.
pub fn list(
    context: &Context<'_>,
    project: &dyn Project,
) -> Result<Option<Vec<BacklogItem>>, Problem> {
    context.require_all()?;
    match project.command(Command::new(["backlog", "list"])) {
        Ok(items) => parse(items).map(Some),
        Err(problem) if problem.code == Code::FileUnreadable.as_str() => Ok(None),
        Err(problem) => Err(problem),
    }
}

fn parse(items: Value) -> Result<Vec<BacklogItem>, Problem> {
    serde_json::from_value(items).map_err(|error| {
        Problem::new(Code::Internal, format!("the backlog cannot be understood: {error}"))
    })
}

/// How often a start that takes long is looked at before the next one may begin; each look waits a little.
const RECORD_LOOKS: usize = 10;

/// Starts a task.
///
/// # Errors
/// The error of the command, if it ends before the run is recorded.
pub fn start(context: &Context<'_>, task: &StartTask) -> Result<StartedRun, Problem> {
    context.require(Role::Operator)?;
    context.require_all()?;
    let mut command = Command::new(["backlog", "run"])
        .option("by", &context.visitor.name)
        .option("item", &task.digest)
        .flag("worktree", task.worktree);
    if let Some(name) = task.loop_id.as_deref().filter(|name| !name.is_empty()) {
        command = command.option("loop", name);
    }
    if let Some(agent) = task.agent.as_deref().filter(|agent| !agent.is_empty()) {
        command = command.option("agent", agent);
    }
    // The next request finds this task under way.
    let _turn = context.dashboard.once.backlog_turn();
    let mut started = start_with(context, None, |id| command.option("trace-id", id))?;
    for _ in 0..RECORD_LOOKS {
        if started.recorded {
            break;
        }
        started.recorded = wait_for(context.project()?.as_ref(), started.trace)?;
    }
    Ok(started)
}
