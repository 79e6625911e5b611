//! `windlass stop`: stops runs before their next effect, until the stop is cleared.

use serde_json::json;
use windlass_engine::{EngineError, StopRequest, StopSwitch};
use windlass_journal::{JournalError, RunFilter};
use windlass_kernel::run::RunName;

use crate::args::StopRuns;
use crate::commands::run::open_to_read;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, sanitize};
use crate::project::Project;
use crate::secrets::shown;
use crate::setup::actor_name;

/// Requests or clears a stop of one run or of all.
pub fn run(project: &Project, options: &StopRuns, output: &Output) -> CommandResult {
    let named = match &options.run {
        Some(name) => Some(name_of(project, name, output)?),
        None => None,
    };
    let (run, standing) =
        named.map_or((None, Standing::Open), |(run, standing)| (Some(run), standing));
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
        match (&run, standing) {
            (None, _) => {
                output.line("runs at work end BLOCKED, and `--clear` does not bring them back");
                output.line("no run can start or go on until you run: windlass stop --clear");
            }
            (Some(run), Standing::AtWork) => {
                output.line(
                    "it is at work, so it ends BLOCKED, and `--clear` does not bring it back",
                );
                output.line(&format!(
                    "its work stays in its checkpoints: windlass checkpoint list {run}"
                ));
            }
            (Some(_), Standing::Ended) => output.line("it has ended already"),
            (Some(run), Standing::Open) => {
                output.line(&format!("it cannot go on until you run: windlass stop {run} --clear"));
                output.line(&format!("to give it up: windlass cancel {run} --reason TEXT"));
            }
        }
    }
    Ok(0)
}

/// Says which of these runs are stopped, and how that is lifted.
pub fn tell<'a>(project: &Project, runs: impl Iterator<Item = &'a str>, output: &Output) {
    // Whoever cannot read the folder of stops has no other way to see the runs.
    let Ok(folder) = project.stop_folder() else { return };
    let switch = StopSwitch::new(folder);
    let told = |what: &str, request: &StopRequest, clear: &str| {
        let (by, reason) = (sanitize(&request.by), sanitize(&request.reason));
        output.note(&format!("{what} stopped by {by}: {reason}; `{clear}` lifts it"));
    };
    if let Some(request) = switch.requested(None) {
        told("all runs are", &request, "windlass stop --clear");
        return;
    }
    for run in runs {
        if let Some(request) = switch.requested(Some(run)).filter(|request| !request.cancel) {
            told(&format!("{run} is"), &request, &format!("windlass stop {run} --clear"));
        }
    }
}

/// Where a run stands that is stopped.
#[derive(Clone, Copy, Debug)]
enum Standing {
    /// It waits, or its process died.
    Open,
    /// A process works on it.
    AtWork,
    /// It has ended.
    Ended,
}

/// The id of a run, and where it stands. If the project cannot be opened (an invalid policy, for example), any well-formed run
/// id is accepted: stopping must always work.
fn name_of(project: &Project, name: &str, output: &Output) -> Result<(String, Standing), Failure> {
    let setup = match (open_to_read(project, None, output), name.parse::<RunName>()) {
        (Ok(setup), _) => setup,
        (Err(_), Ok(name)) => return Ok((name.to_string(), Standing::Open)),
        (Err(failure), Err(_)) => return Err(failure),
    };
    let run = match setup.engine.find(name).and_then(|trace_id| setup.engine.read(trace_id)) {
        Ok(run) => run,
        Err(error @ EngineError::Journal(JournalError::NoSuchRun { .. })) => {
            return Err(error.into());
        }
        Err(error) => {
            let parsed = name.parse::<RunName>().map_err(|_| error)?;
            return Ok((parsed.to_string(), Standing::Open));
        }
    };
    let trace_id = run.head.trace_id;
    let filter = RunFilter { open_only: true, state: None, limit: usize::MAX };
    let open = setup.engine.list(&filter).unwrap_or_default();
    let is_live = open.iter().any(|one| one.live && one.trace.head.trace_id == trace_id);
    let standing = match (&run.ended, is_live && run.hold.is_none()) {
        (Some(_), _) => Standing::Ended,
        (None, true) => Standing::AtWork,
        (None, false) => Standing::Open,
    };
    Ok((RunName::of(trace_id).to_string(), standing))
}
