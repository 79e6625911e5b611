//! Phase 7: checks and records the output that a person has edited.

use std::path::PathBuf;

use crate::{InterventionFacts, Outcome, check_intervention};
use serde_json::{Value, json};
use windlass_kernel::run::NoteKind;
use windlass_kernel::{Code, canon};

use super::{Driver, answer, observe, recorded, task_id};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// The maximum size of an edited output.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

fn path(driver: &Driver, task_id: &str) -> PathBuf {
    driver.settings.edits.join(format!("{task_id}.json"))
}

/// Writes the output to a file that a person can edit; returns the path.
pub(super) fn write_editable_output(
    driver: &Driver,
    task_id: &str,
    output: Option<&Value>,
) -> Result<String, EngineError> {
    let path = path(driver, task_id);
    let path_text = path.display().to_string();
    let unwritable = |source| EngineError::Unwritable { path: path_text.clone(), source };
    let text = serde_json::to_string_pretty(output.unwrap_or(&Value::Null)).unwrap_or_default();
    std::fs::create_dir_all(&driver.settings.edits).map_err(unwritable)?;
    std::fs::write(&path, format!("{text}\n")).map_err(unwritable)?;
    Ok(path_text)
}

/// Checks that only the output was edited, and records the edited output.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let run = job.recorder.run();
    let verified = recorded::answer_of(&run, "verify");
    let before: Option<std::collections::BTreeMap<String, windlass_kernel::Digest>> =
        verified.and_then(|answer| recorded::field(answer, "changed"));
    let output_paths = before.as_ref().map(|before| before.keys().cloned().collect());
    let facts = InterventionFacts {
        output_paths,
        changed_before: before,
        changed_after: observe::changed(job)?,
        usage_before: verified.and_then(|answer| recorded::field(answer, "usage")),
        usage_after: recorded::usage(&run),
        sandbox: recorded::sandbox(&run).map(|recorded| recorded.sandbox),
    };
    let result = check_intervention(driver.config(), &facts);
    if !result.outcome.is_success() {
        let reason = result.reason.unwrap_or_default();
        return Ok(answer(result.outcome, reason, json!({})));
    }
    let edited = match read(driver, &task_id(&run)) {
        Ok(edited) => edited,
        Err(reason) => return Ok(answer(Outcome::Halt, reason, json!({}))),
    };
    let body = json!({
        "kind": "edited",
        "before": recorded::output(&run).and_then(|output| canon::digest(output).ok()),
        "after": canon::digest(&edited).ok(),
        "output": edited,
    });
    job.recorder.note(NoteKind::Telemetry, body)?;
    Ok(answer(Outcome::Pass, "", json!({ "summary": "only the output was edited" })))
}

fn read(driver: &Driver, task_id: &str) -> Result<Value, String> {
    let path = path(driver, task_id);
    let bytes = std::fs::read(&path).map_err(|error| {
        format!("[{}] the edited output cannot be read: {error}", Code::FileUnreadable)
    })?;
    let value = canon::parse(&bytes, OUTPUT_BYTES_MAX)
        .map_err(|error| format!("[{}] the edited output is not JSON: {error}", error.code()))?;
    if value.is_object() { Ok(value) } else { Err("the edited output is not an object".to_owned()) }
}
