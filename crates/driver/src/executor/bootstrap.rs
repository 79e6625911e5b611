//! Phase 2a: the context file is going to be made.

use crate::{CONTEXT_INTENT, Outcome, SandboxEvent as Happening};
use serde_json::json;

use super::{Driver, answer, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::Job;

/// Keeps the sandbox on until the task ends, and names the one file that may be written.
pub(super) fn perform(driver: &Driver, job: &Job<'_>) -> Result<WorkResult, EngineError> {
    let intent = recorded::intent(&job.recorder.run());
    if intent.is_none_or(|intent| intent.as_str() != CONTEXT_INTENT) {
        let reason = format!("only the intent `{CONTEXT_INTENT}` makes the context file");
        return Ok(answer(Outcome::Halt, reason, json!({})));
    }
    let why = "the context file is being made";
    driver.change_sandbox(job, Happening::BootstrapStarted, |_| {}, why)?;
    let file = driver.config().context_file();
    let more = json!({
        "summary": format!("`{file}` may be written, and nothing else"),
        "context_file": file,
        "exists": job.assignment.workspace.join(file).exists(),
    });
    Ok(answer(Outcome::Pass, "", more))
}
