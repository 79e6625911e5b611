//! The four checks, and the exit from the sandbox.

use crate::{
    CONTEXT_INTENT, CheckPoint, CheckResult, Facts, FailureClass, IntentId, Outcome, SandboxEvent,
    check, check_consistency, exit_conditions,
};
use serde::Deserialize as _;
use serde_json::json;
use windlass_kernel::run::{NoteKind, Run};

use super::{Driver, answer, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// The note of a passed check before the sandbox is left. Never change it: journals contain it.
const EXIT_CHECKED: &str = "exit_checked";

/// Performs the check at the point that the loop names.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let point = job.with.get("point").and_then(|point| CheckPoint::deserialize(point).ok());
    let Some(point) = point else {
        return Ok(WorkResult::failed("validation_error", "`driver/check` needs a `point`"));
    };
    let run = job.recorder.run();
    // Writing telemetry is the only way to know that it can be written.
    job.recorder.note(NoteKind::Telemetry, json!({ "kind": "checking", "point": point }))?;
    update_context(driver, job, point)?;
    let mut facts = driver.facts(job)?;
    let opened = recorded::telemetry(&run, "opened").next().is_some();
    let sealed = recorded::telemetry(&run, "sealed").next().is_some();
    facts.telemetry_writable = Some(opened && (!sealed || point == CheckPoint::BeforeSave));
    let exits = match exit_intents(job) {
        // The check itself refuses an unknown intent.
        Ok(exit) => facts.intent.as_ref().is_none_or(|intent| exit.contains(intent)),
        Err(reason) => return Ok(WorkResult::failed("validation_error", reason)),
    };
    if point == CheckPoint::BeforeSandboxExit && !exits {
        let more = json!({ "summary": "the sandbox stays on" });
        return Ok(answer(Outcome::Pass, "the sandbox stays on for this intent", more));
    }
    if point == CheckPoint::BeforeModel && may_leave(&run) {
        let inside = check(driver.config(), point, &facts);
        if !inside.outcome.is_success() {
            return Ok(to_answer(driver, point, &facts, inside));
        }
        let conditions = exit_conditions(driver.config(), &facts);
        let event = SandboxEvent::ExitRequested { conditions };
        let after = driver.change_sandbox(job, event, |_| {}, "the intent changes files")?;
        if after.is_enabled() {
            let reason = "the sandbox stays on: the conditions for leaving it are not met";
            return Ok(answer(Outcome::Halt, reason, json!({})));
        }
        let writable = facts.telemetry_writable;
        facts = Facts { telemetry_writable: writable, ..driver.facts(job)? };
    }
    let result = check(driver.config(), point, &facts);
    if point == CheckPoint::BeforeSandboxExit && result.outcome.is_success() {
        // The sandbox is left by the next check, once the answer of this one is on record.
        job.recorder.note(NoteKind::Telemetry, json!({ "kind": EXIT_CHECKED }))?;
    }
    Ok(to_answer(driver, point, &facts, result))
}

/// Whether the check before leaving the sandbox has passed and the sandbox is still on.
fn may_leave(run: &Run) -> bool {
    recorded::telemetry(run, EXIT_CHECKED).next().is_some()
        && recorded::sandbox(run).is_some_and(|recorded| recorded.sandbox.is_enabled())
        && !recorded::has_event(run, SandboxEvent::Failure)
}

/// The intents whose tasks leave the sandbox, from the loop's settings.
fn exit_intents(job: &BuiltinJob<'_>) -> Result<Vec<IntentId>, String> {
    let Some(list) = job.with.get("intents") else { return Ok(Vec::new()) };
    Vec::deserialize(list).map_err(|error| format!("`intents` of `driver/check`: {error}"))
}

/// Turns the sandbox on if the context file differs from the recorded one.
///
/// Only the task that creates the file records its new digest; in any other task the difference remains,
/// and the check reports it.
fn update_context(
    driver: &Driver,
    job: &BuiltinJob<'_>,
    point: CheckPoint,
) -> Result<(), EngineError> {
    let run = job.recorder.run();
    let Some(recorded) = recorded::sandbox(&run) else { return Ok(()) };
    let now = driver.context_file(&job.assignment.workspace)?.digest;
    if now == recorded.context {
        return Ok(());
    }
    let creates = recorded::intent(&run).is_some_and(|intent| intent.as_str() == CONTEXT_INTENT);
    let record = creates && point == CheckPoint::AfterModel;
    let why = "the context file is not what it was";
    let update = |recorded: &mut crate::RecordedState| {
        if record {
            recorded.context = now;
        }
    };
    driver.change_sandbox(job, SandboxEvent::ContextChanged, update, why)?;
    Ok(())
}

fn to_answer(driver: &Driver, point: CheckPoint, facts: &Facts, result: CheckResult) -> WorkResult {
    let CheckResult { outcome, class, reason, response } = result;
    let reason = reason.unwrap_or_default();
    let code = code_of(driver, facts, &reason);
    let reason = match (response, code) {
        (Some(response), Some(code)) => format!("{response} [{code}] {reason}"),
        (Some(response), None) => format!("{response} {reason}"),
        (None, _) => reason,
    };
    // After the model, an intervention can only fix the form of the output.
    let fixable = class == Some(FailureClass::StructuralOrFormattingError);
    let unfixable =
        point == CheckPoint::AfterModel && outcome == Outcome::InterventionRequired && !fixable;
    let outcome = if unfixable { Outcome::Halt } else { outcome };
    answer(outcome, reason, json!({ "findings": { "class": class, "point": point } }))
}

/// The stable code of the reason, if it has one.
fn code_of(driver: &Driver, facts: &Facts, reason: &str) -> Option<windlass_kernel::Code> {
    let sandbox = facts.sandbox.as_ref();
    let inconsistent =
        sandbox.and_then(|state| check_consistency(&state.recorded, &state.observed).err());
    if let Some(error) = inconsistent.filter(|error| error.to_string() == reason) {
        return Some(error.code());
    }
    let usage = facts.usage.as_ref()?;
    let over = usage
        .within(driver.config())
        .err()
        .or_else(|| facts.next_call.and_then(|next| usage.admit(driver.config(), next).err()));
    over.filter(|error| error.to_string() == reason).map(|error| error.code())
}
