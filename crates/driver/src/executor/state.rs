//! Phase 0: nothing is left over from before, and what is needed to begin is known.

use crate::Outcome;
use serde_json::json;

use super::{Driver, answer, observe, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::Job;

/// Checks that telemetry is open, the sandbox on and no other task unfinished; keeps how the
/// workspace is.
pub(super) fn perform(driver: &Driver, job: &Job<'_>) -> Result<WorkResult, EngineError> {
    let run = job.recorder.run();
    let halt = |reason: &str| Ok(answer(Outcome::Halt, reason, json!({})));
    if recorded::telemetry(&run, "opened").next().is_none() {
        return halt("telemetry was not initialised");
    }
    if !recorded::sandbox(&run).is_some_and(|recorded| recorded.sandbox.is_enabled()) {
        return halt("the sandbox is not on at the beginning of the task");
    }
    if let Some(other) = driver.unfinished(run.head.trace_id)? {
        let name = windlass_kernel::run::RunName::of(other);
        return halt(&format!("task `{name}` has not ended; one is done at a time"));
    }
    let Some(baseline) = observe::files(job)? else {
        return halt("the workspace has too many changed files to tell what the task changes");
    };
    let more = json!({ "summary": "nothing is left over", "baseline": baseline });
    Ok(answer(Outcome::Pass, "", more))
}
