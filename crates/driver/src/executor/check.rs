//! The four checks, and leaving the sandbox.

use crate::{
    CONTEXT_INTENT, CheckPoint, CheckResult, Facts, FailureClass, IntentId, Outcome,
    SandboxEvent as Happening, check, check_consistency, exit_conditions,
};
use serde::Deserialize as _;
use serde_json::json;
use windlass_kernel::run::NoteKind;

use super::{Driver, answer, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::Job;

/// Makes the check of the point that the loop names.
pub(super) fn perform(driver: &Driver, job: &Job<'_>) -> Result<WorkResult, EngineError> {
    let point = job.with.get("point").and_then(|point| CheckPoint::deserialize(point).ok());
    let Some(point) = point else {
        return Ok(WorkResult::failed("validation_error", "`driver/check` needs a `point`"));
    };
    let run = job.recorder.run();
    // The only way to know that telemetry can be written is to write it.
    job.recorder.note(NoteKind::Telemetry, json!({ "kind": "checking", "point": point }))?;
    look_at_context(driver, job, point)?;
    let mut facts = driver.facts(job)?;
    let opened = recorded::telemetry(&run, "opened").next().is_some();
    let sealed = recorded::telemetry(&run, "sealed").next().is_some();
    facts.telemetry_writable = Some(opened && (!sealed || point == CheckPoint::BeforeSave));
    let leaves = match leaving(job) {
        // An intent that is not known is for the check to refuse.
        Ok(leaving) => facts.intent.as_ref().is_none_or(|intent| leaving.contains(intent)),
        Err(reason) => return Ok(WorkResult::failed("validation_error", reason)),
    };
    if point == CheckPoint::BeforeSandboxExit && !leaves {
        let more = json!({ "summary": "the sandbox stays on" });
        return Ok(answer(Outcome::Pass, "the sandbox stays on for this intent", more));
    }
    let result = check(driver.config(), point, &facts);
    if point == CheckPoint::BeforeSandboxExit && result.outcome.is_success() {
        let conditions = exit_conditions(driver.config(), &facts);
        let event = Happening::ExitRequested { conditions };
        let after = driver.change_sandbox(job, event, |_| {}, "the intent changes files")?;
        if after.is_enabled() {
            let reason = "the sandbox could not be left: something recorded speaks against it";
            return Ok(answer(Outcome::Halt, reason, json!({})));
        }
    }
    Ok(told(driver, point, &facts, result))
}

/// The intents whose tasks leave the sandbox, as the loop says.
fn leaving(job: &Job<'_>) -> Result<Vec<IntentId>, String> {
    let Some(list) = job.with.get("intents") else { return Ok(Vec::new()) };
    Vec::deserialize(list).map_err(|error| format!("`intents` of `driver/check`: {error}"))
}

/// A context file that is not the recorded one puts the sandbox on.
///
/// Only the task that makes the file has it recorded as it is now; for any other the difference stays,
/// and the check finds it.
fn look_at_context(driver: &Driver, job: &Job<'_>, point: CheckPoint) -> Result<(), EngineError> {
    let run = job.recorder.run();
    let Some(recorded) = recorded::sandbox(&run) else { return Ok(()) };
    let now = driver.context_file(&job.assignment.workspace)?.digest;
    if now == recorded.context {
        return Ok(());
    }
    let makes = recorded::intent(&run).is_some_and(|intent| intent.as_str() == CONTEXT_INTENT);
    let keep = makes && point == CheckPoint::AfterModel;
    let why = "the context file is not what it was";
    let about = |recorded: &mut crate::RecordedState| {
        if keep {
            recorded.context = now;
        }
    };
    driver.change_sandbox(job, Happening::ContextChanged, about, why)?;
    Ok(())
}

fn told(driver: &Driver, point: CheckPoint, facts: &Facts, result: CheckResult) -> WorkResult {
    let CheckResult { outcome, class, reason, response } = result;
    let reason = reason.unwrap_or_default();
    let code = code_of(driver, facts, &reason);
    let reason = match (response, code) {
        (Some(response), Some(code)) => format!("{response} [{code}] {reason}"),
        (Some(response), None) => format!("{response} {reason}"),
        (None, _) => reason,
    };
    // After the model, an intervention can mend the form of the output and nothing else.
    let mendable = class == Some(FailureClass::StructuralOrFormattingError);
    let lost =
        point == CheckPoint::AfterModel && outcome == Outcome::InterventionRequired && !mendable;
    let outcome = if lost { Outcome::Halt } else { outcome };
    answer(outcome, reason, json!({ "findings": { "class": class, "point": point } }))
}

/// The stable code of what a check found, where it has one of its own.
fn code_of(driver: &Driver, facts: &Facts, reason: &str) -> Option<windlass_kernel::Code> {
    let sandbox = facts.sandbox.as_ref();
    let broken =
        sandbox.and_then(|state| check_consistency(&state.recorded, &state.observed).err());
    if let Some(error) = broken.filter(|error| error.to_string() == reason) {
        return Some(error.code());
    }
    let usage = facts.usage.as_ref()?;
    let over = usage
        .within(driver.config())
        .err()
        .or_else(|| facts.next_call.and_then(|next| usage.admit(driver.config(), next).err()));
    over.filter(|error| error.to_string() == reason).map(|error| error.code())
}
