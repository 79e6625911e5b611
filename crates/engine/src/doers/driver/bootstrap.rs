//! Phase 2a: the context file is going to be made.

use serde_json::json;
use windlass_driver::{CONTEXT_INTENT, Outcome, SandboxEvent as Happening};

use super::{Driver, answer, recorded};
use crate::doers::builtin::{Deed, Job};
use crate::error::EngineError;

/// Keeps the sandbox on until the task ends, and names the one file that may be written.
pub(super) fn perform(driver: &Driver, job: &Job<'_>) -> Result<Deed, EngineError> {
    let intent = recorded::intent(&job.desk.run());
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
