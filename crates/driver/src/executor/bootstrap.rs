//! Phase 2a: prepares the creation of the context file.

use crate::{CONTEXT_INTENT, Outcome, SandboxEvent};
use serde_json::json;

use super::{Driver, answer, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// Records the start of the bootstrap, during which the sandbox stays on and only the context file may be
/// written.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let intent = recorded::intent(&job.recorder.run());
    if intent.is_none_or(|intent| intent.as_str() != CONTEXT_INTENT) {
        let reason = format!("only the intent `{CONTEXT_INTENT}` creates the context file");
        return Ok(answer(Outcome::Halt, reason, json!({})));
    }
    let why = "the context file is being made";
    driver.change_sandbox(job, SandboxEvent::BootstrapStarted, |_| {}, why)?;
    let file = driver.config().context_file();
    let more = json!({
        "summary": format!("only `{file}` may be written"),
        "context_file": file,
        "exists": job.assignment.workspace.join(file).exists(),
    });
    Ok(answer(Outcome::Pass, "", more))
}
