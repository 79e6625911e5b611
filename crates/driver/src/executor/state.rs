//! Phase 0: checks the state of the project before the task, and records the baseline of the workspace.

use crate::Outcome;
use serde_json::json;

use super::{Driver, answer, leftovers, observe, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// Checks that telemetry is open, the sandbox is on, no other task is unfinished, no other run uses the workspace and
/// no process of an earlier task is running; returns the baseline of the workspace.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let run = job.recorder.run();
    let halt = |reason: &str| Ok(answer(Outcome::Halt, reason, json!({})));
    if recorded::telemetry(&run, "opened").next().is_none() {
        return halt("telemetry was not initialised");
    }
    if !recorded::sandbox(&run).is_some_and(|recorded| recorded.sandbox.is_enabled()) {
        return halt("the sandbox is not on at the start of the task");
    }
    if let Some(other) = driver.unfinished(run.head.trace_id)? {
        let name = windlass_kernel::run::RunName::of(other);
        return halt(&format!("task `{name}` has not ended, and only one task may run at a time"));
    }
    let own = windlass_kernel::run::RunName::of(run.head.trace_id);
    let is_other = |name: &windlass_kernel::run::RunName| *name != own && driver.is_task_of(name);
    let processes = driver.settings.processes.as_deref();
    if let Some(left) = processes.and_then(|folder| leftovers::find(folder, is_other)) {
        let leftovers::Leftover { pid, command, run } = left;
        return halt(&format!(
            "process {pid} (`{command}`) of the earlier task `{run}` is still running; end it first"
        ));
    }
    let Some(baseline) = observe::files(job)? else {
        return halt(
            "the workspace has too many changed files to determine the changes of the task",
        );
    };
    let more = json!({ "summary": "no earlier task is unfinished", "baseline": baseline });
    Ok(answer(Outcome::Pass, "", more))
}
