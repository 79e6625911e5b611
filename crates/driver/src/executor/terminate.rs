//! Phase 10: ends the task.

use crate::{CONTEXT_INTENT, Outcome, SandboxEvent};
use serde_json::json;

use super::{Driver, answer, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// Ends the bootstrap, if the task is one, and turns the sandbox on.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let run = job.recorder.run();
    if recorded::verification(&run) != Some(Outcome::Pass) {
        let reason = "the task did not pass verification";
        return Ok(answer(Outcome::Halt, reason, json!({})));
    }
    if recorded::telemetry(&run, "sealed").next().is_none() {
        return Ok(answer(Outcome::Halt, "telemetry is not sealed", json!({})));
    }
    if recorded::intent(&run).is_some_and(|intent| intent.as_str() == CONTEXT_INTENT) {
        let why = "the context file has been made";
        driver.change_sandbox(job, SandboxEvent::BootstrapEnded, |_| {}, why)?;
    }
    driver.change_sandbox(
        job,
        SandboxEvent::TaskBoundary,
        |recorded| recorded.intent = None,
        recorded::TASK_ENDS,
    )?;
    Ok(answer(Outcome::Pass, "", json!({ "summary": "the task has passed" })))
}
