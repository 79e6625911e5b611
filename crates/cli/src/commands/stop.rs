//! `windlass stop`: stops runs before their next effect, until the stop is cleared.

use serde_json::json;
use windlass_engine::{EngineError, StopRequest, StopSwitch};
use windlass_journal::JournalError;
use windlass_kernel::run::RunName;

use crate::args::StopRuns;
use crate::commands::run::open_to_read;
use crate::failure::{CommandResult, Failure};
use crate::output::Output;
use crate::project::Project;
use crate::secrets::shown;
use crate::setup::actor_name;

/// Requests or clears a stop of one run or of all.
pub fn run(project: &Project, options: &StopRuns, output: &Output) -> CommandResult {
    let run = match &options.run {
        Some(name) => Some(name_of(project, name, output)?),
        None => None,
    };
    let switch = StopSwitch::new(project.stop_folder()?);
    let what = run.as_deref().unwrap_or("all runs");
    if options.clear {
        let was_on = switch.clear(run.as_deref())?;
        if output.json {
            output.value(&json!({ "stopped": false, "was_stopped": was_on }))?;
        } else if was_on {
            output.line(&format!("{what}: stop cleared"));
        } else {
            output.line(&format!("{what}: not stopped"));
        }
        return Ok(0);
    }
    let by = actor_name(options.by.as_deref());
    switch.request(
        run.as_deref(),
        &StopRequest { by, reason: shown(&options.reason), cancel: false },
    )?;
    if output.json {
        output.value(&json!({ "stopped": true }))?;
    } else {
        output.line(&format!("{what}: will stop before the next effect"));
        match &run {
            None => output.line("no run can start or go on until you run: windlass stop --clear"),
            Some(run) => {
                output.line(&format!("it cannot go on until you run: windlass stop {run} --clear"));
                output.line(&format!("to give it up: windlass cancel {run} --reason TEXT"));
            }
        }
    }
    Ok(0)
}

/// The id of a run. If the project cannot be opened (an invalid policy, for example), any well-formed run
/// id is accepted: stopping must always work.
fn name_of(project: &Project, name: &str, output: &Output) -> Result<String, Failure> {
    let setup = match (open_to_read(project, None, output), name.parse::<RunName>()) {
        (Ok(setup), _) => setup,
        (Err(_), Ok(name)) => return Ok(name.to_string()),
        (Err(failure), Err(_)) => return Err(failure),
    };
    let run = match setup.engine.find(name).and_then(|trace_id| setup.engine.read(trace_id)) {
        Ok(run) => run,
        Err(error @ EngineError::Journal(JournalError::NoSuchRun { .. })) => {
            return Err(error.into());
        }
        Err(error) => {
            return name.parse::<RunName>().map(|name| name.to_string()).map_err(|_| error.into());
        }
    };
    Ok(RunName::of(run.head.trace_id).to_string())
}
