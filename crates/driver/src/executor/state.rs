//! Phase 0: checks the state of the project before the task, and records the baseline of the workspace.

use crate::Outcome;
use serde_json::json;

use super::{Driver, answer, observe, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// Checks that telemetry is open, the sandbox is on and no other task is unfinished; returns the baseline
/// of the workspace.
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
    let Some(baseline) = observe::files(job)? else {
        return halt(
            "the workspace has too many changed files to determine the changes of the task",
        );
    };
    let more = json!({ "summary": "no earlier task is unfinished", "baseline": baseline });
    Ok(answer(Outcome::Pass, "", more))
}
