//! Starts runs. The server chooses the id of a run, so that it can tell which one it has started.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_kernel::run::RunName;
use windlass_kernel::{Code, TraceId};
use windlass_store::{Store, StoreError};

use crate::access::Role;
use crate::act::operand;
use crate::dashboard::Context;
use crate::once::Begun;
use crate::problem::Problem;
use crate::project::{Command, Project};

/// The longest word that a request for something that is started once can have.
const ONCE_BYTES_MAX: usize = 200;
/// How long a second request waits for the run that the first one starts.
const SECOND_WAITS: Duration = Duration::from_secs(2);
/// How often it looks.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// A task to start.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    /// The task, in words.
    pub task: String,
    /// The loop.
    #[serde(rename = "loop", default)]
    pub loop_id: Option<String>,
    /// Who runs the agents, such as `claude`.
    #[serde(default)]
    pub agent: Option<String>,
    /// Whether the run gets a work tree of its own.
    #[serde(default)]
    pub worktree: bool,
    /// A word of your own for this request: a second one with the same word starts nothing and is told
    /// the same run, also after a restart of the server.
    #[serde(default)]
    pub once: Option<String>,
}

/// A run that was started.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StartedRun {
    /// The name of the run.
    pub run: String,
    /// Whether its first entry is recorded. If it is not yet, it will be soon, or the start fails.
    pub recorded: bool,
    /// Its trace.
    #[serde(skip)]
    pub trace: TraceId,
}

/// Starts a run.
///
/// # Errors
/// The error of the command, if it ends before the run is recorded.
pub fn start(context: &Context<'_>, new: &NewRun) -> Result<StartedRun, Problem> {
    context.require(Role::Operator)?;
    context.require_all()?;
    if new.task.trim().is_empty() {
        return Err(Problem::new(Code::RequestInvalid, "there is no task"));
    }
    if new.once.as_ref().is_some_and(|word| word.len() > ONCE_BYTES_MAX) {
        return Err(Problem::new(Code::RequestInvalid, "`once` is too long"));
    }
    // As JSON, since a sentence that looks like a path would be read as a file.
    let task = serde_json::json!({ "task": new.task }).to_string();
    let mut command = Command::new(["run"]).option("by", &context.visitor.name);
    if let Some(name) = new.loop_id.as_deref().filter(|name| !name.is_empty()) {
        command = command.option("loop", name);
    }
    if let Some(agent) = new.agent.as_deref().filter(|agent| !agent.is_empty()) {
        command = command.option("agent", agent);
    }
    command = command.flag("worktree", new.worktree);
    start_with(context, new.once.as_deref(), |id| operand(command.option("trace-id", id), &task))
}

/// Starts the run of a command that takes the id of its trace.
///
/// # Errors
/// The error of the command, if it ends before the run is recorded.
pub fn start_with(
    context: &Context<'_>,
    once: Option<&str>,
    command: impl FnOnce(&str) -> Command,
) -> Result<StartedRun, Problem> {
    let project = context.project()?;
    let new = project.new_trace_id();
    let once = once.filter(|word| !word.is_empty());
    // The same word means another run in another project.
    let word = once.map(|word| format!("{}\n{word}", project.id()));
    let (memory, word) = (&context.dashboard.once, word.as_deref());
    let begun = word.map_or(Ok(Begun::New(new)), |word| memory.begin(word, new))?;
    let (run, recorded) = match begun {
        Begun::New(run) => {
            let started = project.start_trace(run, command(&run.to_string()));
            if let (Err(_), Some(word)) = (&started, word) {
                memory.forget(word)?;
            }
            (run, started?)
        }
        Begun::Here(run) => (run, wait_for(project.as_ref(), run)?),
        Begun::Elsewhere(run) => {
            let command = command(&run.to_string());
            let started = start_again(project.as_ref(), run, command);
            if let (Err(_), Some(word)) = (&started, word) {
                memory.try_again(word);
            }
            (run, started?)
        }
    };
    Ok(StartedRun { run: RunName::of(run).to_string(), recorded, trace: run })
}

/// Starts a run that another server was to start, if it is not recorded: that server may have been killed before. The
/// command that it has started may still be at work; since both have the same id, one of them is refused.
fn start_again(project: &dyn Project, run: TraceId, command: Command) -> Result<bool, Problem> {
    if wait_for(project, run)? {
        return Ok(true);
    }
    let started = project.start_trace(run, command);
    if started.is_err() && wait_for(project, run)? {
        return Ok(true);
    }
    started
}

/// Whether a trace has its first entry.
///
/// # Errors
/// [`Problem`] if the journal cannot be read.
pub fn is_recorded(store: &dyn Store, trace: TraceId) -> Result<bool, Problem> {
    match store.load_state(trace) {
        Ok(_) => Ok(true),
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits a little until a run is recorded, and returns whether it is.
pub(crate) fn wait_for(project: &dyn Project, trace: TraceId) -> Result<bool, Problem> {
    let began = Instant::now();
    let store = project.store()?;
    loop {
        if is_recorded(store.as_ref(), trace)? {
            return Ok(true);
        }
        if began.elapsed() > SECOND_WAITS {
            return Ok(false);
        }
        std::thread::sleep(LOOKS_EVERY);
    }
}
