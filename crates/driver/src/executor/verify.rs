//! Phase 6: verifies the output in steps.

use crate::{ObservedState, Outcome, SandboxFacts, after_intervention, verify};
use serde_json::{Value, json};

use super::{Driver, answer, intervene, observe, recorded, task_id, to_value};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// Verifies the output; writes an output that a person must edit to a file.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let run = job.recorder.run();
    let mut facts = driver.facts(job)?;
    // The changes were made under the sandbox in which the model ran.
    facts.sandbox = recorded::invocation(&run).map(|invocation| {
        let recorded = invocation.sandbox;
        let observed = ObservedState {
            confined: Some(recorded.sandbox.is_enabled()),
            context: recorded.context,
            intent: recorded.intent.clone(),
        };
        SandboxFacts { recorded, observed }
    });
    let verified = verify(driver.config(), &facts);
    let outcome = if recorded::intervened(&run) {
        after_intervention(Outcome::InterventionRequired, verified.outcome)
    } else {
        verified.outcome
    };
    let last = verified.steps.last().map(|step| &step.result);
    let reason = last.and_then(|result| result.reason.clone()).unwrap_or_default();
    let response = last.and_then(|result| result.response.clone());
    let reason = response.map_or(reason.clone(), |response| format!("{response} {reason}"));
    let changed = observe::changed(job)?;
    let mut more = json!({
        "summary": format!("{} steps, {outcome}", verified.steps.len()),
        "steps": to_value(&verified.steps)?,
        "failed_step": to_value(&verified.failed_step)?,
        "findings": if reason.is_empty() { json!([]) } else { json!([reason]) },
        "changed": changed,
        "usage": match recorded::usage(&run) {
            Some(usage) => to_value(&usage)?,
            None => Value::Null,
        },
    });
    if outcome == Outcome::InterventionRequired {
        let path =
            intervene::write_editable_output(driver, &task_id(&run), recorded::output(&run))?;
        if let Some(object) = more.as_object_mut() {
            object.insert("edit".to_owned(), json!(path));
        }
    }
    Ok(answer(outcome, reason, more))
}
